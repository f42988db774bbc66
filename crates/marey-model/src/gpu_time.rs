//! The keys of the metrics of kernels, which are stored on the launching node or below it.
//!
//! The first four are Proton's, with its names, units and types; the others are marey's.

/// A kernel metric.
#[derive(Clone, Copy, Debug)]
pub struct GpuMetric {
    /// Key in `.hatchet` files, unit included.
    pub key: &'static str,
    /// Description for the reference page.
    pub doc: &'static str,
}

/// Sum of the durations.
pub const TIME: &str = "time (ns)";
/// Number of kernels.
pub const COUNT: &str = "count";
/// Device number, as a string.
pub const DEVICE_ID: &str = "device_id";
/// Platform of the device.
pub const DEVICE_TYPE: &str = "device_type";
/// Shortest duration.
pub const MIN: &str = "gpu_min (ns)";
/// Longest duration.
pub const MAX: &str = "gpu_max (ns)";
/// Median duration.
pub const P50: &str = "gpu_p50 (ns)";
/// 90th percentile.
pub const P90: &str = "gpu_p90 (ns)";
/// 99th percentile.
pub const P99: &str = "gpu_p99 (ns)";

/// Every kernel metric.
pub const ALL: [GpuMetric; 9] = [
    GpuMetric { key: TIME, doc: "Sum of the durations of the kernels, on the device's clock." },
    GpuMetric { key: COUNT, doc: "Number of completed kernels." },
    GpuMetric { key: DEVICE_ID, doc: "Device number, as a string." },
    GpuMetric { key: DEVICE_TYPE, doc: "Platform of the device: `CUDA` or `HIP`." },
    GpuMetric { key: MIN, doc: "Duration of the shortest kernel." },
    GpuMetric { key: MAX, doc: "Duration of the longest kernel." },
    GpuMetric {
        key: P50,
        doc: "Median duration of the kernels, from a sketch (relative error at most 1/64).",
    },
    GpuMetric {
        key: P90,
        doc: "90th percentile of the durations, from a sketch (relative error at most 1/64).",
    },
    GpuMetric {
        key: P99,
        doc: "99th percentile of the durations, from a sketch (relative error at most 1/64).",
    },
];
