//! Views of launches: which code launched what, the queues of streams, and the causes of gaps.
//!
//! `docs/analysis.md` defines each number and its differences from HTA's.

use super::ColumnKind::{Bits, Id, Int, Nanos, Real, Text};
use super::stored::CORRELATION_ID;
use super::view::{
    CONTEXT_ID, DEVICE, GROUP_RANKS, LAUNCH_CONTEXT_ID, LAUNCH_PATH, MAYBE_DEVICE, PID, PROCESS_ID,
    RANK, THREAD, THREAD_ID,
};
use super::{Table, column, nullable};

tables! {
    /// Activities by the context node that launched them. One row per process and context node in
    /// or below which a kernel, copy or fill was launched. Activities whose launch is unknown or
    /// outside all contexts are left out.
    OPERATOR_KERNELS = "operator_kernels" [
        column("name", Text, "Name of the context node, such as an operator."),
        column(
            "kind",
            Text,
            "Kind of the context node: scope, state, module, operator, frame, step or runtime.",
        ),
        column("path", Text, "Path of names from the root, its own included, separated by `/`."),
        column("depth", Id, "Depth in the calling-context tree: 1 for a child of the root."),
        column(
            "count",
            Int,
            "Number of kernels, copies and fills launched in the context node and its descendants.",
        ),
        column(
            "self_count",
            Int,
            "Number of kernels, copies and fills launched directly in the context node.",
        ),
        column(
            "kernel_count",
            Int,
            "Number of kernels launched in the context node and its descendants.",
        ),
        column(
            "total_nanos",
            Nanos,
            "Sum of the durations of the activities in `count`; concurrent activities are each counted in full.",
        ),
        column("self_nanos", Nanos, "Sum of the durations of the activities in `self_count`."),
        column(
            "busy_nanos",
            Nanos,
            "Time with at least one activity of `count` running, on any device of the process.",
        ),
        column(
            "self_busy_nanos",
            Nanos,
            "Time with at least one activity of `self_count` running, on any device of the process.",
        ),
        PID,
        RANK,
        PROCESS_ID,
        CONTEXT_ID,
        nullable("parent_id", Id, "Parent (`contexts.id`); 0 is the root, which has no row here."),
    ]

    /// Runtime and driver calls, one row per correlation id of a process. Of nested calls with the
    /// same id, such as a driver call within a runtime call, the outermost. Activities have the
    /// correlation id of the call that launched them; most calls launch none.
    RUNTIME_CALLS = "runtime_calls" [
        column("name", Text, "Name of the call, such as `cudaLaunchKernel`."),
        column("start_nanos", Nanos, "Start of the call."),
        column("end_nanos", Nanos, "End of the call."),
        column("duration_nanos", Nanos, "Duration of the call."),
        THREAD,
        column(
            "correlation_id",
            Bits,
            "Correlation id: equal for a call and the activities that it launched.",
        ),
        PID,
        RANK,
        PROCESS_ID,
        THREAD_ID,
        column("name_id", Id, "Name (`strings.id`)."),
    ]

    /// Kernels, copies and fills, each with the call that launched it, matched by correlation id
    /// within a process. Activities whose launch is not in the run are left out.
    LAUNCHES = "launches" [
        column(
            "launch_name",
            Text,
            "Name of the launching call, such as `cudaLaunchKernel`. Of several calls with the same correlation id in a process, the first one.",
        ),
        column("launch_start_nanos", Nanos, "Start of the launching call."),
        column("launch_duration_nanos", Nanos, "Duration of the launching call."),
        column("thread", Text, "Name of the thread of the launching call; may be empty."),
        column("name", Text, "Name of the activity."),
        column(
            "kind",
            Text,
            "Kind: kernel, memcpy, memset or other. Synchronisations and annotations are not launched.",
        ),
        DEVICE,
        column("stream", Id, "Stream."),
        column("start_nanos", Nanos, "Start time on the device."),
        column("end_nanos", Nanos, "End time on the device."),
        column("duration_nanos", Nanos, "Duration on the device."),
        column(
            "launch_delay_nanos",
            Nanos,
            "Time from the end of the launching call to the start of the activity; 0 if the activity began before the call returned.",
        ),
        column(
            "queue_nanos",
            Nanos,
            "Time from the start of the launching call to the start of the activity, the call included. Negative if the clocks of host and device disagree.",
        ),
        column(
            "launched",
            Int,
            "Number of activities of the same launch in the run; more than 1 for a CUDA graph, whose rows all have the times of one call.",
        ),
        LAUNCH_PATH,
        nullable("graph_node_id", Bits, "Graph node that launched the activity."),
        CORRELATION_ID,
        PID,
        RANK,
        PROCESS_ID,
        column("thread_id", Id, "Thread of the launching call (`threads.id`)."),
        LAUNCH_CONTEXT_ID,
    ]

    /// Number of pending launches on each stream. One row per change of that number.
    QUEUE_LENGTH = "queue_length" [
        column("time_nanos", Nanos, "Time of the change."),
        nullable(
            "duration_nanos",
            Nanos,
            "Time until the next row of this stream; null for the last row, after which no launch is pending.",
        ),
        column(
            "length",
            Int,
            "Number of pending launches after the change: the call has begun on the host, and no activity of it has begun on this stream. Never negative.",
        ),
        column(
            "change",
            Int,
            "Change: +1 for a launch that began, -1 for a launch whose first activity on this stream began, summed over the events at this nanosecond. Never 0.",
        ),
        DEVICE,
        column("stream", Id, "Stream."),
        PID,
        RANK,
        PROCESS_ID,
    ]

    /// Queue length of each stream, aggregated from `queue_length`. One row per process, device and
    /// stream with at least one pending launch.
    QUEUE_SUMMARY = "queue_summary" [
        DEVICE,
        column("stream", Id, "Stream."),
        column("max_length", Int, "Maximum number of pending launches."),
        nullable(
            "mean_length",
            Real,
            "Mean number of pending launches, weighted by time: sum of `length` * duration, divided by `duration_nanos`.",
        ),
        column(
            "duration_nanos",
            Nanos,
            "Time from the first launch on the stream until its queue was empty for the last time.",
        ),
        column("queued_nanos", Nanos, "Time with at least one pending launch."),
        column(
            "full_nanos",
            Nanos,
            "Time with at least 1,024 pending launches, the queue length at which CUDA calls block. The threshold is a constant of the view; for others, query `queue_length`.",
        ),
        nullable("full_percent", Real, "`full_nanos` in percent of `duration_nanos`."),
        PID,
        RANK,
        PROCESS_ID,
    ]

    /// Idle intervals of a stream between two kernels, copies or fills, each with its cause.
    GPU_GAPS = "gpu_gaps" [
        column(
            "start_nanos",
            Nanos,
            "Start of the gap: the latest end of all earlier activities on this stream.",
        ),
        column("end_nanos", Nanos, "End of the gap: the start of the next activity."),
        column("gap_nanos", Nanos, "Duration of the gap, `end_nanos` - `start_nanos`; above 0."),
        column(
            "cause",
            Text,
            "`host wait` if the launch of the next activity began after the start of the gap; else `kernel wait` if the gap is shorter than 30 us (a constant of the view), about the cost of starting a kernel; else `other`, such as a wait for another stream. If the launch is unknown, only the duration decides.",
        ),
        nullable(
            "host_nanos",
            Nanos,
            "Part of the gap before the launch of the next activity began; 0 if it was launched in time, null if the launch is unknown.",
        ),
        DEVICE,
        column("stream", Id, "Idle stream."),
        column("previous_name", Text, "Name of the activity before the gap."),
        column("next_name", Text, "Name of the activity after the gap."),
        column(
            "next_kind",
            Text,
            "Kind of the activity after the gap: kernel, memcpy, memset or other.",
        ),
        nullable(
            "launch_name",
            Text,
            "Name of the call that launched the next activity; null if it is not in the run, for example because it preceded the trace.",
        ),
        nullable("launch_start_nanos", Nanos, "Start of the launching call."),
        nullable("thread", Text, "Name of the thread of the launching call."),
        LAUNCH_PATH,
        nullable(
            "host_span",
            Text,
            "For `host wait`: name of the innermost span on the launching thread at the start of the gap, which delayed the launch; null if there was none, and for other causes.",
        ),
        nullable("host_path", Text, "Path of that span, its own name included."),
        CORRELATION_ID,
        PID,
        RANK,
        PROCESS_ID,
        nullable("thread_id", Id, "Thread of the launching call (`threads.id`)."),
        LAUNCH_CONTEXT_ID,
        nullable("host_context_id", Id, "Context node of `host_span` (`contexts.id`)."),
    ]

    /// Late arrival of ranks at collectives, and the resulting wait of the others. One row per
    /// process group, process and device, over collectives with a sequence number in which at least
    /// two ranks of the run took part. Point-to-point messages are not counted.
    STRAGGLERS = "stragglers" [
        column("process_group", Text, "Name of the process group."),
        GROUP_RANKS,
        nullable("group_size", Id, "Number of ranks in the group."),
        column(
            "count",
            Int,
            "Number of collectives of the group that this rank and at least one other began, without ambiguous ones.",
        ),
        column(
            "complete_count",
            Int,
            "The part of `count` begun by all ranks of the group. For the remaining collectives, the last rank may not be in the run.",
        ),
        column(
            "ambiguous_count",
            Int,
            "Number of collectives begun by more ranks than the group has: several groups have its name and the files do not list their ranks. They are in no other column.",
        ),
        column("last_count", Int, "The part of `count` that this rank alone began last."),
        nullable("last_percent", Real, "`last_count` in percent of `count`."),
        column(
            "delay_nanos",
            Nanos,
            "Delay caused by this rank alone: time from the start of the second-to-last rank to its own start, summed over the collectives in `last_count`.",
        ),
        nullable(
            "mean_late_nanos",
            Real,
            "Mean time from the start of the first rank to the start of this rank.",
        ),
        nullable(
            "max_late_nanos",
            Nanos,
            "Maximum time from the start of the first rank to the start of this rank.",
        ),
        column(
            "wait_nanos",
            Nanos,
            "Time that this rank waited for others: from its own start to the start of the last rank, summed.",
        ),
        MAYBE_DEVICE,
        PID,
        RANK,
        PROCESS_ID,
    ]
}
