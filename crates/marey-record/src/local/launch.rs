//! Launches: the context node of a thread when it submits work to a device.

use super::task::nodes_of;
use super::{LAUNCHES, Local, NodePair, ROOTS};
use crate::clock;
use crate::control::CONTROL;
use crate::detached::Detached;
use crate::device::{Launch, LaunchKind, Site};
use marey_model::context::NodeKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The launch in progress on a thread. With correlation id 0 there is none, and the other fields
/// are meaningless.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launching {
    correlation: u32,
    /// The nodes to which the launched work is attributed.
    nodes: NodePair,
    is_named: bool,
    is_captured: bool,
    /// The nodes of the API call itself, for trace sessions.
    call: NodePair,
    traces: u64,
    start_ticks: u64,
}

impl Launching {
    pub(super) const NONE: Self = Self {
        correlation: 0,
        nodes: ROOTS,
        is_named: false,
        is_captured: false,
        call: ROOTS,
        traces: 0,
        start_ticks: 0,
    };
}

impl Local {
    /// Records the start of a call that launches work, whose activities will carry the same
    /// correlation id. `task` is the innermost scope of the task that the thread runs.
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
        let nodes = operator.unwrap_or_else(|| {
            let parent = self.innermost_nodes(task).with_python_leaf(python_leaf);
            self.state_child(parent, active, python)
        });
        let launch = Launch {
            correlation,
            stamp: CONTROL.stamp.load(Ordering::Relaxed) as u32,
            shadow_node: nodes.shadow,
            python_node: nodes.python,
            sessions: active,
            is_named: operator.is_some(),
            is_over: false,
            kind,
        };
        if let Some(launches) = self.tree.launches_or_create() {
            launches.push(&launch);
        }
        let traces = active & CONTROL.trace.load(Ordering::Relaxed);
        let launching = &mut self.launching;
        launching.correlation = correlation;
        launching.nodes = nodes;
        launching.is_named = operator.is_some();
        launching.is_captured = false;
        launching.traces = traces;
        if traces != 0 {
            let parent = self.calling_runtime(correlation).unwrap_or(nodes);
            self.launching.call =
                self.child_nodes(parent, call, NodeKind::Runtime, traces, traces & python);
            self.launching.start_ticks = clock::ticks();
        }
    }

    /// Returns the nodes of the operator that names the launched kernel: the innermost frame, if a
    /// launch hook entered it and all active sessions see it.
    #[inline(always)]
    fn naming_operator(&self, active: u64) -> Option<NodePair> {
        let top = self.top_frame();
        let names = top.kind_flags() & LAUNCHES != 0 && active & !top.sessions() == 0;
        names.then(|| nodes_of(top))
    }

    /// Records the end of a call that launches work. `has_launched` is false if the call failed.
    #[inline]
    pub(crate) fn launch_exit(&mut self, correlation: u32, has_launched: bool) {
        if std::mem::take(&mut self.launching.correlation) != correlation {
            return;
        }
        if !has_launched || self.launching.is_captured {
            self.cancel_launch(correlation);
        }
        let Launching { call, traces, start_ticks, .. } = self.launching;
        if traces != 0 {
            self.log_call(call, traces, start_ticks, correlation);
        }
    }

    /// Logs that no activity will follow from a launch.
    #[cold]
    fn cancel_launch(&self, correlation: u32) {
        let launch = Launch {
            correlation,
            stamp: 0,
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

    /// Returns the nodes of the launch in progress, which has become a node of a graph.
    pub(crate) fn capture_site(&mut self) -> Option<Site> {
        self.launching.is_captured = true;
        let Launching { correlation, nodes, is_named, .. } = self.launching;
        (correlation != 0).then(|| Site {
            tree: Arc::clone(&self.tree),
            shadow_node: nodes.shadow,
            python_node: nodes.python,
            is_named,
        })
    }

    pub(super) fn state_child(&mut self, nodes: NodePair, active: u64, python: u64) -> NodePair {
        match self.state_name() {
            0 => nodes,
            state => self.child_nodes(nodes, state, NodeKind::State, active, python),
        }
    }
}
