//! What may not become worse: the language of `--fail-on`.
//!
//! ```text
//! METRIC[.STATISTIC] > THRESHOLD        fails when there is more
//! METRIC[.STATISTIC] < THRESHOLD        fails when there is less
//! ```
//!
//! A threshold with a sign is a change from before to after; one without is the run's own number.
//!
//! | threshold | meaning | example |
//! |---|---|---|
//! | `+3%`, `-2%` | change in per cent of what was before | `step_time.p50>+3%`, `mfu<-2%` |
//! | `+2ms`, `+100MB`, `+5` | change in the metric's unit | `step_time.p99>+2ms` |
//! | `+5pp` | change of a share in percentage points | `gpu_idle.percent>+5pp` |
//! | `20ms`, `8GB`, `30`, `30%` | the number of the run after; shares with or without `%` | `gpu_idle.percent>30` |
//!
//! Times are in `ns`, `us`, `ms`, `s` or `min`, sizes in `B`, `kB`, `MB`, `GB`, `TB`, `KiB`, `MiB`,
//! `GiB` or `TiB`; counts have no unit. Without a statistic, `step_time` is the median, `gpu_memory` the
//! peak, `steps` the count, `total_time` the total, and the others are the mean of the steps.
//! `x>-5%` fails unless `x` fell by 5 % at least.

mod judge;
mod parse;
mod units;

use std::fmt;

use crate::metric::Metric;
use crate::stats::Interval;

pub use judge::{Judge, exit_code};
pub use parse::{ParseError, Problem};

/// A condition under which a run fails.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// As it was written.
    pub expression: String,
    /// Which number is judged.
    pub metric: Metric,
    /// On which side of the threshold it fails.
    pub direction: Direction,
    /// What it is held against.
    pub threshold: Threshold,
}

/// On which side of a threshold a number fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `>`
    Above,
    /// `<`
    Below,
}

/// What a number is held against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// A number of the run after, in the metric's unit.
    Value(f64),
    /// A change in the metric's unit.
    Change(f64),
    /// A change in per cent of what was before.
    Percent(f64),
}

impl Threshold {
    /// The number, whatever it counts.
    pub const fn number(self) -> f64 {
        let (Self::Value(number) | Self::Change(number) | Self::Percent(number)) = self;
        number
    }
}

/// What became of a condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The condition, as it was written.
    pub expression: String,
    /// Which number was judged.
    pub metric: Metric,
    /// What it was before, if that is known.
    pub before: Option<f64>,
    /// What it is after.
    pub after: Option<f64>,
    /// What was held against the threshold, as [`Threshold`] says: the number, its change or its change
    /// in per cent.
    pub change: Option<f64>,
    /// Where that lies in 95 of 100 cases; `None` for what is no statistic of steps.
    pub interval: Option<Interval>,
    /// The threshold.
    pub threshold: Threshold,
    /// What follows.
    pub outcome: Outcome,
    /// Why, in a sentence.
    pub why: String,
}

/// Whether a run may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The number is not beyond the threshold.
    Pass,
    /// It is, and its whole interval is.
    Regression,
    /// It cannot be told.
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
