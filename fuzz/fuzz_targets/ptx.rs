//! Any bytes, read as PTX.

#![no_main]

#[path = "../../crates/marey-formats/tests/formats/ptx/any_file.rs"]
mod any_file;

libfuzzer_sys::fuzz_target!(|content: &[u8]| any_file::check_any_file(content));
