//! Any bytes as a spool.

#![no_main]

#[path = "../../crates/marey-model/tests/spool/round_trip.rs"]
mod round_trip;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| round_trip::check_any_file(bytes));
