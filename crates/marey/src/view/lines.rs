//! Prints trees like Proton's viewer: a line for each node, with the values and then the name. The
//! Python package uses it too.
//!
//! It differs from Proton's viewer in two ways. Control characters are escaped, and texts may
//! appear in place of numbers.

use std::fmt::{self, Display};
use std::io::{self, Write};

use marey_model::metric::MetricValue;
use marey_query::graph::{Cells, Graph, Side};

use super::number;
use super::rows::{TreeLines, compare_descending};
use crate::text::printable;

pub use super::rows::{Rows, SiblingOrder};

/// Style of a line.
#[derive(Clone, Copy, Debug)]
pub struct LineStyle {
    /// Decimal places.
    pub precision: usize,
    /// Whether long names are shortened in the middle.
    pub has_short_names: bool,
    /// Whether nodes that only one of two graphs has are marked.
    pub has_marks: bool,
}

/// The length of the longest name that is not shortened, and of each end of a shortened name, in
/// characters.
const MAX_SHORT_CHARS: usize = 39;
const SHORT_END_CHARS: usize = 18;

/// The maximum length of a name in a sorted list, in characters, and the width of its column.
const MAX_SORTED_CHARS: usize = 100;
const SORTED_WIDTH: usize = 105;

/// Writes a line for each node: the values of the columns, then the name.
pub fn write_tree(
    out: &mut impl Write,
    graph: &Graph,
    columns: &[Cells],
    rows: &Rows,
    style: LineStyle,
) -> io::Result<()> {
    let mut tree_lines = TreeLines::default();
    let mut line = String::new();
    for row in &rows.rows {
        let node = &graph.nodes()[row.node_index];
        line.clear();
        tree_lines.push(&mut line, node.depth, row.is_last);
        for cells in columns {
            push_cell(&mut line, cells, row.node_index, style.precision);
            line.push(' ');
        }
        push_name(&mut line, &node.name, style.has_short_names);
        if style.has_marks {
            line.push_str(match node.side {
                Side::Both => "",
                Side::Left => " ◀ ",
                Side::Right => " ▶ ",
            });
        }
        line.push('\n');
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

/// Writes all nodes but the roots by decreasing value, under a heading with the label.
pub(super) fn write_sorted(
    out: &mut impl Write,
    graph: &Graph,
    label: &str,
    cells: &Cells,
) -> io::Result<()> {
    let nodes = graph.nodes();
    let mut order: Vec<usize> = (0..nodes.len()).filter(|&node| nodes[node].depth > 0).collect();
    let value = |node: usize| number::from_cell(cells, node);
    order.sort_unstable_by(|&a, &b| compare_descending(value(a), value(b)).then(a.cmp(&b)));
    writeln!(out, "Sorted kernels by metric {}", printable(label))?;
    let mut name = String::new();
    let mut value_text = String::new();
    for node in order {
        name.clear();
        match nodes[node].name.char_indices().nth(MAX_SORTED_CHARS) {
            Some((end, _)) => {
                number::push(&mut name, format_args!("{}...", printable(&nodes[node].name[..end])));
            }
            None => name.push_str(&printable(&nodes[node].name)),
        }
        value_text.clear();
        match cells {
            Cells::Values(values) if is_text(values[node].as_ref()) => {
                push_cell(&mut value_text, cells, node, 0);
            }
            _ => number::push_general(&mut value_text, value(node)),
        }
        writeln!(out, "{name:SORTED_WIDTH$} {value_text}")?;
    }
    Ok(())
}

fn is_text(value: Option<&MetricValue>) -> bool {
    !matches!(value, None | Some(MetricValue::Int(_) | MetricValue::Float(_)))
}

fn push_cell(line: &mut String, cells: &Cells, node: usize, precision: usize) {
    match cells {
        Cells::Values(values) => match &values[node] {
            Some(MetricValue::Text(text)) => line.push_str(&printable(text)),
            Some(MetricValue::Ints(values)) => push_list(line, values),
            Some(MetricValue::Floats(values)) => push_list(line, values),
            _ => number::push_fixed(line, number::from_cell(cells, node), precision),
        },
        Cells::Numbers { values, .. } => number::push_fixed(line, values[node], precision),
    }
}

fn push_list(line: &mut String, values: &[impl Display]) {
    number::push(line, format_args!("[{}]", Joined(values)));
}

struct Joined<'a, T>(&'a [T]);

impl<T: Display> Display for Joined<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, value) in self.0.iter().enumerate() {
            f.write_str(if index > 0 { ", " } else { "" })?;
            value.fmt(f)?;
        }
        Ok(())
    }
}

fn push_name(line: &mut String, name: &str, is_short: bool) {
    let byte_offset = |char_index: usize| {
        name.char_indices().nth(char_index).map_or(name.len(), |(start, _)| start)
    };
    let char_count = if is_short { name.chars().count() } else { 0 };
    if char_count > MAX_SHORT_CHARS {
        line.push_str(&printable(&name[..byte_offset(SHORT_END_CHARS)]));
        line.push_str("...");
        line.push_str(&printable(&name[byte_offset(char_count - SHORT_END_CHARS)..]));
    } else {
        line.push_str(&printable(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::fixture;

    const STYLE: LineStyle = LineStyle { precision: 3, has_short_names: false, has_marks: false };

    fn tree(graph: &Graph, labels: &[&str], style: LineStyle) -> String {
        let columns: Vec<Cells> = labels.iter().map(|label| graph.column(label).unwrap()).collect();
        let rows = Rows::new(graph, SiblingOrder::Name, None, 100);
        let mut text = Vec::new();
        write_tree(&mut text, graph, &columns, &rows, style).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn texts_and_lists_appear_in_place_of_numbers() {
        assert_eq!(
            tree(&fixture::graph(), &["time (ns)", "note", "shape"], STYLE),
            "nan nan nan ROOT\n\
             ├─ 1.000 a\\tb nan a\n\
             │  └─ 4.500 nan [8, 128] x\n\
             ├─ 3.000 nan nan b\n\
             └─ 2.000 nan nan c\n"
        );
    }

    #[test]
    fn long_names_are_shortened_only_on_request() {
        let name: String = ('a'..='z').chain('é'..='ÿ').collect();
        let graph = fixture::named(&name);
        assert_eq!(tree(&graph, &[], STYLE), format!("ROOT\n└─ {name}\n"));
        let style = LineStyle { has_short_names: true, ..STYLE };
        assert_eq!(tree(&graph, &[], style), "ROOT\n└─ abcdefghijklmnopqr...îïðñòóôõö÷øùúûüýþÿ\n");
        let graph = fixture::named(&name[..26]);
        assert_eq!(tree(&graph, &[], style), tree(&graph, &[], STYLE));
    }

    #[test]
    fn control_characters_are_escaped() {
        let graph = fixture::named("a\x1b[2J\nb\r");
        assert_eq!(tree(&graph, &[], STYLE), "ROOT\n└─ a\\u{1b}[2J\\nb\\r\n");
        let mut text = Vec::new();
        let cells = Cells::Numbers { values: vec![0.0, 1.0], are_whole: true };
        write_sorted(&mut text, &graph, "m\x1b", &cells).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            format!("Sorted kernels by metric m\\u{{1b}}\n{:105} 1.0\n", "a\\u{1b}[2J\\nb\\r")
        );
    }

    #[test]
    fn sorted_names_are_cut_at_a_hundred_characters() {
        let sorted = |length: usize| {
            let graph = fixture::named(&"é".repeat(length));
            let cells = Cells::Numbers { values: vec![9.0, 1234.5], are_whole: false };
            let mut text = Vec::new();
            write_sorted(&mut text, &graph, "m", &cells).unwrap();
            String::from_utf8(text).unwrap().lines().nth(1).unwrap().to_owned()
        };
        assert_eq!(sorted(100), format!("{}      1.234e+03", "é".repeat(100)));
        assert_eq!(sorted(101), format!("{}...   1.234e+03", "é".repeat(100)));
    }
}
