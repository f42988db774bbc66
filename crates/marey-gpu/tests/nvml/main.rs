//! Tests of NVML with the double: recorded counters, rejected queries and losses.
//!
//! Each test runs in its own process, with the double as NVML ([`harness::in_own_process`]).

#![expect(clippy::disallowed_methods, reason = "no other thread sets variables in these tests")]
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]
#![expect(clippy::float_cmp, reason = "values are passed through unchanged")]

#[path = "../support/double.rs"]
mod double;
mod harness;
#[path = "../support/own_process.rs"]
mod own_process;
mod script;
mod visible;

mod availability;
mod counters;
mod lifetime;
mod refusals;
