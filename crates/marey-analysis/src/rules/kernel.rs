//! Rules about how well kernels use a device: low occupancy, unused tensor cores, and limits of
//! memory bandwidth.

use marey_model::table::stored;

use super::{HIGH_PERCENT, MEDIUM_PERCENT, min_percent};
use crate::rule::{Rule, RuleThreshold};

/// The share of the step time below which these rules do not fire.
const MIN_PERCENT: RuleThreshold = min_percent(1.0);

/// Kernels that take a large share of a device's time with few active warps: too few blocks, or
/// blocks that need too many registers or too much shared memory.
pub(super) const LOW_OCCUPANCY: Rule = Rule {
    name: "low_occupancy",
    needed_tables: &[&stored::GPU_ACTIVITIES],
    title: "Kernels with low occupancy",
    doc: "Fires for a kernel that takes at least `min_time_percent` of the busy time of its device and at least `min_percent` of the step time, while its achieved occupancy (`kernel_occupancy`, mean over time and launch shapes) is below `max_occupancy_percent`. Communication kernels are left out; matrix products and convolutions, which are fast with few warps, are reported only where the grid is too small for the device. Impact: the sum of the kernel's durations, per step. Gain: impact × (1 − achieved / `max_occupancy_percent`), as if time fell in proportion until the kernel is no longer reported. Severity: high above `high_percent` of the step time, medium above `medium_percent`.",
    thresholds: &[
        RuleThreshold {
            name: "max_occupancy_percent",
            default: 25.0,
            unit: "%",
            doc: "Achieved occupancy from which a kernel is not reported.",
        },
        RuleThreshold {
            name: "min_time_percent",
            default: 5.0,
            unit: "%",
            doc: "Share of the busy time of its device that a kernel must take.",
        },
        MIN_PERCENT,
        MEDIUM_PERCENT,
        HIGH_PERCENT,
    ],
    sql: include_str!("../../rules/low_occupancy.sql"),
    description: "The kernel {subject} takes {impact_nanos} {per} ({device_percent} of the busy time of device {device}) at an occupancy of {achieved_percent} (theoretical {theoretical_percent}), limited by {limited_by}: {block} threads per block, {registers} registers per thread, {shared_bytes} of shared memory per block.",
    hint: "If the grid is the limit, launch more work at once: larger batches, or several small calls merged into one. If registers or shared memory are the limit, use smaller blocks or tiles, or bound the registers with __launch_bounds__ (num_warps and num_stages in Triton).",
};

/// Matrix products and convolutions that run in single or half precision on a device with tensor
/// cores, without using them.
pub(super) const TENSOR_CORES_MISSED: Rule = Rule {
    name: "tensor_cores_missed",
    needed_tables: &[&stored::GPU_ACTIVITIES],
    title: "Tensor cores unused",
    doc: "Fires where kernels whose names denote matrix products or convolutions in single or half precision without tensor cores (such as volta_sgemm or cutlass_80_simt_sgemm) take at least `min_time_percent` of the busy time of their device and at least `min_percent` of the step time, on an NVIDIA device of compute capability 7.0 or later. Products and convolutions are summed separately; the subject is the kernel that takes longest. Impact: the sum of their durations, per step. Gain: 7/8 of it, or 3/4 where tensor cores are four times as fast rather than eight (8.6, 8.7, 8.9, and 11.0 and later): the ratio of the published peaks of half precision and of single precision without tensor cores, if memory keeps up. Severity: high above `high_percent` of the step time, medium above `medium_percent`.",
    thresholds: &[
        RuleThreshold {
            name: "min_time_percent",
            default: 5.0,
            unit: "%",
            doc: "Share of the busy time of their device that these kernels must take.",
        },
        MIN_PERCENT,
        MEDIUM_PERCENT,
        HIGH_PERCENT,
    ],
    sql: include_str!("../../rules/tensor_cores_missed.sql"),
    description: "{count} {operation} kernels ({kernel_names} distinct) take {impact_nanos} {per} ({device_percent} of the busy time of device {device}) without tensor cores, which compute capability {compute_capability} has. {subject} takes longest.",
    hint: "Train under torch.autocast in bfloat16 or float16. From compute capability 8.0 on, float32 can use tensor cores too: torch.set_float32_matmul_precision(\"high\") and torch.backends.cudnn.allow_tf32 = True. Sizes that are multiples of 8 (of 16 bytes) help.",
};

/// Kernels that do few operations per byte (elementwise, reductions, copies, norms, softmax) and
/// take a large share of the time: memory bandwidth is the limit, and fusing them helps.
pub(super) const MEMORY_BOUND: Rule = Rule {
    name: "memory_bound",
    needed_tables: &[&stored::GPU_ACTIVITIES],
    title: "Memory-bound kernels",
    doc: "Fires for each family of kernels with few operations per byte, recognised by name (elementwise, reduction, copy, normalization, softmax), that takes at least `min_time_percent` of the busy time of its device and at least `min_percent` of the step time. Kernels over lists of tensors are left out because they are fused already; communication has none of these names. Impact: the sum of their durations, per step. Gain: half of it, since two fused kernels pass through memory once instead of twice. Severity: high above `high_percent` of the step time, medium above `medium_percent`.",
    thresholds: &[
        RuleThreshold {
            name: "min_time_percent",
            default: 5.0,
            unit: "%",
            doc: "Share of the busy time of its device that a family must take.",
        },
        MIN_PERCENT,
        MEDIUM_PERCENT,
        HIGH_PERCENT,
    ],
    sql: include_str!("../../rules/memory_bound.sql"),
    description: "{count} {subject} ({kernel_names} distinct) take {impact_nanos} {per} ({device_percent} of the busy time of device {device}), {mean_nanos} each; {longest_kernel} takes longest.",
    hint: "Fuse them: torch.compile, fused optimizers and norms, scaled_dot_product_attention instead of an explicit softmax. Half precision halves the bytes; channels_last avoids copies between layouts.",
};
