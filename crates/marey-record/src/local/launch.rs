//! Records launches: the context node of a thread at the moment when it submits work to a device.

use super::task::frame_nodes;
use super::{Local, NAMES_KERNELS, NodePair, ROOTS};
use crate::clock;
use crate::control::CONTROL;
use crate::detached::Detached;
use crate::device::{CaptureSite, Launch, LaunchKind};
use marey_model::context::NodeKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The launch in progress on a thread. With correlation id 0 there is none, and the other fields
/// have no meaning.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenLaunch {
    correlation_id: u32,
    /// The nodes to which the launched work is attributed.
    nodes: NodePair,
    is_named: bool,
    is_captured: bool,
    /// The nodes of the API call itself, for trace sessions.
    call_nodes: NodePair,
    trace_sessions: u64,
    start_ticks: u64,
}

impl OpenLaunch {
    pub(super) const NONE: Self = Self {
        correlation_id: 0,
        nodes: ROOTS,
        is_named: false,
        is_captured: false,
        call_nodes: ROOTS,
        trace_sessions: 0,
        start_ticks: 0,
    };
}

impl Local {
    /// Records the start of a call that launches work, whose activities will carry the same
    /// correlation id. `task` is the innermost scope of the task that the thread runs.
    #[inline]
    pub(crate) fn launch_enter(
        &mut self,
        correlation_id: u32,
        call_name_id: u32,
        kind: LaunchKind,
        python_leaf: u32,
        task: Option<&Detached>,
    ) {
        let (active_sessions, python_sessions) = CONTROL.recording_sessions();
        let operator = self.naming_operator(active_sessions);
        let nodes = operator.unwrap_or_else(|| {
            let parent = self.innermost_nodes(task).with_python_leaf(python_leaf);
            self.state_child(parent, active_sessions, python_sessions)
        });
        let launch = Launch {
            correlation_id,
            stamp: CONTROL.stamp.load(Ordering::Relaxed) as u32,
            shadow_node: nodes.shadow_node,
            python_node: nodes.python_node,
            sessions: active_sessions,
            is_named: operator.is_some(),
            is_cancelled: false,
            kind,
        };
        if let Some(launches) = self.tree.launches_or_create() {
            launches.push(&launch);
        }
        let trace_sessions = active_sessions & CONTROL.trace_sessions.load(Ordering::Relaxed);
        let open_launch = &mut self.open_launch;
        open_launch.correlation_id = correlation_id;
        open_launch.nodes = nodes;
        open_launch.is_named = operator.is_some();
        open_launch.is_captured = false;
        open_launch.trace_sessions = trace_sessions;
        if trace_sessions != 0 {
            let parent = self.runtime_call_nodes(correlation_id).unwrap_or(nodes);
            self.open_launch.call_nodes = self.child_nodes(
                parent,
                call_name_id,
                NodeKind::Runtime,
                trace_sessions,
                trace_sessions & python_sessions,
            );
            self.open_launch.start_ticks = clock::ticks();
        }
    }

    /// Returns the nodes of the operator that names the launched kernel: the innermost frame, if a
    /// launch hook entered it and all active sessions see it.
    #[inline(always)]
    fn naming_operator(&self, active_sessions: u64) -> Option<NodePair> {
        let top = self.top_frame();
        let names_kernels =
            top.kind_flags() & NAMES_KERNELS != 0 && active_sessions & !top.sessions() == 0;
        names_kernels.then(|| frame_nodes(top))
    }

    /// Records the end of a call that launches work. `has_launched` is false if the call failed.
    #[inline]
    pub(crate) fn launch_exit(&mut self, correlation_id: u32, has_launched: bool) {
        if std::mem::take(&mut self.open_launch.correlation_id) != correlation_id {
            return;
        }
        if !has_launched || self.open_launch.is_captured {
            self.cancel_launch(correlation_id);
        }
        let OpenLaunch { call_nodes, trace_sessions, start_ticks, .. } = self.open_launch;
        if trace_sessions != 0 {
            self.log_call(call_nodes, trace_sessions, start_ticks, correlation_id);
        }
    }

    /// Logs that no activity will follow from a launch.
    #[cold]
    fn cancel_launch(&self, correlation_id: u32) {
        let launch = Launch {
            correlation_id,
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
    pub(crate) fn capture_site(&mut self) -> Option<CaptureSite> {
        self.open_launch.is_captured = true;
        let OpenLaunch { correlation_id, nodes, is_named, .. } = self.open_launch;
        (correlation_id != 0).then(|| CaptureSite {
            tree: Arc::clone(&self.tree),
            shadow_node: nodes.shadow_node,
            python_node: nodes.python_node,
            is_named,
        })
    }

    /// Returns the children of these nodes for the innermost state, or the nodes without a state.
    pub(super) fn state_child(
        &mut self,
        nodes: NodePair,
        active_sessions: u64,
        python_sessions: u64,
    ) -> NodePair {
        match self.state_name_id() {
            0 => nodes,
            name_id => {
                self.child_nodes(nodes, name_id, NodeKind::State, active_sessions, python_sessions)
            }
        }
    }
}
