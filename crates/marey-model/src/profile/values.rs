//! The values of a metric, all of one type where they can be.

use std::sync::Arc;

use crate::metric::MetricValue;

/// The values of a metric, in the most compact representation that holds all of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Integers only.
    Ints(Vec<i64>),
    /// Floating-point numbers, and integers that are exactly representable as such.
    Floats(Vec<f64>),
    /// Strings only.
    Texts(Vec<Arc<str>>),
    /// Mixed values.
    Mixed(Vec<MetricValue>),
}

impl Values {
    /// Returns the number of values.
    pub const fn len(&self) -> usize {
        match self {
            Self::Ints(values) => values.len(),
            Self::Floats(values) => values.len(),
            Self::Texts(values) => values.len(),
            Self::Mixed(values) => values.len(),
        }
    }

    /// Whether there are no values.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value at a position.
    ///
    /// # Panics
    /// If the position is out of bounds.
    pub fn get(&self, position: usize) -> MetricValue {
        match self {
            Self::Ints(values) => MetricValue::Int(values[position]),
            Self::Floats(values) => MetricValue::Float(values[position]),
            Self::Texts(values) => MetricValue::Text(values[position].clone()),
            Self::Mixed(values) => values[position].clone(),
        }
    }

    /// Appends a value, and widens the representation if the value does not fit.
    pub fn push(&mut self, value: MetricValue) {
        match (&mut *self, value) {
            (Self::Ints(values), MetricValue::Int(value)) => values.push(value),
            (Self::Floats(values), MetricValue::Float(value)) => values.push(value),
            (Self::Texts(values), MetricValue::Text(value)) => values.push(value),
            (Self::Floats(values), MetricValue::Int(value))
                if value.unsigned_abs() <= MAX_EXACT_INTEGER =>
            {
                values.push(value as f64);
            }
            (Self::Mixed(values), value) => values.push(value),
            (Self::Ints(values), MetricValue::Float(value))
                if values.iter().all(|value| value.unsigned_abs() <= MAX_EXACT_INTEGER) =>
            {
                let floats = values.iter().map(|&value| value as f64);
                *self = Self::Floats(floats.chain([value]).collect());
            }
            (Self::Ints(values), MetricValue::Text(value)) if values.is_empty() => {
                *self = Self::Texts(vec![value]);
            }
            (_, value) => {
                let values =
                    (0..self.len()).map(|position| self.get(position)).chain([value]).collect();
                *self = Self::Mixed(values);
            }
        }
    }

    /// Converts each floating-point number with an exact integer value among mixed values to an
    /// integer. Then the representation does not depend on the order of insertion.
    pub fn normalise(&mut self) {
        let Self::Mixed(values) = self else { return };
        for value in &mut *values {
            if let MetricValue::Float(real) = *value {
                let integer = real as i64;
                if integer.unsigned_abs() <= MAX_EXACT_INTEGER
                    && (integer as f64).to_bits() == real.to_bits()
                {
                    *value = MetricValue::Int(integer);
                }
            }
        }
        let integers = values.iter().map(|value| match value {
            MetricValue::Int(integer) => Some(*integer),
            _ => None,
        });
        if let Some(integers) = integers.collect() {
            *self = Self::Ints(integers);
        }
    }

    /// Returns the values at these positions, in this order.
    #[must_use]
    pub fn pick(&self, positions: &[usize]) -> Self {
        match self {
            Self::Ints(values) => {
                Self::Ints(positions.iter().map(|&position| values[position]).collect())
            }
            Self::Floats(values) => {
                Self::Floats(positions.iter().map(|&position| values[position]).collect())
            }
            Self::Texts(values) => {
                Self::Texts(positions.iter().map(|&position| values[position].clone()).collect())
            }
            Self::Mixed(values) => {
                Self::Mixed(positions.iter().map(|&position| values[position].clone()).collect())
            }
        }
    }
}

/// Up to this magnitude, an `f64` represents every integer exactly.
pub const MAX_EXACT_INTEGER: u64 = 1 << 53;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_widen_without_loss() {
        let mut values = Values::Ints(Vec::new());
        values.push(MetricValue::Int(1));
        values.push(MetricValue::Float(0.5));
        values.push(MetricValue::Int(0));
        assert_eq!(values, Values::Floats(vec![1.0, 0.5, 0.0]));
        values.push(MetricValue::Int((1 << 53) + 1));
        assert_eq!(values.get(3), MetricValue::Int((1 << 53) + 1));
        assert_eq!(values.get(1), MetricValue::Float(0.5));
        values.push(MetricValue::Text("0".into()));
        assert_eq!(values.len(), 5);
    }

    #[test]
    fn normalised_values_do_not_depend_on_insertion_order() {
        let normalised = |values: &[MetricValue]| {
            let mut all = Values::Ints(Vec::new());
            for value in values {
                all.push(value.clone());
            }
            all.normalise();
            all
        };
        let [one, half, text] =
            [MetricValue::Float(1.0), MetricValue::Float(0.5), MetricValue::Text("x".into())];
        let big = MetricValue::Int((1 << 53) + 1);
        let integer = MetricValue::Int(1);
        let expected = Values::Mixed(vec![text.clone(), half.clone(), integer.clone()]);
        assert_eq!(normalised(&[text.clone(), half.clone(), one.clone()]), expected);
        let mut otherwise = normalised(&[one.clone(), half, text]);
        otherwise = otherwise.pick(&[2, 1, 0]);
        assert_eq!(otherwise, expected);
        assert_eq!(normalised(&[one, big.clone()]), normalised(&[integer, big]));
    }

    #[test]
    fn integers_stay_exact_beside_values_of_other_types() {
        let pushed = |first: i64, second: MetricValue| {
            let mut values = Values::Ints(vec![first]);
            values.push(second);
            values
        };
        let (large, half) = ((1 << 53) + 1, MetricValue::Float(0.5));
        let mixed = Values::Mixed(vec![MetricValue::Int(large), half.clone()]);
        assert_eq!(pushed(large, half), mixed);
        let text = MetricValue::Text("x".into());
        assert_eq!(pushed(1, text.clone()), Values::Mixed(vec![MetricValue::Int(1), text]));
    }

    #[test]
    fn the_first_text_makes_a_list_of_texts() {
        let mut values = Values::Ints(Vec::new());
        assert!(values.is_empty());
        values.push(MetricValue::Text("x".into()));
        assert_eq!(values, Values::Texts(vec!["x".into()]));
        assert!(!values.is_empty());
    }
}
