//! Resolves the names that users write to metrics.

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
        /// The requested metric that would be derived from it, if it was not requested itself.
        wanted_for: Option<String>,
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

/// Short names for marey's metrics, and for the closest metrics of Proton's files.
const WORDS: [Word; 11] = [
    Word { name: "total", meanings: &[wall::TOTAL, "time"], is_own: false },
    Word { name: "self", meanings: &[wall::SELF, "time"], is_own: true },
    Word { name: "calls", meanings: &[wall::COUNT, "count"], is_own: false },
    Word { name: "count", meanings: &[wall::COUNT], is_own: false },
    Word { name: "min", meanings: &[wall::MIN], is_own: false },
    Word { name: "max", meanings: &[wall::MAX], is_own: false },
    Word { name: "p50", meanings: &[wall::P50], is_own: false },
    Word { name: "median", meanings: &[wall::P50], is_own: false },
    Word { name: "p90", meanings: &[wall::P90], is_own: false },
    Word { name: "p99", meanings: &[wall::P99], is_own: false },
    Word { name: "open", meanings: &[wall::OPEN], is_own: false },
];

struct Word {
    name: &'static str,
    meanings: &'static [&'static str],
    /// Whether the word means a node's own value even of a metric that is summed into parents.
    is_own: bool,
}

/// Names in Proton's documentation, with the names in its files.
const DOCUMENTED: [(&str, &str); 1] = [("stalled_memory_dependency", "stalled_long_scoreboard")];

/// A metric of the profile.
pub(super) struct Found {
    /// The label of its column.
    pub(super) label: String,
    /// Its name in the profile.
    pub(super) key: String,
    /// Whether the column contains sums over subtrees.
    pub(super) is_inclusive: bool,
    /// Whether it was found by one of marey's short names rather than by its own name.
    pub(super) is_word: bool,
}

impl Graph {
    /// The metric with this name. Case is ignored and the unit may be omitted; metrics that are
    /// summed into parents take precedence. `StalledWait` is another spelling of `stalled_wait`.
    pub(super) fn find(&self, name: &str) -> Option<Found> {
        self.find_exact(name).or_else(|| self.find_word(name)).or_else(|| self.find_squeezed(name))
    }

    /// The label of the column for a name: a column with this label, else the metric that
    /// [`Graph::derive`] finds, else the column derived under this name.
    ///
    /// # Errors
    /// [`MetricError::Unknown`] if there is no such column.
    pub fn label_of(&self, name: &str) -> Result<String, MetricError> {
        let labels = self.labels();
        let has = |label: &str| labels.iter().any(|known| **known == *label);
        let derived = || Some(format!("{name}{INCLUSIVE}")).filter(|label| has(label));
        if has(name) {
            return Ok(name.to_owned());
        }
        let found = self.find(name).map(|found| found.label).filter(|label| has(label));
        found.or_else(derived).ok_or_else(|| self.unknown(name))
    }

    pub(super) fn find_exact(&self, name: &str) -> Option<Found> {
        let name = name.to_lowercase();
        self.find_key(|key| {
            let key = key.to_lowercase();
            key == name || without_unit(&key) == name
        })
    }

    fn find_word(&self, name: &str) -> Option<Found> {
        let word = WORDS.iter().find(|known| known.name == name.to_lowercase())?;
        let found = word.meanings.iter().find_map(|meaning| self.find_exact(meaning))?;
        if word.is_own && found.is_inclusive {
            let label = found.key.clone();
            return Some(Found { label, is_inclusive: false, is_word: true, ..found });
        }
        Some(Found { is_word: true, ..found })
    }

    fn find_squeezed(&self, name: &str) -> Option<Found> {
        let target = squeezed(name);
        let documented = DOCUMENTED.iter().find(|(documented, _)| squeezed(documented) == target);
        let target = documented.map_or(target, |(_, in_files)| squeezed(in_files));
        self.find_key(|key| squeezed(without_unit(key)) == target)
    }

    fn find_key(&self, is_named: impl Fn(&str) -> bool) -> Option<Found> {
        let by_rank = |wants_inclusive| {
            self.metrics
                .iter()
                .find(|entry| entry.is_inclusive == wants_inclusive && is_named(&entry.metric.key))
        };
        let entry = by_rank(true).or_else(|| by_rank(false))?;
        let key = entry.metric.key.to_string();
        let label =
            if entry.is_inclusive { inclusive_label(entry).to_string() } else { key.clone() };
        Some(Found { label, key, is_inclusive: entry.is_inclusive, is_word: false })
    }

    pub(super) fn unknown(&self, metric: &str) -> MetricError {
        let available = self.available();
        if metric == "time" && self.find_exact(wall::TOTAL).is_some() {
            // A profile of the host has no kernel times; suggest its wall times.
            let nearest = vec!["total".into(), "self".into()];
            return MetricError::Unknown {
                metric: metric.into(),
                wanted_for: None,
                nearest,
                available,
            };
        }
        let nearest = near::nearest(metric, &available);
        MetricError::Unknown { metric: metric.into(), wanted_for: None, nearest, available }
    }

    /// The names that can be requested: metrics without their units, short names, and derived
    /// metrics.
    pub fn available(&self) -> Vec<String> {
        let keys = self.metrics.iter().map(|entry| without_unit(&entry.metric.key).to_lowercase());
        let words = WORDS.iter().filter(|word| self.find(word.name).is_some());
        let derived = derive::names().filter(|name| self.can_derive(name));
        let mut seen = std::collections::HashSet::new();
        keys.chain(words.map(|word| word.name.to_owned()))
            .chain(derived)
            .filter(|name| seen.insert(name.clone()))
            .collect()
    }
}

/// The short name of one of marey's metrics.
pub fn short_word(key: &str) -> Option<&'static str> {
    WORDS.iter().find(|word| word.meanings[0] == key).map(|word| word.name)
}

/// A name in lower case without underscores.
fn squeezed(name: &str) -> String {
    name.chars().filter(|&letter| letter != '_').flat_map(char::to_lowercase).collect()
}

/// The name of a metric without its unit in parentheses.
pub fn without_unit(key: &str) -> &str {
    key.split('(').next().map_or(key, str::trim)
}
