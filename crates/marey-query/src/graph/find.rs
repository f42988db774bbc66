//! Which metric a user's word means.

use marey_model::wall;
use thiserror::Error;

use super::column::{INCLUSIVE, inclusive_label};
use super::{Graph, derive};
use crate::near;

/// Why a metric cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MetricError {
    /// No metric has this name. The sentence is Proton's, which its users match.
    #[error("Metric {metric} is not found. Use the --list flag to list available metrics")]
    Unknown {
        /// The metric.
        metric: String,
        /// What was to be derived from it, if it was not asked for itself.
        wanted_for: Option<String>,
        /// Names that come near to it.
        nearest: Vec<String>,
        /// Every name there is.
        available: Vec<String>,
    },
    /// The unit is none that the metric can be shown in.
    #[error("Unsupported unit {unit} of metric {metric}")]
    Unit {
        /// The metric.
        metric: String,
        /// The unit.
        unit: String,
    },
    /// The metric holds texts or lists.
    #[error("Metric {metric} is not a number")]
    NotANumber {
        /// The metric.
        metric: String,
    },
}

/// Words for what marey records, and for what comes nearest to it in a file of Proton's.
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
    /// Whether the node's own value is meant even of a metric that is added up.
    is_own: bool,
}

/// Names in Proton's documentation, and what files have instead.
const DOCUMENTED: [(&str, &str); 1] = [("stalled_memory_dependency", "stalled_long_scoreboard")];

/// A metric of the profile.
pub(super) struct Found {
    /// Label of its column.
    pub(super) label: String,
    /// Its name in the profile.
    pub(super) key: String,
    /// Whether the column holds sums over subtrees.
    pub(super) is_inclusive: bool,
    /// Whether one of our words was asked for, and not a metric by its name.
    pub(super) is_word: bool,
}

impl Graph {
    /// The metric of this name. Case does not matter and the unit may be left out; metrics that
    /// are added up into parents come first. `StalledWait` is another spelling of `stalled_wait`.
    pub(super) fn find(&self, name: &str) -> Option<Found> {
        self.find_exact(name).or_else(|| self.find_word(name)).or_else(|| self.find_squeezed(name))
    }

    /// The label of the column that a name means: of one that is called so, else of the metric, as
    /// [`Graph::derive`] finds it, else of what was derived under the name.
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
        let asked = squeezed(name);
        let documented = DOCUMENTED.iter().find(|(documented, _)| squeezed(documented) == asked);
        let asked = documented.map_or(asked, |(_, in_files)| squeezed(in_files));
        self.find_key(|key| squeezed(without_unit(key)) == asked)
    }

    fn find_key(&self, is_named: impl Fn(&str) -> bool) -> Option<Found> {
        let by_rank = |wants_inclusive| {
            self.own
                .iter()
                .find(|own| own.is_inclusive == wants_inclusive && is_named(&own.metric.key))
        };
        let own = by_rank(true).or_else(|| by_rank(false))?;
        let key = own.metric.key.to_string();
        let label = if own.is_inclusive { inclusive_label(own).to_string() } else { key.clone() };
        Some(Found { label, key, is_inclusive: own.is_inclusive, is_word: false })
    }

    pub(super) fn unknown(&self, metric: &str) -> MetricError {
        let available = self.available();
        if metric == "time" && self.find_exact(wall::TOTAL).is_some() {
            // The host's profile has no kernel times; what is meant are its wall times.
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

    /// What may be asked for: metrics without their units, words, and what can be derived.
    pub fn available(&self) -> Vec<String> {
        let keys = self.own.iter().map(|own| without_unit(&own.metric.key).to_lowercase());
        let words = WORDS.iter().filter(|word| self.find(word.name).is_some());
        let derived = derive::names().filter(|name| self.can_derive(name));
        let mut seen = std::collections::HashSet::new();
        keys.chain(words.map(|word| word.name.to_owned()))
            .chain(derived)
            .filter(|name| seen.insert(name.clone()))
            .collect()
    }
}

/// The word for a metric of marey's own.
pub fn short_word(key: &str) -> Option<&'static str> {
    WORDS.iter().find(|word| word.meanings[0] == key).map(|word| word.name)
}

/// A name without case and underscores.
fn squeezed(name: &str) -> String {
    name.chars().filter(|&each| each != '_').flat_map(char::to_lowercase).collect()
}

/// A metric's name without what stands in parentheses.
pub fn without_unit(key: &str) -> &str {
    key.split('(').next().map_or(key, str::trim)
}
