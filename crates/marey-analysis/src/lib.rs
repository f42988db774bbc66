//! Analyses of runs for `marey analyze`, `compare` and `check`: findings, reports, comparisons and
//! gates.
//!
//! [`findings`] evaluates the [`rules`]. [`Report`] adds a summary, charts and [`section`]s.
//! [`compare()`] compares the [`RunMeasurements`] of two runs, *before* and *after*, and a
//! [`gate::Gate`] judges the pair. Rules and sections are queries over the views of a run, so
//! readers can reproduce each number by running its query.
//!
//! **Constraints.** This crate queries a [`Database`](marey_query::sql::Database) and computes with
//! the answers. It opens no file, prints nothing, does not depend on `DataFusion`, Python or a
//! command line, and forbids unsafe code. Names of numbers end in their unit; times are in
//! nanoseconds.
//!
//! Start reading at [`rule`], then [`finding`] and [`report`].

#![forbid(unsafe_code)]
#![cfg_attr(test, expect(clippy::float_cmp, reason = "expected values are exact"))]

pub use ask::{Cell, Questions, Rows};
pub use compare::{Comparison, compare};
pub use finding::{Confidence, Finding, FormattedCell, Severity, findings};
pub use overlap::Overlap;
pub use report::{Report, ReportOptions};
pub use rule::{Rule, RuleThreshold, ThresholdError, Thresholds};
pub use run_measurements::RunMeasurements;

mod ask;
mod change;
mod charts;
pub mod compare;
pub mod finding;
pub mod gate;
mod measure;
pub mod metric;
mod overlap;
mod record;
pub mod render;
pub mod report;
pub mod rule;
pub mod rules;
pub mod run_measurements;
pub mod section;
pub mod stats;
pub mod table;
pub mod tables;
#[cfg(test)]
mod tests;
