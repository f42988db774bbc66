//! Records CUDA API calls as spans of trace sessions, whether or not they launch work.

use super::{Local, NodePair, ROOTS};
use crate::clock;
use crate::control::CONTROL;
use crate::detached::Detached;
use marey_model::context::NodeKind;
use std::sync::atomic::Ordering;

/// A CUDA API. No call makes another call of the same API. A runtime call may make driver calls,
/// which have its correlation id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CudaApi {
    /// The driver API (`cu…`).
    Driver,
    /// The runtime API (`cuda…`).
    Runtime,
}

/// The calls in progress on a thread, at most one of each API.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenCalls([OpenCall; 2]);

#[derive(Clone, Copy, Debug)]
struct OpenCall {
    correlation_id: u32,
    nodes: NodePair,
    trace_sessions: u64,
    start_ticks: u64,
}

impl OpenCalls {
    pub(super) const NONE: Self = Self([OpenCall::NONE; 2]);
}

impl OpenCall {
    const NONE: Self = Self { correlation_id: 0, nodes: ROOTS, trace_sessions: 0, start_ticks: 0 };
}

impl Local {
    /// Records the start of an API call.
    pub(crate) fn call_enter(
        &mut self,
        cuda_api: CudaApi,
        correlation_id: u32,
        name_id: u32,
        python_leaf: u32,
        task: Option<&Detached>,
    ) {
        let (active_sessions, python_sessions) = CONTROL.recording_sessions();
        let trace_sessions = active_sessions & CONTROL.trace_sessions.load(Ordering::Relaxed);
        if trace_sessions == 0 {
            return;
        }
        let parent = if let Some(nodes) = self.runtime_call_nodes(correlation_id) {
            nodes
        } else {
            let parent = self.innermost_nodes(task).with_python_leaf(python_leaf);
            self.state_child(parent, active_sessions, python_sessions)
        };
        let nodes = self.child_nodes(
            parent,
            name_id,
            NodeKind::Runtime,
            trace_sessions,
            trace_sessions & python_sessions,
        );
        let start_ticks = clock::ticks();
        self.open_calls.0[cuda_api as usize] =
            OpenCall { correlation_id, nodes, trace_sessions, start_ticks };
    }

    /// Records the end of an API call and logs its span.
    pub(crate) fn call_exit(&mut self, cuda_api: CudaApi, correlation_id: u32) {
        let call = std::mem::replace(&mut self.open_calls.0[cuda_api as usize], OpenCall::NONE);
        if call.correlation_id == correlation_id {
            self.log_call(call.nodes, call.trace_sessions, call.start_ticks, correlation_id);
        }
    }

    /// Returns the nodes of the runtime call that makes the driver call with this correlation id.
    #[inline]
    pub(super) fn runtime_call_nodes(&self, correlation_id: u32) -> Option<NodePair> {
        let call = &self.open_calls.0[CudaApi::Runtime as usize];
        (call.correlation_id == correlation_id).then_some(call.nodes)
    }

    /// Logs a call as a span, for the sessions that saw it begin and still record.
    #[inline]
    pub(super) fn log_call(
        &self,
        nodes: NodePair,
        trace_sessions: u64,
        start_ticks: u64,
        correlation_id: u32,
    ) {
        let trace_sessions = trace_sessions & CONTROL.active_sessions.load(Ordering::Relaxed);
        if trace_sessions == 0 {
            return;
        }
        let python_sessions = trace_sessions & CONTROL.python_sessions.load(Ordering::Relaxed);
        let Some(log) = self.tree.log_or_create() else { return };
        let end_ticks = clock::ticks();
        for (node, sessions) in [
            (nodes.shadow_node, trace_sessions & !python_sessions),
            (nodes.python_node, python_sessions),
        ] {
            if sessions != 0 {
                log.push_launch(node, start_ticks, end_ticks, sessions, correlation_id);
            }
        }
    }
}
