//! Combines several graphs into one: arithmetic on two profiles, their difference, and columns side
//! by side. Nodes with the same path are one node of the result.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use marey_model::metric::MetricValue;

use super::column::{self, Cells, Column, INCLUSIVE};
use super::{Graph, Node, OwnMetric, Side, layout};

/// An operator on two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnOperator {
    /// Left plus right.
    Add,
    /// Left minus right.
    Subtract,
    /// Left times right.
    Multiply,
    /// Left divided by right.
    Divide,
}

impl ColumnOperator {
    fn apply(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            Self::Divide => left / right,
        }
    }
}

/// The labels of the four columns into which [`Graph::difference`] turns one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DifferenceLabels {
    /// The value before.
    pub before: String,
    /// The value after.
    pub after: String,
    /// After minus before. A node that is missing on one side counts as 0 there.
    pub difference: String,
    /// After divided by before, or NaN for a node that is missing on one side.
    pub ratio: String,
}

impl DifferenceLabels {
    /// The labels for the column `label`.
    pub fn new(label: &str) -> Self {
        Self {
            before: format!("{label} before"),
            after: format!("{label} after"),
            difference: format!("{label} difference"),
            ratio: format!("{label} ratio"),
        }
    }

    /// The labels in the order of the columns, each with the word for its values.
    pub fn by_word(self) -> [(&'static str, String); 4] {
        let Self { before, after, difference, ratio } = self;
        [("before", before), ("after", after), ("difference", difference), ("ratio", ratio)]
    }
}

impl Graph {
    /// Returns the first of `labels` for which the two graphs cannot be combined, and the side that
    /// lacks the column. A metric of one profile alone can be combined, but a column that was
    /// derived or set in one graph alone cannot.
    pub fn find_incompatible_label<L: AsRef<str>>(
        &self,
        right: &Self,
        labels: &[L],
    ) -> Option<(String, Side)> {
        let graph_labels = [self.labels(), right.labels()];
        let [left_labels, right_labels] = graph_labels
            .each_ref()
            .map(|labels| labels.iter().map(|label| &**label).collect::<HashSet<_>>());
        let is_extra_column = |graph: &Self, label: &str| {
            !graph.metrics.iter().any(|entry| &*entry.metric.key == label)
                && !graph.is_sum(label)
                && graph.numbers(label).is_ok()
        };
        labels.iter().map(AsRef::as_ref).find_map(|label| {
            let lacking_side = match (left_labels.contains(label), right_labels.contains(label)) {
                (false, false) => Side::Both,
                (true, false) if is_extra_column(self, label) => Side::Right,
                (false, true) if is_extra_column(right, label) => Side::Left,
                _ => return None,
            };
            Some((label.to_owned(), lacking_side))
        })
    }

    /// Returns the nodes of both graphs, with `self operator right` in the columns `labels`.
    /// Without labels, the operator applies to all columns, and to the metrics behind them, so that
    /// filters sum these again.
    ///
    /// It follows hatchet's rules. If the result is NaN because one side has no value, the left
    /// value is kept. Nodes that only the right graph has are included without numbers. If a column
    /// is not numeric, the left one is kept.
    #[must_use]
    pub fn combine(
        &self,
        right: &Self,
        operator: ColumnOperator,
        labels: Option<&[String]>,
    ) -> Self {
        let mut union = Union::new(&[self, right]);
        let all_labels = || distinct_labels(&[self, right]);
        for label in labels.map_or_else(all_labels, <[String]>::to_vec) {
            let cells = self.combine_column(right, operator, &label, &union);
            let label: Arc<str> = label.into();
            let is_metric =
                |graph: &Self| graph.metrics.iter().any(|entry| entry.metric.key == label);
            if labels.is_none() && (is_metric(self) || is_metric(right)) {
                let is_sum = |graph: &Self| graph.is_sum(&format!("{label}{INCLUSIVE}"));
                let is_inclusive = is_sum(self) || is_sum(right);
                let metric = column::to_sparse_metric(label, &cells);
                union.graph.metrics.push(OwnMetric { metric, is_inclusive });
            } else {
                union.graph.columns.push(Column { label, cells });
            }
        }
        union.graph
    }

    fn combine_column(
        &self,
        right: &Self,
        operator: ColumnOperator,
        label: &str,
        union: &Union,
    ) -> Cells {
        match (self.numbers(label).ok(), right.numbers(label).ok()) {
            (None, None) => union.first_cells([self.column(label), right.column(label)]),
            (left, right) => {
                let left = union.move_numbers(0, left);
                let right = union.move_numbers(1, right);
                let apply = |(&left, right): (&f64, f64)| {
                    let result = operator.apply(left, right);
                    if result.is_nan() { left } else { result }
                };
                Cells::from_floats(left.iter().zip(right).map(apply).collect())
            }
        }
    }

    /// Returns the changes since `before`. Each column of `labels` becomes the four columns of
    /// [`DifferenceLabels`]. Nodes on [`Side::Left`] were added, and nodes on [`Side::Right`] were
    /// removed.
    #[must_use]
    pub fn difference(&self, before: &Self, labels: &[String]) -> Self {
        let mut union = Union::new(&[self, before]);
        for label in labels {
            let after = union.move_numbers(0, self.numbers(label).ok());
            let before = union.move_numbers(1, before.numbers(label).ok());
            let pairs = || after.iter().copied().zip(before.iter().copied());
            let difference =
                pairs().map(|(after, before)| subtract_or_zero(after, before)).collect();
            let ratio = pairs().map(|(after, before)| after / before).collect();
            let labels = DifferenceLabels::new(label).by_word();
            for ((_, label), values) in labels.into_iter().zip([before, after, difference, ratio]) {
                let cells = Cells::from_floats(values);
                union.graph.columns.push(Column { label: label.into(), cells });
            }
        }
        union.graph
    }
}

fn subtract_or_zero(after: f64, before: f64) -> f64 {
    match (after.is_nan(), before.is_nan()) {
        (false, true) => after,
        (true, false) => -before,
        _ => after - before,
    }
}

/// Returns the nodes of all graphs, with each column of `labels` once per graph, under the label
/// `name: label`.
pub fn side_by_side(graphs: &[(&str, &Graph)], labels: &[String]) -> Graph {
    let unnamed_graphs: Vec<&Graph> = graphs.iter().map(|(_, graph)| *graph).collect();
    let mut union = Union::new(&unnamed_graphs);
    for label in labels {
        for (graph_index, (name, graph)) in graphs.iter().enumerate() {
            let cells = match graph.column(label) {
                Some(Cells::Numbers { values, are_whole }) => Cells::Numbers {
                    values: union.move_numbers(graph_index, Some(values)),
                    are_whole,
                },
                other => Cells::Values(union.move_cells(graph_index, other)),
            };
            union.graph.columns.push(Column { label: format!("{name}: {label}").into(), cells });
        }
    }
    union.graph
}

fn distinct_labels(graphs: &[&Graph]) -> Vec<String> {
    let mut seen_labels = HashSet::new();
    let labels = graphs.iter().flat_map(|graph| graph.labels());
    let labels = labels.filter(|label| seen_labels.insert(label.clone()));
    labels.map(|label| label.to_string()).collect()
}

/// The merged nodes with one parent and one name. There are several only if one graph has several.
#[derive(Default)]
struct SameNameNodes {
    indexes: Vec<usize>,
    /// The number of these nodes that are already matched with nodes of the current graph.
    matched_count: usize,
    /// The index of the graph that is being merged.
    graph_index: usize,
}

impl SameNameNodes {
    /// Returns the next node that is not yet matched with a node of the graph `graph_index`, and
    /// marks it as matched.
    fn next_unmatched(&mut self, graph_index: usize) -> Option<usize> {
        if self.graph_index != graph_index {
            self.graph_index = graph_index;
            self.matched_count = 0;
        }
        let index = self.indexes.get(self.matched_count).copied()?;
        self.matched_count += 1;
        Some(index)
    }

    /// Adds a node of the current graph, and marks it as matched.
    fn add(&mut self, index: usize) -> usize {
        self.indexes.push(index);
        self.matched_count += 1;
        index
    }
}

/// The nodes of several graphs. Nodes with the same path are merged.
struct Union {
    graph: Graph,
    /// For each graph, the new index of each of its nodes.
    indexes: Vec<Vec<usize>>,
}

impl Union {
    fn new(graphs: &[&Graph]) -> Self {
        let mut nodes: Vec<Node> = Vec::new();
        let mut nodes_by_name: HashMap<(Option<usize>, Arc<str>), SameNameNodes> = HashMap::new();
        let mut indexes = Vec::new();
        for (graph_index, graph) in graphs.iter().enumerate() {
            let mut new_index = vec![0; graph.nodes.len()];
            for old_index in nodes_in_creation_order(graph) {
                let node = &graph.nodes[old_index];
                let parent = node.parent.map(|parent| new_index[parent]);
                let same_name_nodes =
                    nodes_by_name.entry((parent, node.profile_name.clone())).or_default();
                new_index[old_index] = if let Some(index) =
                    same_name_nodes.next_unmatched(graph_index)
                {
                    nodes[index].side = Side::Both;
                    index
                } else {
                    let side = if graph_index == 0 { Side::Left } else { Side::Right };
                    nodes.push(Node { parent, creation_rank: nodes.len(), side, ..node.clone() });
                    same_name_nodes.add(nodes.len() - 1)
                };
            }
            indexes.push(new_index);
        }
        let (nodes, arranged_indexes) = layout::arrange(nodes);
        for index in indexes.iter_mut().flatten() {
            *index = arranged_indexes[*index];
        }
        let graph = Graph {
            nodes,
            metrics: Vec::new(),
            columns: Vec::new(),
            devices: graphs.first().map_or_else(Vec::new, |graph| graph.devices.clone()),
            meta: graphs.first().map_or_else(Default::default, |graph| graph.meta.clone()),
        };
        Self { graph, indexes }
    }

    /// The values of one graph at their new indexes, NaN elsewhere.
    fn move_numbers(&self, graph_index: usize, values: Option<Vec<f64>>) -> Vec<f64> {
        let mut moved = vec![f64::NAN; self.graph.nodes.len()];
        for (&index, value) in self.indexes[graph_index].iter().zip(values.unwrap_or_default()) {
            moved[index] = value;
        }
        moved
    }

    /// The cells of one graph at their new indexes.
    fn move_cells(&self, graph_index: usize, cells: Option<Cells>) -> Vec<Option<MetricValue>> {
        let mut moved = vec![None; self.graph.nodes.len()];
        if let Some(cells) = cells {
            for (old_index, &index) in self.indexes[graph_index].iter().enumerate() {
                moved[index] = cells.get(old_index);
            }
        }
        moved
    }

    /// For each node, the cell of the first graph that has one.
    fn first_cells(&self, columns: [Option<Cells>; 2]) -> Cells {
        let [left, right] = columns;
        let left = self.move_cells(0, left);
        let right = self.move_cells(1, right);
        Cells::Values(left.into_iter().zip(right).map(|(left, right)| left.or(right)).collect())
    }
}

/// Returns the nodes in the order in which the program created them. Each comes after its parent.
fn nodes_in_creation_order(graph: &Graph) -> Vec<usize> {
    let mut indexes: Vec<usize> = (0..graph.nodes.len()).collect();
    indexes.sort_by_key(|&index| graph.nodes[index].creation_rank);
    indexes
}
