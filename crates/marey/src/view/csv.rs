//! Writes the rows of `marey view` as CSV. Control characters in names and texts are not escaped,
//! and a cell without a value is empty.

use std::io::{self, Write};
use std::path::Path;

use csv::{ErrorKind, Writer};
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_query::graph::{DifferenceLabels, Graph};

use super::choose::ChosenMetric;
use super::columns::change_word;
use super::number::push;
use super::rows::Rows;

/// The rows of one profile, or of the difference of two.
pub(super) struct CsvPart<'a> {
    pub(super) file: &'a Path,
    pub(super) graph: &'a Graph,
    pub(super) rows: &'a Rows,
}

const FIXED_COLUMNS: [&str; 6] = ["file", "id", "parent", "depth", "name", "kind"];

/// Writes a header and one row for each node. The cell of a metric that a part lacks is empty.
pub(super) fn write(
    out: &mut impl Write,
    parts: &[CsvPart<'_>],
    metrics: &[ChosenMetric],
    is_difference: bool,
) -> io::Result<()> {
    let labels: Vec<String> = if is_difference {
        let changes = |metric: &ChosenMetric| {
            DifferenceLabels::new(&metric.label).by_word().map(|(_, label)| label)
        };
        metrics.iter().flat_map(changes).collect()
    } else {
        metrics.iter().map(|metric| metric.label.clone()).collect()
    };
    let change_column: &[&str] = if is_difference { &["change"] } else { &[] };
    let header =
        FIXED_COLUMNS.iter().chain(change_column).copied().chain(labels.iter().map(String::as_str));
    let mut writer = Writer::from_writer(out);
    writer.write_record(header).map_err(io_error)?;
    for part in parts {
        write_part(&mut writer, part, &labels, is_difference).map_err(io_error)?;
    }
    writer.flush()
}

fn write_part<W: Write>(
    writer: &mut Writer<W>,
    part: &CsvPart<'_>,
    labels: &[String],
    is_difference: bool,
) -> csv::Result<()> {
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let cells = part.graph.cells_by_node(&labels);
    let file = part.file.to_string_lossy();
    let mut cell = String::new();
    for row in &part.rows.rows {
        let node = &part.graph.nodes()[row.node_index];
        writer.write_field(&*file)?;
        for number in [Some(row.node_index), node.parent, Some(node.depth)] {
            cell.clear();
            if let Some(number) = number {
                push(&mut cell, format_args!("{number}"));
            }
            writer.write_field(&cell)?;
        }
        writer.write_field(&*node.name)?;
        writer.write_field(node.kind.map_or("", NodeKind::as_str))?;
        if is_difference {
            writer.write_field(change_word(node.side).unwrap_or_default())?;
        }
        let mut values = cells.node_cells(row.node_index).peekable();
        for column in 0..labels.len() {
            cell.clear();
            if let Some((_, value)) = values.next_if(|(index, _)| *index == column) {
                push_value(&mut cell, &value);
            }
            writer.write_field(&cell)?;
        }
        writer.write_record(None::<&[u8]>)?;
    }
    Ok(())
}

fn push_value(cell: &mut String, value: &MetricValue) {
    match value {
        MetricValue::Int(value) => push(cell, format_args!("{value}")),
        MetricValue::Float(value) => push(cell, format_args!("{value:?}")),
        MetricValue::Text(value) => cell.push_str(value),
        MetricValue::Ints(values) => push(cell, format_args!("{values:?}")),
        MetricValue::Floats(values) => push(cell, format_args!("{values:?}")),
    }
}

fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
