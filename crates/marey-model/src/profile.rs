//! A profile at rest: a context tree with the metrics of its nodes. Readers make it, viewers use it.
//!
//! Nodes stand in pre-order, so a subtree is a range of positions. A metric stores only the nodes
//! that have it: a profile costs what it says, however many metrics it names.

use std::collections::HashSet;
use std::sync::Arc;

use thiserror::Error;

use crate::context::NodeKind;
use crate::metric::MetricValue;

/// Position of a node in [`Profile::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The root's.
    pub const ROOT: Self = Self(0);

    /// The position as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A context tree with its metrics, and what the file says about the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Every node, in pre-order; the root is the first, and siblings stand first seen first.
    pub nodes: Vec<Node>,
    /// Every metric, in the order in which a walk over the nodes meets them.
    pub metrics: Vec<Metric>,
    /// Quantile sketches of wall times, sorted by node.
    pub sketches: Vec<(NodeId, Sketch)>,
    /// The devices that the metrics mention.
    pub devices: Vec<Device>,
    /// What marey adds on the root; all empty in Proton's own files.
    pub meta: Meta,
}

/// Buckets of a sketch and how many values each holds.
pub type Sketch = Box<[(i64, u64)]>;

/// A node of the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Name of the frame. Equal names share their text.
    pub name: Arc<str>,
    /// What the node stands for, where the file says it.
    pub kind: Option<NodeKind>,
    /// The node above; only the root has none.
    pub parent: Option<NodeId>,
}

/// The values of one metric. They are the nodes' own, not rolled up.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Name as the file has it, unit included, such as `wall_total (ns)`.
    pub key: Arc<str>,
    /// The nodes that have a value, ascending.
    pub nodes: Vec<NodeId>,
    /// Their values.
    pub values: Values,
}

/// The values of a metric in the smallest form that holds them all.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// All are whole numbers.
    Ints(Vec<i64>),
    /// All are real numbers, or whole ones that a real number holds exactly.
    Floats(Vec<f64>),
    /// All are texts.
    Texts(Vec<Arc<str>>),
    /// Anything else.
    Any(Vec<MetricValue>),
}

/// Up to this size a real number holds every whole one exactly.
pub const EXACT: u64 = 1 << 53;

impl Values {
    /// How many there are.
    pub const fn len(&self) -> usize {
        match self {
            Self::Ints(values) => values.len(),
            Self::Floats(values) => values.len(),
            Self::Texts(values) => values.len(),
            Self::Any(values) => values.len(),
        }
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at a position.
    ///
    /// # Panics
    /// Past the end.
    pub fn get(&self, at: usize) -> MetricValue {
        match self {
            Self::Ints(values) => MetricValue::Int(values[at]),
            Self::Floats(values) => MetricValue::Float(values[at]),
            Self::Texts(values) => MetricValue::Text(values[at].clone()),
            Self::Any(values) => values[at].clone(),
        }
    }

    /// Appends a value and widens the form if it does not fit.
    pub fn push(&mut self, value: MetricValue) {
        match (&mut *self, value) {
            (Self::Ints(values), MetricValue::Int(value)) => values.push(value),
            (Self::Floats(values), MetricValue::Float(value)) => values.push(value),
            (Self::Texts(values), MetricValue::Text(value)) => values.push(value),
            (Self::Floats(values), MetricValue::Int(value)) if value.unsigned_abs() <= EXACT => {
                values.push(value as f64);
            }
            (Self::Any(values), value) => values.push(value),
            (Self::Ints(values), MetricValue::Float(value))
                if values.iter().all(|value| value.unsigned_abs() <= EXACT) =>
            {
                let wholes = values.iter().map(|&value| value as f64);
                *self = Self::Floats(wholes.chain([value]).collect());
            }
            (Self::Ints(values), MetricValue::Text(value)) if values.is_empty() => {
                *self = Self::Texts(vec![value]);
            }
            (_, value) => {
                let values = (0..self.len()).map(|at| self.get(at)).chain([value]).collect();
                *self = Self::Any(values);
            }
        }
    }

    /// Brings mixed values into a form that does not depend on the order in which they came: a real
    /// number that is exactly a whole one becomes one.
    pub fn settle(&mut self) {
        let Self::Any(values) = self else { return };
        for value in &mut *values {
            if let MetricValue::Float(real) = *value {
                let whole = real as i64;
                if whole.unsigned_abs() <= EXACT && (whole as f64).to_bits() == real.to_bits() {
                    *value = MetricValue::Int(whole);
                }
            }
        }
        let wholes = values.iter().map(|value| match value {
            MetricValue::Int(whole) => Some(*whole),
            _ => None,
        });
        if let Some(wholes) = wholes.collect() {
            *self = Self::Ints(wholes);
        }
    }

    /// The values at these positions, in this order.
    #[must_use]
    pub fn pick(&self, positions: &[usize]) -> Self {
        match self {
            Self::Ints(values) => Self::Ints(positions.iter().map(|&at| values[at]).collect()),
            Self::Floats(values) => Self::Floats(positions.iter().map(|&at| values[at]).collect()),
            Self::Texts(values) => {
                Self::Texts(positions.iter().map(|&at| values[at].clone()).collect())
            }
            Self::Any(values) => {
                Self::Any(positions.iter().map(|&at| values[at].clone()).collect())
            }
        }
    }
}

impl Metric {
    /// A metric that no node has yet.
    pub const fn new(key: Arc<str>) -> Self {
        Self { key, nodes: Vec::new(), values: Values::Ints(Vec::new()) }
    }

    /// Appends the value of a node.
    pub fn push(&mut self, node: NodeId, value: MetricValue) {
        self.nodes.push(node);
        self.values.push(value);
    }

    /// The node's own value, if it has one.
    pub fn get(&self, node: NodeId) -> Option<MetricValue> {
        self.nodes.binary_search(&node).ok().map(|at| self.values.get(at))
    }

    /// Puts the nodes in ascending order.
    pub fn sort(&mut self) {
        if self.nodes.is_sorted() {
            return;
        }
        let mut positions: Vec<usize> = (0..self.nodes.len()).collect();
        positions.sort_by_key(|&at| self.nodes[at]);
        self.values = self.values.pick(&positions);
        self.nodes.sort_unstable();
    }
}

/// A device and what the file says of its speed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

/// What recording cost a process, as its recorder measured it.
///
/// The recorder enters and leaves a few thousand scopes that nobody sees when a session starts, and so
/// knows what one costs there. A scope is two events, entering and leaving; a value of a metric is
/// one. All of recording is estimated at half a scope's cost an event.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overhead {
    /// Events of all threads since recording began, lost ones included.
    pub events: u64,
    /// Cost of entering and leaving one scope.
    pub scope_nanos: f64,
    /// Cost of all events, estimated.
    pub recording_nanos: u64,
    /// Time spent on writing what was recorded so far, on whichever thread it ran.
    pub flushing_nanos: u64,
}

/// The profiled process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// The list of nodes is empty, or its first node has a parent.
    #[error("the profile has no root")]
    NoRoot,
    /// The nodes are not in pre-order.
    #[error("node {node} does not follow its parent or a descendant of its parent")]
    OutOfOrder {
        /// Position of the node.
        node: usize,
    },
    /// A metric has more or fewer values than nodes, or its nodes do not ascend.
    #[error("the metric `{key}` does not give each of its nodes one value, in order")]
    Uneven {
        /// The metric.
        key: Arc<str>,
    },
    /// A metric or a sketch of a node that is not there.
    #[error("`{key}` speaks of node {node}, which is not there")]
    NoSuchNode {
        /// The metric, or `sketch`.
        key: Arc<str>,
        /// The position.
        node: usize,
    },
    /// Two metrics of one name.
    #[error("the metric `{key}` is there twice")]
    DuplicateMetric {
        /// The metric.
        key: Arc<str>,
    },
    /// Two devices of one family and number.
    #[error("the device {id} of `{family}` is there twice")]
    DuplicateDevice {
        /// Its family.
        family: String,
        /// Its number.
        id: String,
    },
}

impl Profile {
    /// The metric of this name, unit included.
    pub fn metric(&self, key: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| &*metric.key == key)
    }

    /// States the first invariant that does not hold.
    ///
    /// There is a root; every other node stands in the subtree of its parent, in pre-order; each
    /// metric is there once, and has one value a node, in ascending order of nodes that exist; each
    /// device is there once.
    pub fn check(&self) -> Result<(), Broken> {
        self.check_order()?;
        self.check_metrics()?;
        self.check_devices()
    }

    fn check_order(&self) -> Result<(), Broken> {
        if self.nodes.first().is_none_or(|root| root.parent.is_some()) {
            return Err(Broken::NoRoot);
        }
        let mut path = vec![NodeId::ROOT];
        for (index, node) in self.nodes.iter().enumerate().skip(1) {
            let out_of_order = Broken::OutOfOrder { node: index };
            let Some(parent) = node.parent else { return Err(out_of_order) };
            while path.last().is_some_and(|&above| above != parent) {
                path.pop();
            }
            if path.is_empty() {
                return Err(out_of_order);
            }
            path.push(NodeId(index as u32));
        }
        Ok(())
    }

    fn check_metrics(&self) -> Result<(), Broken> {
        let mut seen = HashSet::new();
        for metric in &self.metrics {
            let key = &metric.key;
            if !seen.insert(&**key) {
                return Err(Broken::DuplicateMetric { key: key.clone() });
            }
            if metric.nodes.len() != metric.values.len() || !ascends(&metric.nodes) {
                return Err(Broken::Uneven { key: key.clone() });
            }
            self.check_node(metric.nodes.last(), key)?;
        }
        let sketched: Vec<NodeId> = self.sketches.iter().map(|(node, _)| *node).collect();
        if !ascends(&sketched) {
            return Err(Broken::Uneven { key: "sketch".into() });
        }
        self.check_node(sketched.last(), &"sketch".into())
    }

    fn check_devices(&self) -> Result<(), Broken> {
        let mut seen = HashSet::new();
        match self.devices.iter().find(|device| !seen.insert((&device.family, &device.id))) {
            Some(Device { family, id, .. }) => {
                Err(Broken::DuplicateDevice { family: family.clone(), id: id.clone() })
            }
            None => Ok(()),
        }
    }

    fn check_node(&self, last: Option<&NodeId>, key: &Arc<str>) -> Result<(), Broken> {
        match last {
            Some(node) if node.index() >= self.nodes.len() => {
                Err(Broken::NoSuchNode { key: key.clone(), node: node.index() })
            }
            _ => Ok(()),
        }
    }
}

fn ascends(nodes: &[NodeId]) -> bool {
    nodes.is_sorted_by(|a, b| a < b)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn check_states_what_is_broken() {
        let tree = [None, Some(0), Some(1), Some(0)].map(node).to_vec();
        let with = |nodes: Vec<Node>, metrics: Vec<Metric>| Profile {
            nodes,
            metrics,
            ..Profile::default()
        };
        let message = |profile: Profile| match profile.check() {
            Ok(()) => "sound".to_owned(),
            Err(broken) => broken.to_string(),
        };
        assert_eq!(message(with(tree.clone(), vec![metric("m", &[0, 3])])), "sound");
        assert_eq!(message(Profile::default()), "the profile has no root");
        let late = [None, Some(0), Some(0), Some(1)].map(node).to_vec();
        assert!(message(with(late, vec![])).starts_with("node 3 does not follow"));
        let twice = vec![metric("m", &[0]), metric("m", &[1])];
        assert_eq!(message(with(tree.clone(), twice)), "the metric `m` is there twice");
        assert!(message(with(tree.clone(), vec![metric("m", &[1, 1])])).contains("one value"));
        assert!(message(with(tree.clone(), vec![metric("m", &[4])])).contains("node 4"));
        let device = Device { family: "CUDA".into(), id: "0".into(), ..Device::default() };
        let devices = vec![device.clone(), device];
        assert_eq!(
            message(Profile { nodes: tree, devices, ..Profile::default() }),
            "the device 0 of `CUDA` is there twice"
        );
    }

    #[test]
    fn values_widen_and_lose_nothing() {
        let mut values = Values::Ints(Vec::new());
        values.push(MetricValue::Int(1));
        values.push(MetricValue::Float(0.5));
        values.push(MetricValue::Int(0));
        assert_eq!(values, Values::Floats(vec![1.0, 0.5, 0.0]));
        values.push(MetricValue::Int((1 << 53) + 1));
        assert_eq!(values.get(3), MetricValue::Int((1 << 53) + 1));
        assert_eq!(values.get(1), MetricValue::Float(0.5));
        values.push(MetricValue::Text("0".into()));
        assert_eq!(values.len(), 5);
    }

    #[test]
    fn settled_values_are_the_same_in_every_order() {
        let settled = |values: &[MetricValue]| {
            let mut all = Values::Ints(Vec::new());
            for value in values {
                all.push(value.clone());
            }
            all.settle();
            all
        };
        let [one, half, text] =
            [MetricValue::Float(1.0), MetricValue::Float(0.5), MetricValue::Text("x".into())];
        let big = MetricValue::Int((1 << 53) + 1);
        let whole = MetricValue::Int(1);
        let expected = Values::Any(vec![text.clone(), half.clone(), whole.clone()]);
        assert_eq!(settled(&[text.clone(), half.clone(), one.clone()]), expected);
        let mut otherwise = settled(&[one.clone(), half, text]);
        otherwise = otherwise.pick(&[2, 1, 0]);
        assert_eq!(otherwise, expected);
        assert_eq!(settled(&[one, big.clone()]), settled(&[whole, big]));
    }

    #[test]
    fn sorting_moves_values_with_their_nodes() {
        let mut metric = Metric::new("m".into());
        for (node, value) in [(3, 30), (1, 10), (2, 20)] {
            metric.push(NodeId(node), MetricValue::Int(value));
        }
        metric.sort();
        assert_eq!(metric.get(NodeId(2)), Some(MetricValue::Int(20)));
        assert_eq!(metric.get(NodeId(0)), None);
        assert!(ascends(&metric.nodes));
    }
}
