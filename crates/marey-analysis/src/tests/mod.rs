//! Tests of what is computed from a run: questions, findings and measurements.

mod findings;
mod measured;
mod questions;
pub(crate) mod sample_run;
