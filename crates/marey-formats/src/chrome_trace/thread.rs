//! What is kept of a thread while its spans and values go by.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use marey_model::metric::MetricValue;
use marey_store::row::Span;

use super::lanes::Lanes;
use super::metrics::Metrics;

/// A thread of the trace.
#[derive(Debug, Default)]
pub(super) struct Thread {
    /// In the order in which they are written: by their ends, then inner ones first, but for those of
    /// the same times, which readers take for nested in the order of the file.
    open: BTreeMap<Key, Open>,
    /// The open ones of each scope.
    by_scope: HashMap<u32, BTreeSet<Key>>,
    begun: u64,
    lanes: Lanes,
    /// The trace's numbers of its lanes.
    pub(super) lane_numbers: Vec<i64>,
}

/// End, start, depth in the tree, and number.
type Key = (i64, Reverse<i64>, u32, u64);

/// A span that may get values yet.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) span: Span,
    pub(super) metrics: Metrics,
    /// Its lane of the thread.
    pub(super) lane: usize,
    scope: u32,
}

impl Thread {
    /// Takes a span that begins now.
    pub(super) fn begin(&mut self, span: Span, depth: u32, scope: u32) {
        let end_nanos = span.start_nanos.saturating_add(span.duration_nanos);
        let lane = self.lanes.place(span.start_nanos, end_nanos);
        let key = (end_nanos, Reverse(span.start_nanos), depth, self.begun);
        self.begun += 1;
        self.by_scope.entry(scope).or_default().insert(key);
        self.open.insert(key, Open { span, metrics: Metrics::default(), lane, scope });
    }

    /// Adds a value to the scope that it was added in, the first to end if there are several. Gives it
    /// back if there is none.
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

    /// Takes out the next span that has ended before a moment. In the moment of its end it may get
    /// values yet.
    pub(super) fn end_before(&mut self, nanos: i64) -> Option<Open> {
        let first = self.open.first_entry().filter(|first| first.key().0 < nanos)?;
        let key = *first.key();
        let open = first.remove();
        self.forget(open.scope, &key);
        Some(open)
    }

    /// Takes out the next of those that are left.
    pub(super) fn end(&mut self) -> Option<Open> {
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
