//! Collects the metrics while the nodes are read, in the order of either format.

use std::collections::HashMap;
use std::sync::Arc;

use marey_model::metric::MetricValue;
use marey_model::profile::{Metric, NodeId};

/// All metrics read so far.
#[derive(Default)]
pub(super) struct MetricColumns {
    index_by_key: HashMap<Arc<str>, usize>,
    columns: Vec<MetricColumn>,
}

struct MetricColumn {
    metric: Metric,
    /// The first node with the metric, and the position of the metric in the map of the node.
    first_occurrence: (NodeId, usize),
}

impl MetricColumns {
    /// Returns the index of a metric.
    pub(super) fn index(&mut self, key: &str) -> usize {
        if let Some(&index) = self.index_by_key.get(key) {
            return index;
        }
        let key: Arc<str> = key.into();
        let index = self.columns.len();
        self.index_by_key.insert(key.clone(), index);
        self.columns.push(MetricColumn {
            metric: Metric::new(key),
            first_occurrence: (NodeId(u32::MAX), usize::MAX),
        });
        index
    }

    /// Returns the key of a metric if the node that is being read has it already.
    pub(super) fn key_if_present(&self, index: usize, node: NodeId) -> Option<&str> {
        let metric = &self.columns[index].metric;
        (metric.nodes.last() == Some(&node)).then_some(&*metric.key)
    }

    /// Adds the value at a position in the map of a node.
    pub(super) fn push(&mut self, index: usize, node: NodeId, position: usize, value: MetricValue) {
        let column = &mut self.columns[index];
        column.metric.push(node, value);
        column.first_occurrence = column.first_occurrence.min((node, position));
    }

    /// Returns the metrics in the order of their first occurrence.
    pub(super) fn finish(mut self) -> Vec<Metric> {
        self.columns.sort_by_key(|column| column.first_occurrence);
        self.columns
            .into_iter()
            .map(|MetricColumn { mut metric, .. }| {
                metric.sort();
                metric.values.normalise();
                metric
            })
            .collect()
    }
}
