//! The row structs, one for each table.

use std::sync::Arc;

use arrow::array::ArrayRef;
use marey_model::metric::MetricValue;
use marey_model::table::{Table, stored};

use super::{
    ActivityKind, Args, Bytes, CollectiveState, Damaged, Field, FlowPoint, InstantScope,
    MemoryAction, Row, TableVisitor, rows,
};

rows! {
    /// A span on a thread.
    Span of SPANS by (start_nanos) {
        /// When it began, in nanoseconds since 1970.
        start_nanos: i64,
        /// Duration in nanoseconds.
        duration_nanos: i64,
        /// Time of its direct children.
        children_nanos: i64,
        /// Thread.
        thread_id: u32,
        /// Context node, which has the same name.
        context_id: u32,
        /// Name.
        name_id: u32,
        /// The sessions that recorded it, one bit each; 0 for an imported span.
        sessions: u64,
        /// The phase in which it ended.
        phase: u32,
        /// Whether its end is unknown.
        is_open: bool,
        /// Category in the imported file.
        category_id: Option<u32>,
        /// Correlation id, shared by a launch and its activities.
        correlation_id: Option<u64>,
        /// External correlation id, by which activities refer to it.
        external_id: Option<u64>,
        /// Arguments.
        args: Args,
    }

    /// An async span, which is not on the stack of a thread.
    AsyncSpan of ASYNC_SPANS by (start_nanos) {
        /// When it began, in nanoseconds since 1970.
        start_nanos: i64,
        /// Duration in nanoseconds.
        duration_nanos: i64,
        /// Process.
        process_id: u32,
        /// Async spans with the same id belong to one operation.
        track_id: u32,
        /// Name.
        name_id: u32,
        /// Whether its end is unknown.
        is_open: bool,
        /// Category in the imported file.
        category_id: Option<u32>,
        /// Arguments.
        args: Args,
    }

    /// An instant.
    Instant of INSTANTS by (time_nanos) {
        /// Timestamp in nanoseconds since 1970.
        time_nanos: i64,
        /// Process.
        process_id: u32,
        /// Thread, if there is one.
        thread_id: Option<u32>,
        /// The range of threads that it applies to.
        scope: InstantScope,
        /// Name.
        name_id: u32,
        /// Category in the imported file.
        category_id: Option<u32>,
        /// Arguments.
        args: Args,
    }

    /// A point of a flow, which is drawn as an arrow between spans.
    Flow of FLOWS by (time_nanos) {
        /// Timestamp in nanoseconds since 1970.
        time_nanos: i64,
        /// Thread.
        thread_id: u32,
        /// Number of the flow in its category.
        flow_id: u64,
        /// Position in the flow.
        point: FlowPoint,
        /// Whether it belongs to the span around it, not to the next one that begins.
        is_enclosing: bool,
        /// Name.
        name_id: u32,
        /// Category in the imported file.
        category_id: Option<u32>,
        /// Arguments.
        args: Args,
    }

    /// A value of a metric.
    Metric of METRICS by (time_nanos) {
        /// Timestamp in nanoseconds since 1970.
        time_nanos: i64,
        /// Thread.
        thread_id: u32,
        /// Context node.
        context_id: u32,
        /// Name.
        name_id: u32,
        /// The sessions that recorded it; 0 for an imported value.
        sessions: u64,
        /// The phase in which it was added.
        phase: u32,
        /// The value.
        value: MetricValue,
    }

    /// A sampled value of a counter.
    Counter of COUNTERS by (time_nanos) {
        /// Timestamp in nanoseconds since 1970.
        time_nanos: i64,
        /// The process that read it.
        process_id: u32,
        /// Number of the device, if it has one.
        device: Option<u32>,
        /// Name.
        name_id: u32,
        /// The value.
        value: f64,
    }

    /// A value of a call stack.
    Sample of SAMPLES by () {
        /// Process.
        process_id: u32,
        /// Thread, if there is one.
        thread_id: Option<u32>,
        /// The innermost frame of the stack.
        context_id: u32,
        /// Name of the value, with its unit.
        name_id: u32,
        /// Timestamp, if known.
        time_nanos: Option<i64>,
        /// The value.
        value: MetricValue,
        /// Arguments.
        args: Args,
    }

    /// A training step.
    Step of STEPS by (start_nanos) {
        /// When it began, in nanoseconds since 1970.
        start_nanos: i64,
        /// Duration in nanoseconds.
        duration_nanos: i64,
        /// Process.
        process_id: u32,
        /// Thread.
        thread_id: u32,
        /// Context node.
        context_id: u32,
        /// Number.
        number: u32,
    }

    /// An activity of a device.
    GpuActivity of GPU_ACTIVITIES by (start_nanos) {
        /// When it began, in nanoseconds since 1970.
        start_nanos: i64,
        /// Duration in nanoseconds.
        duration_nanos: i64,
        /// The process that launched it.
        process_id: u32,
        /// Number of the device in its process.
        device: u32,
        /// Stream; `u32::MAX` for none, as in CUPTI.
        stream: u32,
        /// Kernel, copy, fill or synchronisation.
        kind: ActivityKind,
        /// Name.
        name_id: u32,
        /// The context that launched it.
        context_id: Option<u32>,
        /// Correlation id, shared by a launch and its activities.
        correlation_id: Option<u64>,
        /// The graph node that it executed.
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
        /// Category in the imported file.
        category_id: Option<u32>,
        /// External correlation id of its operator.
        external_id: Option<u64>,
        /// Arguments.
        args: Args,
    }

    /// A collective or point-to-point communication.
    Collective of COLLECTIVES by (start_nanos) {
        /// When it began, in nanoseconds since 1970.
        start_nanos: i64,
        /// Duration, if it ended.
        duration_nanos: Option<i64>,
        /// When it was enqueued.
        created_nanos: Option<i64>,
        /// Process.
        process_id: u32,
        /// Number of the device.
        device: Option<u32>,
        /// The stream.
        stream: Option<u32>,
        /// The operation, such as `all_reduce`.
        name_id: u32,
        /// Name of the process group.
        group_id: u32,
        /// Ranks of the group, as `0-3,8`.
        group_ranks_id: Option<u32>,
        /// Number of ranks in the group.
        group_size: Option<u32>,
        /// Sequence number in the group.
        sequence: Option<i64>,
        /// Type of the elements.
        dtype_id: Option<u32>,
        /// Input elements of this rank.
        in_elements: Option<i64>,
        /// Output elements of this rank.
        out_elements: Option<i64>,
        /// Last known state.
        state: CollectiveState,
        /// Whether it is point-to-point.
        is_p2p: bool,
        /// The context that enqueued it.
        context_id: Option<u32>,
        /// Arguments.
        args: Args,
    }

    /// The value of a watched variable.
    Variable of VARIABLES by (time_nanos) {
        /// When the line began, in nanoseconds since 1970.
        time_nanos: i64,
        /// Process.
        process_id: u32,
        /// Thread.
        thread_id: Option<u32>,
        /// File of the line.
        file_id: u32,
        /// Function of the line.
        function_id: u32,
        /// Line.
        line: u32,
        /// Variable, as it was watched.
        name_id: u32,
        /// Name of the value's type.
        type_id: u32,
        /// The value.
        value: MetricValue,
    }

    /// An event of an allocator.
    MemoryEvent of MEMORY_EVENTS by (time_nanos) {
        /// Timestamp in nanoseconds since 1970.
        time_nanos: i64,
        /// Process.
        process_id: u32,
        /// Thread, if there is one.
        thread_id: Option<u32>,
        /// The action.
        action: MemoryAction,
        /// Type of the device: cpu, cuda or another.
        device_type: Arc<str>,
        /// Number of the device.
        device: Option<u32>,
        /// The stream, as the allocator names it.
        stream: Option<u64>,
        /// Address in bytes.
        address: Option<u64>,
        /// Size.
        bytes: i64,
        /// Total allocated bytes afterwards.
        allocated_bytes: Option<i64>,
        /// Total reserved bytes afterwards.
        reserved_bytes: Option<i64>,
        /// Maximum of the total allocated bytes so far.
        peak_bytes: Option<i64>,
        /// The call stack.
        context_id: Option<u32>,
        /// Category in the imported file.
        category_id: Option<u32>,
        /// Arguments.
        args: Args,
    }

    /// A block of memory in a snapshot.
    MemoryBlock of MEMORY_SNAPSHOTS by () {
        /// When the snapshot was taken.
        time_nanos: i64,
        /// Process.
        process_id: u32,
        /// Number of the device.
        device: u32,
        /// The stream, as the allocator names it.
        stream: Option<u64>,
        /// Address of its segment.
        segment_address: u64,
        /// Length of the segment.
        segment_bytes: i64,
        /// Pool: small or large.
        segment_type: Arc<str>,
        /// Address in bytes.
        address: u64,
        /// Length in bytes.
        bytes: i64,
        /// Bytes requested.
        requested_bytes: Option<i64>,
        /// State, as the allocator calls it.
        state: Arc<str>,
        /// The call stack of its allocation.
        context_id: Option<u32>,
        /// Arguments.
        args: Args,
    }

    /// A device of a process.
    Device of DEVICES by () {
        /// Process.
        process_id: u32,
        /// Number of the device.
        device: u32,
        /// Type, such as CUDA or HIP.
        device_type: Arc<str>,
        /// Name of the model.
        name: Arc<str>,
        /// Properties as a JSON object.
        properties: Arc<str>,
    }

    /// A metadata entry.
    Metadata of METADATA by () {
        /// Process.
        process_id: u32,
        /// Thread, if there is one.
        thread_id: Option<u32>,
        /// The key.
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
    use std::convert::Infallible;

    /// Checks that a struct has the columns of its table, in type and order.
    struct Check;

    impl TableVisitor for Check {
        type Error = Infallible;

        fn visit<R: Row>(&mut self) -> Result<(), Infallible> {
            let arrays = R::finish(&mut R::Columns::default());
            let types: Vec<_> = arrays.iter().map(|array| array.data_type().clone()).collect();
            let schema = crate::arrow_schema(R::TABLE);
            let declared: Vec<_> =
                schema.fields().iter().map(|field| field.data_type().clone()).collect();
            assert_eq!(types, declared, "{}", R::TABLE.name);
            Ok(())
        }
    }

    #[test]
    fn structs_match_the_declared_tables() {
        let Ok(()) = for_each_table(&mut Check);
    }
}
