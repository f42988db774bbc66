//! Which metrics are shown.

use marey_model::wall;
use marey_query::graph::{Graph, MetricError, short_word, without_unit};

use super::units::Unit;

/// What a graph says at a glance, in the order of the columns: the wall metrics, then Proton's own
/// of GPU kernels.
const AT_A_GLANCE: [&str; 7] =
    [wall::TOTAL, wall::SELF, wall::COUNT, wall::P50, wall::P99, "time (ns)", "count"];

/// What Proton appends to the name of a metric that is added up into parents.
const INCLUSIVE: &str = " (inc)";

/// Metrics to show.
pub(super) enum Wanted<'a> {
    /// Those that the user names.
    Asked(Vec<&'a str>),
    /// Those that suit the file.
    AtAGlance,
    /// All that the file has.
    All,
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

/// The metrics that are wanted, derived where need be, and what should be known of them.
pub(super) fn choose(
    graph: &mut Graph,
    wanted: &Wanted<'_>,
) -> Result<(Vec<Chosen>, Vec<String>), MetricError> {
    match wanted {
        Wanted::Asked(names) => {
            let derived = graph.derive(names)?;
            let pairs = derived.labels.into_iter().zip(names);
            let chosen = pairs.map(|(label, name)| Chosen::asked(label, name));
            Ok((chosen.collect(), derived.notes))
        }
        Wanted::AtAGlance => Ok((at_a_glance(graph), Vec::new())),
        Wanted::All => Ok((all(graph), Vec::new())),
    }
}

fn at_a_glance(graph: &Graph) -> Vec<Chosen> {
    let all = all(graph);
    let find = |wanted: &&str| all.iter().find(|chosen| key(&chosen.label) == *wanted).cloned();
    let glance: Vec<Chosen> = AT_A_GLANCE.iter().filter_map(find).collect();
    if glance.is_empty() { all } else { glance }
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
            let (chosen, _) = choose(&mut graph.clone(), &wanted).unwrap();
            chosen.into_iter().map(|chosen| chosen.label).collect()
        };
        assert_eq!(labels(Wanted::AtAGlance), ["time (ns)"]);
        assert_eq!(labels(Wanted::All), ["time (ns)", "note", "shape"]);
        assert_eq!(labels(Wanted::Asked(vec!["shape", "note"])), ["shape", "note"]);
        assert!(choose(&mut graph, &Wanted::Asked(vec!["nope"])).is_err());
    }
}
