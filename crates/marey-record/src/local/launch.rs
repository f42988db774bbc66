//! Launches: where the thread is when it hands work to a device.

use super::task::place_of;
use super::{LAUNCHES, Local, Place, ROOTS};
use crate::clock;
use crate::control::CONTROL;
use crate::detached::Detached;
use crate::device::{Launch, LaunchKind, Site};
use marey_model::context::NodeKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The launch that a thread is in; without a number it is in none, and the rest means nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launching {
    correlation: u32,
    /// Where what is launched belongs.
    place: Place,
    is_named: bool,
    is_captured: bool,
    /// The call itself, where sessions keep every event.
    call: Place,
    traces: u64,
    start_ticks: u64,
}

impl Launching {
    pub(super) const NONE: Self = Self {
        correlation: 0,
        place: ROOTS,
        is_named: false,
        is_captured: false,
        call: ROOTS,
        traces: 0,
        start_ticks: 0,
    };
}

impl Local {
    /// A call begins that launches something, which will be told of under the same number. `task` is the
    /// innermost scope of the task that the thread runs.
    #[inline]
    pub(crate) fn launch_enter(
        &mut self,
        correlation: u32,
        call: u32,
        kind: LaunchKind,
        python_leaf: u32,
        task: Option<&Detached>,
    ) {
        let (active, python) = CONTROL.recording();
        let operator = self.naming_operator(active);
        let place = operator.unwrap_or_else(|| {
            let above = self.innermost_place(task).below_frame(python_leaf);
            self.below_state(above, active, python)
        });
        let launch = Launch {
            correlation,
            mark: CONTROL.mark.load(Ordering::Relaxed) as u32,
            shadow_node: place.shadow,
            python_node: place.python,
            sessions: active,
            is_named: operator.is_some(),
            is_over: false,
            kind,
        };
        if let Some(launches) = self.tree.own_launches() {
            launches.push(&launch);
        }
        let traces = active & CONTROL.trace.load(Ordering::Relaxed);
        let launching = &mut self.launching;
        launching.correlation = correlation;
        launching.place = place;
        launching.is_named = operator.is_some();
        launching.is_captured = false;
        launching.traces = traces;
        if traces != 0 {
            let above = self.calling_runtime(correlation).unwrap_or(place);
            self.launching.call =
                self.below(above, call, NodeKind::Runtime, traces, traces & python);
            self.launching.start_ticks = clock::ticks();
        }
    }

    /// The place of the operator that what is launched now bears the name of, if the thread is directly in
    /// one that all sessions see.
    #[inline(always)]
    fn naming_operator(&self, active: u64) -> Option<Place> {
        let top = self.top_frame();
        let names = top.kind_flags() & LAUNCHES != 0 && active & !top.sessions() == 0;
        names.then(|| place_of(top))
    }

    /// The call has returned, and did not fail if `has_launched`.
    #[inline]
    pub(crate) fn launch_exit(&mut self, correlation: u32, has_launched: bool) {
        if std::mem::take(&mut self.launching.correlation) != correlation {
            return;
        }
        if !has_launched || self.launching.is_captured {
            self.call_off(correlation);
        }
        let Launching { call, traces, start_ticks, .. } = self.launching;
        if traces != 0 {
            self.log_call(call, traces, start_ticks, correlation);
        }
    }

    /// Nothing will come of a launch.
    #[cold]
    fn call_off(&self, correlation: u32) {
        let launch = Launch {
            correlation,
            mark: 0,
            shadow_node: 0,
            python_node: 0,
            sessions: 0,
            is_named: false,
            is_over: true,
            kind: LaunchKind::Kernel,
        };
        if let Some(launches) = self.tree.launches() {
            launches.push(&launch);
        }
    }

    /// The place of the launch that the thread is in, which becomes a node of a graph.
    pub(crate) fn capture_site(&mut self) -> Option<Site> {
        self.launching.is_captured = true;
        let Launching { correlation, place, is_named, .. } = self.launching;
        (correlation != 0).then(|| Site {
            tree: Arc::clone(&self.tree),
            shadow_node: place.shadow,
            python_node: place.python,
            is_named,
        })
    }

    pub(super) fn below_state(&mut self, place: Place, active: u64, python: u64) -> Place {
        match self.state_name() {
            0 => place,
            state => self.below(place, state, NodeKind::State, active, python),
        }
    }
}
