//! Spools: of a training process, torn ones, damaged ones, hostile ones, random ones.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod hostile;
mod round_trip;
mod torn;
mod training;
mod write;
