//! All rules. Each is a query in `rules/`, with its thresholds and its texts.

mod device;
mod host;
mod kernel;
mod step;

pub(crate) use step::MEMORY_LEAK;

use crate::rule::{Rule, RuleThreshold};

/// The share of the step time above which most rules report high severity.
const HIGH_PERCENT: RuleThreshold = high_percent(30.0);

/// The share of the step time above which most rules report medium severity.
const MEDIUM_PERCENT: RuleThreshold = RuleThreshold {
    doc: "Share of the step time above which severity is medium.",
    ..MEDIUM_FROM_PERCENT
};

/// The share of the step time from which the other rules report medium severity, the share itself
/// included.
const MEDIUM_FROM_PERCENT: RuleThreshold = RuleThreshold {
    name: "medium_percent",
    default: 10.0,
    unit: "%",
    doc: "Share of the step time from which severity is medium.",
};

const fn high_percent(default: f64) -> RuleThreshold {
    let doc = "Share of the step time above which severity is high.";
    RuleThreshold { name: "high_percent", default, unit: "%", doc }
}

const fn min_percent(default: f64) -> RuleThreshold {
    let doc = "Share of the step time below which nothing is reported.";
    RuleThreshold { name: "min_percent", default, unit: "%", doc }
}

/// All rules, in the order of their documentation.
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
