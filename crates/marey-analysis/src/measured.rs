//! A run as it is compared: plain numbers.

use crate::metric::{Metric, Quantity, Summary};
use crate::stats::Stat;

/// What was measured of a run. Times are nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// What the run is called.
    pub name: String,
    /// What each step took, in the order of the steps.
    pub step_nanos: Vec<f64>,
    /// Other quantities that are known of each step, in the same order.
    pub series: Vec<(Quantity, Vec<f64>)>,
    /// Numbers of the whole recording; `None` where the run does not say.
    pub scalars: Vec<(Metric, Option<f64>)>,
    /// Operators and what is inside them, siblings in the order of their first appearance.
    pub operations: Vec<Operation>,
    /// What ran on devices, by name.
    pub kernels: Vec<Kernel>,
}

/// A place in the calling-context tree. Numbers are per step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operation {
    /// The names from the outermost to this one's.
    pub path: Vec<String>,
    /// Operator, module, scope and the like.
    pub kind: String,
    /// How often it ran.
    pub count: f64,
    /// Time in it and in what is inside it.
    pub total_nanos: f64,
    /// Time in nothing but it.
    pub self_nanos: f64,
}

impl Operation {
    /// Its own name.
    pub fn name(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }
}

/// A kernel. Numbers are per step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kernel {
    /// Its name, as the trace has it.
    pub name: String,
    /// How often it ran.
    pub count: f64,
    /// Time that it took.
    pub total_nanos: f64,
}

/// What is known of a metric.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    pub(crate) value: f64,
    /// The steps that it is a statistic of.
    pub(crate) steps: Option<(Stat, Vec<f64>)>,
}

impl Measured {
    /// What is known of a metric: of the steps where there are any, otherwise of the whole recording.
    pub(crate) fn known(&self, metric: Metric) -> Option<Known> {
        if let Summary::OfSteps(stat) = metric.summary {
            let finite = |value: &f64| value.is_finite();
            let sample = self.sample(metric.quantity);
            let steps: Vec<f64> = sample.iter().copied().filter(finite).collect();
            if let Some(value) = stat.of(&steps) {
                return Some(Known { value, steps: Some((stat, steps)) });
            }
        }
        let value = self.scalars.iter().find(|(known, value)| *known == metric && value.is_some());
        let value = value.and_then(|(_, value)| *value).filter(|value| value.is_finite());
        let derived = || match metric.quantity {
            Quantity::Steps => Some(self.step_nanos.len() as f64),
            _ => None,
        };
        Some(Known { value: value.or_else(derived)?, steps: None })
    }

    fn sample(&self, quantity: Quantity) -> &[f64] {
        if quantity == Quantity::StepTime {
            return &self.step_nanos;
        }
        self.series.iter().find(|(known, _)| *known == quantity).map_or(&[], |(_, steps)| steps)
    }
}
