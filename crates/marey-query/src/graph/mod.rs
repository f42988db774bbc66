//! A profile's tree as viewers show it.
//!
//! The rules are those of Proton's viewer and of the library below it, LLNL hatchet, so that the
//! same question gets the same numbers: siblings are ordered by name, metrics that stand on the
//! root are added up into parents, filters attach what is left to the nearest node above it.

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
pub use find::{MetricError, short_word, without_unit};
pub use names::NameStyle;
pub use union::{Compared, Operator, side_by_side};

/// A tree, or after some filters several, with a table of columns over its nodes.
#[derive(Clone, Debug)]
pub struct Graph {
    nodes: Vec<Node>,
    own: Vec<Own>,
    columns: Vec<Column>,
    devices: Vec<Device>,
    meta: Meta,
}

/// A node of a [`Graph`].
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What the node is called in the profile; nodes are matched by it.
    pub frame: Arc<str>,
    /// What the node is shown as.
    pub name: Arc<str>,
    /// What the node stands for, where the profile says it.
    pub kind: Option<NodeKind>,
    /// Position of the node above, which is smaller than the node's own.
    pub parent: Option<usize>,
    /// Levels above.
    pub depth: usize,
    /// Position after the last node of the subtree.
    pub end: usize,
    /// Rank in the order in which the program met the nodes.
    pub seen: usize,
    /// Of which of two graphs the node is.
    pub side: Side,
}

/// Of which of two graphs a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// Of both, or there was but one.
    #[default]
    Both,
    /// Only of the left one.
    Left,
    /// Only of the right one.
    Right,
}

/// A metric as the profile has it.
#[derive(Clone, Debug)]
struct Own {
    metric: Metric,
    /// Whether it is added up into parents: Proton marks such metrics by a value on the root.
    is_inclusive: bool,
}

impl Graph {
    /// The profile as a viewer shows it.
    ///
    /// Left out are the subtrees in which launch metadata was computed, and nodes that have neither
    /// metrics nor a child that is left. The root stays.
    pub fn new(profile: Profile) -> Self {
        let is_kept = shown_nodes(&profile);
        let mut new_from_old = vec![usize::MAX; profile.nodes.len()];
        let mut nodes = Vec::new();
        for (old, node) in profile.nodes.into_iter().enumerate().filter(|&(old, _)| is_kept[old]) {
            new_from_old[old] = nodes.len();
            nodes.push(Node {
                frame: node.name.clone(),
                name: node.name,
                kind: node.kind,
                parent: node.parent.map(|NodeId(parent)| new_from_old[parent as usize]),
                depth: 0,
                end: 0,
                seen: old,
                side: Side::Both,
            });
        }
        // The metrics of what is left, in the order in which a walk over it meets them.
        let first =
            |metric: &Metric| metric.nodes.iter().copied().find(|node| is_kept[node.index()]);
        let mut met: Vec<_> = profile
            .metrics
            .into_iter()
            .filter_map(|metric| Some((first(&metric)?, metric)))
            .collect();
        met.sort_by_key(|&(first, _)| first);
        let mut graph = Self {
            nodes: Vec::new(),
            own: Vec::new(),
            columns: Vec::new(),
            devices: profile.devices,
            meta: profile.meta,
        };
        let arranged_from_new = graph.arrange(nodes);
        let place = |old: usize| arranged_from_new.get(new_from_old[old]).copied();
        let own = met.into_iter().map(|(first, metric)| Own {
            metric: column::moved(&metric, place),
            is_inclusive: first == NodeId::ROOT,
        });
        graph.own = own.collect();
        graph
    }

    /// Every node, each after the one above it; siblings by name.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The devices that the profile names.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Describes the devices anew.
    pub fn set_devices(&mut self, devices: Vec<Device>) {
        self.devices = devices;
    }

    /// What marey says of the run.
    pub const fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The nodes right below `node`, or the roots, by name.
    pub fn children(&self, node: Option<usize>) -> impl Iterator<Item = usize> {
        let (mut next, end) =
            node.map_or((0, self.nodes.len()), |node| (node + 1, self.nodes[node].end));
        std::iter::from_fn(move || {
            let child = next;
            (child < end).then(|| {
                next = self.nodes[child].end;
                child
            })
        })
    }

    /// Names of the metrics that are added up into parents, unit included, in the profile's order.
    pub fn inclusive(&self) -> Vec<Arc<str>> {
        let keys = self.own.iter().filter(|own| own.is_inclusive);
        let (marked, plain): (Vec<_>, Vec<_>) =
            keys.map(|own| own.metric.key.clone()).partition(|key| key.contains("(inc)"));
        plain.into_iter().chain(marked).collect()
    }

    /// Names of the other metrics, unit included, in the profile's order.
    pub fn exclusive(&self) -> Vec<Arc<str>> {
        let keys = self.own.iter().filter(|own| !own.is_inclusive);
        keys.map(|own| own.metric.key.clone()).collect()
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
    for (at, node) in profile.nodes.iter().enumerate() {
        is_metadata[at] = node.parent.is_some_and(|parent| is_metadata[parent.index()])
            || &*node.name == METADATA_STATE
            || node.name.starts_with(METADATA_STATE_PREFIX);
    }
    for (at, node) in profile.nodes.iter().enumerate().rev() {
        is_shown[at] &= !is_metadata[at];
        match node.parent {
            Some(parent) => is_shown[parent.index()] |= is_shown[at],
            None => is_shown[at] = true,
        }
    }
    is_shown
}
