//! Rows of a report as texts.

use marey_analysis::report::SectionRows;
use marey_analysis::{Cell, Shown};

use crate::text::printable;

/// The ends of column names that say a unit, which stands with each value.
const UNITS: [&str; 4] = ["_bytes_per_second", "_nanos", "_bytes", "_percent"];

/// The headings of a table: the names of its columns as people write them.
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

/// The values of a row as people read them.
pub(super) fn values<'a>(
    table: &'a SectionRows,
    row: &'a [Cell],
) -> impl Iterator<Item = String> + 'a {
    table.columns.iter().zip(row).map(|(column, cell)| {
        let value = Shown { column: &column.name, cell }.to_string();
        printable(&value).into_owned()
    })
}

/// Whether a column has numbers, which stand at the right.
pub(super) fn is_number(table: &SectionRows, at: usize) -> bool {
    table.rows.iter().any(|row| row[at].number().is_some())
}
