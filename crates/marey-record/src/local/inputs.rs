//! Records the inputs of operators: as arguments of their spans in a trace, and as costs on their
//! nodes.

use super::stack::open_scope_nodes;
use super::{Local, NodePair};
use crate::control::{CONTROL, bit, slots};
use crate::losses;
use crate::names;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use std::sync::atomic::Ordering;

/// An operator whose inputs were read.
#[derive(Clone, Copy, Debug)]
pub struct OperatorCall {
    nodes: NodePair,
    /// The sessions that saw it begin.
    sessions: u64,
}

impl Local {
    /// Logs the arguments of the innermost scope for trace sessions, if that scope has
    /// this name. `args_id` is the id of an interned text. Returns the scope.
    pub(crate) fn log_inputs(&self, name_id: u32, args_id: u32) -> Option<OperatorCall> {
        let top = self.entered_top().filter(|top| top.name_id == name_id)?;
        let nodes = open_scope_nodes(&top);
        let active_sessions = top.sessions & CONTROL.active_sessions.load(Ordering::Relaxed);
        let trace_sessions = active_sessions & CONTROL.trace_sessions.load(Ordering::Relaxed);
        if trace_sessions != 0
            && let Some(log) = self.tree.log_or_create()
        {
            let python_sessions = CONTROL.python_sessions.load(Ordering::Relaxed);
            for (node, sessions) in [
                (nodes.shadow_node, trace_sessions & !python_sessions),
                (nodes.python_node, trace_sessions & python_sessions),
            ] {
                if sessions != 0 {
                    log.push_args(node, top.start_ticks, args_id, sessions);
                }
            }
        }
        Some(OperatorCall { nodes, sessions: top.sessions })
    }

    /// Adds to metrics of an operator's nodes that are summed. A trace does not get the values.
    pub(crate) fn add_to_operator(&self, call: OperatorCall, values: &[(u32, f64)]) {
        let sessions = call.sessions & CONTROL.active_sessions.load(Ordering::Relaxed);
        let python_sessions = CONTROL.python_sessions.load(Ordering::Relaxed);
        for &(metric_id, value) in values {
            for slot in slots(sessions) {
                let is_shadow = python_sessions & bit(slot) == 0;
                let node = if is_shadow { call.nodes.shadow_node } else { call.nodes.python_node };
                let Some(column) = self.tree.column(slot) else { continue };
                if column.add_float(node, metric_id, value) {
                    continue;
                }
                let Some(name) = names::metric(metric_id) else { continue };
                let value = MetricValue::Float(value);
                if column.add_metric(node, metric_id, &name, &value).is_err() {
                    losses::count(LossCause::MetricRefused);
                }
            }
        }
    }
}
