//! Values of metrics: they are added up, and become text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use marey_model::metric::{MetricName, MetricValue};

/// The metrics of an event by name, all values of each added up.
#[derive(Debug, Default)]
pub(super) struct Metrics(BTreeMap<String, MetricValue>);

impl Metrics {
    /// Adds a value as its metric's name says.
    pub(super) fn add(&mut self, name: &str, value: MetricValue) {
        match self.0.get_mut(name) {
            Some(sum) => {
                let name = MetricName::parse(name);
                // A recorder refuses what does not fit; of a foreign trace the first value stands.
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

    /// Names and values as Proton writes them.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, String)> {
        self.0.iter().map(|(name, value)| (name.as_str(), text(value)))
    }

    /// The name of an event with metrics: `scope: <loss, 0.500000>, <tokens, 3>`.
    pub(super) fn title(&self, scope: &str) -> String {
        let mut title = scope.to_owned();
        for (at, (name, value)) in self.texts().enumerate() {
            let separator = if at == 0 { ":" } else { "," };
            write!(title, "{separator} <{name}, {value}>").expect("texts take everything");
        }
        title
    }
}

/// Everything is text, and real numbers have six decimals, or as many as they need.
fn text(value: &MetricValue) -> String {
    match value {
        MetricValue::Int(value) => value.to_string(),
        MetricValue::Float(value) => real(*value),
        MetricValue::Text(text) => text.to_string(),
        MetricValue::Ints(values) => list(values, i64::to_string),
        MetricValue::Floats(values) => list(values, |value| shortest(*value)),
    }
}

fn real(value: f64) -> String {
    let six_decimals = format!("{value:.6}");
    let is_exact = six_decimals.parse().is_ok_and(|read: f64| read.to_bits() == value.to_bits());
    if is_exact && value.is_finite() { six_decimals } else { shortest(value) }
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
    let texts: Vec<String> = values.iter().map(text).collect();
    format!("[{}]", texts.join(","))
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
