//! Golden, hostile and random `.hatchet` files in both encodings.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod hostile;
mod profiles;
mod read;
mod round_trip;
mod write;
