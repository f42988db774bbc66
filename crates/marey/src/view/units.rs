//! Formats metric values for people, in a suitable unit.

use marey_model::metric::MetricValue;
use marey_model::quantity::{Grouped, Nanos, Real};
use marey_query::graph::{Cells, unit_secs};

use super::number::push;
use crate::text::printable;

/// Unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Unit {
    /// Time.
    Time {
        /// Nanoseconds in a unit.
        nanos_per_unit: f64,
    },
    /// Anything else.
    Plain,
}

impl Unit {
    /// Returns the unit that the key of a metric has in parentheses.
    pub(super) fn from_key(key: &str) -> Self {
        // Rounded, because negative powers of ten are inexact.
        unit_secs(key)
            .map_or(Self::Plain, |secs| Self::Time { nanos_per_unit: (secs * 1e9).round() })
    }
}

/// Appends the cell of a node, or nothing if it has no value.
pub(super) fn push_cell(out: &mut String, cells: &Cells, node: usize, unit: Unit) {
    match cells {
        Cells::Numbers { values, .. } if values[node].is_nan() => {}
        Cells::Numbers { values, are_whole: true } => push_int(out, values[node] as i64, unit),
        Cells::Numbers { values, .. } => push_real(out, values[node], unit),
        Cells::Values(values) => {
            if let Some(value) = &values[node] {
                push_value(out, value, unit);
            }
        }
    }
}

fn push_value(out: &mut String, value: &MetricValue, unit: Unit) {
    match value {
        MetricValue::Int(value) => push_int(out, *value, unit),
        MetricValue::Float(value) => push_real(out, *value, unit),
        MetricValue::Text(text) => out.push_str(&printable(text)),
        MetricValue::Ints(values) => {
            push_list(out, values, |out, value| push_int(out, value, unit));
        }
        MetricValue::Floats(values) => {
            push_list(out, values, |out, value| push_real(out, value, unit));
        }
    }
}

fn push_int(out: &mut String, value: i64, unit: Unit) {
    match unit {
        Unit::Time { nanos_per_unit } => {
            push(out, format_args!("{}", Nanos(value as f64 * nanos_per_unit)));
        }
        Unit::Plain => push(out, format_args!("{}", Grouped(value.into()))),
    }
}

/// Appends a number with its unit.
pub(super) fn push_real(out: &mut String, value: f64, unit: Unit) {
    match unit {
        Unit::Time { nanos_per_unit } => {
            push(out, format_args!("{}", Nanos(value * nanos_per_unit)));
        }
        Unit::Plain => push(out, format_args!("{}", Real(value))),
    }
}

fn push_list<T: Copy>(out: &mut String, values: &[T], push_item: impl Fn(&mut String, T)) {
    out.push('[');
    for (index, &value) in values.iter().enumerate() {
        out.push_str(if index > 0 { ", " } else { "" });
        push_item(out, value);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_come_from_the_key() {
        assert_eq!(Unit::from_key("cpu_time (ns)(exc)"), Unit::Time { nanos_per_unit: 1.0 });
        assert_eq!(Unit::from_key("wait (ms)"), Unit::Time { nanos_per_unit: 1e6 });
        assert_eq!(Unit::from_key("wait (µs)"), Unit::Time { nanos_per_unit: 1e3 });
        assert_eq!(Unit::from_key("wait (ms) (inc)"), Unit::Time { nanos_per_unit: 1e6 });
        assert_eq!(Unit::from_key("time/ms (inc)"), Unit::Plain);
        assert_eq!(Unit::from_key("count"), Unit::Plain);
        let mut text = String::new();
        push_value(
            &mut text,
            &MetricValue::Floats(vec![0.5, 2.0]),
            Unit::Time { nanos_per_unit: 1e9 },
        );
        assert_eq!(text, "[500 ms, 2.00 s]");
    }
}
