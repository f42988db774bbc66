//! The contexts of launches and operators of a window, to which activities refer.

use std::collections::HashMap;

use super::super::outline::OutlineNode;
use super::placement::Placed;
use super::trace::ThreadTrace;
use crate::row::GpuActivity;

/// The contexts of launches and operators, to which activities refer.
#[derive(Debug, Default)]
pub(super) struct LaunchContexts {
    /// The context of the caller, by correlation id.
    callers: HashMap<u64, u32>,
    /// The context of the operator, by external correlation id.
    operators: HashMap<u64, u32>,
}

impl LaunchContexts {
    /// Adds the launches and operators of a thread.
    pub(super) fn add(
        &mut self,
        thread: &ThreadTrace,
        twins: &[Option<usize>],
        placed: &Placed,
        nodes: &[OutlineNode],
    ) {
        for (index, span) in thread.spans.iter().enumerate() {
            let node = match twins[index] {
                Some(twin) => placed.recorded[twin],
                None => placed.traced[index].1,
            };
            let node = &nodes[node as usize];
            if let Some(correlation_id) = span.correlation_id {
                let caller = nodes.get(node.parent as usize).unwrap_or(node);
                self.callers.insert(correlation_id, caller.context_id);
            } else if let Some(external_id) = span.detail.external_id {
                self.operators.insert(external_id, node.context_id);
            }
        }
    }

    /// Returns the context that launched an activity.
    pub(super) fn context(&self, activity: &GpuActivity) -> Option<u32> {
        let by_call = activity.correlation_id.and_then(|id| self.callers.get(&id));
        let by_operator = || activity.external_id.and_then(|id| self.operators.get(&id));
        by_call.or_else(by_operator).copied()
    }
}
