//! Chooses the metrics that `marey view` shows, and derives those that a file lacks.

use std::collections::HashSet;

use marey_model::quantity::Grouped;
use marey_model::wall;
use marey_query::graph::{Graph, INCLUSIVE, MetricError, short_name, without_unit};

use super::units::Unit;
use crate::output::Failure;

/// The metrics that are shown by default, in the order of the columns: the wall metrics, then
/// Proton's metrics of GPU kernels.
const DEFAULT_METRICS: [&str; 7] =
    [wall::TOTAL, wall::SELF, wall::COUNT, wall::P50, wall::P99, "time (ns)", "count"];

/// The number of metrics that are shown of a file without any of the default metrics.
const MAX_FALLBACK_METRICS: usize = 8;

/// The limits of a table. A table that exceeds both is refused, unless the user has named the
/// metrics.
const MAX_COLUMNS: usize = 1_000;
const MAX_CELLS: usize = 50_000_000;

/// A request for metrics.
pub(super) enum MetricRequest<'a> {
    /// The metrics that the user names.
    Named(Vec<&'a str>),
    /// The default metrics.
    Default,
    /// All metrics of the file.
    All,
}

/// The chosen metrics.
#[derive(Debug, Default, PartialEq)]
pub(super) struct MetricChoice {
    pub(super) metrics: Vec<ChosenMetric>,
    /// Warnings about the chosen metrics.
    pub(super) notes: Vec<String>,
    /// Number of further metrics in the file that were not chosen by default.
    pub(super) omitted_metrics: usize,
}

/// A chosen metric.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ChosenMetric {
    /// The label of the metric's column in the graph.
    pub(super) label: String,
    /// The short name of the metric in a header.
    pub(super) title: String,
    /// The unit of the metric's values.
    pub(super) unit: Unit,
}

impl ChosenMetric {
    /// Creates a metric titled by the name that the user gave.
    fn from_name(label: String, name: &str) -> Self {
        let title = short_name(metric_key(&label)).unwrap_or_else(|| name.trim());
        Self { title: title.into(), unit: Unit::from_key(&label), label }
    }

    /// Creates a metric with its own title.
    pub(super) fn from_file(label: String) -> Self {
        let title = short_name(metric_key(&label)).unwrap_or_else(|| without_unit(&label));
        Self { title: title.into(), unit: Unit::from_key(&label), label }
    }

    /// Returns the metric with the name of its file, for a view of several files.
    pub(super) fn for_file(&self, file: &str) -> Self {
        Self {
            label: format!("{file}: {}", self.label),
            title: format!("{file}: {}", self.title),
            unit: self.unit,
        }
    }

    /// Whether the metric is a time, so that less is better.
    pub(super) fn is_time(&self) -> bool {
        let name = self.label.split([' ', '(']).next().unwrap_or_default();
        let in_unit = ["/s", "/ms", "/us", "/ns"].map(|unit| name.strip_suffix(unit));
        self.unit != Unit::Plain || in_unit.into_iter().flatten().any(|name| name.ends_with("time"))
    }
}

/// Returns the requested metrics. Derives those that the file lacks.
pub(super) fn choose(
    graph: &mut Graph,
    request: &MetricRequest<'_>,
) -> Result<MetricChoice, MetricError> {
    match request {
        MetricRequest::Named(names) => {
            let derived = graph.derive(names)?;
            let pairs = derived.labels.into_iter().zip(names);
            let metrics = pairs.map(|(label, name)| ChosenMetric::from_name(label, name)).collect();
            Ok(MetricChoice { metrics, notes: derived.notes, omitted_metrics: 0 })
        }
        MetricRequest::Default => Ok(default_metrics(all_metrics(graph))),
        MetricRequest::All => {
            Ok(MetricChoice { metrics: all_metrics(graph), ..MetricChoice::default() })
        }
    }
}

/// Returns the default metrics among `all`, or the first ones if there are none.
pub(super) fn default_metrics(mut all: Vec<ChosenMetric>) -> MetricChoice {
    let find =
        |request: &&str| all.iter().find(|chosen| metric_key(&chosen.label) == *request).cloned();
    let found_defaults: Vec<ChosenMetric> = DEFAULT_METRICS.iter().filter_map(find).collect();
    if !found_defaults.is_empty() {
        return MetricChoice { metrics: found_defaults, ..MetricChoice::default() };
    }
    let omitted_metrics = all.len().saturating_sub(MAX_FALLBACK_METRICS);
    all.truncate(MAX_FALLBACK_METRICS);
    MetricChoice { metrics: all, notes: Vec::new(), omitted_metrics }
}

/// Returns each metric once. A metric may have been requested by several names.
pub(super) fn distinct_metrics<'a>(
    metrics: impl IntoIterator<Item = &'a ChosenMetric>,
) -> Vec<ChosenMetric> {
    let mut seen_labels = HashSet::new();
    metrics.into_iter().filter(|metric| seen_labels.insert(&*metric.label)).cloned().collect()
}

/// Fails if the output would be huge although the file is not.
pub(super) fn check_size(
    request: &MetricRequest<'_>,
    columns: usize,
    rows: usize,
) -> Result<(), Failure> {
    let cells = columns.saturating_mul(rows);
    if matches!(request, MetricRequest::Named(_)) || columns <= MAX_COLUMNS || cells <= MAX_CELLS {
        return Ok(());
    }
    let [columns, rows, cells] = [columns, rows, cells].map(|count| Grouped(count as i128));
    Err(Failure {
        message: format!("{columns} columns for {rows} nodes are {cells} cells"),
        hint: Some("select metrics with --metrics".into()),
    })
}

fn all_metrics(graph: &Graph) -> Vec<ChosenMetric> {
    let inclusive = graph.inclusive().into_iter().map(|key| format!("{key}{INCLUSIVE}"));
    let exclusive = graph.exclusive().into_iter().map(|key| key.to_string());
    inclusive.chain(exclusive).map(ChosenMetric::from_file).collect()
}

/// Returns the name of a metric in the file, from the label of its column.
fn metric_key(label: &str) -> &str {
    label.strip_suffix(INCLUSIVE).unwrap_or(label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::fixture;

    #[test]
    fn titles_are_short_names_or_the_requested_name() {
        for (label, name, title) in [
            ("wall_total (ns)", "total", "total"),
            ("wall_p50 (ns)", "median", "p50"),
            ("time (ns) (inc)", "Time", "Time"),
            ("tokens (inc)", "TOKENS ", "TOKENS"),
            ("time/ms (inc)", "time/ms", "time/ms"),
        ] {
            assert_eq!(ChosenMetric::from_name(label.into(), name).title, title);
        }
        assert_eq!(ChosenMetric::from_file("time (ns) (inc)".into()).title, "time");
        assert_eq!(ChosenMetric::from_file("wall_count".into()).title, "calls");
    }

    #[test]
    fn only_times_are_better_when_lower() {
        for (label, is_time) in [
            ("wall_total (ns)", true),
            ("time (ns) (inc)", true),
            ("avg_cpu_time/us (inc)", true),
            ("flop/s (inc)", false),
            ("time/% (inc)", false),
            ("count (inc)", false),
        ] {
            let chosen = ChosenMetric::from_file(label.into());
            assert_eq!(chosen.is_time(), is_time, "{label}");
        }
    }

    #[test]
    fn a_file_without_default_metrics_shows_its_own() {
        let mut graph = fixture::graph();
        let labels = |request| -> Vec<String> {
            let choice = choose(&mut graph.clone(), &request).unwrap();
            choice.metrics.into_iter().map(|chosen| chosen.label).collect()
        };
        assert_eq!(labels(MetricRequest::Default), ["time (ns)"]);
        assert_eq!(labels(MetricRequest::All), ["time (ns)", "note", "shape"]);
        assert_eq!(labels(MetricRequest::Named(vec!["shape", "note"])), ["shape", "note"]);
        assert!(choose(&mut graph, &MetricRequest::Named(vec!["nope"])).is_err());
    }

    #[test]
    fn only_the_first_of_many_unknown_metrics_are_shown() {
        let metrics = |count: usize| {
            (0..count).map(|index| ChosenMetric::from_file(format!("m{index}"))).collect()
        };
        let all = default_metrics(metrics(8));
        assert_eq!((all.metrics.len(), all.omitted_metrics), (8, 0));
        let first = default_metrics(metrics(20));
        assert_eq!((first.metrics.len(), first.omitted_metrics), (8, 12));
        assert_eq!(first.metrics[7].label, "m7");
    }

    #[test]
    fn a_metric_with_two_names_is_shown_once() {
        let chosen = |name| ChosenMetric::from_name("time (ns) (inc)".into(), name);
        let other = ChosenMetric::from_file("count".into());
        let metrics = [chosen("time"), other.clone(), chosen("Time")];
        assert_eq!(distinct_metrics(&metrics), [chosen("time"), other]);
    }

    #[test]
    fn only_requested_metrics_may_be_huge() {
        assert!(check_size(&MetricRequest::All, 1_000, 1_000_000).is_ok());
        assert!(check_size(&MetricRequest::All, 10_000, 5_000).is_ok());
        let refused = check_size(&MetricRequest::All, 10_000, 5_001).unwrap_err();
        assert_eq!(refused.message, "10,000 columns for 5,001 nodes are 50,010,000 cells");
        assert_eq!(refused.hint.as_deref(), Some("select metrics with --metrics"));
        assert!(check_size(&MetricRequest::Named(vec!["m"]), 10_000, 5_001).is_ok());
    }
}
