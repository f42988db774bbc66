//! `marey view --diff-profile`: shows the difference of two profiles, which is the positional file
//! minus the one of the option.

use std::io;
use std::path::Path;

use marey_query::graph::{ColumnOperator, DifferenceLabels, Filter, Graph};

use super::args::{OutputForm, ViewArgs};
use super::choose::{ChosenMetric, MetricRequest, check_size, default_metrics, distinct_metrics};
use super::columns::TableColumn;
use super::load::LoadedProfile;
use super::rows::Rows;
use super::shared_threshold::SharedThreshold;
use super::show::{self, TableColumns};
use super::{csv, json, load, report};
use crate::output::{CommandError, Failure, Output};
use crate::text::{printable, quote_path};

/// The number of columns of a metric: before, after, difference and ratio.
const COLUMNS_PER_METRIC: usize = 4;

/// Shows the difference of the positional file and `before`.
pub(super) fn view(
    args: &ViewArgs,
    before: &Path,
    output: &mut Output,
) -> Result<(), CommandError> {
    let form = args.form(output.is_terminal);
    let request = args.request(form);
    let file_request = match &request {
        MetricRequest::Named(_) => &request,
        MetricRequest::Default | MetricRequest::All => &MetricRequest::All,
    };
    let mut after = LoadedProfile::new(&args.files[0], file_request)?;
    let mut before = LoadedProfile::new(before, file_request)?;
    match_metrics(&mut after, &mut before, &request)?;
    if matches!(form, OutputForm::Json | OutputForm::Csv) {
        after.metrics = distinct_metrics(&after.metrics);
        let rows = after.graph.nodes().len().max(before.graph.nodes().len());
        check_size(&request, COLUMNS_PER_METRIC * after.metrics.len(), rows)?;
    }
    if form == OutputForm::Lines {
        (after, before) = filter_both(after, before, &args.filter())?;
        write_lines(args, output, &after, &before)?;
    } else {
        (after, before) = filter_both(after, before, &args.name_filter())?;
        let mut graph = after.graph.difference(&before.graph, &labels(&after.metrics));
        let union_count = graph.nodes().len();
        if let Some(threshold) = args.threshold() {
            let difference_labels = DifferenceLabels::new(&after.metrics[0].label);
            let limit = SharedThreshold::new(threshold, &[&after, &before])?;
            graph = limit.filter(&graph, &[difference_labels.after, difference_labels.before])?;
        }
        graph.style_names(args.name_style());
        let difference = FileDifference { after: &after, before: &before, graph, union_count };
        difference.write(args, form, output)?;
    }
    report::note_omitted_metrics(output, "", after.omitted_metrics)?;
    for profile in [&after, &before] {
        let file_prefix = format!("{}: ", quote_path(profile.file));
        for note in &profile.notes {
            output.warning(format_args!("{file_prefix}{}", printable(note)))?;
        }
        if matches!(form, OutputForm::Lines | OutputForm::Table) {
            report::warn_of_losses(output, &file_prefix, profile.graph.meta())?;
        }
    }
    Ok(())
}

/// Checks that each metric means the same on both sides. Without `--metrics`, keeps the numeric
/// metrics that both sides have.
fn match_metrics(
    after: &mut LoadedProfile<'_>,
    before: &mut LoadedProfile<'_>,
    request: &MetricRequest<'_>,
) -> Result<(), Failure> {
    if matches!(request, MetricRequest::Named(_)) {
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
    let numeric_labels = [after.graph.numeric_labels(), before.graph.numeric_labels()];
    let is_common =
        |metric: &&ChosenMetric| numeric_labels.iter().all(|labels| labels.contains(&metric.label));
    let common_metrics: Vec<ChosenMetric> =
        after.metrics.iter().filter(is_common).cloned().collect();
    if common_metrics.is_empty() {
        return Err(Failure::new(format!(
            "{} and {} have no metric in common",
            quote_path(after.file),
            quote_path(before.file)
        )));
    }
    (after.metrics, after.omitted_metrics) = match request {
        MetricRequest::Default => {
            let choice = default_metrics(common_metrics);
            (choice.metrics, choice.omitted_metrics)
        }
        MetricRequest::All | MetricRequest::Named(_) => (common_metrics, 0),
    };
    before.metrics.clone_from(&after.metrics);
    Ok(())
}

/// Writes lines like Proton's viewer, which filters each side separately and then subtracts.
fn write_lines(
    args: &ViewArgs,
    output: &mut Output,
    after: &LoadedProfile<'_>,
    before: &LoadedProfile<'_>,
) -> io::Result<()> {
    let labels = labels(&after.metrics);
    let mut graph = after.graph.combine(&before.graph, ColumnOperator::Subtract, Some(&labels));
    graph.style_names(args.name_style());
    let shown_count = show::write_lines(args, output, &graph, &after.metrics, true)?;
    let filtered_count = after.hidden_nodes + before.hidden_nodes;
    report::note_hidden(args, output, filtered_count, graph.nodes().len() - shown_count)
}

/// Filters each side separately.
fn filter_both<'a, 'b>(
    after: LoadedProfile<'a>,
    before: LoadedProfile<'b>,
    filter: &Filter,
) -> Result<(LoadedProfile<'a>, LoadedProfile<'b>), Failure> {
    Ok((after.filter(filter)?, before.filter(filter)?))
}

fn labels(metrics: &[ChosenMetric]) -> Vec<String> {
    metrics.iter().map(|metric| metric.label.clone()).collect()
}

/// Two files, and the graph of their differences.
struct FileDifference<'a> {
    after: &'a LoadedProfile<'a>,
    before: &'a LoadedProfile<'a>,
    graph: Graph,
    /// Number of nodes before the threshold was applied.
    union_count: usize,
}

impl FileDifference<'_> {
    fn write(
        &self,
        args: &ViewArgs,
        form: OutputForm,
        output: &mut Output,
    ) -> Result<(), CommandError> {
        if form == OutputForm::Table {
            return self.write_table(args, output);
        }
        let Self { after, before, graph, .. } = self;
        let sort_metric = self.sort_metric();
        let sort_cells = graph.column(&sort_metric.label);
        let rows = Rows::new(graph, args.order(form), sort_cells.as_ref(), args.max_levels(form));
        let (file, metrics, rows) = (after.file, &*after.metrics, &rows);
        if form == OutputForm::Json {
            let hidden_nodes = self.filtered_count() + graph.nodes().len() - rows.len();
            let before = Some(before.file);
            json::JsonDocument { file, before, graph, metrics, rows, hidden_nodes }
                .write(output.data())?;
        } else {
            csv::write(output.data(), &[csv::CsvPart { file, graph, rows }], metrics, true)?;
        }
        Ok(())
    }

    fn write_table(&self, args: &ViewArgs, output: &mut Output) -> Result<(), CommandError> {
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
        let table =
            TableColumns { columns: &columns, sort_metric: Some(&sort_metric), total: None };
        let shown_count = show::write_table(args, output, graph, &table)?;
        Ok(report::note_hidden(
            args,
            output,
            self.filtered_count(),
            graph.nodes().len() - shown_count,
        )?)
    }

    /// Returns the number of nodes that the filters have removed: by name on each side, and by
    /// value in the union.
    fn filtered_count(&self) -> usize {
        self.after.hidden_nodes + self.before.hidden_nodes + self.union_count
            - self.graph.nodes().len()
    }

    /// Returns the difference of the first metric, by which rows are sorted.
    fn sort_metric(&self) -> ChosenMetric {
        let metric = &self.after.metrics[0];
        ChosenMetric { label: DifferenceLabels::new(&metric.label).difference, ..metric.clone() }
    }
}
