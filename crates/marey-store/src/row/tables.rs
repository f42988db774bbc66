//! The row structs, one for each table that importers write or exporters read.

use std::sync::Arc;

use arrow::array::ArrayRef;
use marey_model::metric::MetricValue;
use marey_model::table::{Table, stored};

use super::{
    ActivityKind, Args, CollectiveState, DamagedRow, Field, FlowPoint, InstantScope, MemoryAction,
    Row, RowBytes, TableVisitor, rows,
};

rows! {
    /// A span on a thread.
    Span of SPANS by (start_nanos) {
        start_nanos: i64,
        duration_nanos: i64,
        children_nanos: i64,
        thread_id: u32,
        context_id: u32,
        name_id: u32,
        sessions: u64,
        phase: u32,
        is_open: bool,
        category_id: Option<u32>,
        correlation_id: Option<u64>,
        external_id: Option<u64>,
        args: Args,
    }

    /// An async span, which is not on the stack of a thread.
    AsyncSpan of ASYNC_SPANS by (start_nanos) {
        start_nanos: i64,
        duration_nanos: i64,
        process_id: u32,
        track_id: u32,
        name_id: u32,
        is_open: bool,
        category_id: Option<u32>,
        args: Args,
    }

    /// An instant.
    Instant of INSTANTS by (time_nanos) {
        time_nanos: i64,
        process_id: u32,
        thread_id: Option<u32>,
        scope: InstantScope,
        name_id: u32,
        category_id: Option<u32>,
        args: Args,
    }

    /// A point of a flow, which is drawn as an arrow between spans.
    Flow of FLOWS by (time_nanos) {
        time_nanos: i64,
        thread_id: u32,
        flow_id: u64,
        point: FlowPoint,
        is_enclosing: bool,
        name_id: u32,
        category_id: Option<u32>,
        args: Args,
    }

    /// A value of a metric.
    Metric of METRICS by (time_nanos) {
        time_nanos: i64,
        thread_id: u32,
        context_id: u32,
        name_id: u32,
        sessions: u64,
        phase: u32,
        value: MetricValue,
    }

    /// A sampled value of a counter.
    Counter of COUNTERS by (time_nanos) {
        time_nanos: i64,
        process_id: u32,
        device: Option<u32>,
        name_id: u32,
        value: f64,
    }

    /// A value of a call stack.
    Sample of SAMPLES by () {
        process_id: u32,
        thread_id: Option<u32>,
        context_id: u32,
        name_id: u32,
        time_nanos: Option<i64>,
        value: MetricValue,
        args: Args,
    }

    /// A training step.
    Step of STEPS by (start_nanos) {
        start_nanos: i64,
        duration_nanos: i64,
        process_id: u32,
        thread_id: u32,
        context_id: u32,
        number: u32,
    }

    /// An activity of a device.
    GpuActivity of GPU_ACTIVITIES by (start_nanos) {
        start_nanos: i64,
        duration_nanos: i64,
        process_id: u32,
        device: u32,
        stream: u32,
        kind: ActivityKind,
        name_id: u32,
        context_id: Option<u32>,
        correlation_id: Option<u64>,
        graph_node_id: Option<u64>,
        grid: Option<[u32; 3]>,
        block: Option<[u32; 3]>,
        registers: Option<u32>,
        shared_bytes: Option<i64>,
        bytes: Option<i64>,
        category_id: Option<u32>,
        external_id: Option<u64>,
        args: Args,
    }

    /// A collective or point-to-point communication.
    Collective of COLLECTIVES by (start_nanos) {
        start_nanos: i64,
        duration_nanos: Option<i64>,
        created_nanos: Option<i64>,
        process_id: u32,
        device: Option<u32>,
        stream: Option<u32>,
        name_id: u32,
        group_id: u32,
        group_ranks_id: Option<u32>,
        group_size: Option<u32>,
        sequence: Option<i64>,
        dtype_id: Option<u32>,
        in_elements: Option<i64>,
        out_elements: Option<i64>,
        state: CollectiveState,
        is_p2p: bool,
        context_id: Option<u32>,
        args: Args,
    }

    /// The value of a watched variable.
    Variable of VARIABLES by (time_nanos) {
        time_nanos: i64,
        process_id: u32,
        thread_id: Option<u32>,
        file_id: u32,
        function_id: u32,
        line: u32,
        name_id: u32,
        type_id: u32,
        value: MetricValue,
    }

    /// An event of an allocator.
    MemoryEvent of MEMORY_EVENTS by (time_nanos) {
        time_nanos: i64,
        process_id: u32,
        thread_id: Option<u32>,
        action: MemoryAction,
        device_type: Arc<str>,
        device: Option<u32>,
        stream: Option<u64>,
        address: Option<u64>,
        bytes: i64,
        allocated_bytes: Option<i64>,
        reserved_bytes: Option<i64>,
        peak_bytes: Option<i64>,
        context_id: Option<u32>,
        category_id: Option<u32>,
        args: Args,
    }

    /// A block of memory in a snapshot.
    MemoryBlock of MEMORY_SNAPSHOTS by () {
        time_nanos: i64,
        process_id: u32,
        device: u32,
        stream: Option<u64>,
        segment_address: u64,
        segment_bytes: i64,
        segment_type: Arc<str>,
        address: u64,
        bytes: i64,
        requested_bytes: Option<i64>,
        state: Arc<str>,
        context_id: Option<u32>,
        args: Args,
    }

    /// A device of a process.
    Device of DEVICES by () {
        process_id: u32,
        device: u32,
        device_type: Arc<str>,
        name: Arc<str>,
        properties: Arc<str>,
    }

    /// A metadata entry.
    Metadata of METADATA by () {
        process_id: u32,
        thread_id: Option<u32>,
        key: Arc<str>,
        value: Arc<str>,
    }
}

impl Span {
    /// Returns the exclusive time: the duration without direct children on the thread.
    pub const fn self_nanos(&self) -> i64 {
        self.duration_nanos.saturating_sub(self.children_nanos)
    }
}

impl Instant {
    /// Returns an instant of a process, without optional fields.
    pub fn new(process_id: u32, name_id: u32, time_nanos: i64) -> Self {
        Self {
            time_nanos,
            process_id,
            thread_id: None,
            scope: InstantScope::Process,
            name_id,
            category_id: None,
            args: Args::default(),
        }
    }
}

impl Metric {
    /// Returns a value outside any session and phase.
    pub const fn new(
        thread_id: u32,
        context_id: u32,
        name_id: u32,
        time_nanos: i64,
        value: MetricValue,
    ) -> Self {
        Self { time_nanos, thread_id, context_id, name_id, sessions: 0, phase: 0, value }
    }
}

impl Sample {
    /// Returns a value of a process, without optional fields.
    pub fn new(process_id: u32, context_id: u32, name_id: u32, value: MetricValue) -> Self {
        Self {
            process_id,
            thread_id: None,
            context_id,
            name_id,
            time_nanos: None,
            value,
            args: Args::default(),
        }
    }
}

impl MemoryEvent {
    /// Returns an event without optional fields.
    pub fn new(
        process_id: u32,
        device_type: Arc<str>,
        action: MemoryAction,
        time_nanos: i64,
        bytes: i64,
    ) -> Self {
        Self {
            time_nanos,
            process_id,
            thread_id: None,
            action,
            device_type,
            device: None,
            stream: None,
            address: None,
            bytes,
            allocated_bytes: None,
            reserved_bytes: None,
            peak_bytes: None,
            context_id: None,
            category_id: None,
            args: Args::default(),
        }
    }
}

impl Metadata {
    /// Returns an entry of a process. The value is JSON.
    pub fn new(process_id: u32, key: &str, value: &str) -> Self {
        Self { process_id, thread_id: None, key: key.into(), value: value.into() }
    }
}

impl GpuActivity {
    /// The stream of activities without one.
    pub const NO_STREAM: u32 = u32::MAX;

    /// Returns an activity of device 0, without a stream or optional fields.
    pub fn new(
        process_id: u32,
        kind: ActivityKind,
        name_id: u32,
        start_nanos: i64,
        duration_nanos: i64,
    ) -> Self {
        Self {
            start_nanos,
            duration_nanos,
            process_id,
            device: 0,
            stream: Self::NO_STREAM,
            kind,
            name_id,
            context_id: None,
            correlation_id: None,
            graph_node_id: None,
            grid: None,
            block: None,
            registers: None,
            shared_bytes: None,
            bytes: None,
            category_id: None,
            external_id: None,
            args: Args::default(),
        }
    }
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
