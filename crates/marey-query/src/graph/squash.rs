//! Removes nodes from a graph, for filters. Like hatchet's `squash`, it attaches the remaining
//! nodes to their nearest remaining ancestor.

use std::collections::HashMap;
use std::sync::Arc;

use marey_model::metric::MetricValue;
use marey_model::profile::Metric;

use super::column::{self, Cells};
use super::sum::sum;
use super::{Column, Graph, Node, OwnMetric};

impl Graph {
    /// Returns the graph of the kept nodes. Each is attached to its nearest kept ancestor. Siblings
    /// that then have the same name are merged, and their numbers are added.
    ///
    /// # Panics
    /// If the number of flags differs from the number of nodes.
    #[must_use]
    pub fn squash(&self, is_kept: &[bool]) -> Self {
        assert_eq!(is_kept.len(), self.nodes.len(), "one flag per node");
        let mut nodes: Vec<Node> = Vec::new();
        let mut new_by_name = HashMap::new();
        // The new index of each node. A removed node has the index of its nearest kept ancestor.
        let mut new_indexes: Vec<Option<usize>> = Vec::with_capacity(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            let parent = node.parent.and_then(|parent| new_indexes[parent]);
            new_indexes.push(if is_kept[index] {
                Some(*new_by_name.entry((parent, node.frame.clone())).or_insert_with(|| {
                    nodes.push(Node { parent, ..node.clone() });
                    nodes.len() - 1
                }))
            } else {
                parent
            });
        }
        let mut graph = Self {
            nodes: Vec::new(),
            metrics: Vec::new(),
            columns: Vec::new(),
            devices: self.devices.clone(),
            meta: self.meta.clone(),
        };
        let has_merged = nodes.len() < is_kept.iter().filter(|is_kept| **is_kept).count();
        let arranged_from_new = graph.arrange(nodes);
        let new_number = |node: usize| {
            is_kept[node]
                .then_some(new_indexes[node])
                .flatten()
                .map(|index| arranged_from_new[index])
        };
        let move_metric = |metric: &Metric| {
            if has_merged {
                merge_metric(metric, new_number)
            } else {
                column::renumber_nodes(metric, new_number)
            }
        };
        let metrics = self.metrics.iter();
        graph.metrics = metrics
            .map(|entry| OwnMetric { metric: move_metric(&entry.metric), ..*entry })
            .collect();
        let node_count = graph.nodes.len();
        let columns = self.columns.iter().filter(|column| !self.is_sum(&column.label));
        graph.columns = columns.map(|column| move_column(column, node_count, new_number)).collect();
        graph
    }
}

/// Returns the metric with new node numbers, in which the numbers of merged nodes are added.
fn merge_metric(metric: &Metric, new_number: impl Fn(usize) -> Option<usize>) -> Metric {
    let mut moves: Vec<(usize, MetricValue)> = metric
        .nodes
        .iter()
        .enumerate()
        .filter_map(|(rank, node)| Some((new_number(node.index())?, metric.values.get(rank))))
        .collect();
    moves.sort_by_key(|(node, _)| *node);
    let mut merged = Metric::new(metric.key.clone());
    let mut moves = moves.into_iter().peekable();
    while let Some((node, mut value)) = moves.next() {
        while let Some((_, next)) = moves.next_if(|(next, _)| *next == node) {
            value = match (value, next) {
                (text @ MetricValue::Text(_), _) => text,
                (value, next) => match column::add(Some(value.clone()), next, &metric.key) {
                    Some(sum) => sum,
                    None => value,
                },
            };
        }
        merged.push(marey_model::profile::NodeId(node as u32), value);
    }
    merged
}

fn move_column(
    column: &Column,
    node_count: usize,
    new_number: impl Fn(usize) -> Option<usize>,
) -> Column {
    let cells = match &column.cells {
        Cells::Numbers { values, are_whole } => {
            let mut moved = vec![f64::NAN; node_count];
            for (node, &value) in values.iter().enumerate() {
                if let Some(new) = new_number(node) {
                    moved[new] = sum(&mut [moved[new], value]);
                }
            }
            Cells::Numbers { values: moved, are_whole: *are_whole }
        }
        Cells::Values(values) => {
            let mut moved = vec![None; node_count];
            for (node, value) in values.iter().enumerate() {
                if let Some(new) = new_number(node)
                    && moved[new].is_none()
                {
                    moved[new].clone_from(value);
                }
            }
            Cells::Values(moved)
        }
    };
    Column { label: Arc::clone(&column.label), cells }
}
