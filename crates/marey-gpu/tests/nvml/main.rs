//! NVML, read from the double: what reaches the spool, and what is left out and counted.
//!
//! Each test runs in a process of its own, which has the double for NVML ([`harness::alone`]).

#![expect(clippy::disallowed_methods, reason = "nobody sets a variable in a test")]
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]
#![expect(clippy::float_cmp, reason = "values come through as they are")]

mod harness;
mod script;
mod visible;

mod availability;
mod counters;
mod lifetime;
mod refusals;
