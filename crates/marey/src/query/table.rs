//! Writes the rows of a query as a table: a heading, then aligned columns. Only the first rows are
//! buffered, to find the widths.

use std::io::Write;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{FieldRef, SchemaRef};
use arrow::util::display::ArrayFormatter;

use super::write::{RowWriter, arrow_error, formatters};
use crate::aligned::TextLayout;
use crate::output::{CommandError, Style};
use crate::text::{printable, truncate, width};

/// The separator of columns.
const GAP: &str = "  ";

/// The mark in place of columns that do not fit.
const ELLIPSIS: &str = "  …";

/// The number of rows that are buffered and determine the widths of columns.
const MEASURED_ROWS: usize = 1_000;

/// The minimum width of a shortened text column.
const MIN_TEXT_WIDTH: usize = 12;

/// The text of a null cell, which tells it from an empty text.
const NULL: &str = "null";

/// A table that is written as rows arrive.
pub(super) struct StreamedTable<W> {
    out: W,
    layout: TextLayout,
    columns: Vec<StreamedColumn>,
    /// Number of columns that fit.
    shown_columns: usize,
    /// Rows that are buffered until the widths are known.
    buffered_rows: Vec<Vec<StreamedCell>>,
    is_measured: bool,
}

struct StreamedColumn {
    title: String,
    is_number: bool,
    width: usize,
}

struct StreamedCell {
    text: String,
    is_null: bool,
}

impl<W: Write> StreamedTable<W> {
    pub(super) fn new(out: W, schema: &SchemaRef, layout: TextLayout) -> Self {
        let column = |field: &FieldRef| {
            let title = printable(field.name()).into_owned();
            let width = width(&title);
            StreamedColumn { title, is_number: field.data_type().is_numeric(), width }
        };
        let columns: Vec<_> = schema.fields().iter().map(column).collect();
        Self {
            out,
            layout,
            shown_columns: columns.len(),
            columns,
            buffered_rows: Vec::new(),
            is_measured: false,
        }
    }

    /// Sets the widths by the buffered rows, and writes these rows.
    fn measure(&mut self) -> Result<(), CommandError> {
        if self.is_measured {
            return Ok(());
        }
        self.is_measured = true;
        let buffered_rows = std::mem::take(&mut self.buffered_rows);
        for (index, column) in self.columns.iter_mut().enumerate() {
            let widest = buffered_rows.iter().map(|row| width(&row[index].text)).max();
            column.width = column.width.max(widest.unwrap_or(0));
        }
        if let Some(max_width) = self.layout.max_width {
            self.shown_columns = fit_columns(&mut self.columns, max_width);
        }
        let titles = self.columns.iter().map(|column| (column.title.as_str(), Some(Style::Dim)));
        let line = self.line(titles);
        self.out.write_all(line.as_bytes())?;
        buffered_rows.iter().try_for_each(|row| self.write_row(row))
    }

    fn write_row(&mut self, row: &[StreamedCell]) -> Result<(), CommandError> {
        let cells = row.iter().map(|cell| (&*cell.text, cell.is_null.then_some(Style::Dim)));
        let line = self.line(cells);
        Ok(self.out.write_all(line.as_bytes())?)
    }

    /// Returns a line with the columns that fit.
    fn line<'a>(&self, cells: impl Iterator<Item = (&'a str, Option<Style>)>) -> String {
        let mut line = String::new();
        let last_index = self.columns.len().saturating_sub(1);
        for (index, (column, (text, style))) in
            self.columns[..self.shown_columns].iter().zip(cells).enumerate()
        {
            let is_cut = self.layout.max_width.is_some() && !column.is_number;
            let text = if is_cut { truncate(text, column.width) } else { text.into() };
            let padding = column.width.saturating_sub(width(&text));
            let padding_before = if column.is_number { padding } else { 0 };
            let padding_after = if index == last_index { 0 } else { padding - padding_before };
            line.push_str(if index == 0 { "" } else { GAP });
            line.extend(std::iter::repeat_n(' ', padding_before));
            match style {
                Some(style) => line.push_str(&self.layout.paint.with(style, text).to_string()),
                None => line.push_str(&text),
            }
            line.extend(std::iter::repeat_n(' ', padding_after));
        }
        line.push_str(if self.shown_columns < self.columns.len() { ELLIPSIS } else { "" });
        line.push('\n');
        line
    }
}

impl<W: Write> RowWriter for StreamedTable<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), CommandError> {
        for row in rows(batch)? {
            let row = row?;
            if self.is_measured {
                self.write_row(&row)?;
            } else {
                self.buffered_rows.push(row);
                if self.buffered_rows.len() == MEASURED_ROWS {
                    self.measure()?;
                }
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), CommandError> {
        self.measure()?;
        Ok(self.out.flush()?)
    }
}

/// Returns the cells of a batch, row by row.
fn rows(
    batch: &RecordBatch,
) -> Result<impl Iterator<Item = Result<Vec<StreamedCell>, CommandError>>, CommandError> {
    let columns = formatters(batch, NULL)?;
    Ok((0..batch.num_rows()).map(move |row| {
        let cells = columns.iter().zip(batch.columns());
        cells.map(|(column, array)| StreamedCell::new(column, array, row)).collect()
    }))
}

impl StreamedCell {
    fn new(
        column: &ArrayFormatter<'_>,
        array: &dyn Array,
        row: usize,
    ) -> Result<Self, CommandError> {
        let text = column.value(row).try_to_string().map_err(arrow_error)?;
        let text = printable(&text).into_owned();
        Ok(Self { text, is_null: array.is_null(row) })
    }
}

/// Shortens the widest text columns until all columns fit. If that does not suffice, drops columns
/// on the right. Returns the number of columns that remain.
fn fit_columns(columns: &mut [StreamedColumn], max_width: usize) -> usize {
    for column in columns.iter_mut().filter(|column| !column.is_number) {
        column.width = column.width.min(max_width);
    }
    let mut needed_width = total_width(columns);
    while needed_width > max_width {
        let text_columns = columns.iter_mut().filter(|column| !column.is_number);
        match text_columns.max_by_key(|column| column.width) {
            Some(widest) if widest.width > MIN_TEXT_WIDTH => widest.width -= 1,
            _ => break,
        }
        needed_width -= 1;
    }
    let fits = |count: &usize| total_width(&columns[..*count]) + width(ELLIPSIS) <= max_width;
    match columns.len() {
        all if needed_width <= max_width => all,
        all => (1..all).rev().find(fits).unwrap_or(all.min(1)),
    }
}

fn total_width(columns: &[StreamedColumn]) -> usize {
    let gaps = columns.len().saturating_sub(1) * GAP.len();
    columns.iter().map(|column| column.width).sum::<usize>() + gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};

    use crate::output::Paint;

    fn batch() -> RecordBatch {
        let columns: [(&str, ArrayRef); 3] = [
            ("name", Arc::new(StringArray::from(vec![Some("blocks.0.attn"), None, Some("")]))),
            ("count", Arc::new(Int64Array::from(vec![Some(1), Some(-23456), None]))),
            ("path", Arc::new(StringArray::from(vec!["a/b\u{1b}", "train/step/forward", "é"]))),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
            .unwrap()
    }

    fn table(batches: &[RecordBatch], max_width: Option<usize>, is_on: bool) -> String {
        let mut out = Vec::new();
        let layout = TextLayout { paint: Paint { is_on }, max_width };
        let mut table: Box<dyn RowWriter> =
            Box::new(StreamedTable::new(&mut out, &batches[0].schema(), layout));
        for batch in batches {
            table.write(batch).map_err(drop).unwrap();
        }
        table.finish().map_err(drop).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_are_right_aligned_and_nothing_is_cut_in_a_pipe() {
        assert_eq!(
            table(&[batch()], None, false),
            "name            count  path\n\
             blocks.0.attn       1  a/b\\u{1b}\n\
             null           -23456  train/step/forward\n\
             \u{20}                null  é\n"
        );
    }

    #[test]
    fn a_narrow_terminal_shortens_the_widest_texts_and_then_drops_columns() {
        assert_eq!(
            table(&[batch()], Some(36), false),
            "name            count  path\n\
             blocks.0.attn       1  a/b\\u{1b}\n\
             null           -23456  train/step/f…\n\
             \u{20}                null  é\n"
        );
        assert_eq!(
            table(&[batch()], Some(24), false),
            "name           count  …\n\
             blocks.0.at…       1  …\n\
             null          -23456  …\n\
             \u{20}               null  …\n"
        );
        let narrowest = table(&[batch()], Some(3), false);
        assert_eq!(narrowest, "na…  …\nbl…  …\nnu…  …\n     …\n");
    }

    #[test]
    fn headings_and_nulls_are_dim() {
        let coloured = table(&[batch()], None, true);
        assert!(coloured.starts_with("\x1b[2mname\x1b[0m           "), "{coloured}");
        assert!(coloured.contains("\n\x1b[2mnull\x1b[0m           -23456  "), "{coloured}");
    }

    #[test]
    fn an_empty_result_has_a_heading() {
        assert_eq!(table(&[batch().slice(0, 0)], None, false), "name  count  path\n");
    }

    #[test]
    fn the_first_rows_determine_column_widths() {
        let column = |value, count| {
            let values: ArrayRef = Arc::new(Float64Array::from(vec![value; count]));
            RecordBatch::try_from_iter([("x", values)]).unwrap()
        };
        let text = table(&[column(0.25, MEASURED_ROWS), column(1e-300, 1)], None, false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], lines[1], lines[1001]), ("   x", "0.25", "1e-300"));
    }
}
