//! Which metrics are shown.

use std::collections::HashSet;

use marey_model::quantity::Grouped;
use marey_model::wall;
use marey_query::graph::{Graph, INCLUSIVE, MetricError, short_word, without_unit};

use super::units::Unit;
use crate::output::Failure;

/// What a graph says at a glance, in the order of the columns: the wall metrics, then Proton's own
/// of GPU kernels.
const AT_A_GLANCE: [&str; 7] =
    [wall::TOTAL, wall::SELF, wall::COUNT, wall::P50, wall::P99, "time (ns)", "count"];

/// How many metrics of a file show at a glance that has none of those.
const MAX_AT_A_GLANCE: usize = 8;

/// A table of more columns than the first is refused if it has more cells than the second, unless
/// somebody asked for the metrics by name.
const MAX_COLUMNS: usize = 1_000;
const MAX_CELLS: usize = 50_000_000;

/// Metrics to show.
pub(super) enum Wanted<'a> {
    /// Those that the user names.
    Asked(Vec<&'a str>),
    /// Those that suit the file.
    AtAGlance,
    /// All that the file has.
    All,
}

/// The metrics to show.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Choice {
    pub(super) metrics: Vec<Chosen>,
    /// What should be known of them, each in a line.
    pub(super) notes: Vec<String>,
    /// How many the file has that would suit as well.
    pub(super) more: usize,
}

/// A metric to show.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chosen {
    /// Label of its column.
    pub(super) label: String,
    /// Word in a header.
    pub(super) title: String,
    /// The unit of its values.
    pub(super) unit: Unit,
}

impl Chosen {
    /// A metric under the name that it was asked for.
    fn asked(label: String, asked: &str) -> Self {
        let title = short_word(key(&label)).unwrap_or_else(|| asked.trim());
        Self { title: title.into(), unit: Unit::of_key(&label), label }
    }

    /// A metric of the file that nobody asked for by name.
    pub(super) fn of_file(label: String) -> Self {
        let title = short_word(key(&label)).unwrap_or_else(|| without_unit(&label));
        Self { title: title.into(), unit: Unit::of_key(&label), label }
    }

    /// The column of one of several files.
    pub(super) fn of_one(&self, file: &str) -> Self {
        Self {
            label: format!("{file}: {}", self.label),
            title: format!("{file}: {}", self.title),
            unit: self.unit,
        }
    }

    /// Whether it is a time, of which less is better.
    pub(super) fn is_time(&self) -> bool {
        let name = self.label.split([' ', '(']).next().unwrap_or_default();
        let in_unit = ["/s", "/ms", "/us", "/ns"].map(|unit| name.strip_suffix(unit));
        self.unit != Unit::Plain || in_unit.into_iter().flatten().any(|name| name.ends_with("time"))
    }
}

/// The metrics that are wanted, derived where need be.
pub(super) fn choose(graph: &mut Graph, wanted: &Wanted<'_>) -> Result<Choice, MetricError> {
    match wanted {
        Wanted::Asked(names) => {
            let derived = graph.derive(names)?;
            let pairs = derived.labels.into_iter().zip(names);
            let metrics = pairs.map(|(label, name)| Chosen::asked(label, name)).collect();
            Ok(Choice { metrics, notes: derived.notes, more: 0 })
        }
        Wanted::AtAGlance => Ok(at_a_glance(all(graph))),
        Wanted::All => Ok(Choice { metrics: all(graph), ..Choice::default() }),
    }
}

/// Those of `all` that everybody knows, or else the first ones.
pub(super) fn at_a_glance(mut all: Vec<Chosen>) -> Choice {
    let find = |wanted: &&str| all.iter().find(|chosen| key(&chosen.label) == *wanted).cloned();
    let known: Vec<Chosen> = AT_A_GLANCE.iter().filter_map(find).collect();
    if !known.is_empty() {
        return Choice { metrics: known, ..Choice::default() };
    }
    let more = all.len().saturating_sub(MAX_AT_A_GLANCE);
    all.truncate(MAX_AT_A_GLANCE);
    Choice { metrics: all, notes: Vec::new(), more }
}

/// Each metric once, whatever names it was asked for by.
pub(super) fn distinct<'a>(metrics: impl IntoIterator<Item = &'a Chosen>) -> Vec<Chosen> {
    let mut seen = HashSet::new();
    metrics.into_iter().filter(|metric| seen.insert(&*metric.label)).cloned().collect()
}

/// Refuses what would be huge though the file is not.
pub(super) fn check_size(wanted: &Wanted<'_>, columns: usize, rows: usize) -> Result<(), Failure> {
    let cells = columns.saturating_mul(rows);
    if matches!(wanted, Wanted::Asked(_)) || columns <= MAX_COLUMNS || cells <= MAX_CELLS {
        return Ok(());
    }
    let [columns, rows, cells] = [columns, rows, cells].map(|count| Grouped(count as i128));
    Err(Failure {
        message: format!("{columns} columns for {rows} nodes are {cells} cells"),
        hint: Some("choose metrics with --metrics".into()),
    })
}

fn all(graph: &Graph) -> Vec<Chosen> {
    let inclusive = graph.inclusive().into_iter().map(|key| format!("{key}{INCLUSIVE}"));
    let exclusive = graph.exclusive().into_iter().map(|key| key.to_string());
    inclusive.chain(exclusive).map(Chosen::of_file).collect()
}

/// The metric's name in the file.
fn key(label: &str) -> &str {
    label.strip_suffix(INCLUSIVE).unwrap_or(label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::fixture;

    #[test]
    fn titles_are_short_words_or_what_was_asked_for() {
        for (label, asked, title) in [
            ("wall_total (ns)", "total", "total"),
            ("wall_p50 (ns)", "median", "p50"),
            ("time (ns) (inc)", "Time", "Time"),
            ("tokens (inc)", "TOKENS ", "TOKENS"),
            ("time/ms (inc)", "time/ms", "time/ms"),
        ] {
            assert_eq!(Chosen::asked(label.into(), asked).title, title);
        }
        assert_eq!(Chosen::of_file("time (ns) (inc)".into()).title, "time");
        assert_eq!(Chosen::of_file("wall_count".into()).title, "calls");
    }

    #[test]
    fn less_is_better_of_times_alone() {
        for (label, is_time) in [
            ("wall_total (ns)", true),
            ("time (ns) (inc)", true),
            ("avg_cpu_time/us (inc)", true),
            ("flop/s (inc)", false),
            ("time/% (inc)", false),
            ("count (inc)", false),
        ] {
            let chosen = Chosen::of_file(label.into());
            assert_eq!(chosen.is_time(), is_time, "{label}");
        }
    }

    #[test]
    fn a_file_without_known_metrics_shows_all_it_has() {
        let mut graph = fixture::graph();
        let labels = |wanted| -> Vec<String> {
            let choice = choose(&mut graph.clone(), &wanted).unwrap();
            choice.metrics.into_iter().map(|chosen| chosen.label).collect()
        };
        assert_eq!(labels(Wanted::AtAGlance), ["time (ns)"]);
        assert_eq!(labels(Wanted::All), ["time (ns)", "note", "shape"]);
        assert_eq!(labels(Wanted::Asked(vec!["shape", "note"])), ["shape", "note"]);
        assert!(choose(&mut graph, &Wanted::Asked(vec!["nope"])).is_err());
    }

    #[test]
    fn of_many_unknown_metrics_the_first_are_shown() {
        let many = |count: usize| (0..count).map(|at| Chosen::of_file(format!("m{at}"))).collect();
        let all = at_a_glance(many(8));
        assert_eq!((all.metrics.len(), all.more), (8, 0));
        let first = at_a_glance(many(20));
        assert_eq!((first.metrics.len(), first.more), (8, 12));
        assert_eq!(first.metrics[7].label, "m7");
    }

    #[test]
    fn a_metric_of_two_names_is_one() {
        let chosen = |asked| Chosen::asked("time (ns) (inc)".into(), asked);
        let other = Chosen::of_file("count".into());
        let metrics = [chosen("time"), other.clone(), chosen("Time")];
        assert_eq!(distinct(&metrics), [chosen("time"), other]);
    }

    #[test]
    fn only_a_choice_may_be_huge() {
        assert!(check_size(&Wanted::All, 1_000, 1_000_000).is_ok());
        assert!(check_size(&Wanted::All, 10_000, 5_000).is_ok());
        let refused = check_size(&Wanted::All, 10_000, 5_001).unwrap_err();
        assert_eq!(refused.message, "10,000 columns for 5,001 nodes are 50,010,000 cells");
        assert_eq!(refused.hint.as_deref(), Some("choose metrics with --metrics"));
        assert!(check_size(&Wanted::Asked(vec!["m"]), 10_000, 5_001).is_ok());
    }
}
