//! Loads the files of `marey view` as graphs, and describes the errors of reading and filtering
//! them.

use std::path::Path;

use marey_formats::hatchet::{self, ParseError, ReadError, SyntaxCause};
use marey_formats::{Format, recognise_file};
use marey_model::profile::Profile;
use marey_model::quantity::Grouped;
use marey_query::graph::{Filter, FilterError, Graph, MetricError};
use marey_store::{Reader, Run, Selection};

use super::choose::{ChosenMetric, MetricChoice, MetricRequest, choose};
use crate::foreign;
use crate::live;
use crate::output::Failure;
use crate::progress::Progress;
use crate::runs;
use crate::text::{printable, quote_path};

/// The text in an error of the reader `hatchet` about the beginning of a file. It means that the
/// file is of another kind.
const EXPECTED_FIRST_VALUE: &str = "the list [ROOT, DEVICES]";

/// The maximum number of names in a hint.
const MAX_LISTED_NAMES: usize = 20;

/// A loaded file.
pub(super) struct LoadedProfile<'a> {
    pub(super) file: &'a Path,
    pub(super) graph: Graph,
    pub(super) metrics: Vec<ChosenMetric>,
    /// Warnings about the file and its metrics.
    pub(super) notes: Vec<String>,
    /// Number of further metrics that were not chosen by default.
    pub(super) omitted_metrics: usize,
    /// Number of nodes that the filter has removed.
    pub(super) hidden_nodes: usize,
}

impl<'a> LoadedProfile<'a> {
    pub(super) fn new(file: &'a Path, request: &MetricRequest<'_>) -> Result<Self, Failure> {
        let (mut graph, mut notes) = open(file)?;
        let choice = choose(&mut graph, request).map_err(|error| cannot_show(file, &error))?;
        let MetricChoice { metrics, notes: metric_notes, omitted_metrics } = choice;
        notes.extend(metric_notes);
        Ok(Self { file, graph, metrics, notes, omitted_metrics, hidden_nodes: 0 })
    }

    /// Applies a filter. A threshold refers to the first metric.
    pub(super) fn filter(mut self, filter: &Filter) -> Result<Self, Failure> {
        if *filter == Filter::default() {
            return Ok(self);
        }
        let metric = self.metrics.first().map_or("", |metric| &metric.label);
        let filtered_graph = self.graph.filter(filter, metric);
        let filtered_graph = filtered_graph.map_err(|error| cannot_filter(self.file, &error))?;
        self.hidden_nodes += self.graph.nodes().len() - filtered_graph.nodes().len();
        self.graph = filtered_graph;
        Ok(self)
    }
}

/// Returns the graph of a profile, a run, or a file that can be imported, and warnings about it.
pub(super) fn open(file: &Path) -> Result<(Graph, Vec<String>), Failure> {
    let file = &*live::resolve_run(file)?;
    let profile = if is_profile(file) { read_profile(file) } else { profile_of_run(file) };
    profile.map(|(profile, notes)| (Graph::new(profile), notes))
}

/// Whether to read the file as a profile. Pipes always are, because they can be read only once.
fn is_profile(file: &Path) -> bool {
    let Ok(metadata) = file.metadata() else { return true };
    if !metadata.is_file() {
        return !metadata.is_dir();
    }
    match recognise_file(file) {
        Ok(Some(format)) => matches!(format, Format::Hatchet | Format::HatchetMsgpack),
        Ok(None) | Err(_) => Run::open(file).is_err(),
    }
}

fn read_profile(file: &Path) -> Result<(Profile, Vec<String>), Failure> {
    let mut progress = Progress::reading(file);
    let profile = hatchet::read_with_progress(file, &mut |bytes| progress.set_position(bytes));
    let profile = profile.map_err(|error| Failure {
        message: printable(&error.to_string()).into_owned(),
        hint: read_hint(&error),
    })?;
    Ok((profile, Vec::new()))
}

fn profile_of_run(file: &Path) -> Result<(Profile, Vec<String>), Failure> {
    let run = runs::open_quietly(file)?;
    let reader = Reader::new(&run, Selection::default()).map_err(Failure::from)?;
    let profile = hatchet::profile_from_run(&reader).map_err(Failure::from)?;
    Ok((profile, run.warnings()))
}

fn read_hint(error: &ReadError) -> Option<String> {
    let ReadError::Malformed { source: ParseError::Syntax { cause, .. }, .. } = error else {
        return None;
    };
    match cause {
        SyntaxCause::NewerVersion { .. } => Some("upgrade marey".to_owned()),
        SyntaxCause::NotAProfile
        | SyntaxCause::Trace
        | SyntaxCause::UnexpectedValue { expected: EXPECTED_FIRST_VALUE, .. } => {
            Some(foreign::describe_readable())
        }
        _ => None,
    }
}

pub(super) fn cannot_show(file: &Path, error: &MetricError) -> Failure {
    let file = quote_path(file);
    match error {
        MetricError::Unknown { metric, needed_by, nearest, available } => Failure {
            message: match (printable(metric), needed_by) {
                (metric, None) => format!("{file} has no metric `{metric}`"),
                (metric, Some(derived)) => {
                    let derived = printable(derived);
                    format!("`{derived}` needs `{metric}`, which {file} does not have")
                }
            },
            hint: Some(if !nearest.is_empty() {
                format!("did you mean {}?", list_names(nearest))
            } else if available.is_empty() {
                "the file has no metrics".into()
            } else {
                // Names with `/` are left out: derived metrics are many, and follow from the
                // others.
                let names = available.iter().filter(|name| !name.contains('/'));
                format!("available: {}", list_names(names))
            }),
        },
        MetricError::Unit { metric, unit } => Failure {
            message: format!(
                "{file}: `{}` cannot be shown in the unit `{}`",
                printable(metric),
                printable(unit)
            ),
            hint: Some(
                "only times with a unit in their name can be shown in s, ms, us and ns, and numbers in %".into(),
            ),
        },
        MetricError::NotANumber { metric } => Failure::new(format!("{file}: `{}` is not a number", printable(metric))),
    }
}

pub(super) fn cannot_filter(file: &Path, error: &FilterError) -> Failure {
    let message = match error {
        FilterError::Metric(error) => return cannot_show(file, error),
        FilterError::Pattern { pattern, reason } => {
            format!("invalid pattern `{}`: {}", printable(pattern), on_one_line(reason))
        }
        FilterError::Empty { condition } => {
            format!(
                "the filters remove all nodes of {}: {}",
                quote_path(file),
                printable(condition)
            )
        }
    };
    Failure::new(message)
}

fn list_names<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let mut names = names.into_iter().map(|name| format!("`{}`", printable(name)));
    let listed_names: Vec<String> = names.by_ref().take(MAX_LISTED_NAMES).collect();
    let listed_names = listed_names.join(", ");
    match names.count() {
        0 => listed_names,
        more => format!("{listed_names} and {} more: see --list", Grouped(more as i128)),
    }
}

fn on_one_line(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    printable(&lines.join(" ")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_metric_suggests_similar_names_or_lists_all() {
        let failure = |nearest: &[&str], available: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
            let error = MetricError::Unknown {
                metric: "tme".into(),
                needed_by: None,
                nearest: owned(nearest),
                available: owned(available),
            };
            let failure = cannot_show(Path::new("a.hatchet"), &error);
            assert_eq!(failure.message, "`a.hatchet` has no metric `tme`");
            failure.hint.unwrap()
        };
        assert_eq!(failure(&["time", "time/s"], &["x"]), "did you mean `time`, `time/s`?");
        assert_eq!(failure(&[], &["x", "y", "y/s"]), "available: `x`, `y`");
        assert_eq!(failure(&[], &[]), "the file has no metrics");
    }

    #[test]
    fn a_hint_lists_at_most_twenty_metrics() {
        let names: Vec<String> = (0..1020).map(|index| format!("m{index}")).collect();
        assert!(list_names(&names[..20]).ends_with(", `m19`"));
        assert!(list_names(&names).ends_with(", `m19` and 1,000 more: see --list"));
    }

    #[test]
    fn a_missing_source_is_named_with_the_metric_that_needs_it() {
        let error = MetricError::Unknown {
            metric: "time".into(),
            needed_by: Some("util".into()),
            nearest: vec!["total".into()],
            available: Vec::new(),
        };
        let failure = cannot_show(Path::new("a.hatchet"), &error);
        assert_eq!(failure.message, "`util` needs `time`, which `a.hatchet` does not have");
        assert_eq!(failure.hint.unwrap(), "did you mean `total`?");
    }

    #[test]
    fn a_bad_pattern_is_reported_on_one_line() {
        let error = FilterError::Pattern { pattern: "(".into(), reason: "a\n  (\n  ^\nb".into() };
        assert_eq!(cannot_filter(Path::new("f"), &error).message, "invalid pattern `(`: a ( ^ b");
    }
}
