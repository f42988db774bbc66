//! User metrics: how a name's suffix selects the aggregation, and the types of values.

use std::sync::Arc;

use thiserror::Error;

/// Aggregation of the values of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aggregation {
    /// Values are added on the node, and readers add them up to its ancestors. It is the default,
    /// and the suffix `(inc)`.
    Inclusive,
    /// Values are added on the node only. It is the suffix `(exc)`.
    Exclusive,
    /// The last value replaces earlier ones. It is the suffix `(pty)`.
    Property,
}

/// A metric name as written by a user, parsed.
///
/// The suffixes `(inc)`, `(exc)` and `(pty)` select the aggregation and are not part of the key; a
/// unit such as `(ns)` is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MetricName {
    key: Box<str>,
    aggregation: Aggregation,
}

impl MetricName {
    /// Parses a user's name. `"wait (ns)(exc)"` is the exclusive metric `wait (ns)`.
    pub fn parse(name: &str) -> Self {
        let mut key = name.to_owned();
        let mut aggregation = Aggregation::Inclusive;
        for (suffix, suffix_aggregation) in [
            ("(inc)", Aggregation::Inclusive),
            ("(exc)", Aggregation::Exclusive),
            ("(pty)", Aggregation::Property),
        ] {
            if let Some(position) = key.find(suffix) {
                key.replace_range(position..position + suffix.len(), "");
                aggregation = suffix_aggregation;
            }
        }
        Self { key: key.trim().into(), aggregation }
    }

    /// Returns the key that files contain.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the aggregation.
    pub const fn aggregation(&self) -> Aggregation {
        self.aggregation
    }
}

/// A value of a user metric.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricValue {
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A string; always a property, whatever the suffix of its name.
    Text(Arc<str>),
    /// Integers, added element by element.
    Ints(Vec<i64>),
    /// Floating-point numbers, added element by element.
    Floats(Vec<f64>),
}

impl MetricValue {
    /// Returns the name of the type in the documented mismatch message.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Int(_) => "int64_t",
            Self::Float(_) => "double",
            Self::Text(_) => "std::string",
            Self::Ints(_) => "std::vector<int64_t>",
            Self::Floats(_) => "std::vector<double>",
        }
    }

    /// Aggregates `new` into `self`.
    ///
    /// Integers saturate at the limits of `i64`.
    pub fn update(
        &mut self,
        new: &Self,
        aggregation: Aggregation,
        key: &str,
    ) -> Result<(), MetricError> {
        let is_property = aggregation == Aggregation::Property;
        match (&mut *self, new) {
            (Self::Int(old), Self::Int(new)) => {
                *old = if is_property { *new } else { old.saturating_add(*new) };
            }
            (Self::Float(old), Self::Float(new)) => {
                *old = if is_property { *new } else { *old + *new };
            }
            (Self::Text(old), Self::Text(new)) => old.clone_from(new),
            (Self::Ints(old), Self::Ints(new)) => {
                if is_property {
                    old.clone_from(new);
                } else {
                    check_length(old.len(), new.len(), key)?;
                    for (old, new) in old.iter_mut().zip(new) {
                        *old = old.saturating_add(*new);
                    }
                }
            }
            (Self::Floats(old), Self::Floats(new)) => {
                if is_property {
                    old.clone_from(new);
                } else {
                    check_length(old.len(), new.len(), key)?;
                    for (old, new) in old.iter_mut().zip(new) {
                        *old += *new;
                    }
                }
            }
            (old, new) => {
                return Err(MetricError::TypeMismatch {
                    key: key.into(),
                    current: old.type_name(),
                    new: new.type_name(),
                });
            }
        }
        Ok(())
    }
}

fn check_length(current: usize, new: usize, key: &str) -> Result<(), MetricError> {
    if current == new {
        return Ok(());
    }
    Err(MetricError::LengthMismatch { key: key.into(), current, new })
}

/// Why a value was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MetricError {
    /// The node has a value of another type. The message is Proton's, which users match against.
    #[error("Metric value type mismatch for valueId 0 ({key}): current={current}, new={new}")]
    TypeMismatch {
        /// Key of the metric.
        key: Box<str>,
        /// Type of the node's value.
        current: &'static str,
        /// Type of the rejected value.
        new: &'static str,
    },
    /// The node has a vector of another length.
    #[error("Metric vector size mismatch for valueId 0 ({key}): current={current}, new={new}")]
    LengthMismatch {
        /// Key of the metric.
        key: Box<str>,
        /// Length of the node's vector.
        current: usize,
        /// Length of the rejected vector.
        new: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_select_the_aggregation_and_are_removed_from_the_key() {
        for (name, key, aggregation) in [
            ("flops", "flops", Aggregation::Inclusive),
            ("tokens (inc)", "tokens", Aggregation::Inclusive),
            ("wait (ns)(exc)", "wait (ns)", Aggregation::Exclusive),
            ("tile (pty)", "tile", Aggregation::Property),
        ] {
            let parsed = MetricName::parse(name);
            assert_eq!((parsed.key(), parsed.aggregation()), (key, aggregation));
        }
    }

    #[test]
    fn a_type_mismatch_has_the_documented_message() {
        let mut value = MetricValue::Float(1.0);
        let error = value.update(&MetricValue::Int(1), Aggregation::Inclusive, "a").unwrap_err();
        assert_eq!(
            error.to_string(),
            "Metric value type mismatch for valueId 0 (a): current=double, new=int64_t"
        );
        assert_eq!(value, MetricValue::Float(1.0));
    }

    #[test]
    fn vectors_add_by_element_and_reject_another_length() {
        let mut value = MetricValue::Ints(vec![1, 2]);
        value.update(&MetricValue::Ints(vec![10, 20]), Aggregation::Inclusive, "v").unwrap();
        assert_eq!(value, MetricValue::Ints(vec![11, 22]));
        assert!(value.update(&MetricValue::Ints(vec![1]), Aggregation::Inclusive, "v").is_err());
        value.update(&MetricValue::Ints(vec![7]), Aggregation::Property, "v").unwrap();
        assert_eq!(value, MetricValue::Ints(vec![7]));
    }

    #[test]
    fn real_numbers_are_added() {
        let updated = |mut value: MetricValue, new: &MetricValue| {
            value.update(new, Aggregation::Exclusive, "r").unwrap();
            value
        };
        let sum = updated(MetricValue::Float(1.5), &MetricValue::Float(2.0));
        assert_eq!(sum, MetricValue::Float(3.5));
        let sums =
            updated(MetricValue::Floats(vec![1.5, 4.0]), &MetricValue::Floats(vec![2.0, 8.0]));
        assert_eq!(sums, MetricValue::Floats(vec![3.5, 12.0]));
    }
}
