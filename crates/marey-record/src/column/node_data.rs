//! A copy of the data of a node.

use marey_model::metric::MetricValue;

/// The data of a session about a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeData {
    pub(crate) count: u64,
    pub(crate) total_nanos: u64,
    pub(crate) self_nanos: u64,
    pub(crate) min_nanos: u64,
    pub(crate) max_nanos: u64,
    /// The counted buckets of the sketch, ascending.
    pub(crate) buckets: Vec<(u32, u64)>,
    /// The ids of metrics' names and the values, in the order of first use.
    pub(crate) metrics: Vec<(u32, MetricValue)>,
}

impl Default for NodeData {
    fn default() -> Self {
        Self {
            count: 0,
            total_nanos: 0,
            self_nanos: 0,
            min_nanos: u64::MAX,
            max_nanos: 0,
            buckets: Vec::new(),
            metrics: Vec::new(),
        }
    }
}

impl NodeData {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.metrics.is_empty()
    }
}
