//! The columns of a [`Graph`]: reading, setting and removing them, and the sums of metrics over
//! subtrees. A column has one value per node.

use std::sync::Arc;

use marey_model::metric::{Aggregation, MetricValue};
use marey_model::profile::{MAX_EXACT_INTEGER, Metric, NodeId, Values};

use super::find::MetricError;
use super::sum::sum;
use super::{Graph, Node, OwnMetric};

/// The suffix that marks the label of a metric's sums over subtrees.
pub const INCLUSIVE: &str = " (inc)";

/// A named value for every node.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The name, with ` (inc)` at the end if values are summed into parents.
    pub label: Arc<str>,
    /// One value per node.
    pub cells: Cells,
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// Numbers. NaN stands for a missing value.
    Numbers {
        /// One number per node.
        values: Vec<f64>,
        /// Whether all values that exist are whole numbers.
        are_whole: bool,
    },
    /// Values that an `f64` cannot hold: texts, lists, and whole numbers that it would round.
    Values(Vec<Option<MetricValue>>),
}

impl Cells {
    /// The number of cells.
    #[expect(clippy::len_without_is_empty, reason = "a graph has at least one node")]
    pub const fn len(&self) -> usize {
        match self {
            Self::Numbers { values, .. } => values.len(),
            Self::Values(values) => values.len(),
        }
    }

    /// Returns the cell of a node, or `None` if it has no value.
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

    pub(super) fn from_floats(values: Vec<f64>) -> Self {
        Self::Numbers { values, are_whole: false }
    }

    /// Returns the cells of whole numbers. They are stored as `f64` if that represents all of them
    /// exactly.
    fn from_integers(values: Vec<Option<i64>>) -> Self {
        if values.iter().flatten().all(|value| value.unsigned_abs() <= MAX_EXACT_INTEGER) {
            let numbers =
                values.into_iter().map(|value| value.map_or(f64::NAN, |value| value as f64));
            return Self::Numbers { values: numbers.collect(), are_whole: true };
        }
        Self::Values(values.into_iter().map(|value| value.map(MetricValue::Int)).collect())
    }
}

impl Graph {
    /// Returns the labels of all columns: first the metrics' own values, then their sums over
    /// subtrees, then the columns that were derived or set.
    pub fn labels(&self) -> Vec<Arc<str>> {
        let keys = self.metrics.iter().map(|entry| entry.metric.key.clone());
        let sums = self.metrics.iter().filter(|entry| entry.is_inclusive).map(inclusive_label);
        let columns = self.columns.iter().map(|column| column.label.clone());
        let mut seen_labels = std::collections::HashSet::new();
        let labels = keys.chain(sums).chain(columns);
        labels.filter(|label| seen_labels.insert(label.clone())).collect()
    }

    /// The column with this label.
    pub fn column(&self, label: &str) -> Option<Cells> {
        if let Some(column) = self.columns.iter().find(|column| &*column.label == label) {
            return Some(column.cells.clone());
        }
        // A metric may be named like the sums of another metric, for example `x (inc)`. The sums
        // then take precedence.
        let find_metric = |key: &str| self.metrics.iter().find(|entry| &*entry.metric.key == key);
        let metric_of_sums =
            label.strip_suffix(INCLUSIVE).and_then(find_metric).filter(|entry| entry.is_inclusive);
        match metric_of_sums {
            Some(entry) => Some(self.sum_cells(entry)),
            None => find_metric(label).map(|entry| self.own_cells(entry)),
        }
    }

    /// Returns the column with this label as numbers, with NaN where a node has no value.
    ///
    /// # Errors
    /// [`MetricError::NotANumber`] if a value of the column is a text or a list,
    /// [`MetricError::Unknown`] if there is no such column.
    pub fn numbers(&self, label: &str) -> Result<Vec<f64>, MetricError> {
        self.numbers_if_present(label)?.ok_or_else(|| self.unknown_metric(label))
    }

    /// Like [`Graph::numbers`], but `None` if there is no such column.
    pub(super) fn numbers_if_present(&self, label: &str) -> Result<Option<Vec<f64>>, MetricError> {
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

    /// Sets a column, or a metric's own values if the label is the metric's name. A column of sums
    /// that is set here is kept until the next filter or call of [`Graph::update_sums`].
    ///
    /// # Panics
    /// If the number of cells differs from the number of nodes.
    pub fn set_column(&mut self, label: &str, cells: Cells) {
        assert_eq!(cells.len(), self.nodes.len(), "one cell per node");
        if let Some(entry) = self.metrics.iter_mut().find(|entry| &*entry.metric.key == label) {
            entry.metric = to_sparse_metric(entry.metric.key.clone(), &cells);
        } else {
            self.set_extra_column(label.into(), cells);
        }
    }

    /// Removes a column. If it is a metric, its sums remain as a column. If it contains the sums of
    /// a metric, the metric is no longer summed into parents.
    pub fn remove_column(&mut self, label: &str) {
        self.columns.retain(|column| &*column.label != label);
        if let Some(index) = self.metrics.iter().position(|entry| &*entry.metric.key == label) {
            let entry = self.metrics.remove(index);
            let label = inclusive_label(&entry);
            if entry.is_inclusive && !self.columns.iter().any(|column| column.label == label) {
                let cells = self.sum_cells(&entry);
                self.set_extra_column(label, cells);
            }
        } else if let Some(entry) =
            self.metrics.iter_mut().find(|entry| *inclusive_label(entry) == *label)
        {
            entry.is_inclusive = false;
        }
    }

    /// Recomputes the sums of metrics over subtrees, and so replaces sums that were set.
    pub fn update_sums(&mut self) {
        let mut columns = std::mem::take(&mut self.columns);
        columns.retain(|column| !self.is_sum(&column.label));
        self.columns = columns;
    }

    /// Whether a metric's sums have this label.
    pub(super) fn is_sum(&self, label: &str) -> bool {
        self.metrics.iter().any(|entry| entry.is_inclusive && *inclusive_label(entry) == *label)
    }

    pub(super) fn set_extra_column(&mut self, label: Arc<str>, cells: Cells) {
        match self.columns.iter_mut().find(|column| column.label == label) {
            Some(column) => column.cells = cells,
            None => self.columns.push(Column { label, cells }),
        }
    }

    /// The own values of a metric.
    pub(super) fn own_cells(&self, entry: &OwnMetric) -> Cells {
        let Metric { nodes, values, .. } = &entry.metric;
        let node_indexes = || nodes.iter().map(|node| node.index());
        let mut numbers = vec![f64::NAN; self.nodes.len()];
        match values {
            Values::Ints(values)
                if values.iter().all(|value| value.unsigned_abs() <= MAX_EXACT_INTEGER) =>
            {
                node_indexes().zip(values).for_each(|(node, &value)| numbers[node] = value as f64);
                Cells::Numbers { values: numbers, are_whole: true }
            }
            Values::Floats(values) => {
                node_indexes().zip(values).for_each(|(node, &value)| numbers[node] = value);
                Cells::from_floats(numbers)
            }
            _ => {
                let mut cells = vec![None; self.nodes.len()];
                node_indexes()
                    .enumerate()
                    .for_each(|(value_index, node)| cells[node] = Some(values.get(value_index)));
                Cells::Values(cells)
            }
        }
    }

    /// The sums of a metric over subtrees.
    pub(super) fn sum_cells(&self, entry: &OwnMetric) -> Cells {
        match self.own_cells(entry) {
            Cells::Numbers { values, are_whole: true } if have_exact_sums(&values) => {
                Cells::Numbers { values: roll_up(&self.nodes, values), are_whole: true }
            }
            Cells::Numbers { values, are_whole: true } => {
                Cells::from_integers(roll_up_integers(&self.nodes, &values))
            }
            Cells::Numbers { values, .. } => Cells::from_floats(roll_up(&self.nodes, values)),
            Cells::Values(values) => {
                Cells::Values(roll_up_values(&self.nodes, values, &entry.metric.key))
            }
        }
    }
}

pub(super) fn inclusive_label(entry: &OwnMetric) -> Arc<str> {
    format!("{}{INCLUSIVE}", entry.metric.key).into()
}

/// Returns the sums of all subtrees, computed from the leaves up.
fn roll_up(nodes: &[Node], mut sums: Vec<f64>) -> Vec<f64> {
    let mut children = Vec::new();
    let mut terms = Vec::new();
    for node in (0..nodes.len()).rev() {
        if nodes[node].subtree_end == node + 1 {
            continue;
        }
        children.clear();
        let mut child = node + 1;
        while child < nodes[node].subtree_end {
            children.push(child);
            child = nodes[child].subtree_end;
        }
        // The order of the terms determines how the sum is rounded. hatchet adds children in the
        // order in which they are in the file.
        children.sort_unstable_by_key(|&child| nodes[child].creation_rank);
        terms.clear();
        terms.push(sums[node]);
        terms.extend(children.iter().map(|&child| sums[child]));
        sums[node] = sum(&mut terms);
    }
    sums
}

/// Whether an `f64` represents the sum of any subset of these whole numbers exactly.
pub(super) fn have_exact_sums(values: &[f64]) -> bool {
    // If a sum is rounded, it is at least 2^53.
    let total: f64 = values.iter().filter(|value| !value.is_nan()).map(|value| value.abs()).sum();
    total < MAX_EXACT_INTEGER as f64
}

/// Like [`roll_up`], for whole numbers that an `f64` represents exactly, although it may not
/// represent their sums.
fn roll_up_integers(nodes: &[Node], values: &[f64]) -> Vec<Option<i64>> {
    let own_values = values.iter().map(|value| (!value.is_nan()).then_some(*value as i64));
    let mut sums: Vec<Option<i64>> = own_values.collect();
    for node in (0..nodes.len()).rev() {
        if let (Some(parent), Some(sum)) = (nodes[node].parent, sums[node]) {
            sums[parent] = Some(sums[parent].unwrap_or(0).saturating_add(sum));
        }
    }
    sums
}

/// Like [`roll_up`], for values that are not all real numbers.
fn roll_up_values(
    nodes: &[Node],
    mut sums: Vec<Option<MetricValue>>,
    key: &str,
) -> Vec<Option<MetricValue>> {
    for node in (0..nodes.len()).rev() {
        if let Some(parent) = nodes[node].parent
            && let Some(value) = sums[node].clone()
        {
            sums[parent] = add(sums[parent].take(), value, key);
        }
    }
    sums
}

/// Returns the sum of two values, or `None` if they cannot be added.
pub(super) fn add(sum: Option<MetricValue>, value: MetricValue, key: &str) -> Option<MetricValue> {
    match (sum, value) {
        // Files have the integer 0 on the root, whatever type the other nodes have.
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

/// Returns the metric with its nodes renumbered. Values of nodes without a new number are dropped.
/// If several nodes get the same new number, the first keeps its value.
pub(super) fn renumber_nodes(
    metric: &Metric,
    new_number: impl Fn(usize) -> Option<usize>,
) -> Metric {
    let mut renumbered: Vec<(NodeId, usize)> = metric
        .nodes
        .iter()
        .enumerate()
        .filter_map(|(value_index, node)| {
            Some((NodeId(new_number(node.index())? as u32), value_index))
        })
        .collect();
    renumbered.sort_by_key(|&(node, _)| node);
    renumbered.dedup_by_key(|(node, _)| *node);
    let value_indexes: Vec<usize> =
        renumbered.iter().map(|&(_, value_index)| value_index).collect();
    Metric {
        key: metric.key.clone(),
        nodes: renumbered.iter().map(|&(node, _)| node).collect(),
        values: metric.values.pick(&value_indexes),
    }
}

/// The cells that have a value, as a metric.
pub(super) fn to_sparse_metric(key: Arc<str>, cells: &Cells) -> Metric {
    let mut metric = Metric::new(key);
    for node in 0..cells.len() {
        if let Some(value) = cells.get(node) {
            metric.push(NodeId(node as u32), value);
        }
    }
    metric
}
