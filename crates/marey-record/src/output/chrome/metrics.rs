//! Buffers the user metrics of a thread until their scope ends, then sums them.

use crate::names;
use marey_model::proton_trace::Metrics;
use marey_model::spool::{IdMap, RecordedValue, Span};
use std::collections::{BTreeMap, VecDeque};

/// The values of a thread whose scopes have not ended yet.
#[derive(Debug, Default)]
pub(super) struct PendingValues {
    /// By the node of the scope, each in order of time.
    by_scope: BTreeMap<u32, VecDeque<RecordedValue>>,
    len: usize,
    /// The end of the last scope of the thread.
    last_end_nanos: i64,
}

/// The maximum number of buffered values per thread. Beyond it the older ones are written without
/// their scopes.
pub(super) const MAX_PENDING: usize = 1 << 16;

impl PendingValues {
    /// Buffers a value for the scope with this node.
    pub(super) fn push(&mut self, scope: u32, value: RecordedValue) {
        let pending = self.by_scope.entry(scope).or_default();
        let index = pending.partition_point(|other| other.time_nanos <= value.time_nanos);
        pending.insert(index, value);
        self.len += 1;
    }

    /// Takes the values that were added during a scope.
    pub(super) fn take(&mut self, span: &Span) -> Vec<RecordedValue> {
        self.last_end_nanos = span.end_nanos;
        if self.len == 0 {
            return Vec::new();
        }
        let Some(pending) = self.by_scope.get_mut(&span.node_id) else { return Vec::new() };
        let first = pending.partition_point(|value| value.time_nanos < span.start_nanos);
        let end = pending.partition_point(|value| value.time_nanos <= span.end_nanos).max(first);
        let taken: Vec<RecordedValue> = pending.drain(first..end).collect();
        self.len -= taken.len();
        taken
    }

    /// Takes the oldest values if there are too many.
    pub(super) fn take_excess(&mut self) -> Vec<RecordedValue> {
        if self.len <= MAX_PENDING {
            return Vec::new();
        }
        // Values after the end of the last scope were just read. Their scopes are about to follow,
        // so keep them.
        let older_values = self.take_until(self.last_end_nanos);
        if older_values.is_empty() { self.take_all() } else { older_values }
    }

    /// Takes all values, in order of time.
    pub(super) fn take_all(&mut self) -> Vec<RecordedValue> {
        self.take_until(i64::MAX)
    }

    fn take_until(&mut self, time_nanos: i64) -> Vec<RecordedValue> {
        let mut taken = Vec::new();
        for pending in self.by_scope.values_mut() {
            let end = pending.partition_point(|value| value.time_nanos <= time_nanos);
            taken.extend(pending.drain(..end));
        }
        self.by_scope.retain(|_, pending| !pending.is_empty());
        self.len -= taken.len();
        taken.sort_by_key(|value| value.time_nanos);
        taken
    }
}

/// Sums the values of each metric.
pub(super) fn add_up(values: Vec<RecordedValue>, texts: &IdMap<String>) -> Metrics<&str> {
    let mut metrics = Metrics::default();
    for RecordedValue { name_id, value, .. } in values {
        metrics.add(texts.get(name_id).map_or(names::LOST_NAME, String::as_str), value);
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;
    use marey_model::metric::MetricValue;

    fn value(time_nanos: i64) -> RecordedValue {
        RecordedValue { node_id: 2, time_nanos, name_id: 0, value: MetricValue::Int(1) }
    }

    #[test]
    fn a_scope_takes_the_values_added_during_it() {
        let mut pending = PendingValues::default();
        for time in [30, 12, 10, 21, 20] {
            pending.push(2, value(time));
        }
        let mut take = |node, start_nanos, end_nanos| {
            let taken = pending.take(&Span { node_id: node, start_nanos, end_nanos });
            taken.iter().map(|value| value.time_nanos).collect::<Vec<_>>()
        };
        assert!(take(3, 0, 100).is_empty());
        assert_eq!(take(2, 20, 25), [20, 21]);
        assert_eq!(take(2, 11, 29), [12]);
        let remaining: Vec<_> = pending.take_all().iter().map(|value| value.time_nanos).collect();
        assert_eq!(remaining, [10, 30]);
    }

    #[test]
    fn the_oldest_values_are_written_when_too_many_wait() {
        let mut pending = PendingValues::default();
        for time in (0..).take(MAX_PENDING + 1) {
            pending.push(2, value(time));
        }
        assert!(pending.take(&Span { node_id: 3, start_nanos: 0, end_nanos: 99 }).is_empty());
        assert_eq!(pending.take_excess().len(), 100);
        assert!(pending.take_excess().is_empty());
        for time in 0..100 {
            pending.push(4, value(1_000_000 + time));
        }
        assert_eq!(pending.take_excess().len(), MAX_PENDING + 1);
    }
}
