//! Removes nodes from a graph, for filters. Like hatchet's `squash`, it attaches the remaining
//! nodes to their nearest remaining ancestor.

use std::collections::HashMap;
use std::sync::Arc;

use marey_model::metric::MetricValue;
use marey_model::profile::Metric;

use super::column::{self, Cells};
use super::sum::sum;
use super::{Column, Graph, Node, OwnMetric, layout};

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
        let mut new_index_by_name = HashMap::new();
        // For each node, the index of its nearest kept ancestor in `nodes`, or its own if it is
        // kept.
        let mut kept_indexes: Vec<Option<usize>> = Vec::with_capacity(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            let parent = node.parent.and_then(|parent| kept_indexes[parent]);
            kept_indexes.push(if is_kept[index] {
                Some(*new_index_by_name.entry((parent, node.profile_name.clone())).or_insert_with(
                    || {
                        nodes.push(Node { parent, ..node.clone() });
                        nodes.len() - 1
                    },
                ))
            } else {
                parent
            });
        }
        let has_merged_nodes = nodes.len() < is_kept.iter().filter(|is_kept| **is_kept).count();
        let (nodes, arranged_indexes) = layout::arrange(nodes);
        let new_index = |node: usize| {
            is_kept[node]
                .then_some(kept_indexes[node])
                .flatten()
                .map(|index| arranged_indexes[index])
        };
        let reindex_metric = |metric: &Metric| {
            if has_merged_nodes {
                merge_metric(metric, new_index)
            } else {
                column::renumber_nodes(metric, new_index)
            }
        };
        let metrics = self.metrics.iter();
        let metrics =
            metrics.map(|entry| OwnMetric { metric: reindex_metric(&entry.metric), ..*entry });
        // Columns of sums that were set are dropped: the sums change with the nodes.
        let columns = self.columns.iter().filter(|column| !self.is_sum(&column.label));
        let columns = columns.map(|column| reindex_column(column, nodes.len(), new_index));
        Self {
            metrics: metrics.collect(),
            columns: columns.collect(),
            nodes,
            devices: self.devices.clone(),
            meta: self.meta.clone(),
        }
    }
}

/// Returns the metric by new node indexes. The values of merged nodes are added. Of texts, the
/// first is kept.
fn merge_metric(metric: &Metric, new_index: impl Fn(usize) -> Option<usize>) -> Metric {
    let mut values: Vec<(usize, MetricValue)> = metric
        .nodes
        .iter()
        .enumerate()
        .filter_map(|(value_index, node)| {
            Some((new_index(node.index())?, metric.values.get(value_index)))
        })
        .collect();
    values.sort_by_key(|(node, _)| *node);
    let mut merged_metric = Metric::new(metric.key.clone());
    let mut values = values.into_iter().peekable();
    while let Some((node, mut value)) = values.next() {
        while let Some((_, next)) = values.next_if(|(next, _)| *next == node) {
            value = match (value, next) {
                (text @ MetricValue::Text(_), _) => text,
                (value, next) => match column::add(Some(value.clone()), next, &metric.key) {
                    Some(sum) => sum,
                    None => value,
                },
            };
        }
        merged_metric.push(marey_model::profile::NodeId(node as u32), value);
    }
    merged_metric
}

/// Returns the column by new node indexes. The numbers of merged nodes are added, where NaN is no
/// value. Of other values, the first is kept.
fn reindex_column(
    column: &Column,
    node_count: usize,
    new_index: impl Fn(usize) -> Option<usize>,
) -> Column {
    let cells = match &column.cells {
        Cells::Numbers { values, are_whole } => {
            let mut merged_values = vec![f64::NAN; node_count];
            for (node, &value) in values.iter().enumerate() {
                if let Some(new_node) = new_index(node) {
                    merged_values[new_node] = sum(&mut [merged_values[new_node], value]);
                }
            }
            Cells::Numbers { values: merged_values, are_whole: *are_whole }
        }
        Cells::Values(values) => {
            let mut merged_values = vec![None; node_count];
            for (node, value) in values.iter().enumerate() {
                if let Some(new_node) = new_index(node)
                    && merged_values[new_node].is_none()
                {
                    merged_values[new_node].clone_from(value);
                }
            }
            Cells::Values(merged_values)
        }
    };
    Column { label: Arc::clone(&column.label), cells }
}
