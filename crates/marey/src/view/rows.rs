//! Selects and orders the nodes that `marey view` shows, and draws the lines of the tree.

use std::cmp::Ordering;

use marey_query::graph::{Cells, Graph};

use super::number;

/// The order of siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiblingOrder {
    /// By name.
    Name,
    /// In the order of recording.
    FirstSeen,
    /// By decreasing value. Nodes without a number come last.
    Value,
}

/// The nodes to show, each after its parent.
#[derive(Debug)]
pub struct Rows {
    pub(super) rows: Vec<TreeRow>,
}

/// A node to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TreeRow {
    pub(super) node_index: usize,
    /// Whether the node is the last of its siblings.
    pub(super) is_last: bool,
}

impl Rows {
    /// Selects the top `levels` of the graph. [`SiblingOrder::Value`] sorts by `sort_column`.
    pub fn new(
        graph: &Graph,
        order: SiblingOrder,
        sort_column: Option<&Cells>,
        levels: usize,
    ) -> Self {
        let nodes = graph.nodes();
        let value = |row: &TreeRow| {
            sort_column.map_or(f64::NAN, |cells| number::from_cell(cells, row.node_index))
        };
        let compare = |a: &TreeRow, b: &TreeRow| match order {
            SiblingOrder::Name => a.node_index.cmp(&b.node_index),
            SiblingOrder::FirstSeen => {
                nodes[a.node_index].creation_rank.cmp(&nodes[b.node_index].creation_rank)
            }
            SiblingOrder::Value => {
                compare_descending(value(a), value(b)).then(a.node_index.cmp(&b.node_index))
            }
        };
        let mut rows = Vec::new();
        // This is a stack, so siblings are pushed in reverse order.
        let mut row_stack: Vec<TreeRow> = Vec::new();
        let push_children = |row_stack: &mut Vec<TreeRow>, parent: Option<usize>| {
            let first_child_index = row_stack.len();
            row_stack.extend(
                graph.children(parent).map(|node_index| TreeRow { node_index, is_last: false }),
            );
            row_stack[first_child_index..].sort_unstable_by(|a, b| compare(b, a));
            if let Some(last) = row_stack.get_mut(first_child_index) {
                last.is_last = true;
            }
        };
        if levels > 0 {
            push_children(&mut row_stack, None);
        }
        while let Some(row) = row_stack.pop() {
            rows.push(row);
            if nodes[row.node_index].depth + 1 < levels {
                push_children(&mut row_stack, Some(row.node_index));
            }
        }
        Self { rows }
    }

    /// Returns the number of nodes.
    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no nodes.
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// Compares two numbers for descending order. NaN comes last.
pub(super) fn compare_descending(number: f64, other: f64) -> Ordering {
    other.partial_cmp(&number).unwrap_or_else(|| number.is_nan().cmp(&other.is_nan()))
}

/// The lines of the tree before a name, one text for each level.
#[derive(Default)]
pub(super) struct TreeLines(Vec<&'static str>);

impl TreeLines {
    /// Appends the tree lines of a node. The caller passes the nodes in the order of their rows.
    pub(super) fn push(&mut self, line: &mut String, depth: usize, is_last: bool) {
        let Some(level) = depth.checked_sub(1) else { return };
        self.0.truncate(level);
        line.extend(self.0.iter().copied());
        line.push_str(if is_last { "└─ " } else { "├─ " });
        self.0.push(if is_last { "   " } else { "│  " });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::fixture;

    fn render(order: SiblingOrder, levels: usize) -> String {
        let graph = fixture::graph();
        let first = graph.column("time (ns)").unwrap();
        let rows = Rows::new(&graph, order, Some(&first), levels);
        let mut tree_lines = TreeLines::default();
        let mut text = String::new();
        for row in &rows.rows {
            let node = &graph.nodes()[row.node_index];
            tree_lines.push(&mut text, node.depth, row.is_last);
            text.push_str(&node.name);
            text.push('\n');
        }
        text
    }

    #[test]
    fn siblings_are_in_the_requested_order() {
        assert_eq!(render(SiblingOrder::Name, 9), "ROOT\n├─ a\n│  └─ x\n├─ b\n└─ c\n");
        assert_eq!(render(SiblingOrder::FirstSeen, 9), "ROOT\n├─ c\n├─ a\n│  └─ x\n└─ b\n");
        assert_eq!(render(SiblingOrder::Value, 9), "ROOT\n├─ b\n├─ c\n└─ a\n   └─ x\n");
    }

    #[test]
    fn deep_levels_are_cut() {
        assert_eq!(render(SiblingOrder::Name, 2), "ROOT\n├─ a\n├─ b\n└─ c\n");
        assert_eq!(render(SiblingOrder::Name, 1), "ROOT\n");
        assert_eq!(render(SiblingOrder::Name, 0), "");
    }

    #[test]
    fn nan_comes_last() {
        let mut values = [f64::NAN, -0.5, f64::INFINITY, f64::NEG_INFINITY, 2.0];
        values.sort_by(|&a, &b| compare_descending(a, b));
        assert_eq!(format!("{values:?}"), "[inf, 2.0, -0.5, -inf, NaN]");
    }
}
