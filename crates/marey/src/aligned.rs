//! Columns that stand below each other.

use std::io::{self, Write};

use crate::output::{Paint, Style};
use crate::text::{cut, width};

/// Longest text of a column that is not the last.
const WIDEST: usize = 60;

/// What stands below headings.
pub(crate) const RULE: &str = "============================================================";

/// How a text looks where it is shown.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub(crate) paint: Paint,
    /// Columns of the terminal; nothing is cut there where there is none.
    pub(crate) room: Option<usize>,
}

/// At which side of its column a text stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Writes a heading and rows below it; each row has a cell for each column.
pub(crate) fn write_rows(
    heading: &[String],
    rows: &[Vec<String>],
    aligns: &[Align],
    look: Look,
    out: &mut impl Write,
) -> io::Result<()> {
    let last = aligns.len().saturating_sub(1);
    let widest = |at: usize| {
        let cells = rows.iter().map(|row| width(&row[at]));
        cells.max().unwrap_or(0).max(width(&heading[at]))
    };
    let widths: Vec<usize> = aligns
        .iter()
        .enumerate()
        .map(|(at, align)| match align {
            Align::Left if at != last => widest(at).min(WIDEST),
            Align::Left | Align::Right => widest(at),
        })
        .collect();
    let line = |row: &[String]| {
        let mut line = String::new();
        for ((cell, align), &columns) in row.iter().zip(aligns).zip(&widths) {
            let cell = cut(cell, columns);
            let gap = " ".repeat(columns - width(&cell));
            match align {
                Align::Left => line.extend(["  ", &cell, &gap]),
                Align::Right => line.extend(["  ", &gap, &cell]),
            }
        }
        let line = line.trim_end();
        look.room.map_or(line.to_owned(), |room| cut(line, room).into_owned())
    };
    writeln!(out, "{}", look.paint.with(Style::Dim, line(heading)))?;
    rows.iter().try_for_each(|row| writeln!(out, "{}", line(row)))
}
