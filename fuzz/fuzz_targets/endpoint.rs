//! Any bytes, read as a request and as an answer of a recording process.

#![no_main]

use marey_model::endpoint::{Request, format_answer, parse_answer};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = Request::parse(bytes) {
        assert_eq!(Request::parse(request.to_line().as_bytes()), Ok(request));
    }
    if let Some(answer) = std::str::from_utf8(bytes).ok().and_then(parse_answer) {
        assert_eq!(parse_answer(&format_answer(&answer)), Some(answer));
    }
});
