//! Any bytes, read as PTX.

#![no_main]

#[path = "../../crates/marey-formats/tests/formats/ptx/holds.rs"]
mod holds;

libfuzzer_sys::fuzz_target!(|content: &[u8]| holds::holds_for(content));
