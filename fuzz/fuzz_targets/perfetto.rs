//! Any bytes, read as a Perfetto trace.

#![no_main]

use libfuzzer_sys::fuzz_target;
use marey_formats::{Format, fuzz_import};

fuzz_target!(|content: &[u8]| fuzz_import(Format::Perfetto, content));
