//! The rows, one struct a table.

use std::sync::Arc;

use arrow::array::ArrayRef;
use marey_model::metric::MetricValue;
use marey_model::table::{Table, stored};

use super::{
    ActivityKind, Args, Bytes, CollectiveState, Damaged, Field, FlowPoint, InstantScope,
    MemoryAction, Row, rows,
};

rows! {
    /// Something that was entered and left.
    Span of SPANS by (start_nanos) {
        /// When it began, in nanoseconds since 1970.
        start_nanos: i64,
        /// How long it lasted, in nanoseconds.
        duration_nanos: i64,
        /// Time in spans directly inside it.
        children_nanos: i64,
        /// Its thread.
        thread_id: u32,
        /// Its context, whose name is its own.
        context_id: u32,
        /// Its name.
        name_id: u32,
        /// The sessions that recorded it, one bit each; an imported one has none.
        sessions: u64,
        /// The phase in which it was left.
        phase: u32,
        /// Whether its end is unknown.
        is_open: bool,
        /// The category that a foreign trace gave it.
        category_id: Option<u32>,
        /// The number that a launch and what it launched share.
        correlation_id: Option<u64>,
        /// The number by which what it launched names it.
        external_id: Option<u64>,
        /// What else is known of it.
        args: Args,
    }

    /// Something that lasted beside the stacks of threads.
    AsyncSpan of ASYNC_SPANS by (start_nanos) {
        /// When it began, in nanoseconds since 1970.
        start_nanos: i64,
        /// How long it lasted, in nanoseconds.
        duration_nanos: i64,
        /// Its process.
        process_id: u32,
        /// What is one thing going on.
        track_id: u32,
        /// Its name.
        name_id: u32,
        /// Whether its end is unknown.
        is_open: bool,
        /// The category that a foreign trace gave it.
        category_id: Option<u32>,
        /// What else is known of it.
        args: Args,
    }

    /// Something that happened at a moment.
    Instant of INSTANTS by (time_nanos) {
        /// When, in nanoseconds since 1970.
        time_nanos: i64,
        /// Its process.
        process_id: u32,
        /// Its thread, if it is of one.
        thread_id: Option<u32>,
        /// What it concerns.
        scope: InstantScope,
        /// Its name.
        name_id: u32,
        /// The category that a foreign trace gave it.
        category_id: Option<u32>,
        /// What else is known of it.
        args: Args,
    }

    /// A point of an arrow between spans.
    Flow of FLOWS by (time_nanos) {
        /// When, in nanoseconds since 1970.
        time_nanos: i64,
        /// Its thread.
        thread_id: u32,
        /// Number of the arrow in its category.
        flow_id: u64,
        /// Which point it is.
        point: FlowPoint,
        /// Whether the span is the one around that moment, not the next to begin.
        is_enclosing: bool,
        /// Its name.
        name_id: u32,
        /// The category that a foreign trace gave it.
        category_id: Option<u32>,
        /// What else is known of it.
        args: Args,
    }

    /// A value of a metric.
    Metric of METRICS by (time_nanos) {
        /// When, in nanoseconds since 1970.
        time_nanos: i64,
        /// Its thread.
        thread_id: u32,
        /// Where in the tree.
        context_id: u32,
        /// Its name.
        name_id: u32,
        /// The sessions that recorded it; an imported one has none.
        sessions: u64,
        /// The phase in which it was added.
        phase: u32,
        /// The value.
        value: MetricValue,
    }

    /// What a counter said.
    Counter of COUNTERS by (time_nanos) {
        /// When, in nanoseconds since 1970.
        time_nanos: i64,
        /// The process that read it.
        process_id: u32,
        /// Number of the device, if it is of one.
        device: Option<u32>,
        /// Its name.
        name_id: u32,
        /// The value.
        value: f64,
    }

    /// A value of a call stack.
    Sample of SAMPLES by () {
        /// Its process.
        process_id: u32,
        /// Its thread, if it is of one.
        thread_id: Option<u32>,
        /// The stack: its innermost frame.
        context_id: u32,
        /// What the value is, with its unit.
        name_id: u32,
        /// When it was taken, if that is known.
        time_nanos: Option<i64>,
        /// The value.
        value: MetricValue,
        /// What else is known of it.
        args: Args,
    }

    /// A training step.
    Step of STEPS by (start_nanos) {
        /// When it began, in nanoseconds since 1970.
        start_nanos: i64,
        /// How long it lasted, in nanoseconds.
        duration_nanos: i64,
        /// Its process.
        process_id: u32,
        /// Its thread.
        thread_id: u32,
        /// Its context.
        context_id: u32,
        /// Its number.
        number: u32,
    }

    /// What a device did.
    GpuActivity of GPU_ACTIVITIES by (start_nanos) {
        /// When it began, in nanoseconds since 1970.
        start_nanos: i64,
        /// How long it lasted, in nanoseconds.
        duration_nanos: i64,
        /// The process that launched it.
        process_id: u32,
        /// Number of the device in its process.
        device: u32,
        /// The stream that it ran on; `u32::MAX` for none, as CUPTI has it.
        stream: u32,
        /// What it is.
        kind: ActivityKind,
        /// Its name.
        name_id: u32,
        /// Where it was launched.
        context_id: Option<u32>,
        /// The number that a launch and what it launched share.
        correlation_id: Option<u64>,
        /// The node of the device graph.
        graph_node_id: Option<u64>,
        /// Blocks of the grid.
        grid: Option<[u32; 3]>,
        /// Threads of a block.
        block: Option<[u32; 3]>,
        /// Registers of a thread.
        registers: Option<u32>,
        /// Shared memory of a block.
        shared_bytes: Option<i64>,
        /// Bytes that were copied or filled.
        bytes: Option<i64>,
        /// The category that a foreign trace gave it.
        category_id: Option<u32>,
        /// The number of the operator that it is of.
        external_id: Option<u64>,
        /// What else is known of it.
        args: Args,
    }

    /// Communication between ranks.
    Collective of COLLECTIVES by (start_nanos) {
        /// When it began, in nanoseconds since 1970.
        start_nanos: i64,
        /// How long it took, if it ended.
        duration_nanos: Option<i64>,
        /// When it was asked for.
        created_nanos: Option<i64>,
        /// Its process.
        process_id: u32,
        /// Number of the device.
        device: Option<u32>,
        /// The stream.
        stream: Option<u32>,
        /// What it is.
        name_id: u32,
        /// Name of the process group.
        group_id: u32,
        /// Ranks of the group, as `0-3,8`.
        group_ranks_id: Option<u32>,
        /// How many ranks the group has.
        group_size: Option<u32>,
        /// Its number in the group.
        sequence: Option<i64>,
        /// Type of the elements.
        dtype_id: Option<u32>,
        /// Elements that this rank gave.
        in_elements: Option<i64>,
        /// Elements that this rank got.
        out_elements: Option<i64>,
        /// How far it came.
        state: CollectiveState,
        /// Whether it is between two ranks only.
        is_p2p: bool,
        /// Where it was asked for.
        context_id: Option<u32>,
        /// What else is known of it.
        args: Args,
    }

    /// What an allocator did.
    MemoryEvent of MEMORY_EVENTS by (time_nanos) {
        /// When, in nanoseconds since 1970.
        time_nanos: i64,
        /// Its process.
        process_id: u32,
        /// Its thread, if it is of one.
        thread_id: Option<u32>,
        /// What was done.
        action: MemoryAction,
        /// Whose memory: cpu, cuda or another.
        device_type: Arc<str>,
        /// Number of the device.
        device: Option<u32>,
        /// The stream, as the allocator names it.
        stream: Option<u64>,
        /// Where.
        address: Option<u64>,
        /// How much.
        bytes: i64,
        /// What is allocated in all, afterwards.
        allocated_bytes: Option<i64>,
        /// What the allocator holds in all, afterwards.
        reserved_bytes: Option<i64>,
        /// The call stack.
        context_id: Option<u32>,
        /// The category that a foreign trace gave it.
        category_id: Option<u32>,
        /// What else is known of it.
        args: Args,
    }

    /// A block of memory in a snapshot.
    MemoryBlock of MEMORY_SNAPSHOTS by () {
        /// When the snapshot was taken.
        time_nanos: i64,
        /// Its process.
        process_id: u32,
        /// Number of the device.
        device: u32,
        /// The stream, as the allocator names it.
        stream: Option<u64>,
        /// Where its segment begins.
        segment_address: u64,
        /// Length of the segment.
        segment_bytes: i64,
        /// Its pool: small or large.
        segment_type: Arc<str>,
        /// Where it begins.
        address: u64,
        /// Its length.
        bytes: i64,
        /// What was asked for.
        requested_bytes: Option<i64>,
        /// What it is, in the allocator's own word.
        state: Arc<str>,
        /// The call stack of its allocation.
        context_id: Option<u32>,
        /// What else is known of it.
        args: Args,
    }

    /// A device of a process.
    Device of DEVICES by () {
        /// Its process.
        process_id: u32,
        /// Number of the device.
        device: u32,
        /// What it is, as CUDA or HIP.
        device_type: Arc<str>,
        /// Name of the model.
        name: Arc<str>,
        /// All that is known of it, as a JSON object.
        properties: Arc<str>,
    }

    /// What a file says of itself.
    Metadata of METADATA by () {
        /// Its process.
        process_id: u32,
        /// Its thread, if it is of one.
        thread_id: Option<u32>,
        /// What it is.
        key: Arc<str>,
        /// The value as JSON.
        value: Arc<str>,
    }
}

impl Span {
    /// Returns the exclusive time: the duration without direct children on the thread.
    pub const fn self_nanos(&self) -> i64 {
        self.duration_nanos.saturating_sub(self.children_nanos)
    }
}

impl GpuActivity {
    /// The stream of activities without one.
    pub const NO_STREAM: u32 = u32::MAX;
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Array;

    /// The columns of a row's struct are those of its table, in type and order.
    fn check<R: Row>() {
        let arrays = R::finish(&mut R::Columns::default());
        let types: Vec<_> = arrays.iter().map(|array| array.data_type().clone()).collect();
        let schema = crate::arrow_schema(R::TABLE);
        let declared: Vec<_> =
            schema.fields().iter().map(|field| field.data_type().clone()).collect();
        assert_eq!(types, declared, "{}", R::TABLE.name);
    }

    #[test]
    fn rows_are_what_is_declared() {
        check::<Span>();
        check::<AsyncSpan>();
        check::<Instant>();
        check::<Flow>();
        check::<Metric>();
        check::<Counter>();
        check::<Sample>();
        check::<Step>();
        check::<GpuActivity>();
        check::<Collective>();
        check::<MemoryEvent>();
        check::<MemoryBlock>();
        check::<Device>();
        check::<Metadata>();
    }
}
