//! The tables that a run stores.

use super::ColumnKind::{Bits, Bytes, Flag, Id, Int, Ints, Nanos, Real, Reals, Text};
use super::Target::{Args, Contexts, Processes, Strings, Threads};
use super::{Column, Table, column, id_of, maybe, maybe_id_of};

/// Version of these declarations, which a run's manifest repeats.
pub const SCHEMA_VERSION: u32 = 1;

/// Every stored table.
pub const ALL: &[&Table] = &[
    &STRINGS,
    &CONTEXTS,
    &ARGS,
    &PROCESSES,
    &THREADS,
    &DEVICES,
    &SESSIONS,
    &PHASES,
    &SPANS,
    &ASYNC_SPANS,
    &INSTANTS,
    &FLOWS,
    &METRICS,
    &COUNTERS,
    &SAMPLES,
    &STEPS,
    &GPU_ACTIVITIES,
    &COLLECTIVES,
    &MEMORY_EVENTS,
    &MEMORY_SNAPSHOTS,
    &ROLLUPS,
    &METADATA,
    &LOSSES,
];

const CATEGORY_ID: Column =
    maybe_id_of(Strings, "category_id", "The category that a foreign trace gave it, in strings.");
const ARGS_ID: Column =
    maybe_id_of(Args, "args_id", "What else is known of it, in args; `args()` puts it together.");
const ARG_NUMBERS: Column =
    maybe("arg_numbers", Ints, "The numbers that fill the gaps of that text, in order.");
const CORRELATION_ID: Column =
    maybe("correlation_id", Bits, "The number that a launch and what it launched share.");
const EXTERNAL_ID: Column =
    maybe("external_id", Bits, "The number of an operator, by which what it launched names it.");

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
        maybe_id_of(Contexts, "parent_id", "The context around it; the root has none."),
        column("depth", Id, "Contexts between it and the root, itself included; the root has 0."),
        column(
            "kind",
            Text,
            "What it is: root, scope, state, module, operator, frame, step or runtime.",
        ),
        id_of(Strings, "name_id", "Its name, in strings."),
    ],
    sorted_by: Some("id"),
};

/// Arguments.
pub const ARGS: Table = Table {
    name: "args",
    doc: "The arguments of events as JSON objects, in which `#` stands for a number that each event has for itself.",
    columns: &[
        column("id", Id, "Number of the text; the first is 0."),
        column("text", Text, "The text."),
    ],
    sorted_by: Some("id"),
};

/// Processes.
pub const PROCESSES: Table = Table {
    name: "processes",
    doc: "The processes that were recorded: one row for each spool or imported process.",
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
        maybe("name", Text, "The name that a foreign trace gave it."),
        maybe(
            "alignment_nanos",
            Nanos,
            "What was added to its times so that the collectives of all ranks end together.",
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
        id_of(Processes, "process_id", "Its process, in processes."),
        column("os_id", Int, "Its id in the system."),
        column("name", Text, "Its last name; may be empty."),
    ],
    sorted_by: Some("id"),
};

/// Devices.
pub const DEVICES: Table = Table {
    name: "devices",
    doc: "The devices that the processes had.",
    columns: &[
        id_of(Processes, "process_id", "The process, in processes."),
        column("device", Id, "Number of the device in its process."),
        column("type", Text, "What it is, as CUDA or HIP."),
        column("name", Text, "Name of the model; may be empty."),
        column("properties", Text, "All that is known of it, as a JSON object."),
    ],
    sorted_by: None,
};

/// Sessions.
pub const SESSIONS: Table = Table {
    name: "sessions",
    doc: "The recording sessions of each process.",
    columns: &[
        id_of(Processes, "process_id", "The process, in processes."),
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
        id_of(Processes, "process_id", "The process, in processes."),
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
        id_of(Threads, "thread_id", "The thread, in threads."),
        id_of(Contexts, "context_id", "Where in the calling-context tree, in contexts."),
        id_of(Strings, "name_id", "Its name, in strings; that of its context."),
        column("sessions", Bits, "The sessions that recorded it, one bit each."),
        column("phase", Id, "The phase in which it was left, of the first of these sessions."),
        column(
            "is_open",
            Flag,
            "Whether it was still open at the end of the recording, to which its duration then goes.",
        ),
        CATEGORY_ID,
        CORRELATION_ID,
        EXTERNAL_ID,
        ARGS_ID,
        ARG_NUMBERS,
    ],
    sorted_by: Some("start_nanos"),
};

/// Spans beside the stacks of threads.
pub const ASYNC_SPANS: Table = Table {
    name: "async_spans",
    doc: "What lasted a while without being on the stack of a thread, such as requests.",
    columns: &[
        column("start_nanos", Nanos, "When it began."),
        column("duration_nanos", Nanos, "How long it lasted."),
        id_of(Processes, "process_id", "The process, in processes."),
        id_of(Strings, "track_id", "What is one thing going on, in strings."),
        id_of(Strings, "name_id", "Its name, in strings."),
        column(
            "is_open",
            Flag,
            "Whether its end is unknown; its duration goes to the last moment.",
        ),
        CATEGORY_ID,
        ARGS_ID,
        ARG_NUMBERS,
    ],
    sorted_by: Some("start_nanos"),
};

/// Moments.
pub const INSTANTS: Table = Table {
    name: "instants",
    doc: "What happened at a moment, without lasting.",
    columns: &[
        column("time_nanos", Nanos, "When."),
        id_of(Processes, "process_id", "The process, in processes."),
        maybe_id_of(Threads, "thread_id", "The thread, in threads, if it was of one."),
        column("scope", Text, "What it concerns: thread, process or global."),
        id_of(Strings, "name_id", "Its name, in strings."),
        CATEGORY_ID,
        ARGS_ID,
        ARG_NUMBERS,
    ],
    sorted_by: Some("time_nanos"),
};

/// Points of flows.
pub const FLOWS: Table = Table {
    name: "flows",
    doc: "The points of arrows between spans: those of one arrow share category and id. Arrows from launches to devices are not here: see `correlation_id`.",
    columns: &[
        column("time_nanos", Nanos, "When the arrow passes here."),
        id_of(Threads, "thread_id", "The thread of the span, in threads."),
        column("flow_id", Bits, "Number of the arrow in its category."),
        column("point", Text, "Which point it is: start, step or end."),
        column(
            "is_enclosing",
            Flag,
            "Whether the span is the one around that moment; if not, it is the next one to begin.",
        ),
        id_of(Strings, "name_id", "Its name, in strings."),
        CATEGORY_ID,
        ARGS_ID,
        ARG_NUMBERS,
    ],
    sorted_by: Some("time_nanos"),
};

/// Values of metrics.
pub const METRICS: Table = Table {
    name: "metrics",
    doc: "Every value that was added to a metric.",
    columns: &[
        column("time_nanos", Nanos, "When it was added."),
        id_of(Threads, "thread_id", "The thread, in threads."),
        id_of(Contexts, "context_id", "Where in the calling-context tree, in contexts."),
        id_of(Strings, "name_id", "The metric's name with its unit, in strings."),
        column("sessions", Bits, "The sessions that recorded it, one bit each."),
        column("phase", Id, "The phase in which it was added, of the first of these sessions."),
        maybe("value", Real, "The value as a real number, if it is one number."),
        maybe("integer", Int, "The value, if it is a whole number."),
        maybe("text", Text, "The value, if it is a text."),
        maybe("vector", Reals, "The values, if it is a list of numbers."),
    ],
    sorted_by: Some("time_nanos"),
};

/// Values of counters.
pub const COUNTERS: Table = Table {
    name: "counters",
    doc: "What counters of the machine said, of its devices above all. They are of no thread.",
    columns: &[
        column("time_nanos", Nanos, "When it was read; what was read together has one time."),
        id_of(Processes, "process_id", "The process that read it, in processes."),
        maybe("device", Id, "CUDA's number of the device, as kernels have it, if it is of one."),
        id_of(Strings, "name_id", "The counter's name with its unit, in strings."),
        column("value", Real, "The value."),
    ],
    sorted_by: Some("time_nanos"),
};

/// Values by call stack.
pub const SAMPLES: Table = Table {
    name: "samples",
    doc: "Values by call stack, as sampling profilers and added-up profiles give them: each is of its stack's innermost frame alone.",
    columns: &[
        id_of(Processes, "process_id", "The process, in processes."),
        maybe_id_of(Threads, "thread_id", "The thread, in threads, if it is known."),
        id_of(Contexts, "context_id", "The stack: its innermost frame, in contexts."),
        id_of(Strings, "name_id", "What the value is, with its unit, in strings."),
        maybe("time_nanos", Nanos, "When it was taken, if that is known."),
        maybe("value", Real, "The value as a real number, if it is one number."),
        maybe("integer", Int, "The value, if it is a whole number."),
        maybe("text", Text, "The value, if it is a text."),
        maybe("vector", Reals, "The values, if it is a list of numbers."),
        ARGS_ID,
        ARG_NUMBERS,
    ],
    sorted_by: None,
};

/// Training steps.
pub const STEPS: Table = Table {
    name: "steps",
    doc: "The training steps of each process.",
    columns: &[
        column("start_nanos", Nanos, "When the step began."),
        column("duration_nanos", Nanos, "How long it took."),
        id_of(Processes, "process_id", "The process, in processes."),
        id_of(Threads, "thread_id", "The thread, in threads."),
        id_of(Contexts, "context_id", "Where in the calling-context tree, in contexts."),
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
        id_of(Processes, "process_id", "The process that launched it, in processes."),
        column("device", Id, "Number of the device in its process."),
        column("stream", Id, "The stream that it ran on."),
        column("kind", Text, "What it is: kernel, memcpy, memset, sync, annotation or other."),
        id_of(Strings, "name_id", "Its name, in strings."),
        maybe_id_of(Contexts, "context_id", "Where it was launched, in contexts."),
        CORRELATION_ID,
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
        CATEGORY_ID,
        EXTERNAL_ID,
        ARGS_ID,
        ARG_NUMBERS,
    ],
    sorted_by: Some("start_nanos"),
};

/// Collectives.
pub const COLLECTIVES: Table = Table {
    name: "collectives",
    doc: "Communication between ranks, as each rank saw it.",
    columns: &[
        column(
            "start_nanos",
            Nanos,
            "When it began on this rank; where that is unknown, when it was asked for.",
        ),
        maybe("duration_nanos", Nanos, "How long it took, if it ended."),
        maybe("created_nanos", Nanos, "When it was asked for, if that is known."),
        id_of(Processes, "process_id", "The process, in processes."),
        maybe("device", Id, "Number of the device in its process."),
        maybe("stream", Id, "The stream that it ran on."),
        id_of(Strings, "name_id", "What it is, in strings: allreduce, send."),
        id_of(Strings, "group_id", "Name of the process group, in strings."),
        maybe_id_of(
            Strings,
            "group_ranks_id",
            "Ranks of the group, in strings, as `0-3,8`: groups of different ranks may share a name.",
        ),
        maybe("group_size", Id, "How many ranks the group has."),
        maybe("sequence", Int, "Number of the collective in its group: the same on all ranks."),
        maybe_id_of(Strings, "dtype_id", "Type of the elements, in strings."),
        maybe("in_elements", Int, "Elements that this rank gave."),
        maybe("out_elements", Int, "Elements that this rank got."),
        column("state", Text, "How far it came: scheduled, started or completed."),
        column("is_p2p", Flag, "Whether it is between two ranks only."),
        maybe_id_of(Contexts, "context_id", "Where it was asked for, in contexts."),
        ARGS_ID,
        ARG_NUMBERS,
    ],
    sorted_by: Some("start_nanos"),
};

/// What an allocator did.
pub const MEMORY_EVENTS: Table = Table {
    name: "memory_events",
    doc: "What allocators of memory did.",
    columns: &[
        column("time_nanos", Nanos, "When."),
        id_of(Processes, "process_id", "The process, in processes."),
        maybe_id_of(Threads, "thread_id", "The thread, in threads, if it is known."),
        column(
            "action",
            Text,
            "What was done: alloc, free, free_requested, segment_alloc, segment_free, segment_map, segment_unmap, snapshot, oom or other.",
        ),
        column("device_type", Text, "Whose memory: cpu, cuda or another."),
        maybe("device", Id, "Number of the device in its process."),
        maybe("stream", Bits, "The stream, as the allocator names it."),
        maybe("address", Bits, "Where."),
        column("bytes", Int, "How much."),
        maybe("allocated_bytes", Int, "What is allocated in all, afterwards."),
        maybe("reserved_bytes", Int, "What the allocator holds in all, afterwards."),
        maybe_id_of(Contexts, "context_id", "The call stack, in contexts."),
        CATEGORY_ID,
        ARGS_ID,
        ARG_NUMBERS,
    ],
    sorted_by: Some("time_nanos"),
};

/// Blocks of memory.
pub const MEMORY_SNAPSHOTS: Table = Table {
    name: "memory_snapshots",
    doc: "What an allocator held when a snapshot was taken: one row for each block.",
    columns: &[
        column("time_nanos", Nanos, "When the snapshot was taken."),
        id_of(Processes, "process_id", "The process, in processes."),
        column("device", Id, "Number of the device in its process."),
        maybe("stream", Bits, "The stream, as the allocator names it."),
        column("segment_address", Bits, "Where the segment begins that the block is of."),
        column("segment_bytes", Int, "Length of the segment."),
        column("segment_type", Text, "Its pool: small or large."),
        column("address", Bits, "Where the block begins."),
        column("bytes", Int, "Its length."),
        maybe("requested_bytes", Int, "What was asked for."),
        column("state", Text, "What it is, in the allocator's own word."),
        maybe_id_of(Contexts, "context_id", "The call stack of its allocation, in contexts."),
        ARGS_ID,
        ARG_NUMBERS,
    ],
    sorted_by: None,
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
        id_of(Threads, "thread_id", "The thread, in threads."),
        id_of(Contexts, "context_id", "Where in the calling-context tree, in contexts."),
        id_of(Strings, "name_id", "The context's name, in strings."),
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

/// Metadata.
pub const METADATA: Table = Table {
    name: "metadata",
    doc: "What a recording or a foreign file says of its processes and threads, beside events.",
    columns: &[
        id_of(Processes, "process_id", "The process, in processes."),
        maybe_id_of(Threads, "thread_id", "The thread, in threads, if it is of one."),
        column("key", Text, "What it is."),
        column("value", Text, "The value as JSON."),
    ],
    sorted_by: None,
};

/// Losses.
pub const LOSSES: Table = Table {
    name: "losses",
    doc: "What was lost, by process and cause; what is not there is zero.",
    columns: &[
        id_of(Processes, "process_id", "The process, in processes."),
        column("cause", Text, "Why: see the page on losses."),
        column("count", Int, "How many events."),
    ],
    sorted_by: None,
};
