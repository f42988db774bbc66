//! Views that compare measured rates with hardware limits: occupancy, bandwidth, roofline, MFU.
//!
//! `docs/analysis.md` defines each number.

use super::ColumnKind::{Flag, Id, Int, Nanos, Real, Text};
use super::view::{DEVICE, MAYBE_DEVICE, PID, PROCESS_ID, RANK};
use super::{Column, Table, column, nullable};

const ARITHMETIC_INTENSITY: Column = nullable("arithmetic_intensity", Real, "`flops` / `bytes`.");
const FLOPS_PER_SECOND: Column =
    nullable("flops_per_second", Real, "`flops` per second of `total_nanos`.");
const BYTES_PER_SECOND: Column = nullable(
    "bytes_per_second",
    Real,
    "`bytes` per second of `total_nanos`; a lower bound of the actual memory traffic.",
);
const IS_EXTRAPOLATED: Column = column(
    "is_extrapolated",
    Flag,
    "Whether `flops` and `bytes` are extrapolated from `known_calls` to all `calls`, because shapes were recorded in a sample of the steps.",
);
const RIDGE_POINT: Column = nullable(
    "ridge_point",
    Real,
    "Arithmetic intensity above which the device is limited by computation rather than by memory bandwidth.",
);
const BOUND: Column = nullable(
    "bound",
    Text,
    "`compute` if `arithmetic_intensity` is at least `ridge_point`, else `memory`; null if shapes or peaks are unknown.",
);

tables! {
    /// Occupancy of kernels, the share of warp slots of a multiprocessor that they fill, and its
    /// limiting factor. One row per process, device, kernel and launch shape. Kernels of unknown
    /// shape are left out.
    KERNEL_OCCUPANCY = "kernel_occupancy" [
        column("name", Text, "Name of the kernel."),
        column("block", Text, "Block size in threads, as `x,y,z`."),
        nullable("registers", Id, "Registers per thread."),
        nullable("shared_bytes", Int, "Shared memory per block, static and dynamic."),
        column("count", Int, "Number of launches with this shape."),
        column("total_nanos", Nanos, "Sum of the durations."),
        nullable(
            "achieved_percent",
            Real,
            "Estimated occupancy: resident warps of a multiprocessor in percent of its warp slots, assuming that blocks are distributed evenly. Like `theoretical_percent`, but limited to the number of blocks that the grid has per multiprocessor. Weighted by duration. Computed for every kernel, because the estimate in Kineto's traces is rounded and is 0 for kernels with more than 48 KiB of shared memory. Null without device properties.",
        ),
        nullable(
            "theoretical_percent",
            Real,
            "Theoretical occupancy, as if the grid had an unlimited number of blocks: the limit set by warps, registers, shared memory and the device's maximum number of blocks, computed like NVIDIA's occupancy calculator.",
        ),
        nullable(
            "limited_by",
            Text,
            "Limiting factor: `grid` if, for more than half of the time, the grid had too few blocks to fill the device once; else the resource that allows the fewest blocks: registers, shared memory, blocks (the device's maximum) or warps. Null if nothing limits or the limit is unknown.",
        ),
        nullable("active_blocks", Int, "Maximum number of resident blocks per multiprocessor."),
        nullable(
            "waves",
            Real,
            "Waves: blocks of the grid / (multiprocessors * `active_blocks`), weighted by duration. Below 1, some multiprocessors are not full. Slightly above 1, the last blocks need an additional wave.",
        ),
        DEVICE,
        PID,
        RANK,
        PROCESS_ID,
    ]

    /// Bandwidth of collectives, computed like nccl-tests. One row per process, device, operation,
    /// process group and message size. Collectives that did not end or whose size is unknown are
    /// left out. A rank that waits for others takes longer: for the speed of the links, see the
    /// fastest rank and `max_bus_bytes_per_second`.
    COLLECTIVE_BANDWIDTH = "collective_bandwidth" [
        column("name", Text, "Operation, such as `allreduce` or `send`."),
        column("process_group", Text, "Name of the process group."),
        nullable("group_size", Id, "Number of ranks in the group."),
        nullable("dtype", Text, "Element type."),
        column(
            "bytes",
            Int,
            "Message size: the larger of a rank's input and output. For gather and scatter, that is the size over all ranks, as in nccl-tests.",
        ),
        column("count", Int, "Number of operations."),
        column("total_nanos", Nanos, "Sum of the durations."),
        column("mean_nanos", Real, "`total_nanos` / `count`."),
        column("min_nanos", Nanos, "Shortest duration."),
        column("max_nanos", Nanos, "Longest duration."),
        nullable(
            "algorithm_bytes_per_second",
            Real,
            "Algorithm bandwidth (`algbw` of nccl-tests): `bytes` * `count` per second of `total_nanos`; null if that is 0.",
        ),
        nullable(
            "bus_bytes_per_second",
            Real,
            "Bus bandwidth (`busbw` of nccl-tests): algorithm bandwidth * `bus_factor`. It is the load of the slowest link, comparable with the hardware's bandwidth for any number of ranks.",
        ),
        nullable("max_bus_bytes_per_second", Real, "Bus bandwidth of the shortest operation."),
        nullable(
            "bus_factor",
            Real,
            "Factor from algorithm to bus bandwidth for n ranks: 2 (n − 1) / n for all-reduce; (n − 1) / n for all-gather, reduce-scatter, all-to-all, gather and scatter; 1 for broadcast, reduce, send and receive. Null for other operations, and if it depends on an unknown `group_size`.",
        ),
        MAYBE_DEVICE,
        PID,
        RANK,
        PROCESS_ID,
    ]

    /// Roofline model by kernel: floating-point operations and memory traffic against the peaks of
    /// the device. One row per process, device, kernel and name of the launching operator. The cost
    /// of an operator call is divided among the activities that it launched, in proportion to their
    /// durations. Needs a trace with shapes (`record_shapes=True`).
    KERNEL_ROOFLINE = "kernel_roofline" [
        column("name", Text, "Name of the kernel, copy or fill."),
        column("operator", Text, "Name of the operator, or other span, that launched it."),
        nullable(
            "calls",
            Real,
            "Calls of the operator in which it launched this activity, in proportion to the activity's share of the time.",
        ),
        nullable("known_calls", Real, "The part of `calls` with known FLOP and bytes."),
        IS_EXTRAPOLATED,
        column("count", Int, "Number of executions."),
        column("total_nanos", Nanos, "Sum of the durations."),
        nullable(
            "flops",
            Real,
            "Floating-point operations, as the share of the operator's cost; computed from shapes by `op_flops()`, with a fused multiply-add counted as two.",
        ),
        nullable(
            "bytes",
            Real,
            "Minimum memory traffic, as the share of the operator's cost; computed from shapes by `op_bytes()`: inputs read once, outputs written once.",
        ),
        nullable(
            "compute_nanos",
            Real,
            "Time that `flops` take at the peak rates of the device for their types. For 32-bit types, the peak is that of TF32 if the device has it.",
        ),
        nullable(
            "memory_nanos",
            Real,
            "Time that `bytes` take at the peak memory bandwidth of the device.",
        ),
        ARITHMETIC_INTENSITY,
        FLOPS_PER_SECOND,
        BYTES_PER_SECOND,
        nullable("peak_flops_percent", Real, "`compute_nanos` in percent of `total_nanos`."),
        nullable(
            "peak_bandwidth_percent",
            Real,
            "`memory_nanos` in percent of `total_nanos`; above 100 if caches serve data that was just written.",
        ),
        RIDGE_POINT,
        BOUND,
        DEVICE,
        PID,
        RANK,
        PROCESS_ID,
    ]

    /// Roofline model by operator: floating-point operations and memory traffic against the peaks
    /// of the device. One row per process, device and name of an operator that launched something
    /// directly. Needs a trace with shapes (`record_shapes=True`).
    ROOFLINE = "roofline" [
        column("name", Text, "Name of the operator, or other span, that launched activities."),
        nullable("calls", Int, "Number of calls that launched something."),
        nullable(
            "known_calls",
            Int,
            "The part of `calls` with known FLOP and bytes. All other calls count in `total_nanos` only.",
        ),
        IS_EXTRAPOLATED,
        column("count", Int, "Number of kernels, copies and fills that it launched directly."),
        column("total_nanos", Nanos, "Sum of the durations."),
        nullable(
            "flops",
            Real,
            "Floating-point operations; computed from shapes by `op_flops()`, with a fused multiply-add counted as two.",
        ),
        nullable(
            "bytes",
            Real,
            "Minimum memory traffic; computed from shapes by `op_bytes()`: inputs read once, outputs written once.",
        ),
        ARITHMETIC_INTENSITY,
        FLOPS_PER_SECOND,
        BYTES_PER_SECOND,
        nullable(
            "peak_flops_percent",
            Real,
            "Time that `flops` take at the peak rates of the device for their types, in percent of `total_nanos`. For 32-bit types, the peak is that of TF32 if the device has it.",
        ),
        nullable(
            "peak_bandwidth_percent",
            Real,
            "Time that `bytes` take at the peak memory bandwidth of the device, in percent of `total_nanos`; above 100 if caches serve data that was just written.",
        ),
        RIDGE_POINT,
        BOUND,
        DEVICE,
        PID,
        RANK,
        PROCESS_ID,
    ]

    /// Model FLOP utilisation: floating-point operations of the training steps against the peak of
    /// the devices. One row per process with steps that launched kernels. Needs a trace with shapes
    /// (`record_shapes=True`).
    MFU = "mfu" [
        column("step_count", Int, "Number of training steps of the process."),
        column(
            "step_nanos",
            Real,
            "Time from the start of the first to the end of the last step, divided by the number of steps.",
        ),
        nullable(
            "flops_per_step",
            Real,
            "Floating-point operations per step, of operators that began in that time and launched kernels; computed from shapes by `op_flops()`. Recomputation for activation checkpointing is included.",
        ),
        nullable(
            "flops_per_second",
            Real,
            "Floating-point operations per second: `flops_per_step` / `step_nanos`.",
        ),
        nullable(
            "peak_flops_per_second",
            Real,
            "Combined peak rate of the devices that the process used, for the type of `dtype_bits`.",
        ),
        nullable(
            "mfu_percent",
            Real,
            "`flops_per_second` in percent of `peak_flops_per_second`; a lower bound, because operators without shapes are not counted.",
        ),
        nullable("dtype_bits", Int, "Width of the type with most of the computation."),
        column(
            "devices",
            Int,
            "Number of devices on which the process ran kernels other than communication.",
        ),
        column("covered_nanos", Nanos, "Device time of kernels whose operators have known FLOP."),
        column("device_nanos", Nanos, "Device time of all kernels other than communication."),
        nullable("covered_percent", Real, "`covered_nanos` in percent of `device_nanos`."),
        column(
            "method",
            Text,
            "Description of what was counted and of the share of device time that it covers.",
        ),
        PID,
        RANK,
        PROCESS_ID,
    ]
}
