//! Which metrics are shown.

use std::path::Path;

use marey_formats::hatchet::{MetricKey, Profile};
use marey_model::metric::MetricValue;
use marey_model::wall;

use super::units::{self, Unit};
use crate::output::Failure;

/// Short words for the wall metrics, in the order of the columns.
const WORDS: [(&str, &str); 9] = [
    ("total", wall::TOTAL),
    ("self", wall::SELF),
    ("calls", wall::COUNT),
    ("min", wall::MIN),
    ("max", wall::MAX),
    ("p50", wall::P50),
    ("p90", wall::P90),
    ("p99", wall::P99),
    ("open", wall::OPEN),
];

const WALL_DEFAULT: [&str; 5] = [wall::TOTAL, wall::SELF, wall::COUNT, wall::P50, wall::P99];

/// Proton's own metrics of GPU kernels.
const GPU_DEFAULT: [&str; 2] = ["time (ns)", "count"];

/// A metric of every node.
pub(super) struct Column {
    /// Key in the file.
    pub(super) key: MetricKey,
    /// Word in the header.
    pub(super) title: String,
    /// Unit of the values.
    pub(super) unit: Unit,
    /// One a node, rolled up where the file says so.
    pub(super) values: Vec<Option<MetricValue>>,
}

/// The columns that the user asked for, or else all, or else those that suit the file.
pub(super) fn choose(
    profile: &Profile,
    file: &Path,
    asked: &[String],
    wants_all: bool,
) -> Result<Vec<Column>, Failure> {
    let known = profile.metric_keys();
    let keys = if !asked.is_empty() {
        asked.iter().map(|name| find(name, &known, file)).collect::<Result<_, _>>()?
    } else if wants_all {
        known
    } else {
        default_keys(known)
    };
    Ok(keys.into_iter().map(|key| column(profile, key)).collect())
}

fn default_keys(known: Vec<MetricKey>) -> Vec<MetricKey> {
    let of_interest = WALL_DEFAULT.iter().chain(&GPU_DEFAULT);
    let chosen: Vec<_> =
        of_interest.filter_map(|&key| known.iter().find(|name| &***name == key).cloned()).collect();
    if chosen.is_empty() { known } else { chosen }
}

fn find(name: &str, known: &[MetricKey], file: &Path) -> Result<MetricKey, Failure> {
    resolve(name, known).ok_or_else(|| Failure {
        message: format!("`{}` has no metric `{name}`", file.display()),
        hint: Some(available(known)),
    })
}

/// The key that a user's word means: a short word, or the key with or without its unit.
fn resolve(name: &str, known: &[MetricKey]) -> Option<MetricKey> {
    let name = name.trim();
    let full = WORDS.iter().find(|(word, _)| *word == name).map_or(name, |&(_, key)| key);
    let exact = known.iter().find(|key| &***key == full);
    let bare = |key: &str| units::without_unit(key).to_lowercase();
    exact.or_else(|| known.iter().find(|key| bare(key) == bare(name))).cloned()
}

fn available(known: &[MetricKey]) -> String {
    if known.is_empty() {
        return "the file has no metrics".into();
    }
    let titles: Vec<_> = known.iter().map(|key| title(key)).collect();
    format!("it has {}", titles.join(", "))
}

fn column(profile: &Profile, key: MetricKey) -> Column {
    Column { title: title(&key), unit: Unit::of_key(&key), values: profile.values(&key), key }
}

fn title(key: &str) -> String {
    let word = WORDS.iter().find(|(_, wall)| *wall == key).map(|(word, _)| *word);
    units::printable(word.unwrap_or_else(|| units::without_unit(key))).into_owned()
}
