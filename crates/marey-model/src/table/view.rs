//! The views over the stored tables: what people query, without a join.

use super::ColumnKind::{Bits, Flag, Id, Int, Nanos, Real, Reals, Text};
use super::{Column, Table, column, device_time, efficiency, launching, maybe, stepping, waiting};

/// Every view; one that is made of another comes after it.
pub const ALL: &[&Table] = &[
    &SPANS,
    &FLAME,
    &TOP,
    &STEPS,
    &COUNTERS,
    &GPU_ACTIVITIES,
    &KERNELS,
    &COLLECTIVES,
    &ASYNC_SPANS,
    &INSTANTS,
    &FLOWS,
    &SAMPLES,
    &MEMORY_EVENTS,
    &MEMORY_SNAPSHOTS,
    &DEVICES,
    &METADATA,
    &stepping::STEP_SUMMARY,
    &device_time::GPU_TIME,
    &device_time::GPU_TIME_BY_STEP,
    &device_time::KERNEL_SUMMARY,
    &device_time::GPU_COPIES,
    &launching::OPERATOR_KERNELS,
    &device_time::GPU_ANNOTATIONS,
    &launching::STRAGGLERS,
    &stepping::RANK_ARRIVALS,
    &launching::LAUNCHES,
    &launching::QUEUE_LENGTH,
    &launching::QUEUE_SUMMARY,
    &launching::GPU_GAPS,
    &stepping::STEP_TIMES,
    &stepping::STEP_MEMORY,
    &stepping::STEP_KERNELS,
    &waiting::DEVICE_IDLE,
    &waiting::KERNEL_SEQUENCES,
    &waiting::CRITICAL_PATH,
    &efficiency::KERNEL_OCCUPANCY,
    &efficiency::COLLECTIVE_BANDWIDTH,
    &efficiency::KERNEL_ROOFLINE,
    &efficiency::ROOFLINE,
    &efficiency::MFU,
];

pub(super) const KIND: Column =
    column("kind", Text, "What it is: scope, state, module, operator, frame, step or runtime.");
pub(super) const PATH: Column =
    column("path", Text, "The names around it and its own, separated by `/`.");
pub(super) const THREAD: Column = column("thread", Text, "Name of its thread; may be empty.");
pub(super) const MAYBE_THREAD: Column =
    maybe("thread", Text, "Name of its thread, if it is of one; may be empty.");
pub(super) const PID: Column = column("pid", Int, "Id of its process in the system.");
pub(super) const RANK: Column = maybe("rank", Int, "Rank of its process in a distributed job.");
pub(super) const DEVICE: Column = column("device", Id, "Number of the device in its process.");
pub(super) const MAYBE_DEVICE: Column =
    maybe("device", Id, "Number of the device in its process, if it is of one.");
pub(super) const GROUP_RANKS: Column = maybe(
    "group_ranks",
    Text,
    "Ranks of the group, as `0-3,8`, if they are known: groups of different ranks may share a name.",
);
const VALUE: Column = maybe("value", Real, "The value, if it is one number.");
const INTEGER: Column = maybe("integer", Int, "The value, if it is a whole number.");
const TEXT: Column = maybe("text", Text, "The value, if it is a text.");
const VECTOR: Column = maybe("vector", Reals, "The values, if it is a list of numbers.");
const CATEGORY: Column = maybe("category", Text, "The category that a foreign trace gave it.");
pub(super) const CORRELATION_ID: Column =
    maybe("correlation_id", Bits, "The number that a launch and what it launched share.");
const EXTERNAL_ID: Column =
    maybe("external_id", Bits, "The number of an operator, by which what it launched names it.");
pub(super) const PROCESS_ID: Column = column("process_id", Id, "Its process, in processes.");
pub(super) const THREAD_ID: Column = column("thread_id", Id, "Its thread, in threads.");
const MAYBE_THREAD_ID: Column = maybe("thread_id", Id, "Its thread, in threads, if it is of one.");
pub(super) const CONTEXT_ID: Column =
    column("context_id", Id, "Its place in the calling-context tree, in contexts.");
pub(super) const LAUNCH_PATH: Column =
    maybe("path", Text, "The names around its launch, separated by `/`.");
pub(super) const LAUNCH_CONTEXT_ID: Column =
    maybe("context_id", Id, "Where it was launched, in contexts.");
const ALLOCATOR_STREAM: Column = maybe("stream", Bits, "The stream, as the allocator names it.");
const ARGS: Column =
    maybe("args", Text, "What else is known of it, as a JSON object; `arg()` takes values out.");

/// Spans with their names.
pub const SPANS: Table = Table {
    name: "spans",
    doc: "Everything that was entered and left: scopes, states, modules, operators, steps.",
    columns: &[
        column("name", Text, "Its name."),
        KIND,
        column("start_nanos", Nanos, "When it was entered."),
        column("end_nanos", Nanos, "When it was left."),
        column("duration_nanos", Nanos, "How long it was open."),
        column("self_nanos", Nanos, "How long, without spans directly inside it on its thread."),
        PATH,
        column("depth", Id, "Spans around it, itself included."),
        THREAD,
        PID,
        RANK,
        column("phase", Id, "The phase in which it was left."),
        column("is_open", Flag, "Whether it was still open at the end of the recording."),
        CATEGORY,
        CORRELATION_ID,
        EXTERNAL_ID,
        PROCESS_ID,
        THREAD_ID,
        CONTEXT_ID,
        column("name_id", Id, "Its name, in strings."),
        ARGS,
    ],
    sorted_by: None,
};

/// Sums by context.
pub const FLAME: Table = Table {
    name: "flame",
    doc: "The calling-context tree with sums over the whole run, from rollups: a flame graph.",
    columns: &[
        column("name", Text, "Name of the context."),
        KIND,
        PATH,
        column("depth", Id, "Contexts around it, itself included."),
        column("count", Int, "How often it was entered."),
        column("total_nanos", Nanos, "Time in it."),
        column("self_nanos", Nanos, "Time in it, without contexts directly inside it."),
        maybe("min_nanos", Nanos, "The shortest."),
        maybe("max_nanos", Nanos, "The longest."),
        maybe("p50_nanos", Nanos, "The median, to 1 part in 64."),
        maybe("p99_nanos", Nanos, "The 99th percentile, to 1 part in 64."),
        column("context_id", Id, "Its number, in contexts."),
        maybe("parent_id", Id, "Number of the context around it."),
    ],
    sorted_by: None,
};

/// Sums by name.
pub const TOP: Table = Table {
    name: "top",
    doc: "Sums by name over the whole run, from rollups: where the time went.",
    columns: &[
        column("name", Text, "The name."),
        KIND,
        column("count", Int, "How often it was entered."),
        column(
            "total_nanos",
            Nanos,
            "Time in it; where it is entered inside itself, counted each time.",
        ),
        column("self_nanos", Nanos, "Time in it, without what is directly inside it."),
        maybe("mean_nanos", Real, "`total_nanos` divided by `count`."),
        maybe("min_nanos", Nanos, "The shortest."),
        maybe("max_nanos", Nanos, "The longest."),
        maybe("p50_nanos", Nanos, "The median, to 1 part in 64."),
        maybe("p99_nanos", Nanos, "The 99th percentile, to 1 part in 64."),
    ],
    sorted_by: None,
};

/// Training steps.
pub const STEPS: Table = Table {
    name: "steps",
    doc: "The training steps.",
    columns: &[
        column("number", Id, "Number of the step in its process; the first is 0."),
        column("start_nanos", Nanos, "When it began."),
        column("end_nanos", Nanos, "When it ended."),
        column("duration_nanos", Nanos, "How long it took."),
        PATH,
        THREAD,
        PID,
        RANK,
        PROCESS_ID,
        THREAD_ID,
        CONTEXT_ID,
    ],
    sorted_by: None,
};

/// Values of metrics and of counters.
pub const COUNTERS: Table = Table {
    name: "counters",
    doc: "Every value that was added to a metric, and what counters of devices said, over time.",
    columns: &[
        column(
            "time_nanos",
            Nanos,
            "When it was added or read; what was read together has one time.",
        ),
        column("name", Text, "Name of the metric or counter, with its unit if it has one."),
        VALUE,
        INTEGER,
        TEXT,
        VECTOR,
        maybe(
            "device",
            Id,
            "CUDA's number of the device, as kernels have it, if it is a counter of one.",
        ),
        maybe(
            "path",
            Text,
            "The names around a value that was added, separated by `/`; empty outside of all scopes.",
        ),
        MAYBE_THREAD,
        PID,
        RANK,
        maybe("phase", Id, "The phase in which it was added, if it is a metric."),
        PROCESS_ID,
        MAYBE_THREAD_ID,
        maybe(
            "context_id",
            Id,
            "Its place in the calling-context tree, in contexts, if it is a metric.",
        ),
    ],
    sorted_by: None,
};

/// What devices did.
pub const GPU_ACTIVITIES: Table = Table {
    name: "gpu_activities",
    doc: "What devices did: kernels, copies, fills and waits, under the line that launched them.",
    columns: &[
        column("name", Text, "Its name."),
        column("kind", Text, "What it is: kernel, memcpy, memset, sync, annotation or other."),
        column("start_nanos", Nanos, "When the device began."),
        column("end_nanos", Nanos, "When the device was done."),
        column("duration_nanos", Nanos, "How long it took."),
        DEVICE,
        column("stream", Id, "The stream that it ran on; 4294967295 for none."),
        LAUNCH_PATH,
        maybe("grid", Text, "Blocks of the grid, as `x,y,z`."),
        maybe("block", Text, "Threads of a block, as `x,y,z`."),
        maybe("registers", Id, "Registers of a thread."),
        maybe("shared_bytes", Int, "Shared memory of a block in bytes, static and dynamic."),
        maybe("bytes", Int, "Bytes that were copied or filled."),
        maybe("graph_node_id", Bits, "The node of the device graph that it was launched by."),
        CATEGORY,
        CORRELATION_ID,
        EXTERNAL_ID,
        PID,
        RANK,
        PROCESS_ID,
        LAUNCH_CONTEXT_ID,
        ARGS,
    ],
    sorted_by: None,
};

/// Kernels.
pub const KERNELS: Table = Table {
    name: "kernels",
    doc: "The kernels that ran on devices, under the line that launched them.",
    columns: &[
        column("name", Text, "Name of the kernel."),
        column("start_nanos", Nanos, "When the device began."),
        column("end_nanos", Nanos, "When the device was done."),
        column("duration_nanos", Nanos, "How long it took."),
        DEVICE,
        column("stream", Id, "The stream that it ran on; 4294967295 for none."),
        LAUNCH_PATH,
        maybe("grid", Text, "Blocks of the grid, as `x,y,z`."),
        maybe("block", Text, "Threads of a block, as `x,y,z`."),
        maybe("registers", Id, "Registers of a thread."),
        maybe("shared_bytes", Int, "Shared memory of a block in bytes, static and dynamic."),
        maybe("graph_node_id", Bits, "The node of the device graph that it was launched by."),
        CATEGORY,
        CORRELATION_ID,
        EXTERNAL_ID,
        PID,
        RANK,
        PROCESS_ID,
        LAUNCH_CONTEXT_ID,
        ARGS,
    ],
    sorted_by: None,
};

/// Collectives.
pub const COLLECTIVES: Table = Table {
    name: "collectives",
    doc: "Communication between ranks, as each rank saw it.",
    columns: &[
        column("name", Text, "What it is, such as allreduce or send."),
        column("process_group", Text, "Name of the process group."),
        GROUP_RANKS,
        maybe("group_size", Id, "How many ranks the group has."),
        maybe("sequence", Int, "Number of the collective in its group: the same on all ranks."),
        column(
            "start_nanos",
            Nanos,
            "When it began on this rank; where that is unknown, when it was asked for.",
        ),
        maybe("end_nanos", Nanos, "When it was done, if it ended."),
        maybe("duration_nanos", Nanos, "How long it took, if it ended."),
        maybe("created_nanos", Nanos, "When it was asked for, if that is known."),
        column("state", Text, "How far it came: scheduled, started or completed."),
        column("is_p2p", Flag, "Whether it is between two ranks only."),
        maybe("dtype", Text, "Type of the elements."),
        maybe("in_elements", Int, "Elements that this rank gave."),
        maybe("out_elements", Int, "Elements that this rank got."),
        MAYBE_DEVICE,
        maybe("stream", Id, "The stream that it ran on."),
        maybe("path", Text, "The names around where it was asked for, separated by `/`."),
        PID,
        RANK,
        PROCESS_ID,
        maybe("context_id", Id, "Where it was asked for, in contexts."),
        ARGS,
    ],
    sorted_by: None,
};

/// Spans beside the stacks of threads.
pub const ASYNC_SPANS: Table = Table {
    name: "async_spans",
    doc: "What lasted a while without being on the stack of a thread, such as requests.",
    columns: &[
        column("name", Text, "Its name."),
        column("track", Text, "What is one thing going on: its parts have the same track."),
        column("start_nanos", Nanos, "When it began."),
        column("end_nanos", Nanos, "When it ended."),
        column("duration_nanos", Nanos, "How long it lasted."),
        column(
            "is_open",
            Flag,
            "Whether its end is unknown; its duration goes to the last moment.",
        ),
        CATEGORY,
        PID,
        RANK,
        PROCESS_ID,
        ARGS,
    ],
    sorted_by: None,
};

/// Moments.
pub const INSTANTS: Table = Table {
    name: "instants",
    doc: "What happened at a moment, without lasting.",
    columns: &[
        column("time_nanos", Nanos, "When."),
        column("name", Text, "Its name."),
        column("scope", Text, "What it concerns: thread, process or global."),
        CATEGORY,
        MAYBE_THREAD,
        PID,
        RANK,
        PROCESS_ID,
        MAYBE_THREAD_ID,
        ARGS,
    ],
    sorted_by: None,
};

/// Points of flows.
pub const FLOWS: Table = Table {
    name: "flows",
    doc: "The points of arrows between spans: those of one arrow share category and id. Arrows from launches to devices are not here: see `correlation_id`.",
    columns: &[
        column("time_nanos", Nanos, "When the arrow passes here."),
        column("name", Text, "Its name."),
        column("flow_id", Bits, "Number of the arrow in its category."),
        column("point", Text, "Which point it is: start, step or end."),
        column(
            "is_enclosing",
            Flag,
            "Whether the span is the one around that moment; if not, it is the next one to begin.",
        ),
        CATEGORY,
        THREAD,
        PID,
        RANK,
        PROCESS_ID,
        THREAD_ID,
        ARGS,
    ],
    sorted_by: None,
};

/// Values by call stack.
pub const SAMPLES: Table = Table {
    name: "samples",
    doc: "Values by call stack, as sampling profilers and added-up profiles give them: each is of its stack's innermost frame alone.",
    columns: &[
        maybe("time_nanos", Nanos, "When it was taken, if that is known."),
        column("name", Text, "What the value is, with its unit."),
        VALUE,
        INTEGER,
        TEXT,
        VECTOR,
        column("path", Text, "The names of the stack from the outermost, separated by `/`."),
        column("depth", Id, "Frames of the stack."),
        MAYBE_THREAD,
        PID,
        RANK,
        PROCESS_ID,
        MAYBE_THREAD_ID,
        column("context_id", Id, "The stack: its innermost frame, in contexts."),
        ARGS,
    ],
    sorted_by: None,
};

/// What an allocator did.
pub const MEMORY_EVENTS: Table = Table {
    name: "memory_events",
    doc: "What allocators of memory did.",
    columns: &[
        column("time_nanos", Nanos, "When."),
        column(
            "action",
            Text,
            "What was done: alloc, free, free_requested, segment_alloc, segment_free, segment_map, segment_unmap, snapshot, oom or other.",
        ),
        column("bytes", Int, "How much."),
        column("device_type", Text, "Whose memory: cpu, cuda or another."),
        MAYBE_DEVICE,
        ALLOCATOR_STREAM,
        maybe("address", Bits, "Where."),
        maybe("allocated_bytes", Int, "What is allocated in all, afterwards."),
        maybe("reserved_bytes", Int, "What the allocator holds in all, afterwards."),
        maybe("path", Text, "The call stack: its names from the outermost, separated by `/`."),
        CATEGORY,
        MAYBE_THREAD,
        PID,
        RANK,
        PROCESS_ID,
        MAYBE_THREAD_ID,
        maybe("context_id", Id, "The call stack, in contexts."),
        ARGS,
    ],
    sorted_by: None,
};

/// Blocks of memory.
pub const MEMORY_SNAPSHOTS: Table = Table {
    name: "memory_snapshots",
    doc: "What an allocator held when a snapshot was taken: one row for each block.",
    columns: &[
        column("time_nanos", Nanos, "When the snapshot was taken."),
        column("state", Text, "What the block is, in the allocator's own word."),
        column("bytes", Int, "Its length."),
        maybe("requested_bytes", Int, "What was asked for."),
        column("address", Bits, "Where it begins."),
        DEVICE,
        ALLOCATOR_STREAM,
        column("segment_address", Bits, "Where the segment begins that it is of."),
        column("segment_bytes", Int, "Length of the segment."),
        column("segment_type", Text, "Pool of the segment: small or large."),
        maybe(
            "path",
            Text,
            "The call stack of its allocation: its names from the outermost, separated by `/`.",
        ),
        PID,
        RANK,
        PROCESS_ID,
        maybe("context_id", Id, "The call stack of its allocation, in contexts."),
        ARGS,
    ],
    sorted_by: None,
};

/// Devices.
pub const DEVICES: Table = Table {
    name: "devices",
    doc: "The devices that the processes had.",
    columns: &[
        DEVICE,
        column("name", Text, "Name of the model; may be empty."),
        column("type", Text, "What it is, as CUDA or HIP."),
        column("properties", Text, "All that is known of it, as a JSON object."),
        PID,
        RANK,
        PROCESS_ID,
    ],
    sorted_by: None,
};

/// Metadata.
pub const METADATA: Table = Table {
    name: "metadata",
    doc: "What a foreign file says of itself, its processes and threads, beside its events.",
    columns: &[
        column("key", Text, "What it is."),
        column("value", Text, "The value as JSON."),
        MAYBE_THREAD,
        PID,
        RANK,
        PROCESS_ID,
        MAYBE_THREAD_ID,
    ],
    sorted_by: None,
};
