//! The profile type: a context tree with the metrics of its nodes. Readers of files create it, and
//! viewers use it.
//!
//! Nodes are stored in pre-order, so a subtree is a range of positions. A metric stores only the
//! nodes that have a value, so the memory is proportional to the number of values.

mod check;
mod meta;
mod values;

use std::sync::Arc;

pub use self::check::InvalidProfile;
pub use self::meta::{Device, Meta, Overhead, Process};
pub use self::values::{MAX_EXACT_INTEGER, Values};

use crate::context::NodeKind;
use crate::metric::MetricValue;

/// A context tree with its metrics and the metadata of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// All nodes in pre-order: the root first, siblings in order of first appearance.
    pub nodes: Vec<Node>,
    /// All metrics, in order of first appearance in a walk over the nodes.
    pub metrics: Vec<Metric>,
    /// Quantile sketches of wall times, sorted by node.
    pub sketches: Vec<(NodeId, Sketch)>,
    /// The devices to which metrics refer.
    pub devices: Vec<Device>,
    /// Metadata that marey adds on the root; all empty in Proton's own files.
    pub meta: Meta,
}

/// Bucket numbers and counts of a quantile sketch.
pub type Sketch = Box<[(i64, u64)]>;

/// Position of a node in [`Profile::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The root.
    pub const ROOT: Self = Self(0);

    /// Returns the position as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A node of the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Name of the frame. Nodes with equal names share the string.
    pub name: Arc<str>,
    /// Kind, if the file contains it.
    pub kind: Option<NodeKind>,
    /// Parent; `None` only for the root.
    pub parent: Option<NodeId>,
}

/// The values of one metric: exclusive values of each node.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Key in the file, unit included, such as `wall_total (ns)`.
    pub key: Arc<str>,
    /// The nodes with a value, ascending.
    pub nodes: Vec<NodeId>,
    /// The values, parallel to `nodes`.
    pub values: Values,
}

impl Profile {
    /// Returns the metric with this key, unit included.
    pub fn metric(&self, key: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| &*metric.key == key)
    }
}

impl Metric {
    /// Creates a metric without values.
    pub const fn new(key: Arc<str>) -> Self {
        Self { key, nodes: Vec::new(), values: Values::Ints(Vec::new()) }
    }

    /// Appends the value of a node.
    pub fn push(&mut self, node: NodeId, value: MetricValue) {
        self.nodes.push(node);
        self.values.push(value);
    }

    /// Returns the exclusive value of a node, if any.
    pub fn get(&self, node: NodeId) -> Option<MetricValue> {
        self.nodes.binary_search(&node).ok().map(|position| self.values.get(position))
    }

    /// Sorts nodes and values by node.
    pub fn sort(&mut self) {
        if self.nodes.is_sorted() {
            return;
        }
        let mut positions: Vec<usize> = (0..self.nodes.len()).collect();
        positions.sort_by_key(|&position| self.nodes[position]);
        self.values = self.values.pick(&positions);
        self.nodes.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorting_moves_values_with_their_nodes() {
        let mut metric = Metric::new("m".into());
        for (node, value) in [(3, 30), (1, 10), (2, 20)] {
            metric.push(NodeId(node), MetricValue::Int(value));
        }
        metric.sort();
        assert_eq!(metric.get(NodeId(2)), Some(MetricValue::Int(20)));
        assert_eq!(metric.get(NodeId(0)), None);
        assert!(metric.nodes.is_sorted());
    }
}
