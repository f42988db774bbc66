//! The tree of a profile as viewers show it, with the columns of its metrics.
//!
//! It follows the rules of Proton's viewer and of the library behind it, LLNL hatchet, so that the
//! same query gives the same numbers. Siblings are sorted by name. A metric with a value on the
//! root is summed into parents. A filter attaches each remaining node to its nearest remaining
//! ancestor.

mod by_node;
mod column;
mod derive;
mod filter;
mod find;
mod layout;
mod limit;
mod names;
mod profile;
mod squash;
mod sum;
mod union;

use std::sync::Arc;

use marey_model::context::{METADATA_STATE, METADATA_STATE_PREFIX, NodeKind};
use marey_model::profile::{Device, Meta, Metric, NodeId, Profile};

pub use by_node::CellsByNode;
pub use column::{Cells, Column, INCLUSIVE};
pub use derive::{Derived, unit_secs};
pub use filter::{Filter, FilterError, Threshold};
pub use find::{MetricError, short_name, without_unit};
pub use names::NameStyle;
pub use union::{ColumnOperator, DifferenceLabels, side_by_side};

/// A tree (after some filters, several trees) with a table of columns over its nodes.
#[derive(Clone, Debug)]
pub struct Graph {
    nodes: Vec<Node>,
    metrics: Vec<OwnMetric>,
    columns: Vec<Column>,
    devices: Vec<Device>,
    meta: Meta,
}

/// A node of a [`Graph`].
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The name in the profile, by which nodes are matched.
    pub profile_name: Arc<str>,
    /// The display name.
    pub name: Arc<str>,
    /// The kind, where the profile has it.
    pub kind: Option<NodeKind>,
    /// Index of the parent, which is lower than the node's own index.
    pub parent: Option<usize>,
    /// Number of ancestors.
    pub depth: usize,
    /// Index after the last node of the subtree.
    pub subtree_end: usize,
    /// Rank in the order in which the program created the nodes.
    pub creation_rank: usize,
    /// The graph that has the node, if two graphs were combined.
    pub side: Side,
}

/// The graph that has a node, if two graphs were combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// Both graphs have the node, or there is only one graph.
    #[default]
    Both,
    /// Only the left graph.
    Left,
    /// Only the right graph.
    Right,
}

/// A metric of the profile, with the nodes' own values.
#[derive(Clone, Debug)]
struct OwnMetric {
    metric: Metric,
    /// Whether the metric is summed into parents. Proton marks such metrics with a value on the
    /// root.
    is_inclusive: bool,
}

impl Graph {
    /// The graph that viewers show for a profile.
    ///
    /// It lacks the subtrees in which the metadata of launches was computed, and nodes that have
    /// neither metrics nor remaining children. The root is always kept.
    pub fn new(profile: Profile) -> Self {
        let is_kept = shown_nodes(&profile);
        let mut new_indexes = vec![usize::MAX; profile.nodes.len()];
        let mut nodes = Vec::new();
        for (old_index, node) in
            profile.nodes.into_iter().enumerate().filter(|&(old_index, _)| is_kept[old_index])
        {
            new_indexes[old_index] = nodes.len();
            nodes.push(Node {
                profile_name: node.name.clone(),
                name: node.name,
                kind: node.kind,
                parent: node.parent.map(|NodeId(parent)| new_indexes[parent as usize]),
                depth: 0,
                subtree_end: 0,
                creation_rank: old_index,
                side: Side::Both,
            });
        }
        // Metrics are sorted by the first remaining node that has them, as a walk over the tree
        // would meet them.
        let first_node =
            |metric: &Metric| metric.nodes.iter().copied().find(|node| is_kept[node.index()]);
        let mut metrics: Vec<_> = profile
            .metrics
            .into_iter()
            .filter_map(|metric| Some((first_node(&metric)?, metric)))
            .collect();
        metrics.sort_by_key(|&(first_node, _)| first_node);
        let (nodes, arranged_indexes) = layout::arrange(nodes);
        let new_number = |old_index: usize| arranged_indexes.get(new_indexes[old_index]).copied();
        let metrics = metrics.into_iter().map(|(first_node, metric)| OwnMetric {
            metric: column::renumber_nodes(&metric, new_number),
            is_inclusive: first_node == NodeId::ROOT,
        });
        Self {
            nodes,
            metrics: metrics.collect(),
            columns: Vec::new(),
            devices: profile.devices,
            meta: profile.meta,
        }
    }

    /// The nodes in pre-order, siblings by name.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The devices that the profile names.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Replaces the descriptions of the devices.
    pub fn set_devices(&mut self, devices: Vec<Device>) {
        self.devices = devices;
    }

    /// The metadata that marey recorded about the run.
    pub const fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The children of `node`, or the roots, by name.
    pub fn children(&self, node: Option<usize>) -> impl Iterator<Item = usize> {
        let (mut next, end) =
            node.map_or((0, self.nodes.len()), |node| (node + 1, self.nodes[node].subtree_end));
        std::iter::from_fn(move || {
            let child = next;
            (child < end).then(|| {
                next = self.nodes[child].subtree_end;
                child
            })
        })
    }

    /// Names of the metrics that are summed into parents, unit included, in the profile's order.
    pub fn inclusive(&self) -> Vec<Arc<str>> {
        let keys = self.metrics.iter().filter(|entry| entry.is_inclusive);
        let (marked, plain): (Vec<_>, Vec<_>) =
            keys.map(|entry| entry.metric.key.clone()).partition(|key| key.contains("(inc)"));
        plain.into_iter().chain(marked).collect()
    }

    /// Names of the other metrics, unit included, in the profile's order.
    pub fn exclusive(&self) -> Vec<Arc<str>> {
        let keys = self.metrics.iter().filter(|entry| !entry.is_inclusive);
        keys.map(|entry| entry.metric.key.clone()).collect()
    }
}

fn shown_nodes(profile: &Profile) -> Vec<bool> {
    let mut is_shown = vec![false; profile.nodes.len()];
    for metric in &profile.metrics {
        for node in &metric.nodes {
            is_shown[node.index()] = true;
        }
    }
    let mut is_metadata = vec![false; profile.nodes.len()];
    for (index, node) in profile.nodes.iter().enumerate() {
        is_metadata[index] = node.parent.is_some_and(|parent| is_metadata[parent.index()])
            || &*node.name == METADATA_STATE
            || node.name.starts_with(METADATA_STATE_PREFIX);
    }
    for (index, node) in profile.nodes.iter().enumerate().rev() {
        is_shown[index] &= !is_metadata[index];
        match node.parent {
            Some(parent) => is_shown[parent.index()] |= is_shown[index],
            None => is_shown[index] = true,
        }
    }
    is_shown
}
