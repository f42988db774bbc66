//! Compares the metrics of two runs: the change of each, its confidence interval, and whether it is
//! significant.

use crate::change::relative_percent;
use crate::metric::{Metric, Quantity, Summary};
use crate::run_measurements::{Measurement, RunMeasurements};
use crate::stats::{Bootstrap, Interval};

use super::MIN_STEPS;

/// A metric of both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricChange {
    /// The metric.
    pub metric: Metric,
    /// The value before, or `None` if the run has no data for the metric.
    pub before: Option<f64>,
    /// The value after.
    pub after: Option<f64>,
    /// The difference, in the metric's unit.
    pub change: Option<f64>,
    /// The difference in per cent of the value before. Infinite if that is 0.
    pub change_percent: Option<f64>,
    /// The 95 % confidence interval of the change, if the metric is a statistic over enough steps.
    pub interval: Option<Interval>,
    /// The 95 % confidence interval of the change in per cent.
    pub interval_percent: Option<Interval>,
    /// Whether the change is statistically significant.
    pub significance: Significance,
}

/// Whether a change is statistically significant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Significance {
    /// The interval does not contain 0.
    Yes,
    /// The interval contains 0.
    No,
    /// There is no interval, because the metric is not a statistic over steps, or there are too few
    /// steps.
    Unknown,
}

/// Metrics that are listed even if no run has them: those of PRISM's comparison, with statistics
/// over steps.
const ALWAYS_LISTED: [Metric; 7] = [
    Metric { quantity: Quantity::Steps, summary: Summary::Count },
    Metric { quantity: Quantity::TotalTime, summary: Summary::Total },
    Metric::mean(Quantity::StepTime),
    Metric::percentile(Quantity::StepTime, 50),
    Metric::percentile(Quantity::StepTime, 90),
    Metric { quantity: Quantity::GpuMemory, summary: Summary::Peak },
    Metric { quantity: Quantity::GpuMemory, summary: Summary::Growing },
];

pub(super) fn metric_changes(
    before: &RunMeasurements,
    after: &RunMeasurements,
) -> Vec<MetricChange> {
    let mut metrics = ALWAYS_LISTED.to_vec();
    for side in [before, after] {
        let with_steps = side.series.iter().filter(|(_, steps)| !steps.is_empty());
        let means = with_steps.map(|&(quantity, _)| Metric::mean(quantity));
        let scalars = side.scalars.iter().filter(|(_, value)| value.is_some());
        metrics.extend(scalars.map(|&(metric, _)| metric).chain(means));
    }
    // The order of the metrics after the fixed ones must not depend on which side has which metric.
    metrics[ALWAYS_LISTED.len()..]
        .sort_by_key(|metric| (metric.quantity as usize, metric.to_string()));
    let mut seen_metrics = std::collections::HashSet::new();
    metrics.retain(|metric| seen_metrics.insert(*metric));
    metrics.into_iter().map(|metric| metric_change(metric, before, after)).collect()
}

fn metric_change(
    metric: Metric,
    before: &RunMeasurements,
    after: &RunMeasurements,
) -> MetricChange {
    let (before, after) = (before.measurement(metric), after.measurement(metric));
    let (mut interval, mut interval_percent) = (None, None);
    if let (
        Some(Measurement { steps: Some((stat, before)), .. }),
        Some(Measurement { steps: Some((_, after)), .. }),
    ) = (&before, &after)
        && before.len().min(after.len()) >= stat.steps_needed(MIN_STEPS)
    {
        let bootstrap_resamples = Bootstrap::new(before, after).resample(*stat);
        interval = bootstrap_resamples.interval(|before, after| after - before);
        interval_percent = bootstrap_resamples.interval(relative_percent);
    }
    let (before, after) =
        (before.map(|measurement| measurement.value), after.map(|measurement| measurement.value));
    let values = before.zip(after);
    MetricChange {
        metric,
        before,
        after,
        change: values.map(|(before, after)| after - before),
        change_percent: values.map(|(before, after)| relative_percent(before, after)),
        interval,
        interval_percent,
        significance: match interval {
            None => Significance::Unknown,
            Some(interval) if interval.contains(0.0) => Significance::No,
            Some(_) => Significance::Yes,
        },
    }
}
