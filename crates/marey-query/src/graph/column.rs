//! Columns: one value a node.

use std::sync::Arc;

use marey_model::metric::{Aggregation, MetricValue};
use marey_model::profile::{EXACT, Metric, NodeId, Values};

use super::find::MetricError;
use super::sum::sum;
use super::{Graph, Node, Own};

/// What stands behind the name of a metric in the label of its sums over subtrees.
pub const INCLUSIVE: &str = " (inc)";

/// A named value for every node.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Name, with ` (inc)` at the end if values are added up into parents.
    pub label: Arc<str>,
    /// One a node.
    pub cells: Cells,
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// Numbers; NaN where a node has none.
    Numbers {
        /// One a node.
        values: Vec<f64>,
        /// Whether all that are there are whole.
        are_whole: bool,
    },
    /// Anything else: texts, lists, and whole numbers beyond what a real number holds exactly.
    Values(Vec<Option<MetricValue>>),
}

impl Cells {
    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "a graph has at least one node")]
    pub const fn len(&self) -> usize {
        match self {
            Self::Numbers { values, .. } => values.len(),
            Self::Values(values) => values.len(),
        }
    }

    /// The cell of a node; `None` where it has no value.
    pub fn get(&self, node: usize) -> Option<MetricValue> {
        match self {
            Self::Numbers { values, are_whole: true } if !values[node].is_nan() => {
                Some(MetricValue::Int(values[node] as i64))
            }
            Self::Numbers { values, .. } if !values[node].is_nan() => {
                Some(MetricValue::Float(values[node]))
            }
            Self::Numbers { .. } => None,
            Self::Values(values) => values[node].clone(),
        }
    }

    pub(super) fn real(values: Vec<f64>) -> Self {
        Self::Numbers { values, are_whole: false }
    }
}

impl Graph {
    /// The labels of all columns: the metrics' own values, then their sums over subtrees, then
    /// what was derived or set.
    pub fn labels(&self) -> Vec<Arc<str>> {
        let own = self.own.iter().map(|own| own.metric.key.clone());
        let sums = self.own.iter().filter(|own| own.is_inclusive).map(inclusive_label);
        let columns = self.columns.iter().map(|column| column.label.clone());
        let mut labels: Vec<Arc<str>> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        labels.extend(own.chain(sums).chain(columns).filter(|label| seen.insert(label.clone())));
        labels
    }

    /// The column of this label.
    pub fn column(&self, label: &str) -> Option<Cells> {
        if let Some(column) = self.columns.iter().find(|column| &*column.label == label) {
            return Some(column.cells.clone());
        }
        // A metric may be called as another one's sums are; the sums come first.
        let named = |key: &str| self.own.iter().find(|own| &*own.metric.key == key);
        let summed = label.strip_suffix(INCLUSIVE).and_then(named).filter(|own| own.is_inclusive);
        match summed {
            Some(own) => Some(self.summed_cells(own)),
            None => named(label).map(|own| self.own_cells(own)),
        }
    }

    /// The column of this label as numbers, NaN where a node has none.
    ///
    /// # Errors
    /// [`MetricError::NotANumber`] if a node has a text or a list there, [`MetricError::Unknown`]
    /// if there is no such column.
    pub fn numbers(&self, label: &str) -> Result<Vec<f64>, MetricError> {
        self.numbers_if_there(label)?.ok_or_else(|| self.unknown(label))
    }

    /// The same; `None` if there is no such column.
    pub(super) fn numbers_if_there(&self, label: &str) -> Result<Option<Vec<f64>>, MetricError> {
        let values = match self.column(label) {
            None => return Ok(None),
            Some(Cells::Numbers { values, .. }) => return Ok(Some(values)),
            Some(Cells::Values(values)) => values,
        };
        let numbers = values.iter().map(|value| match value {
            Some(MetricValue::Int(value)) => Some(*value as f64),
            Some(MetricValue::Float(value)) => Some(*value),
            None => Some(f64::NAN),
            Some(_) => None,
        });
        let numbers: Option<Vec<f64>> = numbers.collect();
        numbers.map(Some).ok_or_else(|| MetricError::NotANumber { metric: label.into() })
    }

    /// Sets a column, or a metric's own values if it has that name. Sums that are set stand until
    /// the next filter or [`Graph::update_sums`].
    ///
    /// # Panics
    /// If there is not one cell a node.
    pub fn set_column(&mut self, label: &str, cells: Cells) {
        assert_eq!(cells.len(), self.nodes.len(), "one cell a node");
        if let Some(own) = self.own.iter_mut().find(|own| &*own.metric.key == label) {
            own.metric = sparse(own.metric.key.clone(), &cells);
        } else {
            self.put(label.into(), cells);
        }
    }

    /// Removes a column. A metric that goes leaves its sums; one whose sums go is added up no more.
    pub fn remove_column(&mut self, label: &str) {
        self.columns.retain(|column| &*column.label != label);
        if let Some(at) = self.own.iter().position(|own| &*own.metric.key == label) {
            let own = self.own.remove(at);
            let label = inclusive_label(&own);
            if own.is_inclusive && !self.columns.iter().any(|column| column.label == label) {
                let cells = self.summed_cells(&own);
                self.put(label, cells);
            }
        } else if let Some(own) = self.own.iter_mut().find(|own| *inclusive_label(own) == *label) {
            own.is_inclusive = false;
        }
    }

    /// Adds metrics up into parents anew, in place of sums that were set.
    pub fn update_sums(&mut self) {
        let mut columns = std::mem::take(&mut self.columns);
        columns.retain(|column| !self.is_sum(&column.label));
        self.columns = columns;
    }

    /// Whether the label is that of a metric's sums.
    pub(super) fn is_sum(&self, label: &str) -> bool {
        self.own.iter().any(|own| own.is_inclusive && *inclusive_label(own) == *label)
    }

    pub(super) fn put(&mut self, label: Arc<str>, cells: Cells) {
        match self.columns.iter_mut().find(|column| column.label == label) {
            Some(column) => column.cells = cells,
            None => self.columns.push(Column { label, cells }),
        }
    }

    /// A metric's own values.
    pub(super) fn own_cells(&self, own: &Own) -> Cells {
        let Metric { nodes, values, .. } = &own.metric;
        let at = || nodes.iter().map(|node| node.index());
        let mut numbers = vec![f64::NAN; self.nodes.len()];
        match values {
            Values::Ints(values) if values.iter().all(|value| value.unsigned_abs() <= EXACT) => {
                at().zip(values).for_each(|(at, &value)| numbers[at] = value as f64);
                Cells::Numbers { values: numbers, are_whole: true }
            }
            Values::Floats(values) => {
                at().zip(values).for_each(|(at, &value)| numbers[at] = value);
                Cells::real(numbers)
            }
            _ => {
                let mut cells = vec![None; self.nodes.len()];
                at().enumerate().for_each(|(rank, at)| cells[at] = Some(values.get(rank)));
                Cells::Values(cells)
            }
        }
    }

    /// A metric's sums over subtrees.
    pub(super) fn summed_cells(&self, own: &Own) -> Cells {
        match self.own_cells(own) {
            Cells::Numbers { values, are_whole } => {
                let values = roll_up(&self.nodes, values);
                // Beyond that, a sum of whole numbers is rounded.
                let are_whole = are_whole && !values.iter().any(|value| value.abs() > EXACT as f64);
                Cells::Numbers { values, are_whole }
            }
            Cells::Values(values) => {
                Cells::Values(roll_up_values(&self.nodes, values, &own.metric.key))
            }
        }
    }
}

pub(super) fn inclusive_label(own: &Own) -> Arc<str> {
    format!("{}{INCLUSIVE}", own.metric.key).into()
}

/// The sum of each node and its children, from the leaves up.
fn roll_up(nodes: &[Node], mut sums: Vec<f64>) -> Vec<f64> {
    let mut children = Vec::new();
    let mut terms = Vec::new();
    for at in (0..nodes.len()).rev() {
        if nodes[at].end == at + 1 {
            continue;
        }
        children.clear();
        let mut child = at + 1;
        while child < nodes[at].end {
            children.push(child);
            child = nodes[child].end;
        }
        // Rounding depends on the order, and hatchet adds children as the file has them.
        children.sort_unstable_by_key(|&child| nodes[child].seen);
        terms.clear();
        terms.push(sums[at]);
        terms.extend(children.iter().map(|&child| sums[child]));
        sums[at] = sum(&mut terms);
    }
    sums
}

/// The same for what is not all real numbers.
fn roll_up_values(
    nodes: &[Node],
    mut sums: Vec<Option<MetricValue>>,
    key: &str,
) -> Vec<Option<MetricValue>> {
    for at in (0..nodes.len()).rev() {
        if let Some(parent) = nodes[at].parent
            && let Some(value) = sums[at].clone()
        {
            sums[parent] = add(sums[parent].take(), value, key);
        }
    }
    sums
}

/// The sum, or nothing where the two cannot be added.
pub(super) fn add(sum: Option<MetricValue>, value: MetricValue, key: &str) -> Option<MetricValue> {
    match (sum, value) {
        // The root carries a literal 0, whatever type the other nodes have.
        (None | Some(MetricValue::Int(0)), value) => Some(value),
        (Some(MetricValue::Int(sum)), MetricValue::Float(value)) => {
            Some(MetricValue::Float(sum as f64 + value))
        }
        (Some(MetricValue::Float(sum)), MetricValue::Int(value)) => {
            Some(MetricValue::Float(sum + value as f64))
        }
        (Some(MetricValue::Text(_)), _) | (_, MetricValue::Text(_)) => None,
        (Some(mut sum), value) => {
            sum.update(&value, Aggregation::Inclusive, key).ok().map(|()| sum)
        }
    }
}

/// The metric with every node at its new place; values of nodes that have none are dropped, and of
/// several that come to one place the first stays.
pub(super) fn moved(metric: &Metric, place: impl Fn(usize) -> Option<usize>) -> Metric {
    let mut moves: Vec<(NodeId, usize)> = metric
        .nodes
        .iter()
        .enumerate()
        .filter_map(|(rank, node)| Some((NodeId(place(node.index())? as u32), rank)))
        .collect();
    moves.sort_by_key(|&(node, _)| node);
    moves.dedup_by_key(|(node, _)| *node);
    let ranks: Vec<usize> = moves.iter().map(|&(_, rank)| rank).collect();
    Metric {
        key: metric.key.clone(),
        nodes: moves.iter().map(|&(node, _)| node).collect(),
        values: metric.values.pick(&ranks),
    }
}

/// The cells as a metric.
pub(super) fn sparse(key: Arc<str>, cells: &Cells) -> Metric {
    let mut metric = Metric::new(key);
    for at in 0..cells.len() {
        if let Some(value) = cells.get(at) {
            metric.push(NodeId(at as u32), value);
        }
    }
    metric
}
