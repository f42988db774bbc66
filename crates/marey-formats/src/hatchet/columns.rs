//! Metrics and names while the nodes arrive, in whichever order the format has them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use marey_model::metric::MetricValue;
use marey_model::profile::{Metric, NodeId};

/// Texts that stand in a file many times and in memory once.
#[derive(Default)]
pub(super) struct Names(HashSet<Arc<str>>);

impl Names {
    pub(super) fn intern(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.get(name) {
            return known.clone();
        }
        let name: Arc<str> = name.into();
        self.0.insert(name.clone());
        name
    }
}

/// Every metric met so far.
#[derive(Default)]
pub(super) struct Columns {
    by_key: HashMap<Arc<str>, usize>,
    columns: Vec<Column>,
}

struct Column {
    metric: Metric,
    /// Where a walk over the nodes meets it first: a node, and the position in the node's map.
    first: (NodeId, usize),
}

impl Columns {
    /// The number of the metric.
    pub(super) fn number(&mut self, key: &str) -> usize {
        if let Some(&number) = self.by_key.get(key) {
            return number;
        }
        let key: Arc<str> = key.into();
        let number = self.columns.len();
        self.by_key.insert(key.clone(), number);
        self.columns
            .push(Column { metric: Metric::new(key), first: (NodeId(u32::MAX), usize::MAX) });
        number
    }

    /// The metric's key, if the node whose map is being read has it already.
    pub(super) fn key_if_there(&self, number: usize, node: NodeId) -> Option<&str> {
        let metric = &self.columns[number].metric;
        (metric.nodes.last() == Some(&node)).then_some(&*metric.key)
    }

    /// Adds the value that stands at this position of the node's map.
    pub(super) fn push(
        &mut self,
        number: usize,
        node: NodeId,
        position: usize,
        value: MetricValue,
    ) {
        let column = &mut self.columns[number];
        column.metric.push(node, value);
        column.first = column.first.min((node, position));
    }

    /// The metrics in the order in which a walk over the nodes meets them.
    pub(super) fn finish(mut self) -> Vec<Metric> {
        self.columns.sort_by_key(|column| column.first);
        self.columns
            .into_iter()
            .map(|Column { mut metric, .. }| {
                metric.sort();
                metric.values.normalise();
                metric
            })
            .collect()
    }
}
