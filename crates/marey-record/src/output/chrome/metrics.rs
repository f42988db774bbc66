//! User metrics: they wait for the end of their scope, are added up, and become text.

use crate::names;
use marey_model::metric::{MetricName, MetricValue};
use marey_model::spool::{Numbered, Span, Value};
use std::collections::{BTreeMap, VecDeque};

/// The values of a thread whose scopes have not ended yet.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By the node of the scope; of each, in order of time.
    by_scope: BTreeMap<u32, VecDeque<Value>>,
    len: usize,
    /// When the last scope of the thread ended.
    reached_nanos: i64,
}

/// Most values that wait on a thread; beyond it the older ones are written without their scopes.
pub(super) const MOST_WAITING: usize = 1 << 16;

impl Waiting {
    /// Adds a value to the scope with this node.
    pub(super) fn push(&mut self, scope: u32, value: Value) {
        let waiting = self.by_scope.entry(scope).or_default();
        let at = waiting.partition_point(|other| other.time_nanos <= value.time_nanos);
        waiting.insert(at, value);
        self.len += 1;
    }

    /// Takes the values that were added during a scope.
    pub(super) fn take(&mut self, span: &Span) -> Vec<Value> {
        self.reached_nanos = span.end_nanos;
        if self.len == 0 {
            return Vec::new();
        }
        let Some(waiting) = self.by_scope.get_mut(&span.node) else { return Vec::new() };
        let from = waiting.partition_point(|value| value.time_nanos < span.start_nanos);
        let to = waiting.partition_point(|value| value.time_nanos <= span.end_nanos).max(from);
        let taken: Vec<Value> = waiting.drain(from..to).collect();
        self.len -= taken.len();
        taken
    }

    /// When too many wait, takes those that have waited the longest.
    pub(super) fn take_excess(&mut self) -> Vec<Value> {
        if self.len <= MOST_WAITING {
            return Vec::new();
        }
        // Values that came after the last scope's end were just read; their scopes are about to come.
        let older = self.take_until(self.reached_nanos);
        if older.is_empty() { self.take_all() } else { older }
    }

    /// Takes everything, in order of time.
    pub(super) fn take_all(&mut self) -> Vec<Value> {
        self.take_until(i64::MAX)
    }

    fn take_until(&mut self, time_nanos: i64) -> Vec<Value> {
        let mut taken = Vec::new();
        for waiting in self.by_scope.values_mut() {
            let to = waiting.partition_point(|value| value.time_nanos <= time_nanos);
            taken.extend(waiting.drain(..to));
        }
        self.by_scope.retain(|_, waiting| !waiting.is_empty());
        self.len -= taken.len();
        taken.sort_by_key(|value| value.time_nanos);
        taken
    }
}

/// Adds up the values of each metric, and sorts the metrics by name.
pub(super) fn add_up(values: Vec<Value>, texts: &Numbered<String>) -> Vec<(&str, MetricValue)> {
    let mut sums: BTreeMap<&str, MetricValue> = BTreeMap::new();
    for Value { metric, value, .. } in values {
        let name = texts.get(metric).map_or(names::LOST_NAME, String::as_str);
        match sums.get_mut(name) {
            Some(sum) => {
                let name = MetricName::parse(name);
                // The recorder has refused what does not fit, and counted it.
                drop(sum.update(&value, name.aggregation(), name.key()));
            }
            None => {
                sums.insert(name, value);
            }
        }
    }
    sums.into_iter().collect()
}

/// A value as Proton writes it: everything is text, and real numbers have six decimals, or as many as
/// they need.
pub(super) fn text(value: &MetricValue) -> String {
    match value {
        MetricValue::Int(value) => value.to_string(),
        MetricValue::Float(value) => real(*value),
        MetricValue::Text(text) => text.to_string(),
        MetricValue::Ints(values) => list(values, i64::to_string),
        MetricValue::Floats(values) => list(values, |value| shortest(*value)),
    }
}

fn real(value: f64) -> String {
    if !value.is_finite() {
        return shortest(value);
    }
    let six_decimals = format!("{value:.6}");
    let is_exact = six_decimals.parse().is_ok_and(|read: f64| read.to_bits() == value.to_bits());
    if is_exact { six_decimals } else { shortest(value) }
}

/// As few digits as tell the number from all others.
fn shortest(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    let text = format!("{value:?}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

fn list<T>(values: &[T], text: impl Fn(&T) -> String) -> String {
    let mut out = String::from("[");
    for (at, value) in values.iter().enumerate() {
        out.push_str(if at == 0 { "" } else { "," });
        out.push_str(&text(value));
    }
    out.push(']');
    out
}

/// The name of an event with metrics: `scope: <loss, 0.500000>, <tokens, 3>`.
pub(super) fn title(scope: &str, metrics: &[(&str, MetricValue)]) -> String {
    let mut title = scope.to_owned();
    for (at, (name, value)) in metrics.iter().enumerate() {
        let separator = if at == 0 { ":" } else { "," };
        title.extend([separator, " <", name, ", ", &text(value), ">"]);
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_as_protons_do() {
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
            assert_eq!(text(&value), expected);
        }
    }

    #[test]
    fn six_decimals_do_not_change_a_value() {
        assert_eq!(text(&MetricValue::Float(1e-9)), "1e-9");
        assert_eq!(text(&MetricValue::Float(1.0 / 3.0)), "0.3333333333333333");
    }

    fn value(time_nanos: i64) -> Value {
        Value { node: 2, time_nanos, metric: 0, value: MetricValue::Int(1) }
    }

    #[test]
    fn values_wait_for_the_scope_in_which_they_were_added() {
        let mut waiting = Waiting::default();
        for time in [30, 12, 10, 21, 20] {
            waiting.push(2, value(time));
        }
        let mut take = |node, start_nanos, end_nanos| {
            let taken = waiting.take(&Span { node, start_nanos, end_nanos });
            taken.iter().map(|value| value.time_nanos).collect::<Vec<_>>()
        };
        assert!(take(3, 0, 100).is_empty());
        assert_eq!(take(2, 20, 25), [20, 21]);
        assert_eq!(take(2, 11, 29), [12]);
        let rest: Vec<_> = waiting.take_all().iter().map(|value| value.time_nanos).collect();
        assert_eq!(rest, [10, 30]);
    }

    #[test]
    fn the_longest_waiting_give_way() {
        let mut waiting = Waiting::default();
        for time in (0..).take(MOST_WAITING + 1) {
            waiting.push(2, value(time));
        }
        assert!(waiting.take(&Span { node: 3, start_nanos: 0, end_nanos: 99 }).is_empty());
        assert_eq!(waiting.take_excess().len(), 100);
        assert!(waiting.take_excess().is_empty());
        for time in 0..100 {
            waiting.push(4, value(1_000_000 + time));
        }
        assert_eq!(waiting.take_excess().len(), MOST_WAITING + 1);
    }
}
