//! Views of training steps.
//!
//! `docs/analysis.md` defines each number.

use super::ColumnKind::{Flag, Id, Int, Nanos, Real, Text};
use super::view::{
    CONTEXT_ID, DEVICE, KIND, MAYBE_DEVICE, PATH, PID, PROCESS_ID, RANK, THREAD, THREAD_ID,
};
use super::{Table, column, nullable};

tables! {
    /// Duration statistics of the training steps of each process. One row per process with any
    /// event; a process without steps counts as one step that lasts its whole recording.
    STEP_SUMMARY = "step_summary" [
        column("step_count", Int, "Number of training steps."),
        column("divisor", Int, "Divisor for values per step: the number of steps, at least 1."),
        column(
            "first_nanos",
            Nanos,
            "Start of the first step; without steps, the start of the first span or activity.",
        ),
        column(
            "last_nanos",
            Nanos,
            "End of the last step; without steps, the end of the last span or activity.",
        ),
        column(
            "window_nanos",
            Nanos,
            "`last_nanos` - `first_nanos`, including the time between steps.",
        ),
        nullable(
            "mean_nanos",
            Real,
            "Mean duration of a step. Null without steps, like all columns up to `stddev_nanos`.",
        ),
        nullable("p50_nanos", Real, "Exact median of the durations."),
        nullable("p90_nanos", Real, "90th percentile of the durations, linearly interpolated."),
        nullable("p99_nanos", Real, "99th percentile of the durations, linearly interpolated."),
        nullable("min_nanos", Nanos, "Duration of the shortest step."),
        nullable("max_nanos", Nanos, "Duration of the longest step."),
        nullable(
            "stddev_nanos",
            Real,
            "Sample standard deviation of the durations; null for a single step.",
        ),
        PID,
        RANK,
        PROCESS_ID,
    ]

    /// Duration of each training step and its deviation from the other steps of its process.
    STEP_TIMES = "step_times" [
        column("number", Id, "Step number in the process, from 0."),
        column("start_nanos", Nanos, "Start time."),
        column("end_nanos", Nanos, "End time."),
        column("duration_nanos", Nanos, "Duration."),
        nullable(
            "between_nanos",
            Nanos,
            "Time from the end of the previous step of the process to the start of this one; negative if they overlap, null for the first.",
        ),
        column("median_nanos", Real, "Median duration of the steps of the process."),
        column("deviation_nanos", Real, "`duration_nanos` - `median_nanos`."),
        column(
            "robust_z",
            Real,
            "Robust z-score: 0.6745 * `deviation_nanos` / the median absolute deviation of the steps of the process. If that is 0, `deviation_nanos` / (1.253314 * the mean absolute deviation); 0 if all steps are equal.",
        ),
        column(
            "is_outlier",
            Flag,
            "Whether the step was slow: `robust_z` above 3.5 and more than 5 % above the median (constants of the view).",
        ),
        THREAD,
        PID,
        RANK,
        PROCESS_ID,
        THREAD_ID,
        CONTEXT_ID,
    ]

    /// Allocated memory at the end of each training step and its peak within the step. One row per
    /// step and memory (a device or the host) whose allocator reports totals. An event at the time
    /// at which a step ends belongs to the next step.
    STEP_MEMORY = "step_memory" [
        column("number", Id, "Step number in the process, from 0."),
        column("start_nanos", Nanos, "Start of the step."),
        column("end_nanos", Nanos, "End of the step."),
        column("duration_nanos", Nanos, "Duration of the step."),
        column("device_type", Text, "Kind of device that owns the memory, such as cpu or cuda."),
        MAYBE_DEVICE,
        column(
            "allocated_bytes",
            Int,
            "Size allocated at the end of the step, from the last event before it; the maximum if several events have that timestamp.",
        ),
        column("peak_bytes", Int, "Maximum size allocated in the step, its start included."),
        nullable(
            "reserved_bytes",
            Int,
            "Size reserved by the allocator at the end of the step; null if unknown.",
        ),
        nullable(
            "change_bytes",
            Int,
            "`allocated_bytes` minus the size allocated at the start of the step; null if unknown.",
        ),
        nullable(
            "peak_change_bytes",
            Int,
            "`peak_bytes` minus the size allocated at the start of the step; null if unknown.",
        ),
        nullable(
            "reserved_change_bytes",
            Int,
            "`reserved_bytes` minus the size reserved at the start of the step; null if unknown.",
        ),
        THREAD,
        PID,
        RANK,
        PROCESS_ID,
        THREAD_ID,
    ]

    /// Activities that each training step launched, on each device, whenever they ran. One row per
    /// process, step and device. Kernels, copies and fills whose launch is unknown or in no step
    /// are left out.
    STEP_KERNELS = "step_kernels" [
        column("number", Id, "Step number in the process."),
        column(
            "count",
            Int,
            "Number of kernels, copies and fills launched during the step by any thread of the process.",
        ),
        column("kernel_count", Int, "Number of kernels."),
        column(
            "total_nanos",
            Nanos,
            "Sum of the durations of the activities in `count`; concurrent activities are each counted in full.",
        ),
        column("kernel_nanos", Nanos, "Sum of the durations of the kernels."),
        column("busy_nanos", Nanos, "Time with at least one activity of `count` running."),
        column("start_nanos", Nanos, "Start of the first activity on the device."),
        column(
            "end_nanos",
            Nanos,
            "End of the last activity on the device, which may be in a later step.",
        ),
        column(
            "end_delay_nanos",
            Nanos,
            "Time from the end of the step on the host to `end_nanos`: the lag of the device. Negative if the device finished first.",
        ),
        DEVICE,
        PID,
        RANK,
        PROCESS_ID,
    ]

    /// Contexts at which ranks waited for each other, inferred from host spans. One row per process
    /// and context node whose spans end together on all ranks that have it although they start at
    /// different times.
    RANK_ARRIVALS = "rank_arrivals" [
        column("name", Text, "Name of the context node, such as `backward`."),
        KIND,
        PATH,
        column("rank_count", Int, "Number of ranks that have the context node."),
        column(
            "count",
            Int,
            "Number of spans of the context node that all of these ranks have, within steps.",
        ),
        column(
            "waited_count",
            Int,
            "The part of `count` in which ranks waited: starts are at least 1 % of a step apart, and ends at most half of that.",
        ),
        column(
            "last_count",
            Int,
            "The part of `waited_count` at which this rank alone arrived last.",
        ),
        column(
            "delay_nanos",
            Nanos,
            "Delay caused by this rank alone: time from the arrival of the second-to-last rank to its own arrival, summed over the spans in `last_count`.",
        ),
        column(
            "wait_nanos",
            Nanos,
            "Time that this rank waited for others: from its own arrival to the arrival of the last rank, summed.",
        ),
        PID,
        RANK,
        PROCESS_ID,
        THREAD_ID,
        CONTEXT_ID,
    ]
}
