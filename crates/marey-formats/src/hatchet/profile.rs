//! The one type that a file becomes.

use std::collections::HashSet;
use std::sync::Arc;

use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use serde::Serialize;
use thiserror::Error;

/// Name of a metric as the file has it, unit included, such as `wall_total (ns)`.
pub type MetricKey = Arc<str>;

/// Position of a node in [`Profile::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeId(pub(super) usize);

impl NodeId {
    /// The root's.
    pub const ROOT: Self = Self(0);

    /// The position as a number.
    pub const fn index(self) -> usize {
        self.0
    }
}

/// A context tree with its metrics, and what the file says about the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Every node, each after its parent; the root is the first.
    pub nodes: Vec<Node>,
    /// The devices that the metrics mention.
    pub devices: Vec<Device>,
    /// What marey adds on the root; all empty in Proton's own files.
    pub meta: Meta,
}

/// A node of the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Name of the frame.
    pub name: Box<str>,
    /// What the node stands for, where the file says it.
    pub kind: Option<NodeKind>,
    /// The node above; only the root has none.
    pub parent: Option<NodeId>,
    /// The nodes below, first seen first.
    pub children: Vec<NodeId>,
    /// Names and values in the file's order. Values are the node's own, not rolled up.
    pub metrics: Vec<(MetricKey, MetricValue)>,
    /// The quantile sketch of the wall times: buckets and their counts. Empty where there is none.
    pub sketch: Vec<(i64, u64)>,
}

impl Node {
    /// The node's own value of the metric, if it has one.
    pub fn metric(&self, key: &str) -> Option<&MetricValue> {
        self.metrics.iter().find(|(name, _)| &**name == key).map(|(_, value)| value)
    }
}

/// A device and what the file says of its speed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Device {
    /// Family, such as `CUDA` or `HIP`.
    pub family: String,
    /// Number within the family, as text.
    pub id: String,
    /// Architecture, such as `90` or `gfx942`.
    pub arch: Option<String>,
    /// Width of the memory bus.
    pub bus_width_bits: Option<u64>,
    /// Clock of the processors.
    pub clock_rate_khz: Option<u64>,
    /// Clock of the memory.
    pub memory_clock_rate_khz: Option<u64>,
    /// Number of multiprocessors.
    pub num_sms: Option<u64>,
}

/// What marey writes on the root beside Proton's keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meta {
    /// Version of marey's part of the schema.
    pub version: Option<u64>,
    /// The recorder's own cost.
    pub overhead: Option<Overhead>,
    /// Events lost, by cause, in the file's order.
    pub losses: Vec<(String, u64)>,
    /// The profiled process.
    pub process: Option<Process>,
}

/// The recorder's own cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Overhead {
    /// Events recorded.
    pub events: u64,
    /// Cost of one scope.
    pub scope_nanos: f64,
    /// Cost of all recording, estimated.
    pub recording_nanos: u64,
    /// Time spent on writing files.
    pub flushing_nanos: u64,
}

/// The profiled process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Its id.
    pub pid: u64,
    /// Its rank in a distributed job.
    pub rank: Option<u64>,
    /// The machine's name.
    pub host: String,
    /// Its command line.
    pub argv: Vec<String>,
    /// When the session started, in nanoseconds since 1970.
    pub start_unix_nanos: u64,
    /// How long the session has lasted.
    pub duration_nanos: u64,
    /// Whether the session had ended; a checkpoint says `false`.
    pub complete: bool,
}

/// A contradiction in a profile.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Broken {
    /// The list of nodes is empty.
    #[error("the profile has no root")]
    NoRoot,
    /// Parent and children disagree.
    #[error("node {node} and its parent do not name each other exactly once, parent first")]
    Detached {
        /// Position of the node.
        node: usize,
    },
    /// A node has two values of one metric.
    #[error("node {node} (`{name}`) has the metric `{key}` twice")]
    DuplicateMetric {
        /// Position of the node.
        node: usize,
        /// Its name.
        name: Box<str>,
        /// The metric.
        key: MetricKey,
    },
}

impl Profile {
    /// The root.
    ///
    /// # Panics
    /// Where [`check`](Self::check) would say that there is none; no profile that was read is so.
    pub fn root(&self) -> &Node {
        &self.nodes[NodeId::ROOT.index()]
    }

    /// The keys of all metrics, first seen first.
    pub fn metric_keys(&self) -> Vec<MetricKey> {
        let mut seen = HashSet::new();
        let all = self.nodes.iter().flat_map(|node| node.metrics.iter().map(|(key, _)| key));
        all.filter(|key| seen.insert(&***key)).cloned().collect()
    }

    /// States the first invariant that does not hold.
    ///
    /// There is a root; every other node comes after its parent, which lists it once; no node has
    /// a metric twice.
    pub fn check(&self) -> Result<(), Broken> {
        if self.nodes.first().is_none_or(|root| root.parent.is_some()) {
            return Err(Broken::NoRoot);
        }
        self.check_links()?;
        self.check_metrics()
    }

    fn check_links(&self) -> Result<(), Broken> {
        let mut is_listed = vec![false; self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for &NodeId(child) in &node.children {
                let is_ours =
                    self.nodes.get(child).is_some_and(|c| c.parent == Some(NodeId(index)));
                if !is_ours || child <= index || std::mem::replace(&mut is_listed[child], true) {
                    return Err(Broken::Detached { node: child });
                }
            }
        }
        match is_listed.iter().skip(1).position(|listed| !listed) {
            Some(index) => Err(Broken::Detached { node: index + 1 }),
            None => Ok(()),
        }
    }

    fn check_metrics(&self) -> Result<(), Broken> {
        let mut seen = HashSet::new();
        for (index, node) in self.nodes.iter().enumerate() {
            seen.clear();
            if let Some((key, _)) = node.metrics.iter().find(|(key, _)| !seen.insert(&**key)) {
                return Err(Broken::DuplicateMetric {
                    node: index,
                    name: node.name.clone(),
                    key: key.clone(),
                });
            }
        }
        Ok(())
    }
}
