//! SQL over small runs: run in, query, rows out.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod answers;
mod errors;
mod functions;
mod imported;
mod information;
mod limits;
mod rules;
mod run;
mod views;
