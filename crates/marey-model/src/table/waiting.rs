//! Views of waiting: idle devices, kernel sequences worth fusing, and the critical path of steps.
//!
//! `docs/analysis.md` defines each number and its differences from HTA's.

use super::ColumnKind::{Flag, Id, Int, Nanos, Real, Text};
use super::view::{CONTEXT_ID, DEVICE, MAYBE_DEVICE, PID, PROCESS_ID, RANK};
use super::{Table, column, nullable};

tables! {
    /// Host activity while a device was idle. One row per process, device, cause, thread and
    /// context node, within the steps if there are any.
    DEVICE_IDLE = "device_idle" [
        DEVICE,
        column(
            "cause",
            Text,
            "Cause of the idle time, by the activity that ends the gap: host wait, kernel wait or other, as in `gpu_gaps`.",
        ),
        nullable(
            "activity",
            Text,
            "For `host wait`: category of the host activity: data loading, synchronisation, memory allocation, copying, operators or outside operators.",
        ),
        column("idle_nanos", Nanos, "Time in which no stream of the device was busy."),
        column("gap_count", Int, "Number of gaps, counted where they began."),
        nullable(
            "host_span",
            Text,
            "For `host wait`: name of the innermost span of the thread; null if there was none.",
        ),
        nullable("host_path", Text, "Path of that span, separated by `/`."),
        nullable(
            "thread",
            Text,
            "For `host wait`: name of the thread that launched the activity after the gap; may be empty.",
        ),
        PID,
        RANK,
        PROCESS_ID,
        nullable("thread_id", Id, "Id of that thread (`threads.id`)."),
        nullable("host_context_id", Id, "Context node of that span (`contexts.id`)."),
    ]

    /// Sequences of kernels, copies and fills launched by operators, with their frequency:
    /// candidates for fusion. One row per process, context node of the operator, and sequence of 3
    /// to 64 activities (constants of the view) launched by one call of the operator and the spans
    /// inside it on the same thread.
    KERNEL_SEQUENCES = "kernel_sequences" [
        column("name", Text, "Name of the operator, annotation or module."),
        column("kind", Text, "Kind: operator, scope (an annotation) or module."),
        column("path", Text, "Path of names from the root, its own included, separated by `/`."),
        column("depth", Id, "Depth in the calling-context tree: 1 for a child of the root."),
        column(
            "is_outermost",
            Flag,
            "Whether no span of the same name encloses it on its thread. Sums by name over these rows count nothing twice.",
        ),
        column(
            "count",
            Int,
            "Number of calls of the operator that launched exactly this sequence.",
        ),
        column("length", Int, "Number of activities in the sequence."),
        column(
            "sequence",
            Text,
            "Names of the activities in order of their start on the device, joined by ` -> `: the first 10, and the number of further ones.",
        ),
        column(
            "total_nanos",
            Nanos,
            "Sum of the durations of the activities that these calls launched.",
        ),
        column("mean_nanos", Real, "`total_nanos` / `count`."),
        column("operator_nanos", Nanos, "Host time in these calls of the operator."),
        column("mean_operator_nanos", Real, "`operator_nanos` / `count`."),
        PID,
        RANK,
        PROCESS_ID,
        CONTEXT_ID,
    ]

    /// Critical path of each step: the chain of dependencies from its end back to its start, which
    /// determines its duration. One row per segment of a process's path; the segments of a step add
    /// up to its duration. Without steps, the path of the whole recording.
    CRITICAL_PATH = "critical_path" [
        nullable("number", Id, "Step number in the process; null if the process has no steps."),
        column("position", Id, "Position of the segment in its step, by time, from 0."),
        column("start_nanos", Nanos, "Start of the segment."),
        column("end_nanos", Nanos, "End of the segment and start of the next one."),
        column("duration_nanos", Nanos, "Duration of the segment; above 0."),
        column(
            "bound",
            Text,
            "Bounding resource: cpu_bound, data_loading, gpu_compute_bound, gpu_communication_bound, gpu_memory_bound (copies and fills), gpu_kernel_kernel_overhead (between the end of the preceding activity and the start of this one), gpu_kernel_launch_overhead (between the launching call and the start), synchronization (a waiting call has not returned), or unknown.",
        ),
        nullable(
            "name",
            Text,
            "Name of the innermost span on the thread, or of the activity on the device; for gpu_kernel overheads, of the activity that begins late. Null if the thread was in no span.",
        ),
        nullable("path", Text, "Path of that span, or of the activity's launch."),
        MAYBE_DEVICE,
        nullable("stream", Id, "Stream; null if the segment is on the host."),
        nullable(
            "thread",
            Text,
            "Thread name, which may be empty; null if the segment is on a device.",
        ),
        PID,
        RANK,
        PROCESS_ID,
        nullable("thread_id", Id, "Thread (`threads.id`); null if there is none."),
        nullable(
            "context_id",
            Id,
            "Context node of the span, or of the activity's launch (`contexts.id`).",
        ),
    ]
}
