//! Copies of the data of a node.

use marey_model::metric::MetricValue;

/// The data of a session about a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeData {
    pub(crate) wall: WallTimes,
    /// The ids of metrics' names and the values, in the order of first use.
    pub(crate) metrics: Vec<(u32, MetricValue)>,
}

impl NodeData {
    pub(crate) fn is_empty(&self) -> bool {
        self.wall.count == 0 && self.metrics.is_empty()
    }
}

/// Duration statistics of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct WallTimes {
    pub(crate) count: u64,
    /// Entries that are still open. The sums include their time so far.
    pub(crate) open_count: u64,
    pub(crate) total_nanos: u64,
    pub(crate) self_nanos: u64,
    pub(crate) min_nanos: u64,
    pub(crate) max_nanos: u64,
    /// The counted buckets of the sketch, ascending.
    pub(crate) buckets: Vec<(u32, u64)>,
}

impl WallTimes {
    /// Adds the statistics of further entries.
    pub(crate) fn add(&mut self, other: Self) {
        if other.has_times() {
            self.min_nanos = if self.has_times() {
                self.min_nanos.min(other.min_nanos)
            } else {
                other.min_nanos
            };
            self.max_nanos = self.max_nanos.max(other.max_nanos);
        }
        self.count += other.count;
        self.open_count += other.open_count;
        self.total_nanos += other.total_nanos;
        self.self_nanos += other.self_nanos;
        if self.buckets.is_empty() {
            self.buckets = other.buckets;
            return;
        }
        for (bucket, count) in other.buckets {
            match self.buckets.binary_search_by_key(&bucket, |&(known, _)| known) {
                Ok(position) => self.buckets[position].1 += count,
                Err(position) => self.buckets.insert(position, (bucket, count)),
            }
        }
    }

    /// Whether the duration of any entry is known. Kernels may lack durations.
    pub(crate) fn has_times(&self) -> bool {
        !self.buckets.is_empty()
    }
}
