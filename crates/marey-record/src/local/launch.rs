//! Records launches: the context node of a thread at the moment when it submits work to a device.

use super::task::frame_nodes;
use super::{Local, NAMES_KERNELS, NodePair, ROOTS};
use crate::clock;
use crate::control::CONTROL;
use crate::detached::Detached;
use crate::device::{Launch, LaunchKind, Site};
use marey_model::context::NodeKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The launch in progress on a thread. With correlation id 0 there is none, and the other fields
/// have no meaning.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenLaunch {
    correlation: u32,
    /// The nodes to which the launched work is attributed.
    nodes: NodePair,
    is_named: bool,
    is_captured: bool,
    /// The nodes of the API call itself, for trace sessions.
    call_nodes: NodePair,
    tracing: u64,
    start_ticks: u64,
}

impl OpenLaunch {
    pub(super) const NONE: Self = Self {
        correlation: 0,
        nodes: ROOTS,
        is_named: false,
        is_captured: false,
        call_nodes: ROOTS,
        tracing: 0,
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
            is_cancelled: false,
            kind,
        };
        if let Some(launches) = self.tree.launches_or_create() {
            launches.push(&launch);
        }
        let tracing = active & CONTROL.trace.load(Ordering::Relaxed);
        let open_launch = &mut self.open_launch;
        open_launch.correlation = correlation;
        open_launch.nodes = nodes;
        open_launch.is_named = operator.is_some();
        open_launch.is_captured = false;
        open_launch.tracing = tracing;
        if tracing != 0 {
            let parent = self.runtime_call_nodes(correlation).unwrap_or(nodes);
            self.open_launch.call_nodes =
                self.child_nodes(parent, call, NodeKind::Runtime, tracing, tracing & python);
            self.open_launch.start_ticks = clock::ticks();
        }
    }

    /// Returns the nodes of the operator that names the launched kernel: the innermost frame, if a
    /// launch hook entered it and all active sessions see it.
    #[inline(always)]
    fn naming_operator(&self, active: u64) -> Option<NodePair> {
        let top = self.top_frame();
        let names_kernels = top.kind_flags() & NAMES_KERNELS != 0 && active & !top.sessions() == 0;
        names_kernels.then(|| frame_nodes(top))
    }

    /// Records the end of a call that launches work. `has_launched` is false if the call failed.
    #[inline]
    pub(crate) fn launch_exit(&mut self, correlation: u32, has_launched: bool) {
        if std::mem::take(&mut self.open_launch.correlation) != correlation {
            return;
        }
        if !has_launched || self.open_launch.is_captured {
            self.cancel_launch(correlation);
        }
        let OpenLaunch { call_nodes, tracing, start_ticks, .. } = self.open_launch;
        if tracing != 0 {
            self.log_call(call_nodes, tracing, start_ticks, correlation);
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
            is_cancelled: true,
            kind: LaunchKind::Kernel,
        };
        if let Some(launches) = self.tree.launches() {
            launches.push(&launch);
        }
    }

    /// Returns the nodes of the launch in progress, which has become a node of a graph.
    pub(crate) fn capture_site(&mut self) -> Option<Site> {
        self.open_launch.is_captured = true;
        let OpenLaunch { correlation, nodes, is_named, .. } = self.open_launch;
        (correlation != 0).then(|| Site {
            tree: Arc::clone(&self.tree),
            shadow_node: nodes.shadow,
            python_node: nodes.python,
            is_named,
        })
    }

    /// Returns the children of these nodes for the innermost state, or the nodes without a state.
    pub(super) fn state_child(&mut self, nodes: NodePair, active: u64, python: u64) -> NodePair {
        match self.state_name_id() {
            0 => nodes,
            name_id => self.child_nodes(nodes, name_id, NodeKind::State, active, python),
        }
    }
}
