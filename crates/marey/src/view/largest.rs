//! Thresholds over several profiles: a node is shown that reaches the limit in one of them.
//!
//! Where each profile was filtered on its own, a node that is small in one of them would look as if
//! it were missing there.

use std::path::Path;

use marey_query::graph::{Graph, Threshold};

use super::load::{Loaded, cannot_filter, cannot_show};
use crate::output::Failure;

/// A limit on the first metric of several profiles.
pub(super) struct Largest<'a> {
    /// Whom an error names.
    file: &'a Path,
    /// The metric.
    label: &'a str,
    limit: f64,
}

impl<'a> Largest<'a> {
    /// A percentage is one of the largest whole.
    pub(super) fn new(threshold: Threshold, sides: &[&'a Loaded<'a>]) -> Result<Self, Failure> {
        let label = sides[0].metrics.first().map_or("", |metric| &metric.label);
        let limit = threshold.limit(wholes(sides)?);
        Ok(Self { file: sides[0].file, label, limit })
    }

    /// What is left of `graph`, in which the metric of each profile has one of these labels.
    pub(super) fn narrow(&self, graph: &Graph, labels: &[String]) -> Result<Graph, Failure> {
        let left = graph.filter_any(labels, self.limit, self.label);
        left.map_err(|error| cannot_filter(self.file, &error))
    }
}

fn wholes(sides: &[&Loaded<'_>]) -> Result<Vec<f64>, Failure> {
    let mut wholes = Vec::new();
    for side in sides {
        let Some(metric) = side.metrics.first() else { continue };
        let values = side.graph.numbers(&metric.label);
        let values = values.map_err(|error| cannot_show(side.file, &error))?;
        wholes.push(side.graph.whole(&metric.label, &values));
    }
    Ok(wholes)
}
