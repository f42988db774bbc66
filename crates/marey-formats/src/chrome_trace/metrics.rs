//! Sums of metric values, and their text form.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use marey_model::metric::{MetricName, MetricValue};

/// The metrics of an event by name, each a sum of its values.
#[derive(Debug, Default)]
pub(super) struct Metrics(BTreeMap<String, MetricValue>);

impl Metrics {
    /// Adds a value with the aggregation that the metric's name declares.
    pub(super) fn add(&mut self, name: &str, value: MetricValue) {
        match self.0.get_mut(name) {
            Some(sum) => {
                let name = MetricName::parse(name);
                // Recorders refuse values that do not fit; of a foreign trace the first value is
                // kept.
                drop(sum.update(&value, name.aggregation(), name.key()));
            }
            None => {
                self.0.insert(name.to_owned(), value);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns names and values in Proton's notation.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, String)> {
        self.0.iter().map(|(name, value)| (name.as_str(), text(value)))
    }

    /// Returns the title of an event with metrics: `scope: <loss, 0.500000>, <tokens, 3>`.
    pub(super) fn title(&self, scope: &str) -> String {
        let mut title = scope.to_owned();
        for (lane, (name, value)) in self.texts().enumerate() {
            let separator = if lane == 0 { ":" } else { "," };
            write!(title, "{separator} <{name}, {value}>")
                .expect("writing to a `String` cannot fail");
        }
        title
    }
}

/// Formats a value. Floating-point numbers have six decimals, or as many as they need.
fn text(value: &MetricValue) -> String {
    match value {
        MetricValue::Int(value) => value.to_string(),
        MetricValue::Float(value) => float(*value),
        MetricValue::Text(text) => text.to_string(),
        MetricValue::Ints(values) => list(values, i64::to_string),
        MetricValue::Floats(values) => list(values, |value| shortest(*value)),
    }
}

fn float(value: f64) -> String {
    let six_decimals = format!("{value:.6}");
    let is_exact = six_decimals.parse().is_ok_and(|read: f64| read.to_bits() == value.to_bits());
    if is_exact && value.is_finite() { six_decimals } else { shortest(value) }
}

/// Returns the shortest form that parses to the same number.
fn shortest(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    let text = format!("{value:?}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

fn list<T>(values: &[T], text: impl Fn(&T) -> String) -> String {
    let texts: Vec<String> = values.iter().map(text).collect();
    format!("[{}]", texts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_formatted_as_in_proton() {
        for (value, expected) in [
            (MetricValue::Int(-7), "-7"),
            (MetricValue::Float(0.5), "0.500000"),
            (MetricValue::Float(1e20), "100000000000000000000.000000"),
            (MetricValue::Float(-0.0), "-0.000000"),
            (MetricValue::Float(1e-9), "1e-9"),
            (MetricValue::Float(f64::INFINITY), "inf"),
            (MetricValue::Float(f64::NAN), "nan"),
            (MetricValue::Ints(vec![-1, 2]), "[-1,2]"),
            (MetricValue::Floats(vec![1.0, 0.1, f64::NAN]), "[1,0.1,nan]"),
            (MetricValue::Floats(vec![]), "[]"),
        ] {
            assert_eq!(text(&value), expected);
        }
    }
}
