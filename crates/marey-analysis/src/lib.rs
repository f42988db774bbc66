//! What a run means: findings, reports, comparisons and gates.
//!
//! [`findings`] asks [`rules`] what is wrong, [`Report`] gathers all that there is to say, and the
//! tables of a report are [`section`]s. [`compare()`] sets two [`Measured`] runs side by side, *before* and
//! *after*, and a [`gate::Gate`] judges the pair. Rules and sections are queries over the views of a run, so
//! whoever doubts a number can ask for it alone.
//!
//! **Constraints.** This crate asks a [`Database`](marey_query::sql::Database) and computes with its
//! answers. It opens no file, prints nothing, knows neither `DataFusion` nor Python nor a command line,
//! and forbids unsafe code. Numbers have their unit at the end of their name; times are in nanoseconds.
//!
//! Start reading at [`rule`], then [`finding`] and [`report`].

#![forbid(unsafe_code)]
#![cfg_attr(test, expect(clippy::float_cmp, reason = "numbers are taken over as they are"))]

pub use ask::{Cell, Questions, Rows};
pub use compare::{Comparison, compare};
pub use finding::{Confidence, Finding, Severity, Shown, findings};
pub use measured::Measured;
pub use overlap::Overlap;
pub use report::{Options, Report};
pub use rule::{Rule, Threshold, ThresholdError, Thresholds};

mod ask;
mod change;
mod charts;
pub mod compare;
pub mod finding;
pub mod gate;
mod measure;
pub mod measured;
pub mod metric;
mod overlap;
mod record;
pub mod render;
pub mod report;
pub mod rule;
pub mod rules;
pub mod section;
pub mod stats;
pub mod table;
pub mod tables;
