//! `.hatchet` files of both formats: golden ones, hostile ones, random ones.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod hostile;
mod profiles;
mod read;
mod round_trip;
mod write;
