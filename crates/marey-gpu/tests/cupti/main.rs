//! Tests of CUPTI with the double: other subscribers, recorded calls, the join of records
//! with calls, devices, exit.
//!
//! Each test runs in its own process, with the double as driver and libcupti
//! ([`harness::in_own_process`]).

#![expect(clippy::disallowed_methods, reason = "no other thread sets variables in these tests")]
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

#[path = "../support/double.rs"]
mod double;
mod harness;
mod other_tool;
#[path = "../support/own_process.rs"]
mod own_process;

mod calls;
mod devices;
mod ends;
mod joins;
mod multi_subscriber;
mod pauses;
