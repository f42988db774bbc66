//! The keys of the wall-time metrics that marey keeps on every scope node, in addition to Proton's.
//!
//! Proton's `time` and `count` are kernel time and kernel launches. The names here cannot be
//! confused with them: readers compare names in lower case up to the first parenthesis.

/// A wall-time metric.
#[derive(Clone, Copy, Debug)]
pub struct WallMetric {
    /// Key in `.hatchet` files, unit included.
    pub key: &'static str,
    /// Description for the reference page.
    pub doc: &'static str,
}

/// Completed entries.
pub const COUNT: &str = "wall_count";
/// Sum of durations.
pub const TOTAL: &str = "wall_total (ns)";
/// Time outside child scopes.
pub const SELF: &str = "wall_self (ns)";
/// Shortest entry.
pub const MIN: &str = "wall_min (ns)";
/// Longest entry.
pub const MAX: &str = "wall_max (ns)";
/// Median.
pub const P50: &str = "wall_p50 (ns)";
/// 90th percentile.
pub const P90: &str = "wall_p90 (ns)";
/// 99th percentile.
pub const P99: &str = "wall_p99 (ns)";
/// Entries that were open when the file was written.
pub const OPEN: &str = "wall_open";

/// Every wall-time metric.
pub const ALL: [WallMetric; 9] = [
    WallMetric { key: COUNT, doc: "Number of completed entries of the scope." },
    WallMetric {
        key: TOTAL,
        doc: "Inclusive time of all entries; an entry that is still open counts up to the time of writing.",
    },
    WallMetric {
        key: SELF,
        doc: "Exclusive time: the part of the total that no child scope on the same thread covers.",
    },
    WallMetric { key: MIN, doc: "Duration of the shortest completed entry." },
    WallMetric { key: MAX, doc: "Duration of the longest completed entry." },
    WallMetric {
        key: P50,
        doc: "Median duration of the completed entries, from the sketch (relative error at most 1/64).",
    },
    WallMetric {
        key: P90,
        doc: "90th percentile of the completed entries, from the sketch (relative error at most 1/64).",
    },
    WallMetric {
        key: P99,
        doc: "99th percentile of the completed entries, from the sketch (relative error at most 1/64).",
    },
    WallMetric {
        key: OPEN,
        doc: "Entries that were open when the file was written; absent when none was.",
    },
];
