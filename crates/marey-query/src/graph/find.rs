//! Resolves the names of metrics that users write: in any case, with or without a unit, as short
//! names such as `total`, or in the spelling of Proton's documentation.

use marey_model::wall;
use thiserror::Error;

use super::column::{INCLUSIVE, inclusive_label};
use super::{Graph, derive};
use crate::near;

/// The reason why a metric cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MetricError {
    /// No metric has this name. The message is Proton's, because its users match on it.
    #[error("Metric {metric} is not found. Use the --list flag to list available metrics")]
    Unknown {
        /// The metric.
        metric: String,
        /// The metric that the user requested, if it would be derived from the unknown one.
        needed_by: Option<String>,
        /// Similar names.
        nearest: Vec<String>,
        /// All names.
        available: Vec<String>,
    },
    /// The metric cannot be shown in this unit.
    #[error("Unsupported unit {unit} of metric {metric}")]
    Unit {
        /// The metric.
        metric: String,
        /// The unit.
        unit: String,
    },
    /// The metric has texts or lists as values.
    #[error("Metric {metric} is not a number")]
    NotANumber {
        /// The metric.
        metric: String,
    },
}

/// Short names of marey's metrics, and of the closest metrics of Proton's files. The first key that
/// the profile has is used.
const SHORT_NAMES: [ShortName; 11] = [
    ShortName { name: "total", keys: &[wall::TOTAL, "time"], is_exclusive: false },
    ShortName { name: "self", keys: &[wall::SELF, "time"], is_exclusive: true },
    ShortName { name: "calls", keys: &[wall::COUNT, "count"], is_exclusive: false },
    ShortName { name: "count", keys: &[wall::COUNT], is_exclusive: false },
    ShortName { name: "min", keys: &[wall::MIN], is_exclusive: false },
    ShortName { name: "max", keys: &[wall::MAX], is_exclusive: false },
    ShortName { name: "p50", keys: &[wall::P50], is_exclusive: false },
    ShortName { name: "median", keys: &[wall::P50], is_exclusive: false },
    ShortName { name: "p90", keys: &[wall::P90], is_exclusive: false },
    ShortName { name: "p99", keys: &[wall::P99], is_exclusive: false },
    ShortName { name: "open", keys: &[wall::OPEN], is_exclusive: false },
];

struct ShortName {
    name: &'static str,
    keys: &'static [&'static str],
    /// Whether the name selects the exclusive value even if the metric is summed into parents.
    is_exclusive: bool,
}

/// Names in Proton's documentation that differ from the names in its files, which come second.
const DOCUMENTED_NAMES: [(&str, &str); 1] =
    [("stalled_memory_dependency", "stalled_long_scoreboard")];

/// A metric of the profile.
pub(super) struct FoundMetric {
    /// The label of its column.
    pub(super) label: String,
    /// Its name in the profile.
    pub(super) key: String,
    /// Whether the column contains sums over subtrees.
    pub(super) is_inclusive: bool,
    /// Whether the user wrote one of marey's short names rather than the metric's own name.
    pub(super) is_short_name: bool,
}

impl Graph {
    /// Returns the metric with this name. Case is ignored, and the unit may be omitted. A metric
    /// that is summed into parents takes precedence. `StalledWait` is another spelling of
    /// `stalled_wait`.
    pub(super) fn find(&self, name: &str) -> Option<FoundMetric> {
        self.find_exact(name)
            .or_else(|| self.find_by_short_name(name))
            .or_else(|| self.find_ignoring_underscores(name))
    }

    /// Returns the label of the column for a name. It is the name itself if a column has this
    /// label, else the metric that [`Graph::derive`] finds, else the column that was derived under
    /// this name.
    ///
    /// # Errors
    /// [`MetricError::Unknown`] if there is no such column.
    pub fn label_of(&self, name: &str) -> Result<String, MetricError> {
        let labels = self.labels();
        let has_label = |label: &str| labels.iter().any(|other_label| **other_label == *label);
        let derived_label = || Some(format!("{name}{INCLUSIVE}")).filter(|label| has_label(label));
        if has_label(name) {
            return Ok(name.to_owned());
        }
        let found_label =
            self.find(name).map(|metric| metric.label).filter(|label| has_label(label));
        found_label.or_else(derived_label).ok_or_else(|| self.unknown_metric(name))
    }

    pub(super) fn find_exact(&self, name: &str) -> Option<FoundMetric> {
        let name = name.to_lowercase();
        self.find_key(|key| {
            let key = key.to_lowercase();
            key == name || without_unit(&key) == name
        })
    }

    fn find_by_short_name(&self, name: &str) -> Option<FoundMetric> {
        let short_name =
            SHORT_NAMES.iter().find(|short_name| short_name.name == name.to_lowercase())?;
        let metric = short_name.keys.iter().find_map(|key| self.find_exact(key))?;
        if short_name.is_exclusive && metric.is_inclusive {
            let label = metric.key.clone();
            return Some(FoundMetric { label, is_inclusive: false, is_short_name: true, ..metric });
        }
        Some(FoundMetric { is_short_name: true, ..metric })
    }

    fn find_ignoring_underscores(&self, name: &str) -> Option<FoundMetric> {
        let wanted_name = without_underscores(name);
        let documented = DOCUMENTED_NAMES
            .iter()
            .find(|(documented, _)| without_underscores(documented) == wanted_name);
        let wanted_name =
            documented.map_or(wanted_name, |(_, name_in_files)| without_underscores(name_in_files));
        self.find_key(|key| without_underscores(without_unit(key)) == wanted_name)
    }

    fn find_key(&self, is_named: impl Fn(&str) -> bool) -> Option<FoundMetric> {
        let find_metric = |wants_inclusive| {
            self.metrics
                .iter()
                .find(|entry| entry.is_inclusive == wants_inclusive && is_named(&entry.metric.key))
        };
        let entry = find_metric(true).or_else(|| find_metric(false))?;
        let key = entry.metric.key.to_string();
        let label =
            if entry.is_inclusive { inclusive_label(entry).to_string() } else { key.clone() };
        Some(FoundMetric { label, key, is_inclusive: entry.is_inclusive, is_short_name: false })
    }

    pub(super) fn unknown_metric(&self, metric: &str) -> MetricError {
        let available = self.available_metrics();
        if metric == "time" && self.find_exact(wall::TOTAL).is_some() {
            // A profile of the host has no kernel times, so its wall times are suggested.
            let nearest = vec!["total".into(), "self".into()];
            return MetricError::Unknown {
                metric: metric.into(),
                needed_by: None,
                nearest,
                available,
            };
        }
        let nearest = near::nearest(metric, &available);
        MetricError::Unknown { metric: metric.into(), needed_by: None, nearest, available }
    }

    /// Returns the names that can be requested: metrics without their units, short names, and
    /// derived metrics.
    pub fn available_metrics(&self) -> Vec<String> {
        let keys = self.metrics.iter().map(|entry| without_unit(&entry.metric.key).to_lowercase());
        let short_names =
            SHORT_NAMES.iter().filter(|short_name| self.find(short_name.name).is_some());
        let derived = derive::documented_names().filter(|name| self.can_derive(name));
        let mut seen_names = std::collections::HashSet::new();
        keys.chain(short_names.map(|short_name| short_name.name.to_owned()))
            .chain(derived)
            .filter(|name| seen_names.insert(name.clone()))
            .collect()
    }
}

/// The short name of one of marey's metrics.
pub fn short_name(key: &str) -> Option<&'static str> {
    SHORT_NAMES
        .iter()
        .find(|short_name| short_name.keys[0] == key)
        .map(|short_name| short_name.name)
}

/// A name in lower case without underscores.
fn without_underscores(name: &str) -> String {
    name.chars().filter(|&letter| letter != '_').flat_map(char::to_lowercase).collect()
}

/// The name of a metric without its unit in parentheses.
pub fn without_unit(key: &str) -> &str {
    key.split('(').next().map_or(key, str::trim)
}
