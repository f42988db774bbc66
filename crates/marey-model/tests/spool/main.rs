//! Tests of the spool: training, torn, damaged, hostile and random files.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod hostile;
mod ring;
mod ring_contents;
mod round_trip;
mod torn;
mod training;
mod write;
