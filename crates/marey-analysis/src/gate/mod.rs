//! Conditions under which `marey check` fails a run, written in the language of `--fail-on`.
//!
//! ```text
//! METRIC[.STATISTIC] > THRESHOLD        fails if the number is above the threshold
//! METRIC[.STATISTIC] < THRESHOLD        fails if the number is below the threshold
//! ```
//!
//! A threshold with a sign is a change from before to after. A threshold without a sign is a value
//! of the run after.
//!
//! | threshold | meaning | example |
//! |---|---|---|
//! | `+3%`, `-2%` | change in per cent of the value before | `step_time.p50>+3%`, `mfu<-2%` |
//! | `+2ms`, `+100MB`, `+5` | change in the metric's unit | `step_time.p99>+2ms` |
//! | `+5pp` | change of a share in percentage points | `gpu_idle.percent>+5pp` |
//! | `20ms`, `8GB`, `30`, `30%` | value of the run after; shares with or without `%` | `gpu_idle.percent>30` |
//!
//! Times are in `ns`, `us`, `ms`, `s` or `min`, sizes in `B`, `kB`, `MB`, `GB`, `TB`, `KiB`, `MiB`,
//! `GiB` or `TiB`. Counts have no unit. Without a statistic, `step_time` is the median,
//! `gpu_memory` the peak, `steps` the count, `total_time` the total, and every other metric the
//! mean over the steps. `x>-5%` fails unless `x` fell by at least 5 %.

mod judge;
mod parse;
mod units;

use std::fmt;

use crate::metric::Metric;
use crate::stats::Interval;

pub use judge::{Judge, exit_code};
pub use parse::{ParseError, ParseProblem};

/// A condition under which a run fails.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// The condition as written.
    pub expression: String,
    /// The metric that is judged.
    pub metric: Metric,
    /// The side of the threshold on which the condition fails.
    pub direction: Direction,
    /// The threshold.
    pub threshold: Threshold,
}

/// The side of a threshold on which a number fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `>`
    Above,
    /// `<`
    Below,
}

/// The threshold of a condition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// A value of the run after, in the metric's unit.
    Value(f64),
    /// A change in the metric's unit.
    Change(f64),
    /// A change in per cent of the value before.
    Percent(f64),
}

impl Threshold {
    /// Returns the number alone, without what it stands for.
    pub const fn number(self) -> f64 {
        let (Self::Value(number) | Self::Change(number) | Self::Percent(number)) = self;
        number
    }
}

/// The result of a condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The condition as written.
    pub expression: String,
    /// The metric that was judged.
    pub metric: Metric,
    /// The value before, if known.
    pub before: Option<f64>,
    /// The value after, if known.
    pub after: Option<f64>,
    /// The number that was compared with the threshold. The kind of [`Threshold`] decides whether
    /// it is the value after, the change, or the change in per cent.
    pub change: Option<f64>,
    /// The 95 % confidence interval of that number. `None` if it is not a statistic over steps.
    pub interval: Option<Interval>,
    /// The threshold.
    pub threshold: Threshold,
    /// The result.
    pub outcome: Outcome,
    /// The reason, as a sentence.
    pub why: String,
}

/// Whether a run passes a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The number is not beyond the threshold.
    Pass,
    /// The number and its whole interval are beyond the threshold.
    Regression,
    /// The data does not allow a verdict.
    Inconclusive,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "pass",
            Self::Regression => "regression",
            Self::Inconclusive => "inconclusive",
        })
    }
}
