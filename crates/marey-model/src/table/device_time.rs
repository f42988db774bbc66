//! Views of the busy and idle time of devices.
//!
//! `docs/analysis.md` defines each number and its differences from HTA's.

use super::ColumnKind::{Id, Int, Nanos, Real, Text};
use super::view::{DEVICE, PID, PROCESS_ID, RANK, THREAD, THREAD_ID};
use super::{Column, Table, column, nullable};

const OVERLAP_PERCENT: Column = nullable(
    "overlap_percent",
    Real,
    "Share of communication hidden by computation: 100 * `overlap_nanos` / `communication_nanos`; null without communication.",
);
const CONCURRENT_TOTAL_NANOS: Column = column(
    "total_nanos",
    Nanos,
    "Sum of the durations; concurrent activities are each counted in full.",
);

tables! {
    /// Busy and idle time of each device over the whole trace: compute, communication and copies.
    /// One row per process and device with at least one kernel, copy or fill. Other activities
    /// (synchronisations, annotations) are not counted.
    GPU_TIME = "gpu_time" [
        DEVICE,
        column(
            "start_nanos",
            Nanos,
            "Start of the window: the start of the first counted activity.",
        ),
        column("end_nanos", Nanos, "End of the window: the end of the last counted activity."),
        column(
            "window_nanos",
            Nanos,
            "Length of the window, `end_nanos` - `start_nanos`; HTA calls it kernel time.",
        ),
        column(
            "busy_nanos",
            Nanos,
            "Time in the window with at least one counted activity: the union of kernels, copies and fills over all streams of the device.",
        ),
        column(
            "idle_nanos",
            Nanos,
            "Time in the window with no counted activity: `window_nanos` - `busy_nanos`.",
        ),
        column(
            "compute_nanos",
            Nanos,
            "Time in the window with at least one kernel of class `compute`.",
        ),
        column(
            "non_compute_nanos",
            Nanos,
            "Busy time in the window without computation: `busy_nanos` - `compute_nanos`, equal to `exposed_communication_nanos` + `memory_only_nanos`.",
        ),
        column(
            "communication_nanos",
            Nanos,
            "Time in the window with at least one kernel of class `communication`.",
        ),
        column(
            "memory_nanos",
            Nanos,
            "Time in the window with at least one copy or fill (class `memory`).",
        ),
        column(
            "overlap_nanos",
            Nanos,
            "Time in the window with both communication and computation.",
        ),
        column(
            "exposed_communication_nanos",
            Nanos,
            "Time in the window with communication and no computation, with or without copies: `communication_nanos` - `overlap_nanos`.",
        ),
        column(
            "compute_only_nanos",
            Nanos,
            "Time in the window with computation and neither communication nor a copy or fill.",
        ),
        column(
            "communication_only_nanos",
            Nanos,
            "Time in the window with communication and neither computation nor a copy or fill.",
        ),
        column(
            "memory_only_nanos",
            Nanos,
            "Time in the window with a copy or fill and neither computation nor communication.",
        ),
        nullable("idle_percent", Real, "100 * `idle_nanos` / `window_nanos`; null if that is 0."),
        nullable(
            "compute_percent",
            Real,
            "100 * `compute_nanos` / `window_nanos`; null if that is 0.",
        ),
        nullable(
            "non_compute_percent",
            Real,
            "100 * `non_compute_nanos` / `window_nanos`; null if that is 0.",
        ),
        OVERLAP_PERCENT,
        PID,
        RANK,
        PROCESS_ID,
    ]

    /// Busy and idle time of each device per training step, between the start and the end of the
    /// step on the host. Activities count in the step in which they ran, whichever step launched
    /// them. One row per step and device that the process used in any step.
    GPU_TIME_BY_STEP = "gpu_time_by_step" [
        column("number", Id, "Step number in the process."),
        DEVICE,
        column("start_nanos", Nanos, "Start of the step on the host."),
        column("end_nanos", Nanos, "End of the step on the host."),
        column("duration_nanos", Nanos, "Duration of the step: `end_nanos` - `start_nanos`."),
        column(
            "busy_nanos",
            Nanos,
            "Time in the step with at least one counted activity: the union of kernels, copies and fills over all streams of the device.",
        ),
        column(
            "idle_nanos",
            Nanos,
            "Time in the step with no counted activity: `duration_nanos` - `busy_nanos`.",
        ),
        column(
            "compute_nanos",
            Nanos,
            "Time in the step with at least one kernel of class `compute`.",
        ),
        column(
            "non_compute_nanos",
            Nanos,
            "Busy time in the step without computation: `busy_nanos` - `compute_nanos`, equal to `exposed_communication_nanos` + `memory_only_nanos`.",
        ),
        column(
            "communication_nanos",
            Nanos,
            "Time in the step with at least one kernel of class `communication`.",
        ),
        column(
            "memory_nanos",
            Nanos,
            "Time in the step with at least one copy or fill (class `memory`).",
        ),
        column("overlap_nanos", Nanos, "Time in the step with both communication and computation."),
        column(
            "exposed_communication_nanos",
            Nanos,
            "Time in the step with communication and no computation, with or without copies: `communication_nanos` - `overlap_nanos`.",
        ),
        column(
            "compute_only_nanos",
            Nanos,
            "Time in the step with computation and neither communication nor a copy or fill.",
        ),
        column(
            "communication_only_nanos",
            Nanos,
            "Time in the step with communication and neither computation nor a copy or fill.",
        ),
        column(
            "memory_only_nanos",
            Nanos,
            "Time in the step with a copy or fill and neither computation nor communication.",
        ),
        nullable("idle_percent", Real, "100 * `idle_nanos` / `duration_nanos`; null if that is 0."),
        nullable(
            "compute_percent",
            Real,
            "100 * `compute_nanos` / `duration_nanos`; null if that is 0.",
        ),
        nullable(
            "non_compute_percent",
            Real,
            "100 * `non_compute_nanos` / `duration_nanos`; null if that is 0.",
        ),
        OVERLAP_PERCENT,
        THREAD,
        PID,
        RANK,
        PROCESS_ID,
        THREAD_ID,
    ]

    /// Kernels, copies and fills of each device summed by name. One row per process, device, kind
    /// and name. Synchronisations and annotations are not counted.
    KERNEL_SUMMARY = "kernel_summary" [
        column("name", Text, "Name of the kernel, or kind of copy or fill."),
        column("kind", Text, "Kind: kernel, memcpy or memset."),
        column(
            "class",
            Text,
            "Class: compute, communication or memory, as `gpu_class()` returns it.",
        ),
        column("count", Int, "Number of executions."),
        CONCURRENT_TOTAL_NANOS,
        column("mean_nanos", Real, "`total_nanos` / `count`."),
        column("min_nanos", Nanos, "Shortest duration."),
        column("max_nanos", Nanos, "Longest duration."),
        nullable(
            "stddev_nanos",
            Real,
            "Sample standard deviation of the durations (divisor `count` - 1); null for a single execution.",
        ),
        nullable(
            "device_percent",
            Real,
            "`total_nanos` in percent of its sum over the device; null if that sum is 0.",
        ),
        DEVICE,
        PID,
        RANK,
        PROCESS_ID,
    ]

    /// Copies and fills of each device by kind, with the bandwidth achieved. One row per process,
    /// device and name, such as `Memcpy HtoD (Pinned -> Device)` or `Memset (Device)`.
    GPU_COPIES = "gpu_copies" [
        column("name", Text, "Kind of copy or fill, with the kinds of memory involved."),
        column("kind", Text, "Kind: memcpy or memset."),
        column("count", Int, "Number of operations."),
        nullable("bytes", Int, "Total bytes copied or filled; null if no size is known."),
        CONCURRENT_TOTAL_NANOS,
        column("busy_nanos", Nanos, "Time with at least one of them running."),
        nullable(
            "bytes_per_second",
            Real,
            "Bandwidth: `bytes` divided by the time with at least one operation of known size running; null if that time is 0 or no size is known.",
        ),
        nullable(
            "min_bytes_per_second",
            Real,
            "Lowest bandwidth of a single operation (size / duration); operations of unknown size or duration 0 are left out.",
        ),
        nullable(
            "mean_bytes_per_second",
            Real,
            "Unweighted mean of the bandwidths of single operations; operations of unknown size or duration 0 are left out.",
        ),
        nullable(
            "max_bytes_per_second",
            Real,
            "Highest bandwidth of a single operation; operations of unknown size or duration 0 are left out.",
        ),
        DEVICE,
        PID,
        RANK,
        PROCESS_ID,
    ]

    /// Annotated ranges on each device, summed by name. A range lasts from the first to the last
    /// activity launched within the annotation on one stream. One row per process, device and name.
    GPU_ANNOTATIONS = "gpu_annotations" [
        column("name", Text, "Name of the annotation."),
        column(
            "count",
            Int,
            "Number of ranges; one for each stream on which the annotation launched something.",
        ),
        column(
            "total_nanos",
            Nanos,
            "Sum of the durations, including gaps in which the stream was idle. Concurrent or nested ranges of the same name are each counted in full.",
        ),
        column("mean_nanos", Real, "`total_nanos` / `count`."),
        column("min_nanos", Nanos, "Shortest duration."),
        column("max_nanos", Nanos, "Longest duration."),
        nullable(
            "stddev_nanos",
            Real,
            "Sample standard deviation of the durations (divisor `count` - 1); null for a single range.",
        ),
        column("busy_nanos", Nanos, "Time covered by at least one range."),
        DEVICE,
        PID,
        RANK,
        PROCESS_ID,
    ]
}
