//! The tables that a run stores.

use super::ColumnKind::{Bits, Bytes, Flag, Id, Int, Nanos, Real, Reals, Text};
use super::{Table, column, maybe};

/// Version of these declarations, which a run's manifest repeats.
pub const SCHEMA_VERSION: u32 = 1;

/// Every stored table.
pub const ALL: &[&Table] = &[
    &STRINGS,
    &CONTEXTS,
    &PROCESSES,
    &THREADS,
    &SESSIONS,
    &PHASES,
    &SPANS,
    &METRICS,
    &STEPS,
    &GPU_ACTIVITIES,
    &ROLLUPS,
    &LOSSES,
];

/// Texts.
pub const STRINGS: Table = Table {
    name: "strings",
    doc: "The texts behind the ids of names. No text stands twice.",
    columns: &[
        column("id", Id, "Number of the text; the first is 0."),
        column("text", Text, "The text."),
    ],
    sorted_by: Some("id"),
};

/// Calling contexts.
pub const CONTEXTS: Table = Table {
    name: "contexts",
    doc: "The calling-context tree: one row for each path of names, whichever threads took it.",
    columns: &[
        column("id", Id, "Number of the context, larger than its parent's; the root is 0."),
        maybe("parent_id", Id, "The context around it; the root has none."),
        column("depth", Id, "Contexts between it and the root, itself included; the root has 0."),
        column("kind", Text, "What it is: root, scope, state, module, operator, frame or step."),
        column("name_id", Id, "Its name, in strings."),
    ],
    sorted_by: Some("id"),
};

/// Processes.
pub const PROCESSES: Table = Table {
    name: "processes",
    doc: "The processes that were recorded: one row for each spool.",
    columns: &[
        column("id", Id, "Number of the process in this run."),
        column("pid", Int, "Its id in the system."),
        maybe("rank", Int, "Its rank in a distributed job."),
        column("host", Text, "The host that it ran on."),
        column("argv", Text, "Its command line as a JSON list, with secrets blotted out."),
        column("start_nanos", Nanos, "When recording began."),
        column("end_nanos", Nanos, "The last moment of which there is a record."),
        column(
            "is_complete",
            Flag,
            "Whether the recording was ended properly; if not, the process was killed or still runs.",
        ),
        column(
            "clock_drift_nanos",
            Nanos,
            "How far the recorder's clock was from the wall clock at the end, which the times here are corrected by.",
        ),
        maybe(
            "scope_cost_nanos",
            Real,
            "What entering and leaving one scope costs there, measured when a session started.",
        ),
        maybe(
            "recording_nanos",
            Nanos,
            "Time that the program spent on being recorded, all threads together: half a scope's cost for each enter, leave and value.",
        ),
        maybe(
            "flushing_nanos",
            Nanos,
            "Time that went into writing the spool, most of it on a thread of its own.",
        ),
    ],
    sorted_by: Some("id"),
};

/// Threads.
pub const THREADS: Table = Table {
    name: "threads",
    doc: "The threads that recorded something.",
    columns: &[
        column("id", Id, "Number of the thread in this run."),
        column("process_id", Id, "Its process, in processes."),
        column("os_id", Int, "Its id in the system."),
        column("name", Text, "Its last name; may be empty."),
    ],
    sorted_by: Some("id"),
};

/// Sessions.
pub const SESSIONS: Table = Table {
    name: "sessions",
    doc: "The recording sessions of each process.",
    columns: &[
        column("process_id", Id, "The process, in processes."),
        column(
            "session",
            Id,
            "Number of the session in its process: its bit in the masks of spans and metrics, which a later session may have again.",
        ),
        column("name", Text, "Path that the session was started with, made absolute."),
        column("start_nanos", Nanos, "When it was started."),
        maybe("end_nanos", Nanos, "When it was finalized, if it was."),
    ],
    sorted_by: None,
};

/// Phases.
pub const PHASES: Table = Table {
    name: "phases",
    doc: "The phases of each session; one that was never advanced has one.",
    columns: &[
        column("process_id", Id, "The process, in processes."),
        column("session", Id, "Number of the session in its process."),
        column("phase", Id, "Number of the phase; the first is 0."),
        column("start_nanos", Nanos, "When it was opened."),
        maybe("end_nanos", Nanos, "When it was closed, if it was."),
    ],
    sorted_by: None,
};

/// Spans.
pub const SPANS: Table = Table {
    name: "spans",
    doc: "Everything that was entered and left: scopes, states, modules, operators, steps.",
    columns: &[
        column("start_nanos", Nanos, "When it was entered."),
        column("duration_nanos", Nanos, "How long it was open."),
        column("children_nanos", Nanos, "Time in spans directly inside it on its thread."),
        column("thread_id", Id, "The thread, in threads."),
        column("context_id", Id, "Where in the calling-context tree, in contexts."),
        column("name_id", Id, "Its name, in strings; that of its context."),
        column("sessions", Bits, "The sessions that recorded it, one bit each."),
        column("phase", Id, "The phase in which it was left, of the first of these sessions."),
        column(
            "is_open",
            Flag,
            "Whether it was still open at the end of the recording, to which its duration then goes.",
        ),
    ],
    sorted_by: Some("start_nanos"),
};

/// Values of metrics.
pub const METRICS: Table = Table {
    name: "metrics",
    doc: "Every value that was added to a metric.",
    columns: &[
        column("time_nanos", Nanos, "When it was added."),
        column("thread_id", Id, "The thread, in threads."),
        column("context_id", Id, "Where in the calling-context tree, in contexts."),
        column("name_id", Id, "The metric's name with its unit, in strings."),
        column("sessions", Bits, "The sessions that recorded it, one bit each."),
        column("phase", Id, "The phase in which it was added, of the first of these sessions."),
        maybe("value", Real, "The value as a real number, if it is one number."),
        maybe("integer", Int, "The value, if it is a whole number."),
        maybe("text", Text, "The value, if it is a text."),
        maybe("vector", Reals, "The values, if it is a list of numbers."),
    ],
    sorted_by: Some("time_nanos"),
};

/// Training steps.
pub const STEPS: Table = Table {
    name: "steps",
    doc: "The training steps of each process.",
    columns: &[
        column("start_nanos", Nanos, "When the step began."),
        column("duration_nanos", Nanos, "How long it took."),
        column("process_id", Id, "The process, in processes."),
        column("thread_id", Id, "The thread, in threads."),
        column("context_id", Id, "Where in the calling-context tree, in contexts."),
        column("number", Id, "Number of the step in its process; the first is 0."),
    ],
    sorted_by: Some("start_nanos"),
};

/// What devices did.
pub const GPU_ACTIVITIES: Table = Table {
    name: "gpu_activities",
    doc: "What devices did: kernels, copies, fills and waits.",
    columns: &[
        column("start_nanos", Nanos, "When the device began."),
        column("duration_nanos", Nanos, "How long it took."),
        column("process_id", Id, "The process that launched it, in processes."),
        column("device", Id, "Number of the device in its process."),
        column("stream", Id, "The stream that it ran on."),
        column("kind", Text, "What it is: kernel, memcpy, memset or sync."),
        column("name_id", Id, "Its name, in strings."),
        maybe("context_id", Id, "Where it was launched, in contexts."),
        maybe("correlation_id", Bits, "The number that it shares with its launch."),
        maybe("graph_node_id", Bits, "The node of the device graph that it was launched by."),
        maybe("grid_x", Id, "Blocks of the grid along x."),
        maybe("grid_y", Id, "Blocks of the grid along y."),
        maybe("grid_z", Id, "Blocks of the grid along z."),
        maybe("block_x", Id, "Threads of a block along x."),
        maybe("block_y", Id, "Threads of a block along y."),
        maybe("block_z", Id, "Threads of a block along z."),
        maybe("registers", Id, "Registers of a thread."),
        maybe("shared_bytes", Int, "Shared memory of a block in bytes, static and dynamic."),
        maybe("bytes", Int, "Bytes that were copied or filled."),
    ],
    sorted_by: Some("start_nanos"),
};

/// Sums by context and time.
pub const ROLLUPS: Table = Table {
    name: "rollups",
    doc: "Sums of spans by thread, context and bucket of time, at several widths of bucket. All columns but the keys add up (`min_nanos` and `max_nanos` by their minimum and maximum), and one key may stand in several rows.",
    columns: &[
        column(
            "bucket_nanos",
            Nanos,
            "Width of the bucket, a power of two; 0 for the whole recording of a process.",
        ),
        column("start_nanos", Nanos, "Where the bucket starts: a multiple of its width."),
        column("thread_id", Id, "The thread, in threads."),
        column("context_id", Id, "Where in the calling-context tree, in contexts."),
        column("name_id", Id, "The context's name, in strings."),
        column("count", Int, "Spans that began in the bucket."),
        column("total_nanos", Nanos, "Time in these spans that lies in the bucket."),
        column("self_nanos", Nanos, "The same without the time in spans directly inside them."),
        maybe("min_nanos", Nanos, "Shortest of the spans that began in the bucket."),
        maybe("max_nanos", Nanos, "Longest of the spans that began in the bucket."),
        maybe(
            "sketch",
            Bytes,
            "Durations of the spans, for quantiles; only where `bucket_nanos` is 0.",
        ),
    ],
    sorted_by: None,
};

/// Losses.
pub const LOSSES: Table = Table {
    name: "losses",
    doc: "What was lost, by process and cause; what is not there is zero.",
    columns: &[
        column("process_id", Id, "The process, in processes."),
        column("cause", Text, "Why: see the page on losses."),
        column("count", Int, "How many events."),
    ],
    sorted_by: None,
};
