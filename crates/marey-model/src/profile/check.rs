//! The invariants of a profile.

use std::collections::HashSet;
use std::sync::Arc;

use thiserror::Error;

use super::{Device, NodeId, Profile};

/// A violated invariant of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidProfile {
    /// The node list is empty, or its first node has a parent.
    #[error("the profile has no root")]
    NoRoot,
    /// The nodes are not in pre-order.
    #[error("node {node} does not follow its parent or a descendant of its parent")]
    OutOfOrder {
        /// Position of the node.
        node: usize,
    },
    /// A metric has a different number of values and nodes, or its nodes are not ascending.
    #[error("the nodes of metric `{key}` are not ascending or do not have one value each")]
    MismatchedNodes {
        /// The metric.
        key: Arc<str>,
    },
    /// A metric or sketch refers to a node that does not exist.
    #[error("`{key}` refers to node {node}, which does not exist")]
    NoSuchNode {
        /// The metric, or `sketch`.
        key: Arc<str>,
        /// Position of the node.
        node: usize,
    },
    /// Two metrics have the same key.
    #[error("duplicate metric `{key}`")]
    DuplicateMetric {
        /// The metric.
        key: Arc<str>,
    },
    /// Two devices have the same platform and number.
    #[error("duplicate device {id} of `{family}`")]
    DuplicateDevice {
        /// Platform.
        family: String,
        /// Device number.
        id: String,
    },
}

impl Profile {
    /// Checks the invariants and returns the first violation.
    ///
    /// There is a root, and every other node is in the subtree of its parent, in pre-order. Metric
    /// keys are unique. Each metric has one value per node, and its nodes exist and ascend. Devices
    /// are unique.
    pub fn check(&self) -> Result<(), InvalidProfile> {
        self.check_order()?;
        self.check_metrics()?;
        self.check_devices()
    }

    fn check_order(&self) -> Result<(), InvalidProfile> {
        if self.nodes.first().is_none_or(|root| root.parent.is_some()) {
            return Err(InvalidProfile::NoRoot);
        }
        let mut path = vec![NodeId::ROOT];
        for (index, node) in self.nodes.iter().enumerate().skip(1) {
            let out_of_order = InvalidProfile::OutOfOrder { node: index };
            let Some(parent) = node.parent else { return Err(out_of_order) };
            while path.last().is_some_and(|&ancestor| ancestor != parent) {
                path.pop();
            }
            if path.is_empty() {
                return Err(out_of_order);
            }
            path.push(NodeId(index as u32));
        }
        Ok(())
    }

    fn check_metrics(&self) -> Result<(), InvalidProfile> {
        let mut seen = HashSet::new();
        for metric in &self.metrics {
            let key = &metric.key;
            if !seen.insert(&**key) {
                return Err(InvalidProfile::DuplicateMetric { key: key.clone() });
            }
            if metric.nodes.len() != metric.values.len() || !is_ascending(&metric.nodes) {
                return Err(InvalidProfile::MismatchedNodes { key: key.clone() });
            }
            self.check_node(metric.nodes.last(), key)?;
        }
        let sketched_nodes: Vec<NodeId> = self.sketches.iter().map(|(node, _)| *node).collect();
        if !is_ascending(&sketched_nodes) {
            return Err(InvalidProfile::MismatchedNodes { key: "sketch".into() });
        }
        self.check_node(sketched_nodes.last(), &"sketch".into())
    }

    fn check_devices(&self) -> Result<(), InvalidProfile> {
        let mut seen = HashSet::new();
        match self.devices.iter().find(|device| !seen.insert((&device.family, &device.id))) {
            Some(Device { family, id, .. }) => {
                Err(InvalidProfile::DuplicateDevice { family: family.clone(), id: id.clone() })
            }
            None => Ok(()),
        }
    }

    fn check_node(&self, last: Option<&NodeId>, key: &Arc<str>) -> Result<(), InvalidProfile> {
        match last {
            Some(node) if node.index() >= self.nodes.len() => {
                Err(InvalidProfile::NoSuchNode { key: key.clone(), node: node.index() })
            }
            _ => Ok(()),
        }
    }
}

/// Whether the nodes ascend, each of them once.
fn is_ascending(nodes: &[NodeId]) -> bool {
    nodes.is_sorted_by(|a, b| a < b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::MetricValue;
    use crate::profile::{Metric, Node};

    fn node(parent: Option<u32>) -> Node {
        Node { name: "n".into(), kind: None, parent: parent.map(NodeId) }
    }

    fn metric(key: &str, nodes: &[u32]) -> Metric {
        let mut metric = Metric::new(key.into());
        for &node in nodes {
            metric.push(NodeId(node), MetricValue::Int(1));
        }
        metric
    }

    #[test]
    fn check_reports_the_first_violated_invariant() {
        let tree = [None, Some(0), Some(1), Some(0)].map(node).to_vec();
        let with = |nodes: Vec<Node>, metrics: Vec<Metric>| Profile {
            nodes,
            metrics,
            ..Profile::default()
        };
        let message = |profile: Profile| match profile.check() {
            Ok(()) => "valid".to_owned(),
            Err(violation) => violation.to_string(),
        };
        assert_eq!(message(with(tree.clone(), vec![metric("m", &[0, 3])])), "valid");
        assert_eq!(message(Profile::default()), "the profile has no root");
        let late = [None, Some(0), Some(0), Some(1)].map(node).to_vec();
        assert!(message(with(late, vec![])).starts_with("node 3 does not follow"));
        let twice = vec![metric("m", &[0]), metric("m", &[1])];
        assert_eq!(message(with(tree.clone(), twice)), "duplicate metric `m`");
        assert!(message(with(tree.clone(), vec![metric("m", &[1, 1])])).contains("one value"));
        assert!(message(with(tree.clone(), vec![metric("m", &[4])])).contains("node 4"));
        let device = Device { family: "CUDA".into(), id: "0".into(), ..Device::default() };
        let devices = vec![device.clone(), device];
        assert_eq!(
            message(Profile { nodes: tree, devices, ..Profile::default() }),
            "duplicate device 0 of `CUDA`"
        );
    }

    #[test]
    fn devices_that_differ_in_platform_or_number_are_valid() {
        let device = |family: &str, id: &str| Device {
            family: family.into(),
            id: id.into(),
            ..Device::default()
        };
        let profile = Profile {
            nodes: vec![node(None)],
            metrics: vec![metric("a", &[0]), metric("b", &[0])],
            devices: vec![device("CUDA", "0"), device("CUDA", "1"), device("HIP", "0")],
            ..Profile::default()
        };
        assert_eq!(profile.check(), Ok(()));
        assert_eq!(profile.metric("b").map(|metric| &*metric.key), Some("b"));
        assert!(profile.metric("c").is_none());
    }
}
