//! Records a completed scope: its statistics in the columns of sessions, and a span in the log.

use super::{Local, NodePair};
use crate::clock;
use crate::control::{CONTROL, bit, slots};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// A completed scope or state.
pub(crate) struct CompletedEntry {
    nodes: NodePair,
    /// The sessions that saw the scope begin.
    sessions: u64,
    start_ticks: u64,
    end_ticks: u64,
    pub(crate) nanos: u64,
    self_nanos: u64,
}

impl CompletedEntry {
    #[inline(always)]
    pub(crate) fn new(nodes: NodePair, sessions: u64, ticks: Range<u64>, child_nanos: u64) -> Self {
        let Range { start: start_ticks, end: end_ticks } = ticks;
        let nanos = clock::nanos(end_ticks.saturating_sub(start_ticks));
        let self_nanos = nanos.saturating_sub(child_nanos);
        Self { nodes, sessions, start_ticks, end_ticks, nanos, self_nanos }
    }
}

impl Local {
    /// Adds an entry to the columns of the sessions that saw it begin and are still active, and to
    /// the log if one of these sessions traces.
    #[inline(always)]
    pub(crate) fn record(&self, entry: &CompletedEntry) {
        self.record_in(CONTROL.active_sessions.load(Ordering::Relaxed), entry);
    }

    /// Adds an entry to the columns and the log of each of the `sessions` that saw it begin.
    #[inline(always)]
    pub(crate) fn record_in(&self, sessions: u64, entry: &CompletedEntry) {
        let python_sessions = CONTROL.python_sessions.load(Ordering::Relaxed);
        let sessions = entry.sessions & sessions;
        for slot in slots(sessions) {
            let is_shadow = python_sessions & bit(slot) == 0;
            let node = if is_shadow { entry.nodes.shadow_node } else { entry.nodes.python_node };
            self.record_in_column(slot, node, entry);
        }
        let trace_sessions = sessions & CONTROL.trace_sessions.load(Ordering::Relaxed);
        if trace_sessions & !python_sessions != 0 {
            self.log_span(entry.nodes.shadow_node, entry, trace_sessions & !python_sessions);
        }
        if trace_sessions & python_sessions != 0 {
            self.log_span(entry.nodes.python_node, entry, trace_sessions & python_sessions);
        }
    }

    #[inline(always)]
    fn record_in_column(&self, slot: u32, node: u32, entry: &CompletedEntry) {
        if let Some(column) = self.tree.column(slot) {
            column.record(node, entry.nanos, entry.self_nanos);
        }
    }

    #[inline(always)]
    fn log_span(&self, node: u32, entry: &CompletedEntry, sessions: u64) {
        let Some(log) = self.tree.log_or_create() else { return };
        match self.autograd {
            None => log.push_span(node, entry.start_ticks, entry.end_ticks, sessions),
            Some(call) => {
                log.push_autograd_span(node, entry.start_ticks, entry.end_ticks, sessions, call);
            }
        }
    }
}
