//! `marey view --diff-profile`: shows the difference of two profiles, which is the positional file
//! minus the one of the option.

use std::io;
use std::path::Path;

use marey_query::graph::{ColumnOperator, DifferenceLabels, Filter, Graph};

use super::args::{Form, ViewArgs};
use super::choose::{ChosenMetric, Request, check_size, default_metrics, distinct_metrics};
use super::columns::TableColumn;
use super::load::Loaded;
use super::rows::Rows;
use super::shared_threshold::SharedThreshold;
use super::show::{self, TableColumns};
use super::{csv, json, load, report};
use crate::output::{Failure, Output, Stop};
use crate::text::{printable, quote_path};

/// The number of columns of a metric: before, after, difference and ratio.
const COLUMNS_PER_METRIC: usize = 4;

/// Shows the difference of the positional file and `before`.
pub(super) fn view(args: &ViewArgs, before: &Path, output: &mut Output) -> Result<(), Stop> {
    let form = args.form(output.is_terminal);
    let request = args.request(form);
    let file_request = match &request {
        Request::Named(_) => &request,
        Request::Default | Request::All => &Request::All,
    };
    let mut after = Loaded::new(&args.files[0], file_request)?;
    let mut before = Loaded::new(before, file_request)?;
    match_metrics(&mut after, &mut before, &request)?;
    if matches!(form, Form::Json | Form::Csv) {
        after.metrics = distinct_metrics(&after.metrics);
        let rows = after.graph.nodes().len().max(before.graph.nodes().len());
        check_size(&request, COLUMNS_PER_METRIC * after.metrics.len(), rows)?;
    }
    if form == Form::Lines {
        (after, before) = narrow_both(after, before, &args.filter())?;
        write_lines(args, output, &after, &before)?;
    } else {
        (after, before) = narrow_both(after, before, &args.name_filter())?;
        let mut graph = after.graph.difference(&before.graph, &labels(&after.metrics));
        let union_count = graph.nodes().len();
        if let Some(threshold) = args.threshold() {
            let difference_labels = DifferenceLabels::new(&after.metrics[0].label);
            let limit = SharedThreshold::new(threshold, &[&after, &before])?;
            graph = limit.narrow(&graph, &[difference_labels.after, difference_labels.before])?;
        }
        graph.style_names(args.name_style());
        let difference = FileDifference { after: &after, before: &before, graph, union_count };
        difference.write(args, form, output)?;
    }
    report::note_omitted_metrics(output, "", after.omitted_metrics)?;
    for shown in [&after, &before] {
        let file_prefix = format!("{}: ", quote_path(shown.file));
        for note in &shown.notes {
            output.warning(format_args!("{file_prefix}{}", printable(note)))?;
        }
        if matches!(form, Form::Lines | Form::Table) {
            report::warn_of_losses(output, &file_prefix, shown.graph.meta())?;
        }
    }
    Ok(())
}

/// Checks that each metric means the same on both sides. Without `--metrics`, keeps the numeric
/// metrics that both sides have.
fn match_metrics(
    after: &mut Loaded<'_>,
    before: &mut Loaded<'_>,
    request: &Request<'_>,
) -> Result<(), Failure> {
    if matches!(request, Request::Named(_)) {
        let mut pairs = after.metrics.iter().zip(&before.metrics);
        if let Some((left, right)) = pairs.find(|(left, right)| left.label != right.label) {
            return Err(Failure {
                message: format!(
                    "{} has `{}` where {} has `{}`",
                    quote_path(before.file),
                    printable(&right.label),
                    quote_path(after.file),
                    printable(&left.label)
                ),
                hint: Some("request times in one unit, such as `time/ms`".into()),
            });
        }
        for side in [&*after, &*before] {
            for metric in &side.metrics {
                let numbers = side.graph.numbers(&metric.label);
                numbers.map_err(|error| load::cannot_show(side.file, &error))?;
            }
        }
        return Ok(());
    }
    let numeric = [after.graph.numeric_labels(), before.graph.numeric_labels()];
    let is_common =
        |metric: &&ChosenMetric| numeric.iter().all(|labels| labels.contains(&metric.label));
    let common: Vec<ChosenMetric> = after.metrics.iter().filter(is_common).cloned().collect();
    if common.is_empty() {
        return Err(Failure {
            message: format!(
                "{} and {} have no metric in common",
                quote_path(after.file),
                quote_path(before.file)
            ),
            hint: None,
        });
    }
    (after.metrics, after.omitted_metrics) = match request {
        Request::Default => {
            let choice = default_metrics(common);
            (choice.metrics, choice.omitted_metrics)
        }
        Request::All | Request::Named(_) => (common, 0),
    };
    before.metrics.clone_from(&after.metrics);
    Ok(())
}

/// Writes lines like Proton's viewer, which filters each side separately and then subtracts.
fn write_lines(
    args: &ViewArgs,
    output: &mut Output,
    after: &Loaded<'_>,
    before: &Loaded<'_>,
) -> io::Result<()> {
    let labels = labels(&after.metrics);
    let mut graph = after.graph.combine(&before.graph, ColumnOperator::Subtract, Some(&labels));
    graph.style_names(args.name_style());
    let shown_count = show::write_lines(args, output, &graph, &after.metrics, true)?;
    let filtered = after.hidden + before.hidden;
    report::note_hidden(args, output, filtered, graph.nodes().len() - shown_count)
}

/// Filters each side separately.
fn narrow_both<'a, 'b>(
    after: Loaded<'a>,
    before: Loaded<'b>,
    filter: &Filter,
) -> Result<(Loaded<'a>, Loaded<'b>), Failure> {
    Ok((after.narrow(filter)?, before.narrow(filter)?))
}

fn labels(metrics: &[ChosenMetric]) -> Vec<String> {
    metrics.iter().map(|metric| metric.label.clone()).collect()
}

/// Two files, and the graph of their differences.
struct FileDifference<'a> {
    after: &'a Loaded<'a>,
    before: &'a Loaded<'a>,
    graph: Graph,
    /// Number of nodes before the threshold was applied.
    union_count: usize,
}

impl FileDifference<'_> {
    fn write(&self, args: &ViewArgs, form: Form, output: &mut Output) -> Result<(), Stop> {
        if form == Form::Table {
            return self.write_table(args, output);
        }
        let Self { after, before, graph, .. } = self;
        let sort_metric = self.sort_metric();
        let first = graph.column(&sort_metric.label);
        let rows = Rows::new(graph, args.order(form), first.as_ref(), args.max_levels(form));
        let (file, metrics, rows) = (after.file, &*after.metrics, &rows);
        if form == Form::Json {
            let hidden = self.filtered() + graph.nodes().len() - rows.len();
            let before = Some(before.file);
            json::JsonDocument { file, before, graph, metrics, rows, hidden }
                .write(output.data())?;
        } else {
            csv::write(output.data(), &[csv::Part { file, graph, rows }], metrics, true)?;
        }
        Ok(())
    }

    fn write_table(&self, args: &ViewArgs, output: &mut Output) -> Result<(), Stop> {
        let Self { after, before, graph, .. } = self;
        let paint = output.paint;
        for (word, side) in [("before", before), ("after", after)] {
            let meta = side.graph.meta();
            report::write_heading(output.data(), paint, Some(word), side.file, meta)?;
        }
        let compared =
            after.metrics.iter().flat_map(|metric| TableColumn::difference_columns(graph, metric));
        let columns: Vec<TableColumn> =
            compared.chain([TableColumn::change_marks(graph)]).collect();
        let sort_metric = self.sort_metric();
        let table = TableColumns { columns: &columns, first: Some(&sort_metric), total: None };
        let shown_count = show::write_table(args, output, graph, &table)?;
        Ok(report::note_hidden(args, output, self.filtered(), graph.nodes().len() - shown_count)?)
    }

    /// Returns the number of nodes that the filters have removed: by name on each side, and by
    /// value in the union.
    fn filtered(&self) -> usize {
        self.after.hidden + self.before.hidden + self.union_count - self.graph.nodes().len()
    }

    /// Returns the difference of the first metric, by which rows are sorted.
    fn sort_metric(&self) -> ChosenMetric {
        let metric = &self.after.metrics[0];
        ChosenMetric { label: DifferenceLabels::new(&metric.label).difference, ..metric.clone() }
    }
}
