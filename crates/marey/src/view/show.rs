//! Writes a graph of `marey view` as lines like Proton's viewer or as a table, by the arguments.

use std::io::{self, Write};

use marey_query::graph::{Cells, Graph};

use super::args::{OutputForm, ViewArgs};
use super::choose::ChosenMetric;
use super::columns::TableColumn;
use super::lines::{self, Rows};
use super::table::{Bar, TreeTable};
use crate::output::Output;

const LINES: lines::LineStyle =
    lines::LineStyle { precision: 3, has_short_names: false, has_marks: false };

/// The warning of Proton's viewer on a negative sum of bytes.
const NEGATIVE_BYTES: &str =
    "Warning: Negative byte values detected, this is usually the result of a datatype overflow";

/// Writes the tree like Proton's viewer. Returns the number of shown nodes.
pub(super) fn write_lines(
    args: &ViewArgs,
    output: &mut Output,
    graph: &Graph,
    metrics: &[ChosenMetric],
    has_marks: bool,
) -> io::Result<usize> {
    let columns: Vec<Cells> = metrics.iter().map(|metric| metric_cells(graph, metric)).collect();
    let order = args.order(OutputForm::Lines);
    let rows = Rows::new(graph, order, columns.first(), args.max_levels(OutputForm::Lines));
    let out = output.data();
    lines::write_tree(out, graph, &columns, &rows, lines::LineStyle { has_marks, ..LINES })?;
    writeln!(out)?;
    write_sorted(args, out, graph, metrics.first(), columns.first())?;
    if metrics.iter().any(|metric| overflows(graph, metric)) {
        writeln!(out, "{NEGATIVE_BYTES}\n")?;
    }
    Ok(rows.len())
}

/// The columns of a table and its sort key.
pub(super) struct TableColumns<'a> {
    pub(super) columns: &'a [TableColumn],
    /// The metric for `--sort` and `--print-sorted`.
    pub(super) sort_metric: Option<&'a ChosenMetric>,
    /// The value of a full bar beside the first column. `None` for no bars.
    pub(super) total: Option<f64>,
}

/// Writes the tree as a table. Returns the number of shown nodes.
pub(super) fn write_table(
    args: &ViewArgs,
    output: &mut Output,
    graph: &Graph,
    table: &TableColumns<'_>,
) -> io::Result<usize> {
    let sort_cells = table.sort_metric.map(|metric| metric_cells(graph, metric));
    let order = args.order(OutputForm::Table);
    let rows = Rows::new(graph, order, sort_cells.as_ref(), args.max_levels(OutputForm::Table));
    let bar = match (&sort_cells, table.total) {
        (Some(cells), Some(total)) if output.is_terminal => Some(Bar { cells, total }),
        _ => None,
    };
    let paint = output.paint;
    let out = output.data();
    TreeTable { graph, columns: table.columns, rows: &rows, bar, paint }.write(out)?;
    if args.print_sorted {
        writeln!(out)?;
    }
    write_sorted(args, out, graph, table.sort_metric, sort_cells.as_ref())?;
    Ok(rows.len())
}

fn write_sorted(
    args: &ViewArgs,
    out: &mut impl Write,
    graph: &Graph,
    metric: Option<&ChosenMetric>,
    cells: Option<&Cells>,
) -> io::Result<()> {
    match (metric, cells) {
        (Some(metric), Some(cells)) if args.print_sorted => {
            lines::write_sorted(out, graph, &metric.label, cells)
        }
        _ => Ok(()),
    }
}

/// Whether the metric is a sum of bytes and negative in some node.
pub(super) fn overflows(graph: &Graph, metric: &ChosenMetric) -> bool {
    let is_byte_sum = metric.label == "bytes (inc)" || metric.label.ends_with(": bytes (inc)");
    let is_negative = |values: Vec<f64>| values.iter().any(|value| *value < 0.0);
    is_byte_sum && graph.numbers(&metric.label).is_ok_and(is_negative)
}

fn metric_cells(graph: &Graph, metric: &ChosenMetric) -> Cells {
    let empty_cells = || Cells::Values(vec![None; graph.nodes().len()]);
    graph.column(&metric.label).unwrap_or_else(empty_cells)
}
