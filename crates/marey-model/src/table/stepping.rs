//! The views over training steps.
//!
//! `docs/analysis.md` says how each number is made.

use super::ColumnKind::{Flag, Id, Int, Nanos, Real, Text};
use super::view::{
    CONTEXT_ID, DEVICE, KIND, MAYBE_DEVICE, PATH, PID, PROCESS_ID, RANK, THREAD, THREAD_ID,
};
use super::{Table, column, maybe};

/// How fast each process went through its training steps. A row for each process that did anything;
/// one without steps counts as one step, as long as its recording.
pub const STEP_SUMMARY: Table = Table {
    name: "step_summary",
    doc: "How fast each process went through its training steps. A row for each process that did anything; one without steps counts as one step, as long as its recording.",
    columns: &[
        column("step_count", Int, "Training steps; 0 if it has none."),
        column(
            "divisor",
            Int,
            "What sums are divided by for the value of a step: the steps, but at least 1.",
        ),
        column(
            "first_nanos",
            Nanos,
            "When the first step began; without steps, when the first span or activity of a device did.",
        ),
        column(
            "last_nanos",
            Nanos,
            "When the last step ended; without steps, when the last span or activity of a device did.",
        ),
        column(
            "window_nanos",
            Nanos,
            "From the one to the other, last - first, with what lies between steps.",
        ),
        maybe(
            "mean_nanos",
            Real,
            "Mean duration of a step; null without steps, as all that follow.",
        ),
        maybe("p50_nanos", Real, "Median of the durations, exact."),
        maybe(
            "p90_nanos",
            Real,
            "Duration that 90 % of the steps do not exceed, between two steps by their distance.",
        ),
        maybe("p99_nanos", Real, "Duration that 99 % of the steps do not exceed, likewise."),
        maybe("min_nanos", Nanos, "Duration of the shortest step."),
        maybe("max_nanos", Nanos, "Duration of the longest step."),
        maybe(
            "stddev_nanos",
            Real,
            "Sample standard deviation of the durations; null of one step.",
        ),
        PID,
        RANK,
        PROCESS_ID,
    ],
    sorted_by: None,
};

/// How long each training step took, and how far that is from the others of its process.
pub const STEP_TIMES: Table = Table {
    name: "step_times",
    doc: "How long each training step took, and how far that is from the others of its process.",
    columns: &[
        column("number", Id, "Number of the step in its process; the first is 0."),
        column("start_nanos", Nanos, "When it began."),
        column("end_nanos", Nanos, "When it ended."),
        column("duration_nanos", Nanos, "How long it took."),
        maybe(
            "between_nanos",
            Nanos,
            "From the end of the step that began before it in its process to its own beginning; below 0 if they overlap, null for the first.",
        ),
        column("median_nanos", Real, "Median of the durations of its process's steps."),
        column("deviation_nanos", Real, "duration_nanos - median_nanos."),
        column(
            "robust_z",
            Real,
            "0.6745 * deviation_nanos / the median of the absolute deviations of its process's steps; where that median is 0, deviation_nanos / (1.253314 * their mean); 0 where all steps are alike.",
        ),
        column(
            "is_outlier",
            Flag,
            "Whether it was slow: robust_z above 3.5, and more than 5 % above the median; constants in the view.",
        ),
        THREAD,
        PID,
        RANK,
        PROCESS_ID,
        THREAD_ID,
        CONTEXT_ID,
    ],
    sorted_by: None,
};

/// What was allocated at the end of each training step, and the most within it: a row for each step
/// and each memory of its process, of a device or the host, whose allocator says what it has given
/// out in all. What happens at the moment where a step ends is of the next one.
pub const STEP_MEMORY: Table = Table {
    name: "step_memory",
    doc: "What was allocated at the end of each training step, and the most within it: a row for each step and each memory of its process, of a device or the host, whose allocator says what it has given out in all. What happens at the moment where a step ends is of the next one.",
    columns: &[
        column("number", Id, "Number of the step in its process; the first is 0."),
        column("start_nanos", Nanos, "When the step began."),
        column("end_nanos", Nanos, "When the step ended."),
        column("duration_nanos", Nanos, "How long the step took."),
        column("device_type", Text, "Whose memory: cpu, cuda or another."),
        MAYBE_DEVICE,
        column(
            "allocated_bytes",
            Int,
            "What was allocated when the step ended, as the last event before its end says; if several have the latest moment, the most of them.",
        ),
        column(
            "peak_bytes",
            Int,
            "The most that was allocated in the step, its beginning included.",
        ),
        maybe("reserved_bytes", Int, "What the allocator held when the step ended, if it says so."),
        maybe(
            "change_bytes",
            Int,
            "allocated_bytes less what was allocated when the step began; null if that is not known.",
        ),
        THREAD,
        PID,
        RANK,
        PROCESS_ID,
        THREAD_ID,
    ],
    sorted_by: None,
};

/// What each training step launched on each device, whenever it ran there. A row for each process,
/// step and device; kernels, copies and fills whose launch is unknown, or in no step, are in none.
pub const STEP_KERNELS: Table = Table {
    name: "step_kernels",
    doc: "What each training step launched on each device, whenever it ran there. A row for each process, step and device; kernels, copies and fills whose launch is unknown, or in no step, are in none.",
    columns: &[
        column("number", Id, "Number of the step in its process."),
        column(
            "count",
            Int,
            "Kernels, copies and fills that were launched, by any thread of the process, while the step lasted.",
        ),
        column("kernel_count", Int, "Kernels alone."),
        column(
            "total_nanos",
            Nanos,
            "Sum of the durations of those in `count`; what ran at the same time is counted each time.",
        ),
        column("kernel_nanos", Nanos, "Sum of the durations of kernels alone."),
        column("busy_nanos", Nanos, "Time in which at least one of those in `count` ran."),
        column("start_nanos", Nanos, "When the device began the first of them."),
        column(
            "end_nanos",
            Nanos,
            "When the device was done with the last of them, which may be in a later step.",
        ),
        column(
            "end_delay_nanos",
            Nanos,
            "From the end of the step on the host to `end_nanos`: how far the device was behind; below 0 if it was done before.",
        ),
        DEVICE,
        PID,
        RANK,
        PROCESS_ID,
    ],
    sorted_by: None,
};

/// Where ranks waited for each other, as far as spans of the host say it. A row for each process and
/// context whose spans ended together on all ranks that have it, though these came to them at
/// different times.
pub const RANK_ARRIVALS: Table = Table {
    name: "rank_arrivals",
    doc: "Where ranks waited for each other, as far as spans of the host say it. A row for each process and context whose spans ended together on all ranks that have it, though these came to them at different times.",
    columns: &[
        column("name", Text, "Name of the context, such as `backward`."),
        KIND,
        PATH,
        column("rank_count", Int, "Ranks that have the context."),
        column(
            "count",
            Int,
            "Spans of this context that all of these ranks have, within the steps.",
        ),
        column(
            "waited_count",
            Int,
            "Those of them in which ranks waited: arrivals are at least 1 % of a step apart, and ends half of that at most.",
        ),
        column(
            "last_count",
            Int,
            "Those of `waited_count` at which this rank arrived last, alone.",
        ),
        column(
            "delay_nanos",
            Nanos,
            "What this rank alone held the others up by: the time from the arrival of the last but one to its own, summed over those at which it arrived last.",
        ),
        column(
            "wait_nanos",
            Nanos,
            "Time that this rank waited for others: from its own arrival to the last one's, summed.",
        ),
        PID,
        RANK,
        PROCESS_ID,
        THREAD_ID,
        CONTEXT_ID,
    ],
    sorted_by: None,
};
