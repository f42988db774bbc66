//! What a run means: findings, reports, comparisons and gates.
//!
//! [`findings`] asks [`rules`] what is wrong, [`Report`] gathers all that there is to say, and the
//! tables of a report are [`section`]s. Rules and sections are queries over the views of a run, so
//! whoever doubts a number can ask for it alone.
//!
//! **Constraints.** This crate asks a [`Database`](marey_query::sql::Database) and computes with its
//! answers. It opens no file, prints nothing, knows neither `DataFusion` nor Python nor a command line,
//! and forbids unsafe code. Numbers have their unit at the end of their name; times are in nanoseconds.
//!
//! Start reading at [`rule`], then [`finding`] and [`report`].

#![forbid(unsafe_code)]

pub use ask::{Cell, Questions, Rows};
pub use finding::{Confidence, Finding, Quantity, Severity, findings};
pub use report::{Options, Report};
pub use rule::{Rule, Threshold, ThresholdError, Thresholds};

mod ask;
mod charts;
pub mod finding;
pub mod report;
pub mod rule;
pub mod rules;
pub mod section;
pub mod table;
