//! SQL over small runs: write a run, query it, compare the rows.

#![expect(clippy::unwrap_used, reason = "a panic fails the test at the right line")]

mod answers;
mod errors;
mod functions;
mod imported;
mod information;
mod limits;
mod planning;
mod rules;
mod run;
mod views;
