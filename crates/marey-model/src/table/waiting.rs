//! The views that say what waits for what: on the way through a step, and from one launch to the next.
//!
//! `docs/analysis.md` says how each number is made, and where it differs from HTA's.

use super::ColumnKind::{Flag, Id, Int, Nanos, Real, Text};
use super::view::{CONTEXT_ID, DEVICE, MAYBE_DEVICE, PID, PROCESS_ID, RANK};
use super::{Table, column, maybe};

/// What the host did while a device had nothing to do: a row for each process, device, cause, thread
/// and place in the calling-context tree, within the steps if there are any.
pub const DEVICE_IDLE: Table = Table {
    name: "device_idle",
    doc: "What the host did while a device had nothing to do: a row for each process, device, cause, thread and place in the calling-context tree, within the steps if there are any.",
    columns: &[
        DEVICE,
        column(
            "cause",
            Text,
            "Why, by the activity that ends the gap: host wait, kernel wait or other, as in gpu_gaps.",
        ),
        maybe(
            "activity",
            Text,
            "What the host did, for `host wait`: data loading, synchronisation, memory allocation, copying, operators or outside operators.",
        ),
        column("idle_nanos", Nanos, "How long no stream of the device was busy meanwhile."),
        column("gap_count", Int, "Gaps that began then."),
        maybe(
            "host_span",
            Text,
            "The innermost span of the thread, for `host wait`; null if it was in none.",
        ),
        maybe("host_path", Text, "The names around that and its own, separated by `/`."),
        maybe(
            "thread",
            Text,
            "Name of the thread that launched what ended the gaps, for `host wait`; may be empty.",
        ),
        PID,
        RANK,
        PROCESS_ID,
        maybe("thread_id", Id, "That thread, in threads."),
        maybe("host_context_id", Id, "That span's place, in contexts."),
    ],
    sorted_by: None,
};

/// The sequences of kernels, copies and fills that operators launch, and how often: what is worth
/// fusing. A row for each process, operator by its place in the calling-context tree, and sequence
/// of 3 to 64 (constants in the view) that one call of the operator, with all inside it on its
/// thread, launched.
pub const KERNEL_SEQUENCES: Table = Table {
    name: "kernel_sequences",
    doc: "The sequences of kernels, copies and fills that operators launch, and how often: what is worth fusing. A row for each process, operator by its place in the calling-context tree, and sequence of 3 to 64 (constants in the view) that one call of the operator, with all inside it on its thread, launched.",
    columns: &[
        column("name", Text, "Name of the operator, annotation or module."),
        column("kind", Text, "What it is: operator, scope (an annotation) or module."),
        column("path", Text, "The names around it and its own, separated by `/`."),
        column("depth", Id, "Contexts around it, itself included."),
        column(
            "is_outermost",
            Flag,
            "Whether none of its name was open around it on its thread; of those that are, sums by name count nothing twice.",
        ),
        column("count", Int, "Calls of the operator that launched just this sequence."),
        column("length", Int, "Kernels, copies and fills of the sequence."),
        column(
            "sequence",
            Text,
            "Their names in the order in which the device began them, joined by ` -> `: the first 10, and how many more.",
        ),
        column("total_nanos", Nanos, "Sum of the durations of what these calls launched."),
        column("mean_nanos", Real, "`total_nanos` divided by `count`."),
        column("operator_nanos", Nanos, "Time in these calls of the operator on the host."),
        column("mean_operator_nanos", Real, "`operator_nanos` divided by `count`."),
        PID,
        RANK,
        PROCESS_ID,
        CONTEXT_ID,
    ],
    sorted_by: None,
};

/// What each step waited for from its end back to its beginning, so where a step would become
/// shorter if something took less time. A row for each segment of a process's path; each moment of
/// a step is in one, so those of a step add up to its duration. Without steps, of the recording.
pub const CRITICAL_PATH: Table = Table {
    name: "critical_path",
    doc: "What each step waited for from its end back to its beginning, so where a step would become shorter if something took less time. A row for each segment of a process's path; each moment of a step is in one, so those of a step add up to its duration. Without steps, of the recording.",
    columns: &[
        maybe("number", Id, "Number of the step in its process; null if it has none."),
        column(
            "position",
            Id,
            "Which segment of its step it is, in order of time; the first is 0.",
        ),
        column("start_nanos", Nanos, "When it begins."),
        column("end_nanos", Nanos, "When it ends, which is when the next one begins."),
        column("duration_nanos", Nanos, "How long it is; above 0."),
        column(
            "bound",
            Text,
            "What the time is bound by: cpu_bound, data_loading, gpu_compute_bound, gpu_communication_bound, gpu_memory_bound (copies and fills), gpu_kernel_kernel_overhead (what came before has ended, the activity has not begun), gpu_kernel_launch_overhead (from its call to its beginning), synchronization (a call that waited has not returned), or unknown.",
        ),
        maybe(
            "name",
            Text,
            "The innermost span on the thread, or what the device does; of gpu_kernel overheads, what begins late. Null where a thread was in no span.",
        ),
        maybe(
            "path",
            Text,
            "The names around it and its own; of what a device does, those around its launch.",
        ),
        MAYBE_DEVICE,
        maybe("stream", Id, "The stream, if it is of a device."),
        maybe("thread", Text, "Name of the thread, if it is of one; may be empty."),
        PID,
        RANK,
        PROCESS_ID,
        maybe("thread_id", Id, "The thread, in threads, if it is of one."),
        maybe("context_id", Id, "Its place in the calling-context tree, or that of its launch."),
    ],
    sorted_by: None,
};
