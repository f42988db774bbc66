//! Converts a graph back to a profile, which can be written to a file.

use marey_model::context::ROOT_NAME;
use marey_model::metric::MetricValue;
use marey_model::profile::{self, Metric, NodeId, Profile};

use super::{Graph, OwnMetric, column};

impl Graph {
    /// Returns the profile that a viewer would show as this graph.
    ///
    /// Sums are left out, because readers of the profile compute them again. Any other column
    /// becomes a metric that is not summed. Its value on the root is dropped, because a value there
    /// marks a metric as summed. If there are several roots, or the root has its own value of a
    /// metric that is not summed, all roots get a new root as their parent. Sketches are not part
    /// of a graph.
    #[must_use]
    pub fn to_profile(&self) -> Profile {
        let has_new_root = self.children(None).count() != 1 || self.has_exclusive_on_root();
        let mut nodes = Vec::with_capacity(self.nodes.len() + usize::from(has_new_root));
        if has_new_root {
            nodes.push(profile::Node { name: ROOT_NAME.into(), kind: None, parent: None });
        }
        let mut new_numbers = vec![0; self.nodes.len()];
        for index in self.first_seen_order() {
            let node = &self.nodes[index];
            let parent = node.parent.map(|parent| NodeId(new_numbers[parent] as u32));
            new_numbers[index] = nodes.len();
            nodes.push(profile::Node {
                name: node.name.clone(),
                kind: node.kind,
                parent: parent.or(has_new_root.then_some(NodeId::ROOT)),
            });
        }
        // If the graph was read from a file with derived columns, these are metrics. A column that
        // is derived again replaces its metric.
        let is_replaced =
            |entry: &&OwnMetric| self.columns.iter().any(|column| column.label == entry.metric.key);
        let metrics = self.metrics.iter().filter(|entry| !is_replaced(entry));
        let metrics = metrics.map(|entry| renumber_metric(entry, &new_numbers));
        let extra_columns = self.columns.iter().filter(|column| !self.is_sum(&column.label));
        let extra_columns = extra_columns.map(|column| {
            let metric = column::to_sparse_metric(column.label.clone(), &column.cells);
            column::renumber_nodes(&metric, |node| {
                Some(new_numbers[node]).filter(|&number| number != 0)
            })
        });
        let mut metrics: Vec<Metric> =
            metrics.chain(extra_columns).filter(|metric| !metric.nodes.is_empty()).collect();
        metrics.sort_by_key(|metric| metric.nodes.first().copied());
        Profile {
            nodes,
            metrics,
            sketches: Vec::new(),
            devices: self.devices.clone(),
            meta: self.meta.clone(),
        }
    }

    fn has_exclusive_on_root(&self) -> bool {
        let is_on_root = |entry: &OwnMetric| entry.metric.nodes.first() == Some(&NodeId::ROOT);
        self.metrics.iter().any(|entry| !entry.is_inclusive && is_on_root(entry))
    }

    /// The nodes in pre-order, siblings in the order in which the program created them.
    fn first_seen_order(&self) -> Vec<usize> {
        let last_seen_first = |node| {
            let mut children: Vec<usize> = self.children(node).collect();
            children
                .sort_unstable_by_key(|&child| std::cmp::Reverse(self.nodes[child].creation_rank));
            children
        };
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut pending = last_seen_first(None);
        while let Some(node) = pending.pop() {
            order.push(node);
            pending.extend(last_seen_first(Some(node)));
        }
        order
    }
}

/// Returns the metric with new node numbers. If it is summed into parents, it gets a value on the
/// root, which marks it as such.
fn renumber_metric(entry: &OwnMetric, new_numbers: &[usize]) -> Metric {
    let renumbered = column::renumber_nodes(&entry.metric, |node| Some(new_numbers[node]));
    if !entry.is_inclusive || renumbered.nodes.first() == Some(&NodeId::ROOT) {
        return renumbered;
    }
    let mut marked_metric = Metric::new(renumbered.key.clone());
    marked_metric.push(NodeId::ROOT, MetricValue::Int(0));
    for (value_index, &node) in renumbered.nodes.iter().enumerate() {
        marked_metric.push(node, renumbered.values.get(value_index));
    }
    marked_metric
}
