//! Calls of CUDA that are kept because sessions want every one, beside those that launch.

use super::{Local, Place, ROOTS};
use crate::clock;
use crate::control::CONTROL;
use marey_model::context::NodeKind;
use std::sync::atomic::Ordering;

/// An interface of CUDA. A call of one makes none of the same, and calls of the runtime make calls of the
/// driver under their own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// The driver's.
    Driver,
    /// The runtime's.
    Runtime,
}

/// The calls that a thread is in, one of each interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenCalls([OpenCall; 2]);

#[derive(Clone, Copy, Debug)]
struct OpenCall {
    correlation: u32,
    place: Place,
    traces: u64,
    start_ticks: u64,
}

impl OpenCalls {
    pub(super) const NONE: Self = Self([OpenCall::NONE; 2]);
}

impl OpenCall {
    const NONE: Self = Self { correlation: 0, place: ROOTS, traces: 0, start_ticks: 0 };
}

impl Local {
    /// A call begins.
    pub(crate) fn call_enter(
        &mut self,
        interface: Interface,
        correlation: u32,
        name: u32,
        python_leaf: u32,
    ) {
        let (active, python) = CONTROL.recording();
        let traces = active & CONTROL.trace.load(Ordering::Relaxed);
        if traces == 0 {
            return;
        }
        if self.depth() == self.inherited && self.follows_main {
            self.inherit();
        }
        let above = match self.calling_runtime(correlation) {
            Some(place) => place,
            None => self.below_state(self.place().below_frame(python_leaf), active, python),
        };
        let place = self.below(above, name, NodeKind::Runtime, traces, traces & python);
        let start_ticks = clock::ticks();
        self.calls.0[interface as usize] = OpenCall { correlation, place, traces, start_ticks };
    }

    /// The call has returned.
    pub(crate) fn call_exit(&mut self, interface: Interface, correlation: u32) {
        let call = std::mem::replace(&mut self.calls.0[interface as usize], OpenCall::NONE);
        if call.correlation == correlation {
            self.log_call(call.place, call.traces, call.start_ticks, correlation);
        }
    }

    /// The runtime's call that makes the driver's call with this number.
    #[inline]
    pub(super) fn calling_runtime(&self, correlation: u32) -> Option<Place> {
        let call = &self.calls.0[Interface::Runtime as usize];
        (call.correlation == correlation).then_some(call.place)
    }

    /// A call becomes a span of the sessions that saw it begin and record still.
    #[inline]
    pub(super) fn log_call(&self, call: Place, traces: u64, start_ticks: u64, correlation: u32) {
        let traces = traces & CONTROL.active.load(Ordering::Relaxed);
        let python = traces & CONTROL.python.load(Ordering::Relaxed);
        let Some(log) = self.tree.own_log() else { return };
        let end_ticks = clock::ticks();
        for (node, sessions) in [(call.shadow, traces & !python), (call.python, python)] {
            if sessions != 0 {
                log.launch(node, start_ticks, end_ticks, sessions, correlation);
            }
        }
    }
}
