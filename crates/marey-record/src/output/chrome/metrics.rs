//! User metrics: buffered until their scope ends, then summed and formatted.

use crate::names;
use marey_model::metric::{MetricName, MetricValue};
use marey_model::spool::{IdMap, Span, Value};
use std::collections::{BTreeMap, VecDeque};

/// The values of a thread whose scopes have not ended yet.
#[derive(Debug, Default)]
pub(super) struct PendingValues {
    /// By the node of the scope, each in order of time.
    by_scope: BTreeMap<u32, VecDeque<Value>>,
    len: usize,
    /// The end of the last scope of the thread.
    reached_nanos: i64,
}

/// The maximum number of buffered values per thread. Beyond it the older ones are written without
/// their scopes.
pub(super) const MAX_PENDING: usize = 1 << 16;

impl PendingValues {
    /// Buffers a value for the scope with this node.
    pub(super) fn push(&mut self, scope: u32, value: Value) {
        let pending = self.by_scope.entry(scope).or_default();
        let index = pending.partition_point(|other| other.time_nanos <= value.time_nanos);
        pending.insert(index, value);
        self.len += 1;
    }

    /// Takes the values that were added during a scope.
    pub(super) fn take(&mut self, span: &Span) -> Vec<Value> {
        self.reached_nanos = span.end_nanos;
        if self.len == 0 {
            return Vec::new();
        }
        let Some(pending) = self.by_scope.get_mut(&span.node) else { return Vec::new() };
        let from = pending.partition_point(|value| value.time_nanos < span.start_nanos);
        let to = pending.partition_point(|value| value.time_nanos <= span.end_nanos).max(from);
        let taken: Vec<Value> = pending.drain(from..to).collect();
        self.len -= taken.len();
        taken
    }

    /// Takes the oldest values if there are too many.
    pub(super) fn take_excess(&mut self) -> Vec<Value> {
        if self.len <= MAX_PENDING {
            return Vec::new();
        }
        // Values after the end of the last scope were just read, and their scopes are about to
        // follow.
        let older = self.take_until(self.reached_nanos);
        if older.is_empty() { self.take_all() } else { older }
    }

    /// Takes all values, in order of time.
    pub(super) fn take_all(&mut self) -> Vec<Value> {
        self.take_until(i64::MAX)
    }

    fn take_until(&mut self, time_nanos: i64) -> Vec<Value> {
        let mut taken = Vec::new();
        for pending in self.by_scope.values_mut() {
            let to = pending.partition_point(|value| value.time_nanos <= time_nanos);
            taken.extend(pending.drain(..to));
        }
        self.by_scope.retain(|_, pending| !pending.is_empty());
        self.len -= taken.len();
        taken.sort_by_key(|value| value.time_nanos);
        taken
    }
}

/// Sums the values of each metric, and sorts the metrics by name.
pub(super) fn add_up(values: Vec<Value>, texts: &IdMap<String>) -> Vec<(&str, MetricValue)> {
    let mut sums: BTreeMap<&str, MetricValue> = BTreeMap::new();
    for Value { metric, value, .. } in values {
        let name = texts.get(metric).map_or(names::LOST_NAME, String::as_str);
        match sums.get_mut(name) {
            Some(sum) => {
                let name = MetricName::parse(name);
                // The recorder has refused and counted values of another type.
                drop(sum.update(&value, name.aggregation(), name.key()));
            }
            None => {
                sums.insert(name, value);
            }
        }
    }
    sums.into_iter().collect()
}

/// Formats a value as Proton does: everything is text, and floats have six decimals, or as many as
/// they need.
pub(super) fn format_value(value: &MetricValue) -> String {
    match value {
        MetricValue::Int(value) => value.to_string(),
        MetricValue::Float(value) => format_float(*value),
        MetricValue::Text(text) => text.to_string(),
        MetricValue::Ints(values) => format_list(values, i64::to_string),
        MetricValue::Floats(values) => format_list(values, |value| shortest_float(*value)),
    }
}

fn format_float(value: f64) -> String {
    if !value.is_finite() {
        return shortest_float(value);
    }
    let six_decimals = format!("{value:.6}");
    let is_exact = six_decimals.parse().is_ok_and(|read: f64| read.to_bits() == value.to_bits());
    if is_exact { six_decimals } else { shortest_float(value) }
}

/// Formats a float with the fewest digits that identify it.
fn shortest_float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    let text = format!("{value:?}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

fn format_list<T>(values: &[T], text: impl Fn(&T) -> String) -> String {
    let mut out = String::from("[");
    for (index, value) in values.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        out.push_str(&text(value));
    }
    out.push(']');
    out
}

/// Returns the name of an event with metrics: `scope: <loss, 0.500000>, <tokens, 3>`.
pub(super) fn event_title(scope: &str, metrics: &[(&str, MetricValue)]) -> String {
    let mut title = scope.to_owned();
    for (index, (name, value)) in metrics.iter().enumerate() {
        let separator = if index == 0 { ":" } else { "," };
        title.extend([separator, " <", name, ", ", &format_value(value), ">"]);
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_formatted_as_by_proton() {
        for (value, expected) in [
            (MetricValue::Int(-7), "-7"),
            (MetricValue::Float(0.5), "0.500000"),
            (MetricValue::Float(1e20), "100000000000000000000.000000"),
            (MetricValue::Float(-0.0), "-0.000000"),
            (MetricValue::Float(f64::INFINITY), "inf"),
            (MetricValue::Float(f64::NAN), "nan"),
            (MetricValue::Ints(vec![-1, 2]), "[-1,2]"),
            (MetricValue::Floats(vec![1.0, 0.1, f64::NAN]), "[1,0.1,nan]"),
            (MetricValue::Floats(vec![]), "[]"),
        ] {
            assert_eq!(format_value(&value), expected);
        }
    }

    #[test]
    fn a_float_keeps_its_precision() {
        assert_eq!(format_value(&MetricValue::Float(1e-9)), "1e-9");
        assert_eq!(format_value(&MetricValue::Float(1.0 / 3.0)), "0.3333333333333333");
    }

    fn value(time_nanos: i64) -> Value {
        Value { node: 2, time_nanos, metric: 0, value: MetricValue::Int(1) }
    }

    #[test]
    fn a_scope_takes_the_values_added_during_it() {
        let mut pending = PendingValues::default();
        for time in [30, 12, 10, 21, 20] {
            pending.push(2, value(time));
        }
        let mut take = |node, start_nanos, end_nanos| {
            let taken = pending.take(&Span { node, start_nanos, end_nanos });
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
        assert!(pending.take(&Span { node: 3, start_nanos: 0, end_nanos: 99 }).is_empty());
        assert_eq!(pending.take_excess().len(), 100);
        assert!(pending.take_excess().is_empty());
        for time in 0..100 {
            pending.push(4, value(1_000_000 + time));
        }
        assert_eq!(pending.take_excess().len(), MAX_PENDING + 1);
    }
}
