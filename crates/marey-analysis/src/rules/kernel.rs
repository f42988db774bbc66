//! Rules on how well kernels use a device.

use marey_model::table::stored;

use crate::rule::{Rule, Threshold};

const HIGH: Threshold = Threshold {
    name: "high_percent",
    default: 30.0,
    unit: "%",
    doc: "Share of the step above which it is of high severity.",
};

const MEDIUM: Threshold = Threshold {
    name: "medium_percent",
    default: 10.0,
    unit: "%",
    doc: "Share of the step above which it is of medium severity.",
};

const LEAST: Threshold = Threshold {
    name: "min_percent",
    default: 1.0,
    unit: "%",
    doc: "Least share of the step under which it is silent.",
};

/// Kernels that take much of a device's time while few of its warps have work: too few blocks, or
/// blocks that need too many registers or too much shared memory.
pub(super) const LOW_OCCUPANCY: Rule = Rule {
    name: "low_occupancy",
    needs: &[&stored::GPU_ACTIVITIES],
    title: "Kernels with low occupancy",
    doc: "Fires for a kernel that takes at least min_time_percent of the time in which its device does something, and at least min_percent of the step, while its achieved occupancy (kernel_occupancy, mean over time and launch shapes) is below max_occupancy_percent. Kernels of communication are left out; those that multiply matrices or convolve, which are fast with few warps, are reported only where the grid is too small for the device. Impact is the sum of its durations by step; gain is impact × (1 − achieved / max_occupancy_percent), as if time fell in proportion until it is not reported any more. Severity is medium above medium_percent of the step, high above high_percent.",
    thresholds: &[
        Threshold {
            name: "max_occupancy_percent",
            default: 25.0,
            unit: "%",
            doc: "Achieved occupancy from which on a kernel is not reported.",
        },
        Threshold {
            name: "min_time_percent",
            default: 5.0,
            unit: "%",
            doc: "Least share of the busy time of its device that a kernel must take.",
        },
        LEAST,
        MEDIUM,
        HIGH,
    ],
    sql: include_str!("../../rules/low_occupancy.sql"),
    says: "The kernel {subject} takes {impact_nanos} {per} ({device_percent} of what device {device} does) at an occupancy of {achieved_percent} (at most {theoretical_percent}), limited by {limited_by}: blocks of {block} threads, {registers} registers a thread, {shared_bytes} of shared memory a block.",
    hint: "If the grid is the limit, give it more work at once: larger batches, or several small calls made one. If registers or shared memory are, use smaller blocks or tiles, or bound the registers with __launch_bounds__ (num_warps and num_stages in Triton).",
};

/// Products of matrices and convolutions that run in single or half precision on a device with
/// tensor cores, without using them.
pub(super) const TENSOR_CORES_MISSED: Rule = Rule {
    name: "tensor_cores_missed",
    needs: &[&stored::GPU_ACTIVITIES],
    title: "Tensor cores are not used",
    doc: "Fires where kernels that by their names multiply matrices or convolve in single or half precision, and by their names do so without tensor cores (such as volta_sgemm or cutlass_80_simt_sgemm), take at least min_time_percent of the time in which their device does something, and at least min_percent of the step, on an NVIDIA device of compute capability 7.0 or later. Products and convolutions are summed up each; the subject is the kernel that takes longest. Impact is the sum of their durations by step; gain is 7/8 of it, or 3/4 where tensor cores are four times as fast rather than eight (8.6, 8.7, 8.9, and 11.0 and later): what the published peaks of half precision and of single precision without tensor cores give, if memory keeps up. Severity is medium above medium_percent of the step, high above high_percent.",
    thresholds: &[
        Threshold {
            name: "min_time_percent",
            default: 5.0,
            unit: "%",
            doc: "Least share of the busy time of their device that such kernels must take.",
        },
        LEAST,
        MEDIUM,
        HIGH,
    ],
    sql: include_str!("../../rules/tensor_cores_missed.sql"),
    says: "{count} kernels for {operation}s take {impact_nanos} {per} ({device_percent} of what device {device} does) without its tensor cores; the longest of {kernel_names} is {subject}. The device has compute capability {compute_capability}.",
    hint: "Train under torch.autocast in bfloat16 or float16. From compute capability 8.0 on, float32 can use them, too: torch.set_float32_matmul_precision(\"high\") and torch.backends.cudnn.allow_tf32 = True. Sizes that are multiples of 8 (of 16 bytes) help.",
};

/// Kernels that move many bytes for each operation (elementwise, reductions, copies, norms,
/// softmax) and take much of the time: the device's memory is the limit, and fusing them helps.
pub(super) const MEMORY_BOUND: Rule = Rule {
    name: "memory_bound",
    needs: &[&stored::GPU_ACTIVITIES],
    title: "Kernels wait for memory",
    doc: "Fires for each family of kernels with few operations for each byte, known by their names (elementwise, reduction, copy, normalization, softmax), that takes at least min_time_percent of the time in which its device does something, and at least min_percent of the step. Kernels over lists of tensors, which are fused already, are left out, and so is communication, which has none of these names. Impact is the sum of their durations by step; gain is half of it: of two that are fused, one passage through memory is left. Severity is medium above medium_percent of the step, high above high_percent.",
    thresholds: &[
        Threshold {
            name: "min_time_percent",
            default: 5.0,
            unit: "%",
            doc: "Least share of the busy time of its device that a family must take.",
        },
        LEAST,
        MEDIUM,
        HIGH,
    ],
    sql: include_str!("../../rules/memory_bound.sql"),
    says: "{count} {subject} of {kernel_names} names take {impact_nanos} {per} ({device_percent} of what device {device} does), {mean_nanos} each; the longest is {longest_kernel}.",
    hint: "Fuse them: torch.compile, fused optimizers and norms, scaled_dot_product_attention in place of a softmax of one's own. Half precision halves the bytes; channels_last avoids copies between layouts.",
};
