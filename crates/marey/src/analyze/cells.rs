//! Formats the headings and cells of the tables of a report, for all its text formats.

use marey_analysis::report::SectionRows;
use marey_analysis::{Cell, FormattedCell};

use crate::text::printable;

/// Suffixes of column names that state a unit. Headings leave them out, because each formatted
/// value has its unit.
const UNITS: [&str; 4] = ["_bytes_per_second", "_nanos", "_bytes", "_percent"];

/// Returns the headings of a table: readable column names.
pub(super) fn headings(table: &SectionRows) -> impl Iterator<Item = String> {
    table.columns.iter().map(|column| {
        let name = &column.name;
        let stem = UNITS.iter().find_map(|unit| name.strip_suffix(unit));
        match (stem, name.ends_with("_percent")) {
            (Some(stem), true) => format!("{} %", stem.replace('_', " ")),
            (Some(stem), false) => stem.replace('_', " "),
            (None, _) => name.replace('_', " "),
        }
    })
}

/// Returns the formatted values of a row.
pub(super) fn row_values<'a>(
    table: &'a SectionRows,
    row: &'a [Cell],
) -> impl Iterator<Item = String> + 'a {
    table.columns.iter().zip(row).map(|(column, cell)| {
        let value = FormattedCell { column: &column.name, cell }.to_string();
        printable(&value).into_owned()
    })
}

/// Whether a column has numbers, which are right-aligned.
pub(super) fn has_numbers(table: &SectionRows, index: usize) -> bool {
    table.rows.iter().any(|row| row[index].number().is_some())
}
