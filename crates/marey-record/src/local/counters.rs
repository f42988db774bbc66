//! Counts performance events in the scopes of a thread.

use super::Local;
use super::stack::open_scope_nodes;
use crate::control::CONTROL;
use crate::losses;
use crate::perf::{self, Counts, EventSet, MAX_EVENTS, ThreadCounters};
use crate::scope_frame::OpenScope;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;

/// The counters of a thread, and the counts of its open scopes.
#[derive(Default)]
pub(super) struct OpenCounts {
    counters: ThreadCounters,
    /// The exclusive counts of the open scopes, outermost first. `None` for a scope that was
    /// entered before the events were set, or that the kernel has not counted.
    scopes: Vec<Option<Counts>>,
}

impl Local {
    /// Returns the events' metrics and totals at the latest entry or exit of a scope.
    pub(crate) fn performance_totals(&self) -> Vec<(u32, u64)> {
        let totals = perf::events().and_then(|events| {
            let counts = self.open_counts.counters.latest(events)?;
            Some(events.metrics.iter().copied().zip(counts).collect())
        });
        totals.unwrap_or_default()
    }

    /// Adds what was counted so far to the innermost scope, before a scope is entered in it.
    #[inline(always)]
    pub(super) fn count_before_entry(&mut self) {
        if let Some(events) = perf::events() {
            self.begin_counts(events);
        }
    }

    #[inline(never)]
    fn begin_counts(&mut self, events: &'static EventSet) {
        let depth = self.depth() as usize;
        self.open_counts.add(depth, events);
        self.open_counts.scopes.resize(depth, None);
        self.open_counts.scopes.push(Some(Counts::default()));
    }

    /// Records the counts of the innermost scope, which is about to be removed.
    #[inline(always)]
    pub(super) fn count_before_exit(&mut self, top: &OpenScope) {
        if let Some(events) = perf::events() {
            self.end_counts(top, events);
        }
    }

    #[inline(never)]
    fn end_counts(&mut self, top: &OpenScope, events: &'static EventSet) {
        let depth = self.depth() as usize;
        self.open_counts.add(depth, events);
        let Some(counts) = self.open_counts.scopes.get(depth - 1).copied() else { return };
        self.open_counts.scopes.truncate(depth - 1);
        let Some(counts) = counts else { return };
        let values: [(u32, MetricValue); MAX_EVENTS] = std::array::from_fn(|index| {
            let metric = events.metrics.get(index).copied().unwrap_or_default();
            (metric, MetricValue::Int(counts[index].cast_signed()))
        });
        let values = values.get(..events.metrics.len()).unwrap_or_default();
        let nodes = open_scope_nodes(top);
        // A refused value is counted as a loss.
        let active_sessions = top.sessions & CONTROL.recording_sessions().0;
        drop(self.add_metrics_at(nodes, top.state_name_id, active_sessions, None, values));
    }
}

impl OpenCounts {
    /// Adds the counts since the previous event to the innermost of `depth` scopes.
    fn add(&mut self, depth: usize, events: &'static EventSet) {
        self.scopes.truncate(depth);
        if self.counters.begin_if_new(events) {
            self.scopes.fill(None); // of other events, or of scopes that are not open any more
        }
        let new = self.counters.advance();
        let innermost = depth.checked_sub(1).and_then(|index| self.scopes.get_mut(index));
        let Some(counts @ &mut Some(sum)) = innermost else { return };
        *counts = new.map(|new| std::array::from_fn(|index| sum[index].wrapping_add(new[index])));
        if new.is_none() {
            losses::count(LossCause::PerfEvents);
        }
    }
}
