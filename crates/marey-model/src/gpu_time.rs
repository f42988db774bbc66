//! The metrics of kernels that ran on devices, on the node that launched them or below it.
//!
//! The first four are Proton's, with its names, units and types; the others are beside them.

/// Name, unit and meaning of one metric.
#[derive(Clone, Copy, Debug)]
pub struct GpuMetric {
    /// Key in `.hatchet` files, unit included.
    pub key: &'static str,
    /// One sentence for the reference page.
    pub doc: &'static str,
}

/// Sum of durations.
pub const TIME: &str = "time (ns)";
/// Kernels.
pub const COUNT: &str = "count";
/// The device's number, as a text.
pub const DEVICE_ID: &str = "device_id";
/// What the device is.
pub const DEVICE_TYPE: &str = "device_type";
/// Shortest kernel.
pub const MIN: &str = "gpu_min (ns)";
/// Longest kernel.
pub const MAX: &str = "gpu_max (ns)";
/// Median.
pub const P50: &str = "gpu_p50 (ns)";
/// 90th percentile.
pub const P90: &str = "gpu_p90 (ns)";
/// 99th percentile.
pub const P99: &str = "gpu_p99 (ns)";

/// Every metric of kernels.
pub const ALL: [GpuMetric; 9] = [
    GpuMetric { key: TIME, doc: "Sum of the durations of the kernels, on the device's clock." },
    GpuMetric { key: COUNT, doc: "Kernels that ran to their end." },
    GpuMetric { key: DEVICE_ID, doc: "Number of the device, as a text." },
    GpuMetric { key: DEVICE_TYPE, doc: "What the device is: `CUDA` or `HIP`." },
    GpuMetric { key: MIN, doc: "Shortest kernel." },
    GpuMetric { key: MAX, doc: "Longest kernel." },
    GpuMetric {
        key: P50,
        doc: "Median duration of the kernels, from a sketch (relative error at most 1/64).",
    },
    GpuMetric {
        key: P90,
        doc: "90th percentile of the kernels, from a sketch (relative error at most 1/64).",
    },
    GpuMetric {
        key: P99,
        doc: "99th percentile of the kernels, from a sketch (relative error at most 1/64).",
    },
];
