//! Writes the rows of `marey view` as a table: aligned columns, then the tree.

use std::io::{self, Write};

use marey_query::graph::{Cells, Graph};

use super::columns::TableColumn;
use super::number;
use super::rows::{Rows, TreeLines};
use crate::output::{Paint, Style};
use crate::text::{printable, width};

/// The separator of columns.
const GAP: &str = "  ";

/// A table to write.
pub(super) struct TreeTable<'a> {
    pub(super) graph: &'a Graph,
    pub(super) columns: &'a [TableColumn],
    pub(super) rows: &'a Rows,
    pub(super) bar: Option<Bar<'a>>,
    pub(super) paint: Paint,
}

impl TreeTable<'_> {
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let widths: Vec<usize> = self.columns.iter().map(|column| self.width(column)).collect();
        let mut line = String::new();
        for (column, column_width) in self.columns.iter().zip(&widths) {
            pad(&mut line, &column.title, *column_width);
            line.push_str(&column.title);
            line.push_str(GAP);
        }
        if self.bar.is_some() {
            number::push(&mut line, format_args!("{:1$}", Bar::TITLE, Bar::WIDTH));
            line.push_str(GAP);
        }
        line.push_str("name");
        writeln!(out, "{}", self.paint.with(Style::Dim, &line))?;

        let mut tree_lines = TreeLines::default();
        let mut cell = String::new();
        for row in &self.rows.rows {
            let node = &self.graph.nodes()[row.node_index];
            line.clear();
            for (column, column_width) in self.columns.iter().zip(&widths) {
                cell.clear();
                column.push_cell(&mut cell, row.node_index);
                pad(&mut line, &cell, *column_width);
                self.push(&mut line, column.style(row.node_index), &cell);
                line.push_str(GAP);
            }
            if let Some(bar) = &self.bar {
                cell.clear();
                let style = bar.push(&mut cell, row.node_index);
                self.push(&mut line, style, &cell);
                line.push_str(GAP);
            }
            cell.clear();
            tree_lines.push(&mut cell, node.depth, row.is_last);
            self.push(&mut line, Some(Style::Dim), &cell);
            line.push_str(&printable(&node.name));
            line.push('\n');
            out.write_all(line.as_bytes())?;
        }
        Ok(())
    }

    fn width(&self, column: &TableColumn) -> usize {
        let mut cell = String::new();
        let mut widest = width(&column.title);
        for row in &self.rows.rows {
            cell.clear();
            column.push_cell(&mut cell, row.node_index);
            widest = widest.max(width(&cell));
        }
        widest
    }

    fn push(&self, line: &mut String, style: Option<Style>, text: &str) {
        match style {
            Some(style) if self.paint.is_on && !text.is_empty() => {
                number::push(line, format_args!("{}", self.paint.with(style, text)));
            }
            _ => line.push_str(text),
        }
    }
}

/// A column of bars that show each node's share of a total.
pub(super) struct Bar<'a> {
    pub(super) cells: &'a Cells,
    /// The value of a full bar.
    pub(super) total: f64,
}

impl Bar<'_> {
    const TITLE: &'static str = "share";
    const WIDTH: usize = 8;

    /// Appends the bar of a node. Returns its colour.
    fn push(&self, out: &mut String, node: usize) -> Option<Style> {
        const EIGHTH_BLOCKS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
        let share = number::from_cell(self.cells, node) / self.total;
        // NaN is converted to 0, which is an empty bar.
        let eighths =
            (share.clamp(0.0, 1.0) * (Self::WIDTH * EIGHTH_BLOCKS.len()) as f64).round() as usize;
        let (full_blocks, part_eighths) =
            (eighths / EIGHTH_BLOCKS.len(), eighths % EIGHTH_BLOCKS.len());
        out.extend(std::iter::repeat_n('█', full_blocks));
        out.push_str(EIGHTH_BLOCKS[part_eighths]);
        let filled_columns = full_blocks + usize::from(part_eighths > 0);
        out.extend(std::iter::repeat_n(' ', Self::WIDTH - filled_columns));
        match share {
            _ if filled_columns == 0 => None,
            share if share >= 0.5 => Some(Style::Red),
            share if share >= 0.1 => Some(Style::Yellow),
            _ => Some(Style::Green),
        }
    }
}

fn pad(line: &mut String, cell: &str, column_width: usize) {
    line.extend(std::iter::repeat_n(' ', column_width - width(cell)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::choose::ChosenMetric;
    use crate::view::fixture;
    use crate::view::rows::SiblingOrder;

    fn table(paint: Paint) -> String {
        let graph = fixture::graph();
        let time = ChosenMetric::from_file("time (ns)".into());
        let cells = graph.column(&time.label).unwrap();
        let rows = Rows::new(&graph, SiblingOrder::Name, None, 2);
        let columns = [TableColumn::from_metric(&graph, &time)];
        let bar = Some(Bar { cells: &cells, total: 10.5 });
        let mut text = Vec::new();
        TreeTable { graph: &graph, columns: &columns, rows: &rows, bar, paint }
            .write(&mut text)
            .unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn bars_show_shares_of_the_total() {
        assert_eq!(
            table(Paint { is_on: false }),
            "time  share     name\n                ROOT\n1 ns  ▊         ├─ a\n\
             3 ns  ██▎       ├─ b\n2 ns  █▌        └─ c\n"
        );
    }

    #[test]
    fn colour_codes_surround_texts_only_if_enabled() {
        let coloured = table(Paint { is_on: true });
        assert!(coloured.starts_with("\x1b[2mtime  share     name\x1b[0m\n"), "{coloured}");
        assert!(coloured.contains("\x1b[32m▊       \x1b[0m  \x1b[2m├─ \x1b[0ma\n"), "{coloured}");
        assert!(coloured.contains("\x1b[1;33m██▎     \x1b[0m  "), "{coloured}");
    }

    #[test]
    fn bars_have_a_fixed_width() {
        let cells =
            Cells::Numbers { values: vec![-1.0, 0.0, 8.0, 99.0, f64::NAN, 0.06], are_whole: false };
        let bar = Bar { cells: &cells, total: 8.0 };
        let drawn = |node| {
            let mut text = String::new();
            let style = bar.push(&mut text, node);
            (text, style)
        };
        let full = ("████████".to_owned(), Some(Style::Red));
        let empty = ("        ".to_owned(), None);
        assert_eq!([drawn(0), drawn(1), drawn(4)], [empty.clone(), empty.clone(), empty]);
        assert_eq!([drawn(2), drawn(3)], [full.clone(), full]);
        assert_eq!(drawn(5), ("        ".to_owned(), None));
    }
}
