//! Samples of a profile to be written: stacks, and what they weigh.

use std::io::{self, Write};

use marey_model::metric::MetricValue;

use super::lane::Waiting;

/// The stacks and weights of a sampled profile.
#[derive(Default)]
pub(super) struct Stacks {
    pub(super) samples: Waiting,
    pub(super) weights: Waiting,
    /// When the first was taken, if that is known.
    pub(super) first_nanos: Option<i64>,
    whole: i64,
    real: f64,
}

impl Stacks {
    /// Adds a sample; whether its value can be a weight.
    pub(super) fn add(
        &mut self,
        frames: impl Iterator<Item = u32>,
        time_nanos: Option<i64>,
        value: &MetricValue,
    ) -> io::Result<bool> {
        match value {
            MetricValue::Int(value) if *value >= 0 => {
                self.whole = self.whole.saturating_add(*value);
                write!(self.weights.next()?, "{value}")?;
            }
            MetricValue::Float(value) if value.is_finite() && *value >= 0.0 => {
                self.real += value;
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

    /// All weights together, behind a start, as JSON.
    pub(super) fn end(&self, start: i64) -> String {
        let whole = start.saturating_add(self.whole);
        if self.real == 0.0 {
            return whole.to_string();
        }
        format!("{:?}", (whole as f64 + self.real).min(f64::MAX))
    }
}
