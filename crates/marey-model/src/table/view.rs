//! Declares the views over the stored tables, with names joined in place of ids.

use super::ColumnKind::{Bits, Flag, Id, Int, Nanos, Real, Reals, Text};
use super::{
    Column, Table, column, device_time, efficiency, launching, memory, nullable, recording,
    stepping, stored, training, waiting,
};

/// Every view. A view that is defined by another comes after it.
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
    &launching::RUNTIME_CALLS,
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
    &training::AUTOGRAD_CALLS,
    &training::MODULE_TIMES,
    &training::CONTEXT_MODULES,
    &training::TRACED_OPERATORS,
    &recording::RECORDING_OVERHEAD,
    &memory::MODULE_MEMORY,
];

/// Every view in the schema `python`, whose names and columns are those of another tool.
pub const PYTHON: &[&Table] = &[&memory::TORCH_TRACE, &recording::BACKTRACE, &recording::VARIABLES];

pub(super) const KIND: Column =
    column("kind", Text, "Kind: scope, state, module, operator, frame, step or runtime.");
pub(super) const PATH: Column =
    column("path", Text, "Path of names from the root, its own included, separated by `/`.");
pub(super) const THREAD: Column = column("thread", Text, "Thread name; may be empty.");
const MIN_NANOS: Column = nullable("min_nanos", Nanos, "Shortest duration.");
const MAX_NANOS: Column = nullable("max_nanos", Nanos, "Longest duration.");
const P50_NANOS: Column =
    nullable("p50_nanos", Nanos, "Median duration, with a relative error of at most 1/64.");
const P99_NANOS: Column = nullable(
    "p99_nanos",
    Nanos,
    "99th percentile of the durations, with a relative error of at most 1/64.",
);
pub(super) const MAYBE_THREAD: Column =
    nullable("thread", Text, "Thread name, which may be empty; null if there is no thread.");
pub(super) const PID: Column = column("pid", Int, "Process id in the operating system.");
pub(super) const RANK: Column = nullable("rank", Int, "Rank of the process in a distributed job.");
pub(super) const DEVICE: Column = column("device", Id, "Device number in the process.");
pub(super) const MAYBE_DEVICE: Column =
    nullable("device", Id, "Device number in the process; null if no device is concerned.");
pub(super) const GROUP_RANKS: Column = nullable(
    "group_ranks",
    Text,
    "Ranks of the group, such as `0-3,8`; null if unknown. Groups of different ranks may have the same name.",
);
const VALUE: Column =
    nullable("value", Real, "Value as a floating-point number; null for texts and vectors.");
const INTEGER: Column = nullable("integer", Int, "Value as an integer; null for other types.");
const TEXT: Column = nullable("text", Text, "Value as a text; null for other types.");
const VECTOR: Column = nullable("vector", Reals, "Elements of a vector; null for other types.");
const CATEGORY: Column = nullable("category", Text, "Category in the imported trace.");
pub(super) const PROCESS_ID: Column = column("process_id", Id, "Process (`processes.id`).");
pub(super) const THREAD_ID: Column = column("thread_id", Id, "Thread (`threads.id`).");
const MAYBE_THREAD_ID: Column =
    nullable("thread_id", Id, "Thread (`threads.id`); null if there is none.");
pub(super) const CONTEXT_ID: Column = column("context_id", Id, "Context node (`contexts.id`).");
pub(super) const LAUNCH_PATH: Column =
    nullable("path", Text, "Path of the launch, separated by `/`.");
pub(super) const LAUNCH_CONTEXT_ID: Column =
    nullable("context_id", Id, "Context node of the launch (`contexts.id`).");
const ALLOCATOR_STREAM: Column =
    nullable("stream", Bits, "Stream, as identified by the allocator.");
const ARGS: Column =
    nullable("args", Text, "Arguments of the event as a JSON object; `arg()` extracts values.");

tables! {
    /// Intervals on host threads: scopes, states, modules, operators, frames, steps and runtime
    /// calls.
    SPANS = "spans" [
        column("name", Text, "Name."),
        KIND,
        column("start_nanos", Nanos, "Start time."),
        column("end_nanos", Nanos, "End time."),
        column("duration_nanos", Nanos, "Inclusive duration."),
        column(
            "self_nanos",
            Nanos,
            "Exclusive duration: without direct child spans on the same thread.",
        ),
        PATH,
        column("depth", Id, "Depth in the calling-context tree: 1 for a span without parent."),
        THREAD,
        PID,
        RANK,
        column("phase", Id, "Phase in which the span ended."),
        column("is_open", Flag, "Whether the span was still open when recording ended."),
        CATEGORY,
        stored::CORRELATION_ID,
        stored::EXTERNAL_ID,
        PROCESS_ID,
        THREAD_ID,
        CONTEXT_ID,
        column("name_id", Id, "Name (`strings.id`)."),
        ARGS,
    ]

    /// The calling-context tree with sums over the whole run, computed from `rollups`: a flame
    /// graph.
    FLAME = "flame" [
        column("name", Text, "Name of the context node."),
        KIND,
        PATH,
        column("depth", Id, "Depth in the calling-context tree: 1 for a child of the root."),
        column("count", Int, "Number of spans."),
        column("total_nanos", Nanos, "Inclusive time."),
        column("self_nanos", Nanos, "Exclusive time."),
        MIN_NANOS,
        MAX_NANOS,
        P50_NANOS,
        P99_NANOS,
        column("context_id", Id, "Context node (`contexts.id`)."),
        nullable("parent_id", Id, "Parent (`contexts.id`); null for the root."),
    ]

    /// Sums by name over the whole run, computed from `rollups`.
    TOP = "top" [
        column("name", Text, "Name."),
        KIND,
        column("count", Int, "Number of spans."),
        column("total_nanos", Nanos, "Inclusive time. Recursive entries count once per level."),
        column("self_nanos", Nanos, "Exclusive time."),
        nullable("mean_nanos", Real, "`total_nanos` / `count`."),
        MIN_NANOS,
        MAX_NANOS,
        P50_NANOS,
        P99_NANOS,
    ]

    /// Training steps.
    STEPS = "steps" [
        column("number", Id, "Step number in the process, from 0."),
        column("start_nanos", Nanos, "Start time."),
        column("end_nanos", Nanos, "End time."),
        column("duration_nanos", Nanos, "Duration."),
        PATH,
        THREAD,
        PID,
        RANK,
        PROCESS_ID,
        THREAD_ID,
        CONTEXT_ID,
    ]

    /// Values of metrics and samples of device counters over time.
    COUNTERS = "counters" [
        column(
            "time_nanos",
            Nanos,
            "Time of recording; counters read together have the same timestamp.",
        ),
        column("name", Text, "Name of the metric or counter, with its unit if any."),
        VALUE,
        INTEGER,
        TEXT,
        VECTOR,
        nullable(
            "device",
            Id,
            "CUDA device number, as in `gpu_activities`; null if the value is not of a device.",
        ),
        nullable(
            "path",
            Text,
            "Path of the context node of a metric value, separated by `/`; empty outside all scopes; null for counters.",
        ),
        MAYBE_THREAD,
        PID,
        RANK,
        nullable("phase", Id, "Phase in which the value was recorded; null for counters."),
        PROCESS_ID,
        MAYBE_THREAD_ID,
        nullable("context_id", Id, "Context node (`contexts.id`); null for counters."),
    ]

    /// Activities of devices (kernels, copies, fills and synchronisations) with the path of their
    /// launch.
    GPU_ACTIVITIES = "gpu_activities" [
        column("name", Text, "Name."),
        column("kind", Text, "Kind: kernel, memcpy, memset, sync, annotation or other."),
        column("start_nanos", Nanos, "Start time on the device."),
        column("end_nanos", Nanos, "End time on the device."),
        column("duration_nanos", Nanos, "Duration."),
        DEVICE,
        column("stream", Id, "Stream; 4294967295 for none."),
        LAUNCH_PATH,
        nullable("grid", Text, "Grid size in blocks, as `x,y,z`."),
        nullable("block", Text, "Block size in threads, as `x,y,z`."),
        nullable("registers", Id, "Registers per thread."),
        nullable("shared_bytes", Int, "Shared memory per block, static and dynamic."),
        nullable("bytes", Int, "Bytes copied or filled."),
        nullable("graph_node_id", Bits, "Graph node that launched the activity."),
        CATEGORY,
        stored::CORRELATION_ID,
        stored::EXTERNAL_ID,
        PID,
        RANK,
        PROCESS_ID,
        LAUNCH_CONTEXT_ID,
        ARGS,
    ]

    /// Kernels with the path of their launch.
    KERNELS = "kernels" [
        column("name", Text, "Name of the kernel."),
        column("start_nanos", Nanos, "Start time on the device."),
        column("end_nanos", Nanos, "End time on the device."),
        column("duration_nanos", Nanos, "Duration."),
        DEVICE,
        column("stream", Id, "Stream; 4294967295 for none."),
        LAUNCH_PATH,
        nullable("grid", Text, "Grid size in blocks, as `x,y,z`."),
        nullable("block", Text, "Block size in threads, as `x,y,z`."),
        nullable("registers", Id, "Registers per thread."),
        nullable("shared_bytes", Int, "Shared memory per block, static and dynamic."),
        nullable("graph_node_id", Bits, "Graph node that launched the activity."),
        CATEGORY,
        stored::CORRELATION_ID,
        stored::EXTERNAL_ID,
        PID,
        RANK,
        PROCESS_ID,
        LAUNCH_CONTEXT_ID,
        ARGS,
    ]

    /// Collective operations and point-to-point messages, one row per rank.
    COLLECTIVES = "collectives" [
        column("name", Text, "Operation, such as `allreduce` or `send`."),
        column("process_group", Text, "Name of the process group."),
        GROUP_RANKS,
        nullable("group_size", Id, "Number of ranks in the group."),
        stored::SEQUENCE,
        stored::COLLECTIVE_START_NANOS,
        nullable(
            "end_nanos",
            Nanos,
            "End time; of the call if it is scheduled; null if it did not end.",
        ),
        stored::COLLECTIVE_DURATION_NANOS,
        nullable("created_nanos", Nanos, "Time of the call; null if unknown."),
        column("state", Text, "State: scheduled, started or completed."),
        column("is_p2p", Flag, "Whether it is a point-to-point message."),
        nullable("dtype", Text, "Element type."),
        nullable("in_elements", Int, "Number of input elements on this rank."),
        nullable("out_elements", Int, "Number of output elements on this rank."),
        nullable(
            "bytes",
            Int,
            "Size of the larger of input and output on this rank; null if the type is unknown.",
        ),
        MAYBE_DEVICE,
        nullable("stream", Id, "Stream."),
        nullable("path", Text, "Path of the call, separated by `/`."),
        PID,
        RANK,
        PROCESS_ID,
        nullable("context_id", Id, "Context node of the call (`contexts.id`)."),
        ARGS,
    ]

    /// Intervals that are not on a thread's stack, such as requests.
    ASYNC_SPANS = "async_spans" [
        column("name", Text, "Name."),
        column("track", Text, "Track that connects the intervals of one operation."),
        column("start_nanos", Nanos, "Start time."),
        column("end_nanos", Nanos, "End time."),
        column("duration_nanos", Nanos, "Duration."),
        stored::IS_OPEN_INTERVAL,
        CATEGORY,
        PID,
        RANK,
        PROCESS_ID,
        ARGS,
    ]

    /// Events without a duration.
    INSTANTS = "instants" [
        column("time_nanos", Nanos, "Timestamp."),
        column("name", Text, "Name."),
        column("scope", Text, "Scope of the event: thread, process or global."),
        CATEGORY,
        MAYBE_THREAD,
        PID,
        RANK,
        PROCESS_ID,
        MAYBE_THREAD_ID,
        ARGS,
    ]

    /// Points of flow arrows between spans. The points of one arrow have the same category and
    /// `flow_id`. Arrows from launches to activities are not stored; join by `correlation_id`.
    FLOWS = "flows" [
        column("time_nanos", Nanos, "Timestamp of the point."),
        column("name", Text, "Name."),
        column("flow_id", Bits, "Id of the arrow, unique within its category."),
        column("point", Text, "Role of the point: start, step or end."),
        stored::IS_ENCLOSING,
        CATEGORY,
        THREAD,
        PID,
        RANK,
        PROCESS_ID,
        THREAD_ID,
        ARGS,
    ]

    /// Values attributed to call stacks, from sampling profilers and aggregated profiles. Each
    /// value is exclusive: it belongs to the innermost frame alone.
    SAMPLES = "samples" [
        nullable("time_nanos", Nanos, "Time of the sample; null if unknown."),
        column("name", Text, "Name of the quantity, with its unit."),
        VALUE,
        INTEGER,
        TEXT,
        VECTOR,
        column(
            "path",
            Text,
            "Frames of the stack from the outermost to the innermost, separated by `/`.",
        ),
        column("depth", Id, "Number of frames."),
        MAYBE_THREAD,
        PID,
        RANK,
        PROCESS_ID,
        MAYBE_THREAD_ID,
        column("context_id", Id, "Innermost frame of the stack (`contexts.id`)."),
        ARGS,
    ]

    /// Events of memory allocators, and readings of their totals.
    MEMORY_EVENTS = "memory_events" [
        column("time_nanos", Nanos, "Timestamp."),
        stored::MEMORY_ACTION,
        column("bytes", Int, "Size; 0 for a reading."),
        stored::MEMORY_OWNER,
        MAYBE_DEVICE,
        ALLOCATOR_STREAM,
        nullable("address", Bits, "Address."),
        nullable("allocated_bytes", Int, "Total size allocated after the event."),
        nullable("reserved_bytes", Int, "Total size reserved by the allocator after the event."),
        stored::PEAK_BYTES,
        nullable(
            "path",
            Text,
            "Path of the context node, or call stack from the outermost to the innermost frame, separated by `/`.",
        ),
        CATEGORY,
        MAYBE_THREAD,
        PID,
        RANK,
        PROCESS_ID,
        MAYBE_THREAD_ID,
        nullable("context_id", Id, "Call stack (`contexts.id`)."),
        ARGS,
    ]

    /// Memory held by an allocator at the time of a snapshot: one row per block.
    MEMORY_SNAPSHOTS = "memory_snapshots" [
        column("time_nanos", Nanos, "Time of the snapshot."),
        column("state", Text, "State of the block, in the allocator's terms."),
        column("bytes", Int, "Size of the block."),
        nullable("requested_bytes", Int, "Size requested by the program."),
        column("address", Bits, "Start address of the block."),
        DEVICE,
        ALLOCATOR_STREAM,
        column("segment_address", Bits, "Start address of the segment that contains the block."),
        column("segment_bytes", Int, "Size of the segment."),
        column("segment_type", Text, "Pool of the segment: small or large."),
        nullable(
            "path",
            Text,
            "Call stack of the allocation, from the outermost to the innermost frame, separated by `/`.",
        ),
        PID,
        RANK,
        PROCESS_ID,
        nullable("context_id", Id, "Call stack of the allocation (`contexts.id`)."),
        ARGS,
    ]

    /// Devices of each process.
    DEVICES = "devices" [
        DEVICE,
        column("name", Text, "Model name; may be empty."),
        column("type", Text, "Platform, such as `CUDA` or `HIP`."),
        column("properties", Text, "Properties of the device as a JSON object."),
        PID,
        RANK,
        PROCESS_ID,
    ]

    /// Metadata of processes and threads, from the recorder or from an imported file.
    METADATA = "metadata" [
        column("key", Text, "Key."),
        column("value", Text, "Value as JSON."),
        MAYBE_THREAD,
        PID,
        RANK,
        PROCESS_ID,
        MAYBE_THREAD_ID,
    ]
}
