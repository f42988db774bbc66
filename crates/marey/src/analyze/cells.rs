//! Formats the cells of report tables.

use marey_analysis::report::SectionRows;
use marey_analysis::{Cell, Shown};

use crate::text::printable;

/// Suffixes of column names that are units, which each formatted value includes.
const UNITS: [&str; 4] = ["_bytes_per_second", "_nanos", "_bytes", "_percent"];

/// Returns the headings of a table: readable column names.
pub(super) fn headings(table: &SectionRows) -> impl Iterator<Item = String> {
    table.columns.iter().map(|column| {
        let name = &column.name;
        let bare = UNITS.iter().find_map(|unit| name.strip_suffix(unit));
        match (bare, name.ends_with("_percent")) {
            (Some(bare), true) => format!("{} %", bare.replace('_', " ")),
            (Some(bare), false) => bare.replace('_', " "),
            (None, _) => name.replace('_', " "),
        }
    })
}

/// Returns the formatted values of a row.
pub(super) fn values<'a>(
    table: &'a SectionRows,
    row: &'a [Cell],
) -> impl Iterator<Item = String> + 'a {
    table.columns.iter().zip(row).map(|(column, cell)| {
        let value = Shown { column: &column.name, cell }.to_string();
        printable(&value).into_owned()
    })
}

/// Whether a column has numbers, which are right-aligned.
pub(super) fn is_number(table: &SectionRows, at: usize) -> bool {
    table.rows.iter().any(|row| row[at].number().is_some())
}
