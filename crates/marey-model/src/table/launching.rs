//! The views that say who launched what, and why devices waited for it.
//!
//! `docs/analysis.md` says how each number is made, and where it differs from HTA's.

use super::ColumnKind::{Bits, Id, Int, Nanos, Real, Text};
use super::view::{
    CONTEXT_ID, CORRELATION_ID, DEVICE, GROUP_RANKS, LAUNCH_CONTEXT_ID, LAUNCH_PATH, MAYBE_DEVICE,
    PID, PROCESS_ID, RANK,
};
use super::{Table, column, maybe};

/// What the host launched on devices, by the place in the calling-context tree that launched it. A
/// row for each process and context in which, or inside which, a kernel, copy or fill was launched;
/// those whose launch is unknown, or was outside of everything, are in no row.
pub const OPERATOR_KERNELS: Table = Table {
    name: "operator_kernels",
    doc: "What the host launched on devices, by the place in the calling-context tree that launched it. A row for each process and context in which, or inside which, a kernel, copy or fill was launched; those whose launch is unknown, or was outside of everything, are in no row.",
    columns: &[
        column("name", Text, "Name of the context, such as the operator's."),
        column(
            "kind",
            Text,
            "What the context is: scope, state, module, operator, frame, step or runtime.",
        ),
        column("path", Text, "The names around it and its own, separated by `/`."),
        column("depth", Id, "Contexts around it, itself included."),
        column(
            "count",
            Int,
            "Kernels, copies and fills that were launched in it and in contexts inside it.",
        ),
        column("self_count", Int, "Kernels, copies and fills that were launched directly in it."),
        column(
            "kernel_count",
            Int,
            "Kernels alone that were launched in it and in contexts inside it.",
        ),
        column(
            "total_nanos",
            Nanos,
            "Sum of the durations of what was launched in it and in contexts inside it; what ran at the same time is counted each time.",
        ),
        column("self_nanos", Nanos, "Sum of the durations of what was launched directly in it."),
        column(
            "busy_nanos",
            Nanos,
            "Time in which at least one of those in `count` ran, on whichever device of the process.",
        ),
        column(
            "self_busy_nanos",
            Nanos,
            "Time in which at least one of those in `self_count` ran, on whichever device of the process.",
        ),
        PID,
        RANK,
        PROCESS_ID,
        CONTEXT_ID,
        maybe(
            "parent_id",
            Id,
            "Number of the context around it; 0 for the root, which has no row here.",
        ),
    ],
    sorted_by: None,
};

/// What devices did because of a launch that is in the run, each kernel, copy and fill with the
/// call that launched it; by correlation id in its process.
pub const LAUNCHES: Table = Table {
    name: "launches",
    doc: "What devices did because of a launch that is in the run, each kernel, copy and fill with the call that launched it; by correlation id in its process.",
    columns: &[
        column(
            "launch_name",
            Text,
            "Name of the call that launched it, such as cudaLaunchKernel; of several calls with one correlation id in a process, the first to begin.",
        ),
        column("launch_start_nanos", Nanos, "When that call began."),
        column("launch_duration_nanos", Nanos, "How long that call took on its thread."),
        column("thread", Text, "Name of the thread that made the call; may be empty."),
        column("name", Text, "Name of what the device did."),
        column(
            "kind",
            Text,
            "What it is: kernel, memcpy, memset or other; waits and annotations are not launched.",
        ),
        DEVICE,
        column("stream", Id, "The stream that it ran on."),
        column("start_nanos", Nanos, "When the device began."),
        column("end_nanos", Nanos, "When the device was done."),
        column("duration_nanos", Nanos, "How long the device took."),
        column(
            "launch_delay_nanos",
            Nanos,
            "From the return of the call to the device's beginning, max(0, start - launch end); 0 if the device began before the call returned.",
        ),
        column(
            "queue_nanos",
            Nanos,
            "From the beginning of the call to the device's beginning, start - launch start: time in the queue, the call itself included; below 0 where the clocks of host and device disagree.",
        ),
        column(
            "launched",
            Int,
            "How many activities the call launched that are in the run; more than 1 for a graph, whose rows all have the call's times.",
        ),
        LAUNCH_PATH,
        maybe("graph_node_id", Bits, "The node of the device graph that it was launched by."),
        CORRELATION_ID,
        PID,
        RANK,
        PROCESS_ID,
        column("thread_id", Id, "The thread that made the call, in threads."),
        LAUNCH_CONTEXT_ID,
    ],
    sorted_by: None,
};

/// How many launches wait on each stream, one row for each moment at which that number changes.
pub const QUEUE_LENGTH: Table = Table {
    name: "queue_length",
    doc: "How many launches wait on each stream, one row for each moment at which that number changes.",
    columns: &[
        column("time_nanos", Nanos, "When it changed."),
        maybe(
            "duration_nanos",
            Nanos,
            "How long it stayed so, until the next row of this stream; null for the last, after which nothing waits.",
        ),
        column(
            "length",
            Int,
            "Launches that wait from then on: begun on the host, while nothing of them has begun on this stream of the device; never below 0.",
        ),
        column(
            "change",
            Int,
            "How much it changed by: +1 for a launch that began, -1 for one whose first activity on this stream began, added up over what happened at this nanosecond; never 0.",
        ),
        DEVICE,
        column("stream", Id, "The stream of the device."),
        PID,
        RANK,
        PROCESS_ID,
    ],
    sorted_by: None,
};

/// How full the queue of each stream was, from `queue_length`: one row for each stream of a device
/// in a process on which a launch waited.
pub const QUEUE_SUMMARY: Table = Table {
    name: "queue_summary",
    doc: "How full the queue of each stream was, from queue_length: one row for each stream of a device in a process on which a launch waited.",
    columns: &[
        DEVICE,
        column("stream", Id, "The stream of the device."),
        column("max_length", Int, "The most launches that waited at once."),
        maybe(
            "mean_length",
            Real,
            "Launches that waited on average over time: the sum of length times duration, divided by duration_nanos.",
        ),
        column(
            "duration_nanos",
            Nanos,
            "From the first launch of the stream until its queue was empty for the last time; what the mean and the percentage are of.",
        ),
        column("queued_nanos", Nanos, "Time in which at least one launch waited."),
        column(
            "full_nanos",
            Nanos,
            "Time in which at least 1,024 launches waited, which is where CUDA's calls block; a constant in the view, queue_length answers for others.",
        ),
        maybe("full_percent", Real, "full_nanos in percent of duration_nanos."),
        PID,
        RANK,
        PROCESS_ID,
    ],
    sorted_by: None,
};

/// The times in which a stream of a device did nothing between two kernels, copies or fills, each
/// with its cause.
pub const GPU_GAPS: Table = Table {
    name: "gpu_gaps",
    doc: "The times in which a stream of a device did nothing between two kernels, copies or fills, each with its cause.",
    columns: &[
        column(
            "start_nanos",
            Nanos,
            "When the gap began: the latest end of all that had begun before on this stream.",
        ),
        column("end_nanos", Nanos, "When the gap ended: the beginning of the next activity."),
        column("gap_nanos", Nanos, "How long the gap was, end_nanos - start_nanos; above 0."),
        column(
            "cause",
            Text,
            "`host wait` if the next activity's launch began after the gap had; else `kernel wait` if the gap is shorter than 30 us (a constant in the view), which is what starting a kernel costs; else `other`, such as a wait for another stream. Without a known launch, by length alone.",
        ),
        maybe(
            "host_nanos",
            Nanos,
            "The part of the gap before the next activity's launch began, which is the host's; 0 if it was launched in time, null if the launch is unknown.",
        ),
        DEVICE,
        column("stream", Id, "The stream that was idle."),
        column("previous_name", Text, "Name of the activity at whose end the gap began."),
        column("next_name", Text, "Name of the activity at whose beginning the gap ended."),
        column("next_kind", Text, "What that one is: kernel, memcpy, memset or other."),
        maybe(
            "launch_name",
            Text,
            "Name of the call that launched the next activity; null if it is not in the run, such as one before the trace.",
        ),
        maybe("launch_start_nanos", Nanos, "When that call began."),
        maybe("thread", Text, "Name of the thread that made that call."),
        LAUNCH_PATH,
        maybe(
            "host_span",
            Text,
            "For `host wait`, name of the innermost span that ran on the launching thread when the gap began: what kept the host from launching; null if none ran, and for other causes.",
        ),
        maybe("host_path", Text, "The path of that span, its own name included."),
        CORRELATION_ID,
        PID,
        RANK,
        PROCESS_ID,
        maybe("thread_id", Id, "The thread that made the launch, in threads."),
        LAUNCH_CONTEXT_ID,
        maybe("host_context_id", Id, "The context of host_span, in contexts."),
    ],
    sorted_by: None,
};

/// Which ranks came late to collectives, and what the others waited for them. A row for each
/// process group, process and device, over the collectives that can be matched: those that have a
/// number, and that at least two ranks of the run took part in; messages between two ranks are not
/// counted.
pub const STRAGGLERS: Table = Table {
    name: "stragglers",
    doc: "Which ranks came late to collectives, and what the others waited for them. A row for each process group, process and device, over the collectives that can be matched: those that have a number, and that at least two ranks of the run took part in; messages between two ranks are not counted.",
    columns: &[
        column("process_group", Text, "Name of the process group."),
        GROUP_RANKS,
        maybe("group_size", Id, "How many ranks the group has."),
        column(
            "count",
            Int,
            "Collectives of the group that this rank and at least one other began, without the ambiguous ones.",
        ),
        column(
            "complete_count",
            Int,
            "Those of them that as many ranks began as the group has; of the others, the last rank may not be in the run.",
        ),
        column(
            "ambiguous_count",
            Int,
            "Collectives that more ranks began than the group has: groups share its name and the files do not say their ranks, so these are in no other column.",
        ),
        column("last_count", Int, "Those of `count` that this rank began last, alone."),
        maybe("last_percent", Real, "`last_count` in percent of `count`."),
        column(
            "delay_nanos",
            Nanos,
            "What this rank alone held the collectives up by: the time from the beginning of the last but one to its own, summed over those that it began last.",
        ),
        maybe("mean_late_nanos", Real, "Mean time from the first rank's beginning to this one's."),
        maybe(
            "max_late_nanos",
            Nanos,
            "Longest time from the first rank's beginning to this one's.",
        ),
        column(
            "wait_nanos",
            Nanos,
            "Time that this rank waited for others: from its own beginning to the last rank's, summed.",
        ),
        MAYBE_DEVICE,
        PID,
        RANK,
        PROCESS_ID,
    ],
    sorted_by: None,
};
