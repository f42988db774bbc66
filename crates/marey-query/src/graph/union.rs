//! Combinations of several graphs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use marey_model::metric::MetricValue;

use super::column::{self, Cells, Column, INCLUSIVE};
use super::{Graph, Node, OwnMetric, Side};

/// An operator on two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Left plus right.
    Add,
    /// Left minus right.
    Subtract,
    /// Left times right.
    Multiply,
    /// Left divided by right.
    Divide,
}

impl Operator {
    fn apply(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            Self::Divide => left / right,
        }
    }
}

/// Labels of the four columns that [`Graph::difference`] makes from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The value before.
    pub before: String,
    /// The value after.
    pub after: String,
    /// After minus before; a node that is missing on one side counts as 0 there.
    pub difference: String,
    /// After divided by before; NaN for a node that is missing on one side.
    pub ratio: String,
}

impl Compared {
    /// The labels for the column `label`.
    pub fn of(label: &str) -> Self {
        Self {
            before: format!("{label} before"),
            after: format!("{label} after"),
            difference: format!("{label} difference"),
            ratio: format!("{label} ratio"),
        }
    }
}

impl Graph {
    /// The first of `labels` for which the two graphs cannot be combined, and the side that lacks
    /// it: both sides, or one if the other derived or set the column rather than having it in its
    /// profile.
    pub fn lacking<L: AsRef<str>>(&self, right: &Self, labels: &[L]) -> Option<(String, Side)> {
        let all = [self.labels(), right.labels()];
        let [left_has, right_has] = all
            .each_ref()
            .map(|labels| labels.iter().map(|label| &**label).collect::<HashSet<_>>());
        let is_added = |graph: &Self, label: &str| {
            !graph.metrics.iter().any(|entry| &*entry.metric.key == label)
                && !graph.is_sum(label)
                && graph.numbers(label).is_ok()
        };
        labels.iter().map(AsRef::as_ref).find_map(|label| {
            let lacks = match (left_has.contains(label), right_has.contains(label)) {
                (false, false) => Side::Both,
                (true, false) if is_added(self, label) => Side::Right,
                (false, true) if is_added(right, label) => Side::Left,
                _ => return None,
            };
            Some((label.to_owned(), lacks))
        })
    }

    /// The nodes of both graphs, with `self operator right` in the columns `labels`; without
    /// labels, in all columns and in the metrics behind them, which filters sum again.
    ///
    /// By hatchet's rules, the left value is kept where the result is NaN because one side has no
    /// value, and nodes that only the right graph has are included without numbers. Of columns that
    /// are not numeric, the left one is kept.
    #[must_use]
    pub fn combine(&self, right: &Self, operator: Operator, labels: Option<&[String]>) -> Self {
        let mut union = Union::of(&[self, right]);
        let all = || union_of_labels(&[self, right]);
        for label in labels.map_or_else(all, <[String]>::to_vec) {
            let cells = self.combined(right, operator, &label, &union);
            let label: Arc<str> = label.into();
            let is_metric =
                |graph: &Self| graph.metrics.iter().any(|entry| entry.metric.key == label);
            if labels.is_none() && (is_metric(self) || is_metric(right)) {
                let is_sum = |graph: &Self| graph.is_sum(&format!("{label}{INCLUSIVE}"));
                let is_inclusive = is_sum(self) || is_sum(right);
                let metric = column::sparse(label, &cells);
                union.graph.metrics.push(OwnMetric { metric, is_inclusive });
            } else {
                union.graph.columns.push(Column { label, cells });
            }
        }
        union.graph
    }

    fn combined(&self, right: &Self, operator: Operator, label: &str, union: &Union) -> Cells {
        match (self.numbers(label).ok(), right.numbers(label).ok()) {
            (None, None) => union.texts([self.column(label), right.column(label)]),
            (left, right) => {
                let left = union.numbers(0, left);
                let right = union.numbers(1, right);
                let apply = |(&left, right): (&f64, f64)| {
                    let result = operator.apply(left, right);
                    if result.is_nan() { left } else { result }
                };
                Cells::real(left.iter().zip(right).map(apply).collect())
            }
        }
    }

    /// The changes since `before`: each column of `labels` as the four columns of [`Compared`].
    /// Nodes on [`Side::Left`] were added, nodes on [`Side::Right`] removed.
    #[must_use]
    pub fn difference(&self, before: &Self, labels: &[String]) -> Self {
        let mut union = Union::of(&[self, before]);
        for label in labels {
            let after = union.numbers(0, self.numbers(label).ok());
            let before = union.numbers(1, before.numbers(label).ok());
            let pairs = || after.iter().copied().zip(before.iter().copied());
            let difference = pairs().map(|(after, before)| difference(after, before)).collect();
            let ratio = pairs().map(|(after, before)| after / before).collect();
            let names = Compared::of(label);
            for (label, values) in [
                (names.before, before),
                (names.after, after),
                (names.difference, difference),
                (names.ratio, ratio),
            ] {
                union
                    .graph
                    .columns
                    .push(Column { label: label.into(), cells: Cells::real(values) });
            }
        }
        union.graph
    }
}

fn difference(after: f64, before: f64) -> f64 {
    match (after.is_nan(), before.is_nan()) {
        (false, true) => after,
        (true, false) => -before,
        _ => after - before,
    }
}

/// The nodes of all graphs, with each column of `labels` once per graph, named `name: label`.
pub fn side_by_side(graphs: &[(&str, &Graph)], labels: &[String]) -> Graph {
    let each: Vec<&Graph> = graphs.iter().map(|(_, graph)| *graph).collect();
    let mut union = Union::of(&each);
    for label in labels {
        for (which, (name, graph)) in graphs.iter().enumerate() {
            let cells = match graph.column(label) {
                Some(Cells::Numbers { values, are_whole }) => {
                    Cells::Numbers { values: union.numbers(which, Some(values)), are_whole }
                }
                other => Cells::Values(union.moved(which, other)),
            };
            union.graph.columns.push(Column { label: format!("{name}: {label}").into(), cells });
        }
    }
    union.graph
}

fn union_of_labels(graphs: &[&Graph]) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    for label in graphs.iter().flat_map(|graph| graph.labels()) {
        if seen.insert(label.clone()) {
            labels.push(label.to_string());
        }
    }
    labels
}

/// The nodes with one parent and one name; several only if one graph has several.
#[derive(Default)]
struct Namesakes {
    indexes: Vec<usize>,
    /// How many of them are matched with nodes of the current graph.
    matched: usize,
    /// The current graph.
    which: usize,
}

impl Namesakes {
    /// The next node that is not matched with a node of the graph `which`; marks it as matched.
    fn next_of(&mut self, which: usize) -> Option<usize> {
        if self.which != which {
            self.which = which;
            self.matched = 0;
        }
        let index = self.indexes.get(self.matched).copied()?;
        self.matched += 1;
        Some(index)
    }

    /// Adds a node, which is matched with the current graph.
    fn add(&mut self, index: usize) -> usize {
        self.indexes.push(index);
        self.matched += 1;
        index
    }
}

/// The nodes of several graphs; nodes with the same path are merged.
struct Union {
    graph: Graph,
    /// For each graph, the new index of each of its nodes.
    indexes: Vec<Vec<usize>>,
}

impl Union {
    fn of(graphs: &[&Graph]) -> Self {
        let mut nodes: Vec<Node> = Vec::new();
        let mut known: HashMap<(Option<usize>, Arc<str>), Namesakes> = HashMap::new();
        let mut indexes = Vec::new();
        for (which, graph) in graphs.iter().enumerate() {
            let mut new_index = vec![0; graph.nodes.len()];
            for old_index in by_first_seen(graph) {
                let node = &graph.nodes[old_index];
                let parent = node.parent.map(|parent| new_index[parent]);
                let namesakes = known.entry((parent, node.frame.clone())).or_default();
                new_index[old_index] = if let Some(index) = namesakes.next_of(which) {
                    nodes[index].side = Side::Both;
                    index
                } else {
                    let side = if which == 0 { Side::Left } else { Side::Right };
                    nodes.push(Node { parent, seen: nodes.len(), side, ..node.clone() });
                    namesakes.add(nodes.len() - 1)
                };
            }
            indexes.push(new_index);
        }
        let mut graph = Graph {
            nodes: Vec::new(),
            metrics: Vec::new(),
            columns: Vec::new(),
            devices: graphs.first().map_or_else(Vec::new, |graph| graph.devices.clone()),
            meta: graphs.first().map_or_else(Default::default, |graph| graph.meta.clone()),
        };
        let arranged = graph.arrange(nodes);
        for index in indexes.iter_mut().flatten() {
            *index = arranged[*index];
        }
        Self { graph, indexes }
    }

    /// The values of one graph at their new indexes, NaN elsewhere.
    fn numbers(&self, which: usize, values: Option<Vec<f64>>) -> Vec<f64> {
        let mut moved = vec![f64::NAN; self.graph.nodes.len()];
        for (&index, value) in self.indexes[which].iter().zip(values.unwrap_or_default()) {
            moved[index] = value;
        }
        moved
    }

    /// The cells of one graph at their new indexes.
    fn moved(&self, which: usize, cells: Option<Cells>) -> Vec<Option<MetricValue>> {
        let mut moved = vec![None; self.graph.nodes.len()];
        if let Some(cells) = cells {
            for (old_index, &index) in self.indexes[which].iter().enumerate() {
                moved[index] = cells.get(old_index);
            }
        }
        moved
    }

    /// For each node, the cell of the first graph that has one.
    fn texts(&self, columns: [Option<Cells>; 2]) -> Cells {
        let [left, right] = columns;
        let left = self.moved(0, left);
        let right = self.moved(1, right);
        Cells::Values(left.into_iter().zip(right).map(|(left, right)| left.or(right)).collect())
    }
}

/// The nodes in the order in which the program created them, so each after its parent.
fn by_first_seen(graph: &Graph) -> Vec<usize> {
    let mut indexes: Vec<usize> = (0..graph.nodes.len()).collect();
    indexes.sort_by_key(|&index| graph.nodes[index].seen);
    indexes
}
