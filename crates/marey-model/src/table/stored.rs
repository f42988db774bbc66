//! Declares the tables that a run stores as Parquet.

use super::ColumnKind::{Bits, Bytes, Flag, Id, Int, Ints, Nanos, Real, Reals, Text};
use super::Target::{Args, Contexts, Processes, Strings, Threads};
use super::{Column, Table, column, id_of, nullable, nullable_id_of};

/// Version of the schema; a run's manifest records it.
pub const SCHEMA_VERSION: u32 = 1;

const CATEGORY_ID: Column =
    nullable_id_of(Strings, "category_id", "Category in the imported trace (`strings.id`).");
const ARGS_ID: Column = nullable_id_of(
    Args,
    "args_id",
    "Template of the event's arguments (`args.id`); `args()` returns the complete JSON object.",
);
const ARG_NUMBERS: Column =
    nullable("arg_numbers", Ints, "Values of the template's `#` placeholders, in order.");
pub(super) const CORRELATION_ID: Column = nullable(
    "correlation_id",
    Bits,
    "Correlation id: equal for a launch and the activities that it launched.",
);
pub(super) const EXTERNAL_ID: Column = nullable(
    "external_id",
    Bits,
    "External correlation id of the operator; its activities have the same one.",
);
pub(super) const IS_OPEN_INTERVAL: Column = column(
    "is_open",
    Flag,
    "Whether the end is unknown; the duration then lasts until the last timestamp.",
);
pub(super) const IS_ENCLOSING: Column = column(
    "is_enclosing",
    Flag,
    "Whether the point is bound to the span that encloses its timestamp; otherwise it is bound to the next span that begins.",
);
pub(super) const COLLECTIVE_START_NANOS: Column = column(
    "start_nanos",
    Nanos,
    "Start time on this rank; the time of the call if the start is unknown.",
);
pub(super) const COLLECTIVE_DURATION_NANOS: Column = nullable(
    "duration_nanos",
    Nanos,
    "Duration; of the call if it is scheduled; null if it did not end.",
);
pub(super) const SEQUENCE: Column = nullable(
    "sequence",
    Int,
    "Sequence number of the collective in its group, equal on all ranks.",
);
pub(super) const MEMORY_ACTION: Column = column(
    "action",
    Text,
    "Action: alloc, free, free_requested, segment_alloc, segment_free, segment_map, segment_unmap, snapshot, oom, reading (the totals were read) or other.",
);
pub(super) const MEMORY_OWNER: Column = column(
    "device_type",
    Text,
    "Kind of device that owns the memory, such as cpu or cuda; host for readings of the process's resident size.",
);
pub(super) const PEAK_BYTES: Column = nullable(
    "peak_bytes",
    Int,
    "Maximum of `allocated_bytes` since the process began or the program reset it.",
);

tables! {
    /// Every stored table.
    ALL;

    /// String table: the text of every id of a name. Each text is stored once.
    STRINGS = "strings" sorted by "id" [
        column("id", Id, "Id of the text, from 0."),
        column("text", Text, "The text."),
    ]

    /// The calling-context tree: one row per path of names, shared by all threads.
    CONTEXTS = "contexts" sorted by "id" [
        column("id", Id, "Id of the context node, larger than its parent's; the root is 0."),
        nullable_id_of(Contexts, "parent_id", "Parent (`contexts.id`); null for the root."),
        column("depth", Id, "Distance from the root, which has 0."),
        column("kind", Text, "Kind: root, scope, state, module, operator, frame, step or runtime."),
        id_of(Strings, "name_id", "Name (`strings.id`)."),
    ]

    /// Templates of event arguments: JSON objects in which `#` is the placeholder of a number that
    /// varies from event to event.
    ARGS = "args" sorted by "id" [
        column("id", Id, "Id of the text, from 0."),
        column("text", Text, "The text."),
    ]

    /// Recorded processes: one row per spool or imported process.
    PROCESSES = "processes" sorted by "id" [
        column("id", Id, "Id of the process in this run."),
        column("pid", Int, "Id that the operating system assigned."),
        nullable("rank", Int, "Rank in a distributed job."),
        column("host", Text, "Host name."),
        column("argv", Text, "Command line as a JSON list, with secrets redacted."),
        column("start_nanos", Nanos, "Start of the recording."),
        column("end_nanos", Nanos, "Timestamp of the last record."),
        column(
            "is_complete",
            Flag,
            "Whether the recording ended regularly; false if the process was killed or is still running.",
        ),
        column(
            "clock_drift_nanos",
            Nanos,
            "Drift of the recorder's clock against the wall clock at the end of the recording. All timestamps are corrected for it.",
        ),
        nullable(
            "scope_cost_nanos",
            Real,
            "Cost of entering and leaving one scope in this process, measured when a session started.",
        ),
        nullable(
            "recording_nanos",
            Nanos,
            "Estimated recording overhead, summed over all threads: half of `scope_cost_nanos` for each scope entry, scope exit and metric value.",
        ),
        nullable(
            "flushing_nanos",
            Nanos,
            "Time spent writing the spool, mostly on a background thread.",
        ),
        nullable("name", Text, "Name in the imported trace."),
        nullable(
            "alignment_nanos",
            Nanos,
            "Offset added to the timestamps of this process, so that the collectives of all ranks end at the same time.",
        ),
    ]

    /// Threads with at least one event.
    THREADS = "threads" sorted by "id" [
        column("id", Id, "Id of the thread in this run."),
        id_of(Processes, "process_id", "Process (`processes.id`)."),
        column("os_id", Int, "Id that the operating system assigned."),
        column("name", Text, "Last name of the thread; may be empty."),
    ]

    /// Devices of each process.
    DEVICES = "devices" [
        id_of(Processes, "process_id", "Process (`processes.id`)."),
        column("device", Id, "Device number in the process."),
        column("type", Text, "Platform, such as `CUDA` or `HIP`."),
        column("name", Text, "Model name; may be empty."),
        column("properties", Text, "Properties of the device as a JSON object."),
    ]

    /// Recording sessions of each process.
    SESSIONS = "sessions" [
        id_of(Processes, "process_id", "Process (`processes.id`)."),
        column(
            "session",
            Id,
            "Session number in the process: the position of its bit in `sessions` of spans and metrics. A later session may reuse it.",
        ),
        column("name", Text, "Path passed to `start`, made absolute."),
        column("start_nanos", Nanos, "Start of the session."),
        nullable("end_nanos", Nanos, "Time of `finalize`; null if the session was not finalized."),
    ]

    /// Phases of each session; a session that was never advanced has one.
    PHASES = "phases" [
        id_of(Processes, "process_id", "Process (`processes.id`)."),
        column("session", Id, "Session number in the process."),
        column("phase", Id, "Phase number, from 0."),
        column("start_nanos", Nanos, "Start of the phase."),
        nullable("end_nanos", Nanos, "End of the phase; null if it was not closed."),
    ]

    /// Intervals on host threads: scopes, states, modules, operators, frames, steps and runtime
    /// calls.
    SPANS = "spans" sorted by "start_nanos" [
        column("start_nanos", Nanos, "Start time."),
        column("duration_nanos", Nanos, "Inclusive duration."),
        column("children_nanos", Nanos, "Time in its direct child spans on the same thread."),
        id_of(Threads, "thread_id", "Thread (`threads.id`)."),
        id_of(Contexts, "context_id", "Context node (`contexts.id`)."),
        id_of(Strings, "name_id", "Name, the same as the context's (`strings.id`)."),
        column("sessions", Bits, "Bit mask of the sessions that recorded it."),
        column("phase", Id, "Phase of the first of these sessions in which the span ended."),
        column(
            "is_open",
            Flag,
            "Whether the span was still open when recording ended; its duration then lasts until that time.",
        ),
        CATEGORY_ID,
        CORRELATION_ID,
        EXTERNAL_ID,
        ARGS_ID,
        ARG_NUMBERS,
    ]

    /// Intervals that are not on a thread's stack, such as requests.
    ASYNC_SPANS = "async_spans" sorted by "start_nanos" [
        column("start_nanos", Nanos, "Start time."),
        column("duration_nanos", Nanos, "Duration."),
        id_of(Processes, "process_id", "Process (`processes.id`)."),
        id_of(
            Strings,
            "track_id",
            "Track that connects the intervals of one operation (`strings.id`).",
        ),
        id_of(Strings, "name_id", "Name (`strings.id`)."),
        IS_OPEN_INTERVAL,
        CATEGORY_ID,
        ARGS_ID,
        ARG_NUMBERS,
    ]

    /// Events without a duration.
    INSTANTS = "instants" sorted by "time_nanos" [
        column("time_nanos", Nanos, "Timestamp."),
        id_of(Processes, "process_id", "Process (`processes.id`)."),
        nullable_id_of(
            Threads,
            "thread_id",
            "Thread (`threads.id`); null if the event belongs to no thread.",
        ),
        column("scope", Text, "Scope of the event: thread, process or global."),
        id_of(Strings, "name_id", "Name (`strings.id`)."),
        CATEGORY_ID,
        ARGS_ID,
        ARG_NUMBERS,
    ]

    /// Points of flow arrows between spans. The points of one arrow have the same category and
    /// `flow_id`. Arrows from launches to activities are not stored; join by `correlation_id`.
    FLOWS = "flows" sorted by "time_nanos" [
        column("time_nanos", Nanos, "Timestamp of the point."),
        id_of(Threads, "thread_id", "Thread of the span (`threads.id`)."),
        column("flow_id", Bits, "Id of the arrow, unique within its category."),
        column("point", Text, "Role of the point: start, step or end."),
        IS_ENCLOSING,
        id_of(Strings, "name_id", "Name (`strings.id`)."),
        CATEGORY_ID,
        ARGS_ID,
        ARG_NUMBERS,
    ]

    /// Values recorded for metrics.
    METRICS = "metrics" sorted by "time_nanos" [
        column("time_nanos", Nanos, "Time of recording."),
        id_of(Threads, "thread_id", "Thread (`threads.id`)."),
        id_of(Contexts, "context_id", "Context node (`contexts.id`)."),
        id_of(Strings, "name_id", "Name of the metric, with its unit (`strings.id`)."),
        column("sessions", Bits, "Bit mask of the sessions that recorded it."),
        column(
            "phase",
            Id,
            "Phase of the first of these sessions in which the value was recorded.",
        ),
        nullable("value", Real, "Value as a floating-point number; null for texts and vectors."),
        nullable("integer", Int, "Value as an integer; null for other types."),
        nullable("text", Text, "Value as a text; null for other types."),
        nullable("vector", Reals, "Elements of a vector; null for other types."),
    ]

    /// Samples of hardware counters, mostly of devices. They belong to no thread.
    COUNTERS = "counters" sorted by "time_nanos" [
        column(
            "time_nanos",
            Nanos,
            "Time of the reading; counters read together have the same timestamp.",
        ),
        id_of(Processes, "process_id", "Process that read the counter (`processes.id`)."),
        nullable(
            "device",
            Id,
            "CUDA device number, as in `gpu_activities`; null if the counter is not of a device.",
        ),
        id_of(Strings, "name_id", "Name of the counter, with its unit (`strings.id`)."),
        column("value", Real, "Value."),
    ]

    /// Values attributed to call stacks, from sampling profilers and aggregated profiles. Each
    /// value is exclusive: it belongs to the innermost frame alone.
    SAMPLES = "samples" [
        id_of(Processes, "process_id", "Process (`processes.id`)."),
        nullable_id_of(Threads, "thread_id", "Thread (`threads.id`); null if unknown."),
        id_of(Contexts, "context_id", "Innermost frame of the stack (`contexts.id`)."),
        id_of(Strings, "name_id", "Name of the quantity, with its unit (`strings.id`)."),
        nullable("time_nanos", Nanos, "Time of the sample; null if unknown."),
        nullable("value", Real, "Value as a floating-point number; null for texts and vectors."),
        nullable("integer", Int, "Value as an integer; null for other types."),
        nullable("text", Text, "Value as a text; null for other types."),
        nullable("vector", Reals, "Elements of a vector; null for other types."),
        ARGS_ID,
        ARG_NUMBERS,
    ]

    /// Training steps of each process.
    STEPS = "steps" sorted by "start_nanos" [
        column("start_nanos", Nanos, "Start of the step."),
        column("duration_nanos", Nanos, "Duration."),
        id_of(Processes, "process_id", "Process (`processes.id`)."),
        id_of(Threads, "thread_id", "Thread (`threads.id`)."),
        id_of(Contexts, "context_id", "Context node (`contexts.id`)."),
        column("number", Id, "Step number in the process, from 0."),
    ]

    /// Activities of devices: kernels, copies, fills and synchronisations.
    GPU_ACTIVITIES = "gpu_activities" sorted by "start_nanos" [
        column("start_nanos", Nanos, "Start time on the device."),
        column("duration_nanos", Nanos, "Duration."),
        id_of(Processes, "process_id", "Process that launched the activity (`processes.id`)."),
        column("device", Id, "Device number in the process."),
        column("stream", Id, "Stream."),
        column("kind", Text, "Kind: kernel, memcpy, memset, sync, annotation or other."),
        id_of(Strings, "name_id", "Name (`strings.id`)."),
        nullable_id_of(Contexts, "context_id", "Context node of the launch (`contexts.id`)."),
        CORRELATION_ID,
        nullable("graph_node_id", Bits, "Graph node that launched the activity."),
        nullable("grid_x", Id, "Grid size in blocks, x."),
        nullable("grid_y", Id, "Grid size in blocks, y."),
        nullable("grid_z", Id, "Grid size in blocks, z."),
        nullable("block_x", Id, "Block size in threads, x."),
        nullable("block_y", Id, "Block size in threads, y."),
        nullable("block_z", Id, "Block size in threads, z."),
        nullable("registers", Id, "Registers per thread."),
        nullable("shared_bytes", Int, "Shared memory per block, static and dynamic."),
        nullable("bytes", Int, "Bytes copied or filled."),
        CATEGORY_ID,
        EXTERNAL_ID,
        ARGS_ID,
        ARG_NUMBERS,
    ]

    /// Collective operations and point-to-point messages, one row per rank.
    COLLECTIVES = "collectives" sorted by "start_nanos" [
        COLLECTIVE_START_NANOS,
        COLLECTIVE_DURATION_NANOS,
        nullable("created_nanos", Nanos, "Time of the call; null if unknown."),
        id_of(Processes, "process_id", "Process (`processes.id`)."),
        nullable("device", Id, "Device number in the process."),
        nullable("stream", Id, "Stream."),
        id_of(Strings, "name_id", "Operation, such as `allreduce` or `send` (`strings.id`)."),
        id_of(Strings, "group_id", "Name of the process group (`strings.id`)."),
        nullable_id_of(
            Strings,
            "group_ranks_id",
            "Ranks of the group, such as `0-3,8` (`strings.id`); groups of different ranks may have the same name.",
        ),
        nullable("group_size", Id, "Number of ranks in the group."),
        SEQUENCE,
        nullable_id_of(Strings, "dtype_id", "Element type (`strings.id`)."),
        nullable("in_elements", Int, "Number of input elements on this rank."),
        nullable("out_elements", Int, "Number of output elements on this rank."),
        column("state", Text, "State: scheduled, started or completed."),
        column("is_p2p", Flag, "Whether it is a point-to-point message."),
        nullable_id_of(Contexts, "context_id", "Context node of the call (`contexts.id`)."),
        ARGS_ID,
        ARG_NUMBERS,
    ]

    /// Values of watched variables (`marey watch`), one row per variable and recorded line.
    VARIABLES = "variables" sorted by "time_nanos" [
        column("time_nanos", Nanos, "Time at which the line began."),
        id_of(Processes, "process_id", "Process (`processes.id`)."),
        nullable_id_of(Threads, "thread_id", "Thread that ran the line (`threads.id`)."),
        id_of(Strings, "file_id", "File of the line (`strings.id`)."),
        id_of(Strings, "function_id", "Function of the line (`strings.id`)."),
        column("line", Id, "Number of the line, from 1."),
        id_of(Strings, "name_id", "Variable, attribute or item, as it was watched (`strings.id`)."),
        id_of(Strings, "type_id", "Name of the value's type (`strings.id`)."),
        nullable("value", Real, "Value as a floating-point number; null for texts."),
        nullable("integer", Int, "Value as an integer; null for other types."),
        nullable("text", Text, "Value as a text; null for numbers."),
        nullable("vector", Reals, "Null."),
    ]

    /// Events of memory allocators, and readings of their totals.
    MEMORY_EVENTS = "memory_events" sorted by "time_nanos" [
        column("time_nanos", Nanos, "Timestamp."),
        id_of(Processes, "process_id", "Process (`processes.id`)."),
        nullable_id_of(Threads, "thread_id", "Thread (`threads.id`); null if unknown."),
        MEMORY_ACTION,
        MEMORY_OWNER,
        nullable("device", Id, "Device number in the process."),
        nullable("stream", Bits, "Stream, as identified by the allocator."),
        nullable("address", Bits, "Address."),
        column("bytes", Int, "Size; 0 for a reading."),
        nullable("allocated_bytes", Int, "Total size allocated after the event."),
        nullable("reserved_bytes", Int, "Total size reserved by the allocator after the event."),
        PEAK_BYTES,
        nullable_id_of(
            Contexts,
            "context_id",
            "Context node or call stack of the event (`contexts.id`).",
        ),
        CATEGORY_ID,
        ARGS_ID,
        ARG_NUMBERS,
    ]

    /// Memory held by an allocator at the time of a snapshot: one row per block.
    MEMORY_SNAPSHOTS = "memory_snapshots" [
        column("time_nanos", Nanos, "Time of the snapshot."),
        id_of(Processes, "process_id", "Process (`processes.id`)."),
        column("device", Id, "Device number in the process."),
        nullable("stream", Bits, "Stream, as identified by the allocator."),
        column("segment_address", Bits, "Start address of the segment that contains the block."),
        column("segment_bytes", Int, "Size of the segment."),
        column("segment_type", Text, "Pool of the segment: small or large."),
        column("address", Bits, "Start address of the block."),
        column("bytes", Int, "Size of the block."),
        nullable("requested_bytes", Int, "Size requested by the program."),
        column("state", Text, "State of the block, in the allocator's terms."),
        nullable_id_of(Contexts, "context_id", "Call stack of the allocation (`contexts.id`)."),
        ARGS_ID,
        ARG_NUMBERS,
    ]

    /// Sums of spans by thread, context node and time bucket, at several bucket widths. Rows with
    /// the same key are to be combined: `min_nanos` by minimum, `max_nanos` by maximum, all others
    /// by addition.
    ROLLUPS = "rollups" [
        column(
            "bucket_nanos",
            Nanos,
            "Bucket width, a power of two; 0 for the whole recording of a process.",
        ),
        column("start_nanos", Nanos, "Start of the bucket, a multiple of its width."),
        id_of(Threads, "thread_id", "Thread (`threads.id`)."),
        id_of(Contexts, "context_id", "Context node (`contexts.id`)."),
        id_of(Strings, "name_id", "Name of the context node (`strings.id`)."),
        column("count", Int, "Number of spans that began in the bucket."),
        column("total_nanos", Nanos, "Inclusive time of spans within the bucket."),
        column("self_nanos", Nanos, "Exclusive time of spans within the bucket."),
        nullable("min_nanos", Nanos, "Duration of the shortest span that began in the bucket."),
        nullable("max_nanos", Nanos, "Duration of the longest span that began in the bucket."),
        nullable(
            "sketch",
            Bytes,
            "Quantile sketch of the durations; null unless `bucket_nanos` is 0.",
        ),
    ]

    /// Metadata of processes and threads, from the recorder or from an imported file.
    METADATA = "metadata" [
        id_of(Processes, "process_id", "Process (`processes.id`)."),
        nullable_id_of(Threads, "thread_id", "Thread (`threads.id`); null if there is none."),
        column("key", Text, "Key."),
        column("value", Text, "Value as JSON."),
    ]

    /// Lost events by process and cause. A cause without a row is zero.
    LOSSES = "losses" [
        id_of(Processes, "process_id", "Process (`processes.id`)."),
        column("cause", Text, "Cause of the loss, as listed in `docs/reference/losses.md`."),
        column("count", Int, "Number of events."),
    ]
}
