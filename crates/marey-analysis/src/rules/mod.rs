//! The rules: each a query in `rules/`, with its thresholds and its words.

mod device;
mod host;
mod step;

use crate::rule::Rule;

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
    step::MEMORY_LEAK,
];
