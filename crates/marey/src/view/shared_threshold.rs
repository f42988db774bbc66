//! A threshold on several profiles: a node is shown if it reaches the limit in any of them.
//!
//! If each profile was filtered separately, a node that is small in one of them would seem to be
//! missing there.

use std::path::Path;

use marey_query::graph::{Graph, Threshold};

use super::load::{LoadedProfile, cannot_filter, cannot_show};
use crate::output::Failure;

/// A limit on the first metric of several profiles.
pub(super) struct SharedThreshold<'a> {
    /// The file that errors name.
    file: &'a Path,
    /// Label of the metric.
    label: &'a str,
    limit: f64,
}

impl<'a> SharedThreshold<'a> {
    /// Creates a limit. A percentage refers to the largest total.
    pub(super) fn new(
        threshold: Threshold,
        profiles: &[&'a LoadedProfile<'a>],
    ) -> Result<Self, Failure> {
        let label = profiles[0].metrics.first().map_or("", |metric| &metric.label);
        let limit = threshold.limit(totals(profiles)?);
        Ok(Self { file: profiles[0].file, label, limit })
    }

    /// Filters `graph`. `labels` are those of the metric, one for each profile.
    pub(super) fn filter(&self, graph: &Graph, labels: &[String]) -> Result<Graph, Failure> {
        let filtered = graph.filter_any(labels, self.limit, self.label);
        filtered.map_err(|error| cannot_filter(self.file, &error))
    }
}

fn totals(profiles: &[&LoadedProfile<'_>]) -> Result<Vec<f64>, Failure> {
    let mut totals = Vec::new();
    for profile in profiles {
        let Some(metric) = profile.metrics.first() else { continue };
        let values = profile.graph.numbers(&metric.label);
        let values = values.map_err(|error| cannot_show(profile.file, &error))?;
        totals.push(profile.graph.total(&metric.label, &values));
    }
    Ok(totals)
}
