//! Any bytes as a `.hatchet` or `.hatchet_msgpack` file.

#![no_main]

#[path = "../../crates/marey-formats/tests/hatchet/round_trip.rs"]
mod round_trip;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| round_trip::check_any_file(bytes));
