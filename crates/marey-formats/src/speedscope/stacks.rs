//! Collects the stacks and weights of an exported sampled profile.

use std::io::{self, Write};

use marey_model::metric::MetricValue;

use super::lane::PendingList;

/// The stacks and weights of a sampled profile.
#[derive(Default)]
pub(super) struct Stacks {
    pub(super) samples: PendingList,
    pub(super) weights: PendingList,
    /// The time of the first sample, if it is known.
    pub(super) first_nanos: Option<i64>,
    int_sum: i64,
    float_sum: f64,
}

impl Stacks {
    /// Adds a sample. Returns `false` if its value cannot be a weight.
    pub(super) fn add(
        &mut self,
        frames: impl Iterator<Item = u32>,
        time_nanos: Option<i64>,
        value: &MetricValue,
    ) -> io::Result<bool> {
        match value {
            MetricValue::Int(value) if *value >= 0 => {
                self.int_sum = self.int_sum.saturating_add(*value);
                write!(self.weights.next()?, "{value}")?;
            }
            MetricValue::Float(value) if value.is_finite() && *value >= 0.0 => {
                self.float_sum += value;
                write!(self.weights.next()?, "{value:?}")?;
            }
            _ => return Ok(false),
        }
        self.first_nanos = self.first_nanos.or(time_nanos);
        let out = self.samples.next()?;
        out.write_all(b"[")?;
        for (depth, frame) in frames.enumerate() {
            write!(out, "{}{frame}", if depth == 0 { "" } else { "," })?;
        }
        out.write_all(b"]")?;
        Ok(true)
    }

    /// Returns `start` plus all weights, as JSON.
    pub(super) fn end_value(&self, start: i64) -> String {
        let int_sum = start.saturating_add(self.int_sum);
        if self.float_sum == 0.0 {
            return int_sum.to_string();
        }
        format!("{:?}", (int_sum as f64 + self.float_sum).min(f64::MAX))
    }
}
