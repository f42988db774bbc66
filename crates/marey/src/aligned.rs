//! Writes rows of text in aligned columns, for the reports of `analyze`, `compare` and others.

use std::io::{self, Write};

use crate::output::{Paint, Style};
use crate::text::{truncate, truncate_name, width};

/// The maximum width of a left-aligned column, except the last one.
const MAX_WIDTH: usize = 60;

/// The line below headings.
pub(crate) const HEADING_RULE: &str =
    "============================================================";

/// Colours and width of the output.
#[derive(Clone, Copy)]
pub(crate) struct TextLayout {
    pub(crate) paint: Paint,
    /// Width of the terminal in columns, `None` for no limit.
    pub(crate) max_width: Option<usize>,
}

/// Alignment of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Writes a heading and rows, each with a cell for every column.
pub(crate) fn write_rows(
    heading: &[String],
    rows: &[Vec<String>],
    aligns: &[Align],
    layout: TextLayout,
    out: &mut impl Write,
) -> io::Result<()> {
    let indented = |line: String| {
        let line = format!("  {line}");
        match layout.max_width {
            Some(max_width) => truncate(&line, max_width).into_owned(),
            None => line,
        }
    };
    let (heading, rows) = aligned_lines(heading, rows, aligns);
    writeln!(out, "{}", layout.paint.with(Style::Dim, indented(heading)))?;
    rows.into_iter().try_for_each(|row| writeln!(out, "{}", indented(row)))
}

/// Returns a heading and rows as lines.
pub(crate) fn aligned_lines(
    heading: &[String],
    rows: &[Vec<String>],
    aligns: &[Align],
) -> (String, Vec<String>) {
    let last_column = aligns.len().saturating_sub(1);
    let widest = |index: usize| {
        let cells = rows.iter().map(|row| width(&row[index]));
        cells.max().unwrap_or(0).max(width(&heading[index]))
    };
    let widths: Vec<usize> = aligns
        .iter()
        .enumerate()
        .map(|(index, align)| match align {
            Align::Left if index != last_column => widest(index).min(MAX_WIDTH),
            Align::Left | Align::Right => widest(index),
        })
        .collect();
    let line = |row: &[String]| {
        let cells = row.iter().zip(aligns).zip(&widths).map(|((cell, align), &column_width)| {
            let cell = truncate_name(cell, column_width);
            let padding = " ".repeat(column_width - width(&cell));
            match align {
                Align::Left => format!("{cell}{padding}"),
                Align::Right => format!("{padding}{cell}"),
            }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    (line(heading), rows.iter().map(|row| line(row)).collect())
}
