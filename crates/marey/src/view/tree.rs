//! Rows as text: the columns, then the tree.

use std::io::{self, Write};

use marey_formats::hatchet::Profile;

use super::columns::Column;
use super::rows::Rows;
use super::units;
use crate::output::Paint;

pub(super) fn write(
    out: &mut impl Write,
    paint: Paint,
    profile: &Profile,
    columns: &[Column],
    rows: &Rows,
) -> io::Result<()> {
    let cells: Vec<Vec<String>> = columns.iter().map(|column| cells(column, rows)).collect();
    let widths: Vec<usize> = columns
        .iter()
        .zip(&cells)
        .map(|(column, cells)| cells.iter().chain([&column.title]).map(|cell| width(cell)).max())
        .map(Option::unwrap_or_default)
        .collect();
    let mut header = String::new();
    for (column, width) in columns.iter().zip(&widths) {
        push_cell(&mut header, &column.title, *width);
    }
    writeln!(out, "{}", paint.dim(&format!("{header}name")))?;

    let mut rails: Vec<&str> = Vec::new();
    let mut line = String::new();
    for (index, row) in rows.rows.iter().enumerate() {
        line.clear();
        for (cells, width) in cells.iter().zip(&widths) {
            push_cell(&mut line, &cells[index], *width);
        }
        let mut branch = String::new();
        if let Some(level) = row.depth.checked_sub(1) {
            rails.truncate(level);
            branch.extend(rails.iter().copied());
            branch.push_str(if row.is_last { "└─ " } else { "├─ " });
            rails.push(if row.is_last { "   " } else { "│  " });
        }
        let name = units::printable(&profile.nodes[row.node.index()].name);
        writeln!(out, "{line}{}{name}", paint.dim(&branch))?;
    }
    Ok(())
}

fn cells(column: &Column, rows: &Rows) -> Vec<String> {
    let value = |index: usize| column.values[index].as_ref();
    let show = |value| units::show(value, column.unit);
    rows.rows.iter().map(|row| value(row.node.index()).map(show).unwrap_or_default()).collect()
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

fn push_cell(line: &mut String, cell: &str, columns: usize) {
    line.extend(std::iter::repeat_n(' ', columns - width(cell)));
    line.push_str(cell);
    line.push_str("  ");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::rows::Row;
    use marey_formats::hatchet::{self, NodeId};

    #[test]
    fn colour_is_added_around_the_text_and_only_if_wanted() {
        let file = br#"[{"frame": {"name": "ROOT"}, "children": [{"frame": {"name": "a"}}]}]"#;
        let profile = hatchet::parse(file).unwrap();
        let child = profile.root().children[0];
        let rows = Rows {
            rows: vec![
                Row { node: NodeId::ROOT, depth: 0, is_last: true },
                Row { node: child, depth: 1, is_last: true },
            ],
            hidden: 0,
        };
        let render = |is_on| {
            let mut text = Vec::new();
            write(&mut text, Paint { is_on }, &profile, &[], &rows).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(render(false), "name\nROOT\n└─ a\n");
        assert_eq!(render(true), "\x1b[2mname\x1b[0m\nROOT\n\x1b[2m└─ \x1b[0ma\n");
    }
}
