//! CUPTI, played by the double: who else records, and which calls are kept.
//!
//! Each test runs in a process of its own, which has the double for the driver and for libcupti
//! ([`harness::alone`]).

#![expect(clippy::disallowed_methods, reason = "nobody sets a variable in a test")]
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod harness;
mod other_tool;

mod calls;
mod devices;
mod ends;
mod multi_subscriber;
