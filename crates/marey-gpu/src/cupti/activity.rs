//! Converts CUPTI's activity records to the recorder's activities.

use super::abi::constants::{self, kind, object_kind};
use super::abi::layout::{
    external_correlation, kernel, memcpy, memcpy_peer, memset, overhead, synchronization,
};
use super::abi::record::{Field, Record};
use super::callback;
use super::clock::Clock;
use marey_model::spool::{ActivityKind, Detail};
use marey_record::device::{self, Activity, ActivityBatch};
use marey_record::{NumberHash, api};
use std::collections::{HashMap, VecDeque};

/// Converts activity records.
#[derive(Debug)]
pub(super) struct ActivityReader {
    api_version: u32,
    /// The interned ids of the names that marey gives, by kind and properties of the record.
    synthetic_names: HashMap<(ActivityKind, u32, u32), u32>,
    details: Vec<(Detail, u64)>,
    /// External correlation ids, by the correlation id of the call that they apply to.
    external_ids: HashMap<u32, u64, NumberHash>,
    /// Correlation ids of `external_ids`, in order of arrival.
    external_id_order: VecDeque<u32>,
    /// Start of the last activity.
    last_start_ticks: u64,
}

/// The maximum number of external correlation ids. Beyond it the oldest are dropped, which belong
/// to calls without activities.
const MAX_EXTERNAL_IDS: usize = 1 << 18;

/// The fields that records of kernels, copies and fills have.
struct CommonFields {
    start: Field,
    end: Field,
    device: Field,
    stream: Field,
    correlation: Field,
    graph_node: Field,
    /// The size of a copy or fill.
    bytes: Option<Field>,
}

/// Returns the common fields of a layout.
macro_rules! common_fields {
    ($layout:ident, $bytes:expr) => {
        CommonFields {
            start: $layout::START,
            end: $layout::END,
            device: $layout::DEVICE_ID,
            stream: $layout::STREAM_ID,
            correlation: $layout::CORRELATION_ID,
            graph_node: $layout::GRAPH_NODE_ID,
            bytes: $bytes,
        }
    };
}

impl ActivityReader {
    /// Creates a reader for records of this API version.
    pub(super) fn new(api_version: u32) -> Self {
        Self {
            api_version,
            synthetic_names: HashMap::new(),
            details: Vec::new(),
            external_ids: HashMap::default(),
            external_id_order: VecDeque::new(),
            last_start_ticks: device::now().0,
        }
    }

    /// Returns the record at the start of these bytes.
    #[inline]
    pub(super) fn record<'a>(&self, bytes: &'a [u8]) -> Record<'a> {
        Record::new(bytes, self.api_version)
    }

    /// Converts a record and adds it to the batch. `kernel_name_id` is the name id of a kernel.
    #[inline]
    pub(super) fn read(
        &mut self,
        record: Record,
        kernel_name_id: Option<u32>,
        clock: &Clock,
        batch: &mut ActivityBatch,
    ) {
        match record.kind() {
            Some(kind::CONCURRENT_KERNEL | kind::KERNEL) => {
                self.read_kernel(record, kernel_name_id, clock, batch);
            }
            Some(kind::MEMCPY) => self.read_memcpy(record, clock, batch),
            Some(kind::MEMCPY2) => self.read_memcpy_peer(record, clock, batch),
            Some(kind::MEMSET) => self.read_memset(record, clock, batch),
            Some(kind::SYNCHRONIZATION) => self.read_synchronization(record, clock, batch),
            Some(kind::OVERHEAD) => self.read_overhead(record, clock, batch),
            Some(kind::EXTERNAL_CORRELATION) => self.read_external_id(record),
            _ => {}
        }
    }

    fn read_kernel(
        &mut self,
        record: Record,
        name_id: Option<u32>,
        clock: &Clock,
        batch: &mut ActivityBatch,
    ) {
        const FIELDS: CommonFields = common_fields!(kernel, None);
        let name_id = name_id.unwrap_or_else(|| self.synthetic_name_id(ActivityKind::Kernel, 0, 0));
        self.details.clear();
        if batch.keeps_activities() {
            self.push_kernel_details(record);
        }
        self.add(record, &FIELDS, ActivityKind::Kernel, name_id, clock, batch);
    }

    fn push_kernel_details(&mut self, record: Record) {
        const U32_FIELDS: [(Detail, Field); 16] = [
            (Detail::GridX, kernel::GRID_X),
            (Detail::GridY, kernel::GRID_Y),
            (Detail::GridZ, kernel::GRID_Z),
            (Detail::BlockX, kernel::BLOCK_X),
            (Detail::BlockY, kernel::BLOCK_Y),
            (Detail::BlockZ, kernel::BLOCK_Z),
            (Detail::StaticSharedBytes, kernel::STATIC_SHARED_MEMORY),
            (Detail::DynamicSharedBytes, kernel::DYNAMIC_SHARED_MEMORY),
            (Detail::SharedExecutedBytes, kernel::SHARED_MEMORY_EXECUTED),
            (Detail::LocalThreadBytes, kernel::LOCAL_MEMORY_PER_THREAD),
            (Detail::ClusterX, kernel::CLUSTER_X),
            (Detail::ClusterY, kernel::CLUSTER_Y),
            (Detail::ClusterZ, kernel::CLUSTER_Z),
            (Detail::MaxActiveClusters, kernel::MAX_ACTIVE_CLUSTERS),
            (Detail::Channel, kernel::CHANNEL_ID),
            (Detail::ChannelType, kernel::CHANNEL_TYPE),
        ];
        self.push_nonzero(Detail::Context, record.read_u32(kernel::CONTEXT_ID));
        self.push_nonzero(Detail::Registers, record.read_u16(kernel::REGISTERS_PER_THREAD));
        self.push_nonzero(Detail::LaunchType, record.read_u8(kernel::LAUNCH_TYPE));
        for (detail, field) in U32_FIELDS {
            self.push_nonzero(detail, record.read_u32(field));
        }
        self.push_nonzero(Detail::LocalTotalBytes, record.read_u64(kernel::LOCAL_MEMORY_TOTAL));
        let priority = record.read_u32(kernel::PRIORITY).map(u32::cast_signed);
        self.push_nonzero(
            Detail::Priority,
            priority.map(|priority| i64::from(priority).cast_unsigned()),
        );
        self.push_graph(record, kernel::GRAPH_ID, kernel::GRAPH_NODE_ID);
        self.push_graph_source(record, kernel::SOURCE_GRAPH_ID, kernel::SOURCE_GRAPH_NODE_ID);
        self.push_nonzero(Detail::DeviceLaunched, record.read_u8(kernel::IS_DEVICE_LAUNCHED));
    }

    fn read_memcpy(&mut self, record: Record, clock: &Clock, batch: &mut ActivityBatch) {
        const FIELDS: CommonFields = common_fields!(memcpy, Some(memcpy::BYTES));
        self.details.clear();
        self.push_nonzero(Detail::Context, record.read_u32(memcpy::CONTEXT_ID));
        self.push_memory_kinds(record, memcpy::SRC_KIND, memcpy::DST_KIND);
        self.push_nonzero(Detail::Flags, record.read_u8(memcpy::FLAGS));
        self.push_nonzero(
            Detail::Copies,
            record.read_u64(memcpy::COPY_COUNT).filter(|&copies| copies > 1),
        );
        self.push_channel(record, memcpy::CHANNEL_ID, memcpy::CHANNEL_TYPE);
        self.push_graph(record, memcpy::GRAPH_ID, memcpy::GRAPH_NODE_ID);
        self.push_graph_source(record, memcpy::SOURCE_GRAPH_ID, memcpy::SOURCE_GRAPH_NODE_ID);
        self.push_nonzero(Detail::DeviceLaunched, record.read_u8(memcpy::IS_DEVICE_LAUNCHED));
        let name_id =
            self.copy_name_id(record, memcpy::COPY_KIND, memcpy::SRC_KIND, memcpy::DST_KIND);
        self.add(record, &FIELDS, ActivityKind::Memcpy, name_id, clock, batch);
    }

    fn read_memcpy_peer(&mut self, record: Record, clock: &Clock, batch: &mut ActivityBatch) {
        const FIELDS: CommonFields = common_fields!(memcpy_peer, Some(memcpy_peer::BYTES));
        self.details.clear();
        self.push_nonzero(Detail::Context, record.read_u32(memcpy_peer::CONTEXT_ID));
        self.push_present(Detail::SourceDevice, record.read_u32(memcpy_peer::SRC_DEVICE_ID));
        self.push_present(Detail::TargetDevice, record.read_u32(memcpy_peer::DST_DEVICE_ID));
        self.push_nonzero(Detail::SourceContext, record.read_u32(memcpy_peer::SRC_CONTEXT_ID));
        self.push_nonzero(Detail::TargetContext, record.read_u32(memcpy_peer::DST_CONTEXT_ID));
        self.push_memory_kinds(record, memcpy_peer::SRC_KIND, memcpy_peer::DST_KIND);
        self.push_nonzero(Detail::Flags, record.read_u8(memcpy_peer::FLAGS));
        self.push_channel(record, memcpy_peer::CHANNEL_ID, memcpy_peer::CHANNEL_TYPE);
        self.push_graph(record, memcpy_peer::GRAPH_ID, memcpy_peer::GRAPH_NODE_ID);
        let name_id = self.copy_name_id(
            record,
            memcpy_peer::COPY_KIND,
            memcpy_peer::SRC_KIND,
            memcpy_peer::DST_KIND,
        );
        self.add(record, &FIELDS, ActivityKind::Memcpy, name_id, clock, batch);
    }

    fn read_memset(&mut self, record: Record, clock: &Clock, batch: &mut ActivityBatch) {
        const FIELDS: CommonFields = common_fields!(memset, Some(memset::BYTES));
        let memory_kind = record.read_u16(memset::MEMORY_KIND).map_or(0, u32::from);
        self.details.clear();
        self.push_nonzero(Detail::Context, record.read_u32(memset::CONTEXT_ID));
        self.push_present(Detail::Value, record.read_u32(memset::VALUE));
        self.push_nonzero(Detail::TargetKind, Some(memory_kind));
        self.push_nonzero(Detail::Flags, record.read_u16(memset::FLAGS));
        self.push_channel(record, memset::CHANNEL_ID, memset::CHANNEL_TYPE);
        self.push_graph(record, memset::GRAPH_ID, memset::GRAPH_NODE_ID);
        self.push_graph_source(record, memset::SOURCE_GRAPH_ID, memset::SOURCE_GRAPH_NODE_ID);
        self.push_nonzero(Detail::DeviceLaunched, record.read_u8(memset::IS_DEVICE_LAUNCHED));
        let name_id = self.synthetic_name_id(ActivityKind::Memset, memory_kind, 0);
        self.add(record, &FIELDS, ActivityKind::Memset, name_id, clock, batch);
    }

    fn read_synchronization(&mut self, record: Record, clock: &Clock, batch: &mut ActivityBatch) {
        let subkind = record.read_u32(synchronization::TYPE).unwrap_or(0);
        let correlation = record.read_u32(synchronization::CORRELATION_ID).unwrap_or(0);
        if callback::take_internal_sync(correlation) {
            return;
        }
        let context_id = record.read_u32(synchronization::CONTEXT_ID);
        self.details.clear();
        self.push_nonzero(Detail::Context, context_id);
        self.push_nonzero(Detail::Event, record.read_u32(synchronization::CUDA_EVENT_ID));
        self.push_nonzero(Detail::Result, record.read_u32(synchronization::RETURN_VALUE));
        let name = self.synthetic_name_id(ActivityKind::Sync, subkind, 0);
        let activity = Activity {
            kind: ActivityKind::Sync,
            name_id: name,
            device: callback::device_of_context(context_id),
            stream: record.read_u32(synchronization::STREAM_ID).unwrap_or(u32::MAX),
            start_ticks: 0,
            duration_nanos: None,
            bytes: 0,
            correlation_id: correlation,
            graph_node: 0,
            details: &self.details,
        };
        let (start, end) = (synchronization::START, synchronization::END);
        add_with_times(record, start, end, activity, &mut self.last_start_ticks, clock, batch);
    }

    fn read_overhead(&mut self, record: Record, clock: &Clock, batch: &mut ActivityBatch) {
        let subkind = record.read_u32(overhead::OVERHEAD_KIND).unwrap_or(0);
        let object_kind_value = record.read_u32(overhead::OBJECT_KIND);
        self.details.clear();
        self.push_nonzero(Detail::ObjectKind, object_kind_value);
        if object_kind_value == Some(object_kind::THREAD) {
            self.push_nonzero(Detail::ObjectThread, record.read_u32(overhead::OBJECT_THREAD));
        }
        let device = match object_kind_value {
            Some(object_kind::DEVICE | object_kind::CONTEXT | object_kind::STREAM) => {
                record.read_u32(overhead::OBJECT_DEVICE)
            }
            _ => None,
        };
        let device = device.unwrap_or_else(|| callback::device_of_context(None));
        let activity = Activity {
            kind: ActivityKind::Overhead,
            name_id: self.synthetic_name_id(ActivityKind::Overhead, subkind, 0),
            device,
            stream: u32::MAX,
            start_ticks: 0,
            duration_nanos: None,
            bytes: 0,
            correlation_id: 0,
            graph_node: 0,
            details: &self.details,
        };
        let (start, end) = (overhead::START, overhead::END);
        add_with_times(record, start, end, activity, &mut self.last_start_ticks, clock, batch);
    }

    pub(super) fn read_external_id(&mut self, record: Record) {
        let correlation_id = record.read_u32(external_correlation::CORRELATION_ID);
        let external_id = record.read_u64(external_correlation::EXTERNAL_ID);
        let Some((correlation_id, external_id)) = correlation_id.zip(external_id) else { return };
        if self.external_ids.insert(correlation_id, external_id).is_none() {
            self.external_id_order.push_back(correlation_id);
        }
        if self.external_id_order.len() > MAX_EXTERNAL_IDS
            && let Some(oldest) = self.external_id_order.pop_front()
        {
            self.external_ids.remove(&oldest);
        }
    }

    #[inline]
    fn add(
        &mut self,
        record: Record,
        fields: &CommonFields,
        kind: ActivityKind,
        name_id: u32,
        clock: &Clock,
        batch: &mut ActivityBatch,
    ) {
        let correlation = record.read_u32(fields.correlation).unwrap_or(0);
        if !self.external_ids.is_empty() {
            self.push_nonzero(Detail::ExternalId, self.external_ids.get(&correlation).copied());
        }
        let activity = Activity {
            kind,
            name_id,
            device: record.read_u32(fields.device).unwrap_or(0),
            stream: record.read_u32(fields.stream).unwrap_or(u32::MAX),
            start_ticks: 0,
            duration_nanos: None,
            bytes: fields.bytes.and_then(|field| record.read_u64(field)).unwrap_or(0),
            correlation_id: correlation,
            graph_node: record.read_u64(fields.graph_node).unwrap_or(0),
            details: &self.details,
        };
        let (start, end) = (fields.start, fields.end);
        add_with_times(record, start, end, activity, &mut self.last_start_ticks, clock, batch);
    }

    fn push_memory_kinds(&mut self, record: Record, source: Field, target: Field) {
        self.push_nonzero(Detail::SourceKind, record.read_u8(source));
        self.push_nonzero(Detail::TargetKind, record.read_u8(target));
    }

    fn copy_name_id(&mut self, record: Record, kind: Field, source: Field, target: Field) -> u32 {
        let byte = |field| record.read_u8(field).map_or(0, u32::from);
        self.synthetic_name_id(ActivityKind::Memcpy, byte(kind), byte(source) << 8 | byte(target))
    }

    /// Adds the graph of the activity, if it belongs to one.
    fn push_graph(&mut self, record: Record, graph: Field, node: Field) {
        if let Some(node_id @ 1..) = record.read_u64(node) {
            self.push_nonzero(Detail::Graph, record.read_u32(graph));
            self.details.push((Detail::GraphNode, node_id));
        }
    }

    /// Adds the graph from which that graph was instantiated.
    fn push_graph_source(&mut self, record: Record, graph: Field, node: Field) {
        self.push_nonzero(Detail::SourceGraph, record.read_u32(graph));
        self.push_nonzero(Detail::SourceGraphNode, record.read_u64(node));
    }

    fn push_channel(&mut self, record: Record, id: Field, type_field: Field) {
        self.push_nonzero(Detail::Channel, record.read_u32(id));
        self.push_nonzero(Detail::ChannelType, record.read_u32(type_field));
    }

    /// Adds a detail that may be 0, if the record has it.
    #[inline]
    fn push_present(&mut self, detail: Detail, value: Option<u32>) {
        self.details.extend(value.map(|value| (detail, value.into())));
    }

    /// Adds a detail unless it is missing or 0, which means none.
    #[inline]
    fn push_nonzero(&mut self, detail: Detail, value: Option<impl Into<u64>>) {
        match value.map(Into::into) {
            Some(0) | None => {}
            Some(value) => self.details.push((detail, value)),
        }
    }

    /// Returns the id of a name that marey gives.
    fn synthetic_name_id(&mut self, kind: ActivityKind, subkind: u32, memory_kinds: u32) -> u32 {
        let name = || api::intern(&synthetic_name(kind, subkind, memory_kinds));
        *self.synthetic_names.entry((kind, subkind, memory_kinds)).or_insert_with(name)
    }
}

/// Adds an activity with those timestamps of its record that are valid. An activity without a start
/// gets the start of the previous one.
#[inline]
fn add_with_times(
    record: Record,
    start: Field,
    end: Field,
    activity: Activity,
    last_start_ticks: &mut u64,
    clock: &Clock,
    batch: &mut ActivityBatch,
) {
    let (start, end) = (record.read_u64(start).unwrap_or(0), record.read_u64(end).unwrap_or(0));
    if start != 0 && end == 0 {
        // A forced flush delivers records of activities in progress.
        return batch.add_unfinished(activity.correlation_id);
    }
    if start != 0 {
        *last_start_ticks = clock.ticks(start);
    }
    batch.add(&Activity {
        start_ticks: *last_start_ticks,
        duration_nanos: end.checked_sub(start).filter(|_| end != 0),
        ..activity
    });
}

/// Returns the same names as Kineto, so that traces of both can be compared.
fn synthetic_name(kind: ActivityKind, subkind: u32, memory_kinds: u32) -> String {
    let memory_name = |kind| constants::memory_kind::description(kind).unwrap_or("Unknown");
    match kind {
        ActivityKind::Kernel => "<unnamed kernel>".to_owned(),
        ActivityKind::Memcpy => {
            let direction = constants::memcpy_kind::description(subkind).unwrap_or("unknown");
            format!(
                "Memcpy {direction} ({} -> {})",
                memory_name(memory_kinds >> 8),
                memory_name(memory_kinds & 0xff)
            )
        }
        ActivityKind::Memset => format!("Memset ({})", memory_name(subkind)),
        ActivityKind::Sync => match subkind {
            constants::synchronization_type::EVENT_SYNCHRONIZE => "Event Synchronize",
            constants::synchronization_type::STREAM_WAIT_EVENT => "Stream Wait Event",
            constants::synchronization_type::STREAM_SYNCHRONIZE => "Stream Synchronize",
            constants::synchronization_type::CONTEXT_SYNCHRONIZE => "Context Synchronize",
            _ => "Synchronize",
        }
        .to_owned(),
        ActivityKind::Overhead => {
            format!(
                "Overhead: {}",
                constants::overhead_kind::description(subkind).unwrap_or("unknown")
            )
        }
    }
}
