//! The views that set what was done against what can be.
//!
//! `docs/analysis.md` says how each number is made.

use super::ColumnKind::{Id, Int, Nanos, Real, Text};
use super::view::{DEVICE, MAYBE_DEVICE, PID, PROCESS_ID, RANK};
use super::{Column, Table, column, maybe};

const ARITHMETIC_INTENSITY: Column = maybe("arithmetic_intensity", Real, "`flops` by `bytes`.");
const FLOPS_PER_SECOND: Column = maybe("flops_per_second", Real, "`flops` by `total_nanos`.");
const BYTES_PER_SECOND: Column = maybe(
    "bytes_per_second",
    Real,
    "`bytes` by `total_nanos`: below what the memory really carried.",
);
const RIDGE_POINT: Column = maybe(
    "ridge_point",
    Real,
    "The arithmetic intensity above which the device's computing is the limit, and not its memory.",
);
const BOUND: Column = maybe(
    "bound",
    Text,
    "`compute` if arithmetic_intensity is at least ridge_point, else `memory`; null where shapes or peaks are unknown.",
);

/// How many of the warps that multiprocessors have room for the kernels kept busy, and what
/// limited that. A row for each process, device, kernel and shape in which it was launched.
pub const KERNEL_OCCUPANCY: Table = Table {
    name: "kernel_occupancy",
    doc: "How many of the warps that multiprocessors have room for the kernels kept busy, and what limited that. A row for each process, device, kernel and shape in which it was launched; kernels whose shape is unknown are in no row.",
    columns: &[
        column("name", Text, "Name of the kernel."),
        column("block", Text, "Threads of a block, as `x,y,z`."),
        maybe("registers", Id, "Registers of a thread."),
        maybe("shared_bytes", Int, "Shared memory of a block in bytes, static and dynamic."),
        column("count", Int, "Launches of this shape."),
        column("total_nanos", Nanos, "Sum of their durations."),
        maybe(
            "achieved_percent",
            Real,
            "Warps that are on a multiprocessor at once, in percent of those that it has room for, if blocks spread evenly: as theoretical_percent, but no more blocks than the grid has for each multiprocessor. Mean over time. Computed for every kernel: the estimate that Kineto records is rounded, and 0 for kernels with more than 48 KiB of shared memory. Null without the device's properties.",
        ),
        maybe(
            "theoretical_percent",
            Real,
            "The same if the grid had blocks without end: by the room for blocks that warps, registers, shared memory and the device leave, as NVIDIA's occupancy calculator counts.",
        ),
        maybe(
            "limited_by",
            Text,
            "`grid` if for more than half of the time the grid had too few blocks to fill the device once; else what leaves the least room for blocks: registers, shared memory, blocks (the device's number of blocks) or warps. Null if nothing does, and where it is unknown.",
        ),
        maybe("active_blocks", Int, "Blocks that a multiprocessor has room for."),
        maybe(
            "waves",
            Real,
            "How often the grid fills the device: its blocks by multiprocessor and active_blocks; mean over time. Below 1 some multiprocessors are not full; little above 1 the rest of the blocks takes a round of its own.",
        ),
        DEVICE,
        PID,
        RANK,
        PROCESS_ID,
    ],
    sorted_by: None,
};

/// How fast collectives moved their bytes. A row for each process, device, collective, process
/// group and size of message.
pub const COLLECTIVE_BANDWIDTH: Table = Table {
    name: "collective_bandwidth",
    doc: "How fast collectives moved their bytes, as nccl-tests measures it. A row for each process, device, collective, process group and size of message; those that did not end, or whose size is unknown, are in no row. A rank that waits for others takes longer: it is the fastest rank, and max_bus_bytes_per_second, that tells about the links.",
    columns: &[
        column("name", Text, "What it is, such as allreduce or send."),
        column("process_group", Text, "Name of the process group."),
        maybe("group_size", Id, "Ranks of the group."),
        maybe("dtype", Text, "Type of the elements."),
        column(
            "bytes",
            Int,
            "Size of one message: what a rank gives or gets, whichever is more. That is all ranks' parts together for a gather or scatter, as nccl-tests counts.",
        ),
        column("count", Int, "How many there were."),
        column("total_nanos", Nanos, "Sum of their durations."),
        column("mean_nanos", Real, "`total_nanos` divided by `count`."),
        column("min_nanos", Nanos, "The shortest."),
        column("max_nanos", Nanos, "The longest."),
        maybe(
            "algorithm_bytes_per_second",
            Real,
            "`bytes` × `count` by `total_nanos`: algbw of nccl-tests. Null if they took no time.",
        ),
        maybe(
            "bus_bytes_per_second",
            Real,
            "The same × bus_factor, busbw of nccl-tests: what the slowest link carries, to compare with the hardware's whatever the number of ranks.",
        ),
        maybe("max_bus_bytes_per_second", Real, "That of the shortest one."),
        maybe(
            "bus_factor",
            Real,
            "With n ranks: 2 (n − 1) / n for an all-reduce; (n − 1) / n for all-gather, reduce-scatter, all-to-all, gather and scatter; 1 for broadcast, reduce, send and receive. Null for others, and without group_size where it takes part.",
        ),
        MAYBE_DEVICE,
        PID,
        RANK,
        PROCESS_ID,
    ],
    sorted_by: None,
};

/// What kernels computed and moved against what their device could: the roofline model. A row for each
/// process, device, kernel and name of the operator that launched it; what a call costs is shared among
/// all that it launched by the time it took. FLOP and bytes need a trace with shapes
/// (`record_shapes=True`).
pub const KERNEL_ROOFLINE: Table = Table {
    name: "kernel_roofline",
    doc: "What kernels computed and moved against what their device could: the roofline model. A row for each process, device, kernel and name of the operator that launched it; what a call costs is shared among all that it launched by the time it took. FLOP and bytes need a trace with shapes (record_shapes=True).",
    columns: &[
        column("name", Text, "Name of the kernel, copy or fill."),
        column("operator", Text, "Name of the operator that launched it, or of what else did."),
        maybe(
            "calls",
            Real,
            "How often the operator was entered where it launched this: the kernel's share by time.",
        ),
        maybe("known_calls", Real, "Those of them whose FLOP and bytes are known, likewise."),
        column("count", Int, "How often it ran."),
        column("total_nanos", Nanos, "Sum of their durations."),
        maybe(
            "flops",
            Real,
            "Its share by time of the floating-point operations by the operator's shapes, a multiplication with its addition as two (op_flops).",
        ),
        maybe(
            "bytes",
            Real,
            "Its share by time of the least traffic by the operator's shapes: inputs read once, outputs written once (op_bytes).",
        ),
        maybe(
            "compute_nanos",
            Real,
            "Time that `flops` take at the device's peaks for their types. The peak of 32 bits is that of TF32 where tensor cores have it.",
        ),
        maybe("memory_nanos", Real, "Time that `bytes` take at the peak of the device's memory."),
        ARITHMETIC_INTENSITY,
        FLOPS_PER_SECOND,
        BYTES_PER_SECOND,
        maybe("peak_flops_percent", Real, "`compute_nanos` in percent of `total_nanos`."),
        maybe(
            "peak_bandwidth_percent",
            Real,
            "`memory_nanos` in percent of `total_nanos`; above 100 where caches serve what was just written.",
        ),
        RIDGE_POINT,
        BOUND,
        DEVICE,
        PID,
        RANK,
        PROCESS_ID,
    ],
    sorted_by: None,
};

/// What operators computed and moved against what their device could. A row for each process,
/// device and name of an operator that launched something.
pub const ROOFLINE: Table = Table {
    name: "roofline",
    doc: "What operators computed and moved against what their device could: the roofline model. A row for each process, device and name of an operator that launched something itself; FLOP and bytes need a trace with shapes (record_shapes=True).",
    columns: &[
        column("name", Text, "Name of the operator, or of what else launched."),
        maybe("calls", Int, "How often it was entered where it launched something."),
        maybe(
            "known_calls",
            Int,
            "Those of them whose FLOP and bytes are known: the rest counts in total_nanos and nowhere else.",
        ),
        column("count", Int, "Kernels, copies and fills that it launched directly."),
        column("total_nanos", Nanos, "Sum of their durations."),
        maybe(
            "flops",
            Real,
            "Floating-point operations by its shapes, a multiplication with its addition as two (op_flops).",
        ),
        maybe(
            "bytes",
            Real,
            "The least traffic by its shapes: inputs read once, outputs written once (op_bytes).",
        ),
        ARITHMETIC_INTENSITY,
        FLOPS_PER_SECOND,
        BYTES_PER_SECOND,
        maybe(
            "peak_flops_percent",
            Real,
            "Time that `flops` take at the device's peaks for their types, in percent of total_nanos. The peak of 32 bits is that of TF32 where tensor cores have it.",
        ),
        maybe(
            "peak_bandwidth_percent",
            Real,
            "Time that `bytes` take at the peak of the device's memory, in percent of total_nanos; above 100 where caches serve what was just written.",
        ),
        RIDGE_POINT,
        BOUND,
        DEVICE,
        PID,
        RANK,
        PROCESS_ID,
    ],
    sorted_by: None,
};

/// Model FLOP utilization: what the steps computed, of what the devices could have. A row for each
/// process with steps that launched kernels.
pub const MFU: Table = Table {
    name: "mfu",
    doc: "Model FLOP utilization: what the steps computed, of what the devices could have computed in that time. A row for each process with steps that launched kernels; needs a trace with shapes (record_shapes=True).",
    columns: &[
        column("step_count", Int, "Training steps of the process."),
        column(
            "step_nanos",
            Real,
            "From the beginning of the first to the end of the last, by step.",
        ),
        maybe(
            "flops_per_step",
            Real,
            "Floating-point operations by step: of operators that began in that time and launched kernels, by their shapes (op_flops). What is computed again for activation checkpointing counts again.",
        ),
        maybe("flops_per_second", Real, "The same by second."),
        maybe(
            "peak_flops_per_second",
            Real,
            "What the devices that the process used could compute together, in the type of dtype_bits.",
        ),
        maybe(
            "mfu_percent",
            Real,
            "`flops_per_second` in percent of that; at least this much, as what has no shapes is not counted.",
        ),
        maybe("dtype_bits", Int, "Width of the type in which most was computed."),
        column(
            "devices",
            Int,
            "Devices on which the process ran kernels other than communication.",
        ),
        column("covered_nanos", Nanos, "Device time of kernels whose operators have known FLOP."),
        column("device_nanos", Nanos, "Device time of all kernels other than communication."),
        maybe("covered_percent", Real, "`covered_nanos` in percent of that."),
        column(
            "method",
            Text,
            "What was counted, and how much of the device time that covers, in words.",
        ),
        PID,
        RANK,
        PROCESS_ID,
    ],
    sorted_by: None,
};
