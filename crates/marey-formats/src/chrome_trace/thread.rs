//! The open spans of a thread.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use marey_model::metric::MetricValue;
use marey_model::proton_trace::Metrics;
use marey_store::row::Span;

use super::lanes::Lanes;

/// A thread of the trace.
#[derive(Debug, Default)]
pub(super) struct Thread {
    /// Open spans in the order in which they are written: by end, then inner ones first. Of spans
    /// with equal times the outer one comes first, since readers nest them in file order.
    open: BTreeMap<Key, OpenSpan>,
    /// Open spans by scope.
    by_scope: HashMap<u32, BTreeSet<Key>>,
    begun: u64,
    lanes: Lanes,
    /// Thread ids of the additional lanes.
    pub(super) lane_tids: Vec<i64>,
}

/// End, start, depth in the tree, and index.
type Key = (i64, Reverse<i64>, u32, u64);

/// A span that may still receive values.
#[derive(Debug)]
pub(super) struct OpenSpan {
    pub(super) span: Span,
    pub(super) metrics: Metrics<String>,
    /// Its lane of the thread.
    pub(super) lane: usize,
    scope: u32,
}

impl Thread {
    /// Opens a span that starts now.
    pub(super) fn begin(&mut self, span: Span, depth: u32, scope: u32) {
        let end_nanos = span.start_nanos.saturating_add(span.duration_nanos);
        let lane = self.lanes.assign(span.start_nanos, end_nanos);
        let key = (end_nanos, Reverse(span.start_nanos), depth, self.begun);
        self.begun += 1;
        self.by_scope.entry(scope).or_default().insert(key);
        self.open.insert(key, OpenSpan { span, metrics: Metrics::default(), lane, scope });
    }

    /// Adds a value to the open span of a scope, the first to end if there are several. Returns the
    /// value if none is open.
    pub(super) fn add(
        &mut self,
        scope: u32,
        name: &str,
        value: MetricValue,
    ) -> Option<MetricValue> {
        let first = self.by_scope.get(&scope).and_then(BTreeSet::first);
        match first.and_then(|key| self.open.get_mut(key)) {
            Some(open) => {
                open.metrics.add(name, value);
                None
            }
            None => Some(value),
        }
    }

    /// Removes the next span that ended before a time. A span may receive values up to its end
    /// inclusive.
    pub(super) fn end_before(&mut self, nanos: i64) -> Option<OpenSpan> {
        let first = self.open.first_entry().filter(|first| first.key().0 < nanos)?;
        let key = *first.key();
        let open = first.remove();
        self.forget(open.scope, &key);
        Some(open)
    }

    /// Removes the next remaining span.
    pub(super) fn end(&mut self) -> Option<OpenSpan> {
        self.open.pop_first().map(|(_, open)| open)
    }

    fn forget(&mut self, scope: u32, key: &Key) {
        if let Some(keys) = self.by_scope.get_mut(&scope) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_scope.remove(&scope);
            }
        }
    }
}
