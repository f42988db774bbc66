//! Several graphs as one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use marey_model::metric::MetricValue;

use super::column::{self, Cells, Column, INCLUSIVE};
use super::{Graph, Node, Own, Side};

/// What is done with two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Left plus right.
    Add,
    /// Left minus right.
    Subtract,
    /// Left times right.
    Multiply,
    /// Left by right.
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

/// Labels of the four columns that [`Graph::difference`] makes of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The value before.
    pub before: String,
    /// The value after.
    pub after: String,
    /// After minus before; a node that is missing on one side counts as 0 there.
    pub difference: String,
    /// After by before; NaN for a node that is missing on one side.
    pub ratio: String,
}

impl Compared {
    /// The labels made of `label`.
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
    /// The first of `labels` in which the two graphs cannot be combined, and who lacks it: both, or
    /// one where it is no metric of the other's profile but derived or set there.
    pub fn lacking<L: AsRef<str>>(&self, right: &Self, labels: &[L]) -> Option<(String, Side)> {
        let all = [self.labels(), right.labels()];
        let [left_has, right_has] = all
            .each_ref()
            .map(|labels| labels.iter().map(|label| &**label).collect::<HashSet<_>>());
        let is_made = |graph: &Self, label: &str| {
            !graph.own.iter().any(|own| &*own.metric.key == label)
                && !graph.is_sum(label)
                && graph.numbers(label).is_ok()
        };
        labels.iter().map(AsRef::as_ref).find_map(|label| {
            let lacks = match (left_has.contains(label), right_has.contains(label)) {
                (false, false) => Side::Both,
                (true, false) if is_made(self, label) => Side::Right,
                (false, true) if is_made(right, label) => Side::Left,
                _ => return None,
            };
            Some((label.to_owned(), lacks))
        })
    }

    /// Both graphs' nodes, with `self operator right` in the columns `labels`; or in all, and in the
    /// metrics below them, which a filter adds up anew.
    ///
    /// By hatchet's rules: where the result is no number because one side has none, the left value
    /// stands, and nodes that only the right side has are there without numbers. Of columns that
    /// are no numbers the left one stands.
    #[must_use]
    pub fn combine(&self, right: &Self, operator: Operator, labels: Option<&[String]>) -> Self {
        let mut union = Union::of(&[self, right]);
        let all = || union_of_labels(&[self, right]);
        for label in labels.map_or_else(all, <[String]>::to_vec) {
            let cells = self.combined(right, operator, &label, &union);
            let label: Arc<str> = label.into();
            let is_metric = |graph: &Self| graph.own.iter().any(|own| own.metric.key == label);
            if labels.is_none() && (is_metric(self) || is_metric(right)) {
                let is_sum = |graph: &Self| graph.is_sum(&format!("{label}{INCLUSIVE}"));
                let is_inclusive = is_sum(self) || is_sum(right);
                union.graph.own.push(Own { metric: column::sparse(label, &cells), is_inclusive });
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

    /// What changed since `before`: each column of `labels` as the four of [`Compared`]. Nodes of
    /// [`Side::Left`] were added, nodes of [`Side::Right`] removed.
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

/// All graphs' nodes, with every column of `labels` once a graph, named `name: label`.
pub fn side_by_side(graphs: &[(&str, &Graph)], labels: &[String]) -> Graph {
    let each: Vec<&Graph> = graphs.iter().map(|(_, graph)| *graph).collect();
    let mut union = Union::of(&each);
    for label in labels {
        for (at, (name, graph)) in graphs.iter().enumerate() {
            let cells = match graph.column(label) {
                Some(Cells::Numbers { values, are_whole }) => {
                    Cells::Numbers { values: union.numbers(at, Some(values)), are_whole }
                }
                other => Cells::Values(union.moved(at, other)),
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

/// Nodes of one parent and one name; several only where one graph has several.
#[derive(Default)]
struct Same {
    places: Vec<usize>,
    /// How many of them the graph that is being read has taken.
    taken: usize,
    /// Which graph that is.
    by: usize,
}

impl Same {
    /// The first node that the graph has not taken, which it then has.
    fn next_of(&mut self, which: usize) -> Option<usize> {
        if self.by != which {
            self.by = which;
            self.taken = 0;
        }
        let place = self.places.get(self.taken).copied()?;
        self.taken += 1;
        Some(place)
    }

    /// Adds a node, which the graph that is being read has taken.
    fn add(&mut self, place: usize) -> usize {
        self.places.push(place);
        self.taken += 1;
        place
    }
}

/// The nodes of several graphs; nodes of one path are one.
struct Union {
    graph: Graph,
    /// For each graph, the place of each of its nodes.
    places: Vec<Vec<usize>>,
}

impl Union {
    fn of(graphs: &[&Graph]) -> Self {
        let mut nodes: Vec<Node> = Vec::new();
        let mut known: HashMap<(Option<usize>, Arc<str>), Same> = HashMap::new();
        let mut places = Vec::new();
        for (which, graph) in graphs.iter().enumerate() {
            let mut place = vec![0; graph.nodes.len()];
            for at in by_first_seen(graph) {
                let node = &graph.nodes[at];
                let parent = node.parent.map(|parent| place[parent]);
                let same = known.entry((parent, node.frame.clone())).or_default();
                place[at] = if let Some(place) = same.next_of(which) {
                    nodes[place].side = Side::Both;
                    place
                } else {
                    let side = if which == 0 { Side::Left } else { Side::Right };
                    nodes.push(Node { parent, seen: nodes.len(), side, ..node.clone() });
                    same.add(nodes.len() - 1)
                };
            }
            places.push(place);
        }
        let mut graph = Graph {
            nodes: Vec::new(),
            own: Vec::new(),
            columns: Vec::new(),
            devices: graphs.first().map_or_else(Vec::new, |graph| graph.devices.clone()),
            meta: graphs.first().map_or_else(Default::default, |graph| graph.meta.clone()),
        };
        let arranged = graph.arrange(nodes);
        for place in places.iter_mut().flatten() {
            *place = arranged[*place];
        }
        Self { graph, places }
    }

    /// The values of one graph at their places, NaN elsewhere.
    fn numbers(&self, which: usize, values: Option<Vec<f64>>) -> Vec<f64> {
        let mut moved = vec![f64::NAN; self.graph.nodes.len()];
        for (&place, value) in self.places[which].iter().zip(values.unwrap_or_default()) {
            moved[place] = value;
        }
        moved
    }

    /// The cells of one graph at their places.
    fn moved(&self, which: usize, cells: Option<Cells>) -> Vec<Option<MetricValue>> {
        let mut moved = vec![None; self.graph.nodes.len()];
        if let Some(cells) = cells {
            for (at, &place) in self.places[which].iter().enumerate() {
                moved[place] = cells.get(at);
            }
        }
        moved
    }

    /// The cells of the first graph that has any, node by node.
    fn texts(&self, columns: [Option<Cells>; 2]) -> Cells {
        let [left, right] = columns;
        let left = self.moved(0, left);
        let right = self.moved(1, right);
        Cells::Values(left.into_iter().zip(right).map(|(left, right)| left.or(right)).collect())
    }
}

/// Positions in the order in which the program met the nodes, so each after the one above it.
fn by_first_seen(graph: &Graph) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..graph.nodes.len()).collect();
    positions.sort_by_key(|&at| graph.nodes[at].seen);
    positions
}
