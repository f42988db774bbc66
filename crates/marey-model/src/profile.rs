//! The profile type: a context tree with the metrics of its nodes. Readers of files create it, and
//! viewers use it.
//!
//! Nodes are stored in pre-order, so a subtree is a range of positions. A metric stores only the
//! nodes that have a value, so the memory is proportional to the number of values.

use std::collections::HashSet;
use std::sync::Arc;

use thiserror::Error;

use crate::context::NodeKind;
use crate::metric::MetricValue;

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

/// The values of a metric, in the most compact representation that holds all of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Integers only.
    Ints(Vec<i64>),
    /// Floating-point numbers, and integers that are exactly representable as such.
    Floats(Vec<f64>),
    /// Strings only.
    Texts(Vec<Arc<str>>),
    /// Mixed values.
    Mixed(Vec<MetricValue>),
}

/// Up to this magnitude, an `f64` represents every integer exactly.
pub const MAX_EXACT_INTEGER: u64 = 1 << 53;

impl Values {
    /// Returns the number of values.
    pub const fn len(&self) -> usize {
        match self {
            Self::Ints(values) => values.len(),
            Self::Floats(values) => values.len(),
            Self::Texts(values) => values.len(),
            Self::Mixed(values) => values.len(),
        }
    }

    /// Whether there are no values.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value at a position.
    ///
    /// # Panics
    /// If the position is out of bounds.
    pub fn get(&self, position: usize) -> MetricValue {
        match self {
            Self::Ints(values) => MetricValue::Int(values[position]),
            Self::Floats(values) => MetricValue::Float(values[position]),
            Self::Texts(values) => MetricValue::Text(values[position].clone()),
            Self::Mixed(values) => values[position].clone(),
        }
    }

    /// Appends a value, and widens the representation if the value does not fit.
    pub fn push(&mut self, value: MetricValue) {
        match (&mut *self, value) {
            (Self::Ints(values), MetricValue::Int(value)) => values.push(value),
            (Self::Floats(values), MetricValue::Float(value)) => values.push(value),
            (Self::Texts(values), MetricValue::Text(value)) => values.push(value),
            (Self::Floats(values), MetricValue::Int(value))
                if value.unsigned_abs() <= MAX_EXACT_INTEGER =>
            {
                values.push(value as f64);
            }
            (Self::Mixed(values), value) => values.push(value),
            (Self::Ints(values), MetricValue::Float(value))
                if values.iter().all(|value| value.unsigned_abs() <= MAX_EXACT_INTEGER) =>
            {
                let floats = values.iter().map(|&value| value as f64);
                *self = Self::Floats(floats.chain([value]).collect());
            }
            (Self::Ints(values), MetricValue::Text(value)) if values.is_empty() => {
                *self = Self::Texts(vec![value]);
            }
            (_, value) => {
                let values =
                    (0..self.len()).map(|position| self.get(position)).chain([value]).collect();
                *self = Self::Mixed(values);
            }
        }
    }

    /// Converts each floating-point number with an exact integer value among mixed values to an
    /// integer. Then the representation does not depend on the order of insertion.
    pub fn normalise(&mut self) {
        let Self::Mixed(values) = self else { return };
        for value in &mut *values {
            if let MetricValue::Float(real) = *value {
                let integer = real as i64;
                if integer.unsigned_abs() <= MAX_EXACT_INTEGER
                    && (integer as f64).to_bits() == real.to_bits()
                {
                    *value = MetricValue::Int(integer);
                }
            }
        }
        let integers = values.iter().map(|value| match value {
            MetricValue::Int(integer) => Some(*integer),
            _ => None,
        });
        if let Some(integers) = integers.collect() {
            *self = Self::Ints(integers);
        }
    }

    /// Returns the values at these positions, in this order.
    #[must_use]
    pub fn pick(&self, positions: &[usize]) -> Self {
        match self {
            Self::Ints(values) => {
                Self::Ints(positions.iter().map(|&position| values[position]).collect())
            }
            Self::Floats(values) => {
                Self::Floats(positions.iter().map(|&position| values[position]).collect())
            }
            Self::Texts(values) => {
                Self::Texts(positions.iter().map(|&position| values[position].clone()).collect())
            }
            Self::Mixed(values) => {
                Self::Mixed(positions.iter().map(|&position| values[position].clone()).collect())
            }
        }
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

/// A device and its properties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Platform, such as `CUDA` or `HIP`.
    pub family: String,
    /// Device number within the platform, as a string.
    pub id: String,
    /// Architecture, such as `90` or `gfx942`.
    pub arch: Option<String>,
    /// Width of the memory bus.
    pub bus_width_bits: Option<u64>,
    /// Clock rate of the processor.
    pub clock_rate_khz: Option<u64>,
    /// Clock rate of the memory.
    pub memory_clock_rate_khz: Option<u64>,
    /// Number of multiprocessors.
    pub num_sms: Option<u64>,
}

/// Metadata that marey writes on the root in addition to Proton's keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meta {
    /// Version of marey's schema extension.
    pub version: Option<u64>,
    /// Overhead of the recorder.
    pub overhead: Option<Overhead>,
    /// Lost events by cause, in the order of the file.
    pub losses: Vec<(String, u64)>,
    /// Notes about the recording, by key. The recorder writes them, and readers skip them.
    pub notes: Vec<(String, String)>,
    /// The profiled process.
    pub process: Option<Process>,
}

/// Overhead of recording in a process, as measured by its recorder.
///
/// When a session starts, the recorder measures the cost of entering and leaving a few thousand
/// unrecorded scopes. A scope counts as two events, a metric value as one. The total is estimated
/// at half the cost of a scope per event.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overhead {
    /// Events of all threads since recording began, including lost ones.
    pub events: u64,
    /// Cost of entering and leaving one scope.
    pub scope_nanos: f64,
    /// Estimated cost of all events.
    pub recording_nanos: u64,
    /// Time spent writing recorded data, on any thread.
    pub flushing_nanos: u64,
}

/// The profiled process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: u64,
    /// Rank in a distributed job.
    pub rank: Option<u64>,
    /// Host name.
    pub host: String,
    /// Command line.
    pub argv: Vec<String>,
    /// Start of the session, in nanoseconds since 1970.
    pub start_unix_nanos: u64,
    /// Duration of the session so far.
    pub duration_nanos: u64,
    /// Whether the session had ended; `false` in a checkpoint.
    pub complete: bool,
}

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
    /// Returns the metric with this key, unit included.
    pub fn metric(&self, key: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| &*metric.key == key)
    }

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

fn is_ascending(nodes: &[NodeId]) -> bool {
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
    fn values_widen_without_loss() {
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
    fn normalised_values_do_not_depend_on_insertion_order() {
        let normalised = |values: &[MetricValue]| {
            let mut all = Values::Ints(Vec::new());
            for value in values {
                all.push(value.clone());
            }
            all.normalise();
            all
        };
        let [one, half, text] =
            [MetricValue::Float(1.0), MetricValue::Float(0.5), MetricValue::Text("x".into())];
        let big = MetricValue::Int((1 << 53) + 1);
        let integer = MetricValue::Int(1);
        let expected = Values::Mixed(vec![text.clone(), half.clone(), integer.clone()]);
        assert_eq!(normalised(&[text.clone(), half.clone(), one.clone()]), expected);
        let mut otherwise = normalised(&[one.clone(), half, text]);
        otherwise = otherwise.pick(&[2, 1, 0]);
        assert_eq!(otherwise, expected);
        assert_eq!(normalised(&[one, big.clone()]), normalised(&[integer, big]));
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
        assert!(is_ascending(&metric.nodes));
    }

    #[test]
    fn integers_stay_exact_beside_values_of_other_types() {
        let pushed = |first: i64, second: MetricValue| {
            let mut values = Values::Ints(vec![first]);
            values.push(second);
            values
        };
        let (large, half) = ((1 << 53) + 1, MetricValue::Float(0.5));
        let mixed = Values::Mixed(vec![MetricValue::Int(large), half.clone()]);
        assert_eq!(pushed(large, half), mixed);
        let text = MetricValue::Text("x".into());
        assert_eq!(pushed(1, text.clone()), Values::Mixed(vec![MetricValue::Int(1), text]));
    }

    #[test]
    fn the_first_text_makes_a_list_of_texts() {
        let mut values = Values::Ints(Vec::new());
        assert!(values.is_empty());
        values.push(MetricValue::Text("x".into()));
        assert_eq!(values, Values::Texts(vec!["x".into()]));
        assert!(!values.is_empty());
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
