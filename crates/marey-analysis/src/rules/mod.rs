//! The rules: each a query in `rules/`, with its thresholds and its words.

mod device;
mod host;
mod kernel;
mod step;

pub(crate) use step::MEMORY_LEAK;

use crate::rule::{Rule, Threshold};

/// From where on most findings are high.
const HIGH: Threshold = Threshold {
    name: "high_percent",
    default: 30.0,
    unit: "%",
    doc: "Above this share of the steps it is high.",
};

/// From where on most are medium.
const MEDIUM: Threshold = Threshold {
    name: "medium_percent",
    default: 10.0,
    unit: "%",
    doc: "Above this share of the steps it is medium.",
};

/// All of them, in the order of their documentation.
pub const ALL: &[Rule] = &[
    device::GPU_IDLE,
    device::LAUNCH_BOUND,
    device::SMALL_KERNELS,
    device::EXPOSED_COMMUNICATION,
    host::CPU_GPU_SYNC,
    host::DATALOADER_STALL,
    host::HOST_DEVICE_COPIES,
    host::HOT_OPERATION,
    step::SLOW_STEPS,
    step::STRAGGLER,
    step::LATE_RANK,
    step::MEMORY_LEAK,
    kernel::LOW_OCCUPANCY,
    kernel::TENSOR_CORES_MISSED,
    kernel::MEMORY_BOUND,
];
