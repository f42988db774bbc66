//! [`RunMeasurements`], the measurements of a run as plain numbers. Comparisons and gates take two
//! of them.

use crate::metric::{Metric, Quantity, Summary};
use crate::stats::Stat;

/// The measurements of a run. Times are nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunMeasurements {
    /// The name of the run, as the user gave it.
    pub name: String,
    /// The duration of each step, in the order of the steps.
    pub step_nanos: Vec<f64>,
    /// Other quantities that have a value for each step, in the same order.
    pub series: Vec<(Quantity, Vec<f64>)>,
    /// Numbers of the whole recording. `None` if the run has no data for them.
    pub scalars: Vec<(Metric, Option<f64>)>,
    /// Nodes of the calling-context tree, siblings in the order of their first appearance.
    pub operations: Vec<Operation>,
    /// Device activities, summed by name.
    pub kernels: Vec<Kernel>,
}

/// A node of the calling-context tree. Numbers are per step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operation {
    /// The names from the outermost ancestor to the node itself.
    pub path: Vec<String>,
    /// The kind of the node: operator, module, scope and so on.
    pub kind: String,
    /// The number of calls.
    pub count: f64,
    /// Inclusive time.
    pub total_nanos: f64,
    /// Exclusive time.
    pub self_nanos: f64,
}

impl Operation {
    /// The last name of the path.
    pub fn name(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }
}

/// A kernel. Numbers are per step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kernel {
    /// The name, as in the trace.
    pub name: String,
    /// The number of executions.
    pub count: f64,
    /// The sum of the durations.
    pub total_nanos: f64,
}

/// The value of a metric in a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measurement {
    pub(crate) value: f64,
    /// The statistic and its sample, if the value is a statistic over steps.
    pub(crate) steps: Option<(Stat, Vec<f64>)>,
}

impl RunMeasurements {
    /// Returns the value of a metric: a statistic over the steps if there are any, otherwise the
    /// value over the whole recording.
    pub(crate) fn measurement(&self, metric: Metric) -> Option<Measurement> {
        if let Summary::OfSteps(stat) = metric.summary {
            let is_finite = |value: &f64| value.is_finite();
            let sample = self.sample(metric.quantity);
            let steps: Vec<f64> = sample.iter().copied().filter(is_finite).collect();
            if let Some(value) = stat.compute(&steps) {
                return Some(Measurement { value, steps: Some((stat, steps)) });
            }
        }
        let value = self.scalars.iter().find(|(other, value)| *other == metric && value.is_some());
        let value = value.and_then(|(_, value)| *value).filter(|value| value.is_finite());
        let derived_value = || match metric.quantity {
            Quantity::Steps => Some(self.step_nanos.len() as f64),
            _ => None,
        };
        Some(Measurement { value: value.or_else(derived_value)?, steps: None })
    }

    fn sample(&self, quantity: Quantity) -> &[f64] {
        if quantity == Quantity::StepTime {
            return &self.step_nanos;
        }
        self.series.iter().find(|(other, _)| *other == quantity).map_or(&[], |(_, steps)| steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(run: &RunMeasurements, metric: Metric) -> Option<f64> {
        run.measurement(metric).map(|measurement| measurement.value)
    }

    #[test]
    fn a_statistic_over_steps_ignores_steps_without_a_number() {
        let run = RunMeasurements {
            step_nanos: vec![1.0, f64::NAN, 3.0],
            series: vec![(Quantity::GpuIdle, vec![5.0]), (Quantity::GpuBusy, vec![7.0, 9.0])],
            ..RunMeasurements::default()
        };
        let steps = run.measurement(Metric::mean(Quantity::StepTime)).unwrap();
        assert_eq!(steps, Measurement { value: 2.0, steps: Some((Stat::Mean, vec![1.0, 3.0])) });
        assert_eq!(value(&run, Metric::mean(Quantity::GpuBusy)), Some(8.0));
        assert_eq!(value(&run, Metric::mean(Quantity::GpuCopies)), None);
        assert_eq!(value(&run, Quantity::Steps.default_metric()), Some(3.0));
    }

    #[test]
    fn a_number_of_the_recording_replaces_a_statistic_without_steps() {
        let idle = Metric::mean(Quantity::GpuIdle);
        let run = RunMeasurements {
            scalars: vec![
                (Metric::percent(Quantity::GpuIdle), Some(1.0)),
                (idle, None),
                (idle, Some(4.0)),
                (Metric::percent(Quantity::GpuBusy), Some(f64::INFINITY)),
            ],
            ..RunMeasurements::default()
        };
        assert_eq!(run.measurement(idle), Some(Measurement { value: 4.0, steps: None }));
        assert_eq!(value(&run, Metric::percent(Quantity::GpuBusy)), None);
    }

    #[test]
    fn an_operation_is_named_after_the_end_of_its_path() {
        let operation = Operation { path: vec!["a".into(), "b".into()], ..Operation::default() };
        assert_eq!((operation.name(), Operation::default().name()), ("b", ""));
    }
}
