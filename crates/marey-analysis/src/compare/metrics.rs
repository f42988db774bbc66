//! The numbers of two runs.

use crate::change::relative_percent;
use crate::measured::{Known, Measured};
use crate::metric::{Metric, Quantity, Summary};
use crate::stats::{Bootstrap, Interval};

use super::MIN_STEPS;

/// A number of both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Which.
    pub metric: Metric,
    /// What it was; `None` if the run does not say.
    pub before: Option<f64>,
    /// What it is.
    pub after: Option<f64>,
    /// By how much there is more of it, in the metric's unit.
    pub change: Option<f64>,
    /// The same in per cent of what was before; infinite from 0.
    pub change_percent: Option<f64>,
    /// Where the change lies in 95 of 100 cases, for a statistic of enough steps.
    pub interval: Option<Interval>,
    /// The same in per cent.
    pub interval_percent: Option<Interval>,
    /// Whether the change is more than chance.
    pub significance: Significance,
}

/// Whether a change is more than chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Significance {
    /// 0 is not in its interval.
    Yes,
    /// 0 is in its interval.
    No,
    /// There is no interval: the number is not one of steps, or there are too few.
    Unknown,
}

/// What is always told, known or not: what PRISM's comparison has, with statistics of steps.
const ALWAYS: [Metric; 7] = [
    Metric { quantity: Quantity::Steps, summary: Summary::Count },
    Metric { quantity: Quantity::TotalTime, summary: Summary::Total },
    Metric::mean(Quantity::StepTime),
    Metric::percentile(Quantity::StepTime, 50),
    Metric::percentile(Quantity::StepTime, 90),
    Metric { quantity: Quantity::GpuMemory, summary: Summary::Peak },
    Metric { quantity: Quantity::GpuMemory, summary: Summary::Growing },
];

pub(super) fn changes(before: &Measured, after: &Measured) -> Vec<Change> {
    let mut metrics = ALWAYS.to_vec();
    for side in [before, after] {
        let of_steps = side.series.iter().filter(|(_, steps)| !steps.is_empty());
        let means = of_steps.map(|&(quantity, _)| Metric::mean(quantity));
        let said = side.scalars.iter().filter(|(_, value)| value.is_some());
        metrics.extend(said.map(|&(metric, _)| metric).chain(means));
    }
    // In an order that does not depend on which side has what, but for what always comes first.
    metrics[ALWAYS.len()..].sort_by_key(|metric| (metric.quantity as usize, metric.to_string()));
    let mut seen = std::collections::HashSet::new();
    metrics.retain(|metric| seen.insert(*metric));
    metrics.into_iter().map(|metric| change(metric, before, after)).collect()
}

fn change(metric: Metric, before: &Measured, after: &Measured) -> Change {
    let (before, after) = (before.known(metric), after.known(metric));
    let (mut interval, mut interval_percent) = (None, None);
    if let (
        Some(Known { steps: Some((stat, before)), .. }),
        Some(Known { steps: Some((_, after)), .. }),
    ) = (&before, &after)
        && before.len().min(after.len()) >= stat.steps_needed(MIN_STEPS)
    {
        let resampled = Bootstrap::new(before, after).resampled(*stat);
        interval = resampled.interval(|before, after| after - before);
        interval_percent = resampled.interval(relative_percent);
    }
    let (before, after) = (before.map(|known| known.value), after.map(|known| known.value));
    let both = before.zip(after);
    Change {
        metric,
        before,
        after,
        change: both.map(|(before, after)| after - before),
        change_percent: both.map(|(before, after)| relative_percent(before, after)),
        interval,
        interval_percent,
        significance: match interval {
            None => Significance::Unknown,
            Some(interval) if interval.contains(0.0) => Significance::No,
            Some(_) => Significance::Yes,
        },
    }
}
