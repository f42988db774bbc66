//! Keeps the spans of a thread that may still receive values, until the writer reaches their ends.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use marey_model::metric::MetricValue;
use marey_model::proton_trace::Metrics;
use marey_store::row::Span;

use super::lanes::ThreadLanes;

/// A thread of the trace.
#[derive(Debug, Default)]
pub(super) struct Thread {
    /// Open spans in the order in which they are written.
    open_spans: BTreeMap<FileOrder, OpenSpan>,
    /// Positions of the open spans of each scope.
    orders_by_scope: HashMap<u32, BTreeSet<FileOrder>>,
    begun_count: u64,
    lanes: ThreadLanes,
    /// Thread ids of the additional lanes.
    pub(super) lane_tids: Vec<i64>,
}

/// The order of spans in the file, by end. Of spans with the same end, the one that starts last
/// comes first, because it is the inner one. Of spans with the same start and end, the outer one
/// comes first, because readers nest such spans in the order of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileOrder {
    end_nanos: i64,
    start_nanos: Reverse<i64>,
    depth: u32,
    /// Number of spans that the thread began before this one.
    begin_number: u64,
}

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
        let start_nanos = Reverse(span.start_nanos);
        let order = FileOrder { end_nanos, start_nanos, depth, begin_number: self.begun_count };
        self.begun_count += 1;
        self.orders_by_scope.entry(scope).or_default().insert(order);
        self.open_spans.insert(order, OpenSpan { span, metrics: Metrics::default(), lane, scope });
    }

    /// Adds a value to the open span of a scope. If there are several, takes the first one to end.
    /// Returns the value if none is open.
    pub(super) fn add(
        &mut self,
        scope: u32,
        name: &str,
        value: MetricValue,
    ) -> Option<MetricValue> {
        let first_order = self.orders_by_scope.get(&scope).and_then(BTreeSet::first);
        match first_order.and_then(|order| self.open_spans.get_mut(order)) {
            Some(open_span) => {
                open_span.metrics.add(name, value);
                None
            }
            None => Some(value),
        }
    }

    /// Removes and returns the first span in the order of the file that ended before a time. A span
    /// may receive values up to its end inclusive.
    pub(super) fn end_before(&mut self, nanos: i64) -> Option<OpenSpan> {
        self.open_spans.first_key_value().filter(|(order, _)| order.end_nanos < nanos)?;
        self.end()
    }

    /// Removes and returns the first span in the order of the file.
    pub(super) fn end(&mut self) -> Option<OpenSpan> {
        let (order, open_span) = self.open_spans.pop_first()?;
        self.forget(open_span.scope, &order);
        Some(open_span)
    }

    fn forget(&mut self, scope: u32, order: &FileOrder) {
        if let Some(orders) = self.orders_by_scope.get_mut(&scope) {
            orders.remove(order);
            if orders.is_empty() {
                self.orders_by_scope.remove(&scope);
            }
        }
    }
}
