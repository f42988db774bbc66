//! The messages of a Perfetto trace, with only the fields that are read or written. A `oneof` of
//! the published schema is a set of optional fields here.

use prost::Message;

/// The number of `Trace.packet`, the only field of a trace.
pub(super) const TRACE_PACKET: u32 = 1;

/// `TracePacket.sequence_flags`: earlier interned data is invalid.
pub(super) const FLAG_STATE_CLEARED: u32 = 1;
/// `TracePacket.sequence_flags`: the packet refers to earlier interned data.
pub(super) const FLAG_NEEDS_STATE: u32 = 2;

/// `BuiltinClock`: the wall clock.
pub(super) const CLOCK_REALTIME: u32 = 1;
/// `BuiltinClock`: time since boot without sleep.
pub(super) const CLOCK_MONOTONIC: u32 = 3;
/// `BuiltinClock`: time since boot, the default clock of traces.
pub(super) const CLOCK_BOOTTIME: u32 = 6;

/// `TrackEvent.Type`.
pub(super) const TYPE_SLICE_BEGIN: i32 = 1;
/// `TrackEvent.Type`.
pub(super) const TYPE_SLICE_END: i32 = 2;
/// `TrackEvent.Type`.
pub(super) const TYPE_INSTANT: i32 = 3;
/// `TrackEvent.Type`.
pub(super) const TYPE_COUNTER: i32 = 4;

/// `CounterDescriptor.Unit`.
pub(super) const UNIT_NANOS: i32 = 1;
/// `CounterDescriptor.Unit`.
pub(super) const UNIT_COUNT: i32 = 2;
/// `CounterDescriptor.Unit`.
pub(super) const UNIT_BYTES: i32 = 3;

/// `DebugAnnotation.NestedValue.NestedType`.
pub(super) const NESTED_DICT: i32 = 1;
/// `DebugAnnotation.NestedValue.NestedType`.
pub(super) const NESTED_ARRAY: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacket {
    #[prost(message, optional, tag = "6")]
    pub(super) clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub(super) sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    pub(super) track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    pub(super) interned_data: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    pub(super) sequence_flags: Option<u32>,
    #[prost(bool, optional, tag = "41")]
    pub(super) incremental_state_cleared: Option<bool>,
    #[prost(uint32, optional, tag = "42")]
    pub(super) previous_packet_dropped: Option<u32>,
    #[prost(message, optional, tag = "43")]
    pub(super) process_descriptor: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "44")]
    pub(super) thread_descriptor: Option<ThreadDescriptor>,
    #[prost(bytes = "vec", optional, tag = "50")]
    pub(super) compressed_packets: Option<Vec<u8>>,
    #[prost(message, optional, tag = "54")]
    pub(super) streaming_profile_packet: Option<StreamingProfilePacket>,
    #[prost(uint32, optional, tag = "58")]
    pub(super) timestamp_clock_id: Option<u32>,
    #[prost(message, optional, tag = "59")]
    pub(super) defaults: Option<TracePacketDefaults>,
    #[prost(message, optional, tag = "60")]
    pub(super) track_descriptor: Option<TrackDescriptor>,
    #[prost(message, optional, tag = "66")]
    pub(super) perf_sample: Option<PerfSample>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub(super) clocks: Vec<Clock>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Clock {
    #[prost(uint32, optional, tag = "1")]
    pub(super) id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) timestamp: Option<u64>,
    #[prost(bool, optional, tag = "3")]
    pub(super) is_incremental: Option<bool>,
    #[prost(uint64, optional, tag = "4")]
    pub(super) unit_multiplier_nanos: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacketDefaults {
    #[prost(message, optional, tag = "11")]
    pub(super) track_event: Option<TrackEventDefaults>,
    #[prost(uint32, optional, tag = "58")]
    pub(super) timestamp_clock_id: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEventDefaults {
    #[prost(uint64, optional, tag = "11")]
    pub(super) track_uuid: Option<u64>,
    #[prost(uint64, repeated, packed = "false", tag = "31")]
    pub(super) extra_counter_track_uuids: Vec<u64>,
    #[prost(uint64, repeated, packed = "false", tag = "45")]
    pub(super) extra_double_counter_track_uuids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub(super) uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub(super) process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    pub(super) thread: Option<ThreadDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    pub(super) parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub(super) counter: Option<CounterDescriptor>,
    #[prost(string, optional, tag = "10")]
    pub(super) static_name: Option<String>,
    #[prost(string, optional, tag = "13")]
    pub(super) atrace_name: Option<String>,
    #[prost(string, optional, tag = "14")]
    pub(super) description: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(string, repeated, tag = "2")]
    pub(super) cmdline: Vec<String>,
    #[prost(string, optional, tag = "6")]
    pub(super) process_name: Option<String>,
    #[prost(string, repeated, tag = "8")]
    pub(super) process_labels: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(int64, optional, tag = "2")]
    pub(super) tid: Option<i64>,
    #[prost(string, optional, tag = "5")]
    pub(super) thread_name: Option<String>,
    #[prost(int64, optional, tag = "6")]
    pub(super) reference_timestamp_us: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CounterDescriptor {
    #[prost(int32, optional, tag = "3")]
    pub(super) unit: Option<i32>,
    #[prost(int64, optional, tag = "4")]
    pub(super) unit_multiplier: Option<i64>,
    #[prost(bool, optional, tag = "5")]
    pub(super) is_incremental: Option<bool>,
    #[prost(string, optional, tag = "6")]
    pub(super) unit_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEvent {
    #[prost(int64, optional, tag = "1")]
    pub(super) timestamp_delta_us: Option<i64>,
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    pub(super) category_iids: Vec<u64>,
    #[prost(message, repeated, tag = "4")]
    pub(super) debug_annotations: Vec<DebugAnnotation>,
    #[prost(message, optional, tag = "6")]
    pub(super) legacy_event: Option<LegacyEvent>,
    #[prost(int32, optional, tag = "9")]
    pub(super) r#type: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    pub(super) name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub(super) track_uuid: Option<u64>,
    #[prost(int64, repeated, packed = "false", tag = "12")]
    pub(super) extra_counter_values: Vec<i64>,
    #[prost(int64, optional, tag = "16")]
    pub(super) timestamp_absolute_us: Option<i64>,
    #[prost(string, repeated, tag = "22")]
    pub(super) categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    pub(super) name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    pub(super) counter_value: Option<i64>,
    #[prost(uint64, repeated, packed = "false", tag = "31")]
    pub(super) extra_counter_track_uuids: Vec<u64>,
    #[prost(message, optional, tag = "33")]
    pub(super) source_location: Option<SourceLocation>,
    #[prost(uint64, optional, tag = "34")]
    pub(super) source_location_iid: Option<u64>,
    #[prost(uint64, repeated, packed = "false", tag = "36")]
    pub(super) flow_ids_old: Vec<u64>,
    #[prost(uint64, repeated, packed = "false", tag = "42")]
    pub(super) terminating_flow_ids_old: Vec<u64>,
    #[prost(double, optional, tag = "44")]
    pub(super) double_counter_value: Option<f64>,
    #[prost(uint64, repeated, packed = "false", tag = "45")]
    pub(super) extra_double_counter_track_uuids: Vec<u64>,
    #[prost(double, repeated, packed = "false", tag = "46")]
    pub(super) extra_double_counter_values: Vec<f64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub(super) flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub(super) terminating_flow_ids: Vec<u64>,
    #[prost(uint64, optional, tag = "52")]
    pub(super) correlation_id: Option<u64>,
    #[prost(message, optional, tag = "55")]
    pub(super) callstack: Option<InlineCallstack>,
    #[prost(uint64, optional, tag = "56")]
    pub(super) callstack_iid: Option<u64>,
    #[prost(double, optional, tag = "57")]
    pub(super) callstack_weight: Option<f64>,
}

impl TrackEvent {
    /// The fields that are read. Most of the remaining ones are typed arguments of single programs.
    pub(super) const FIELDS: [u64; 26] = [
        1, 3, 4, 6, 9, 10, 11, 12, 16, 22, 23, 30, 31, 33, 34, 36, 42, 44, 45, 46, 47, 48, 52, 55,
        56, 57,
    ];
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LegacyEvent {
    #[prost(uint64, optional, tag = "1")]
    pub(super) name_iid: Option<u64>,
    #[prost(int32, optional, tag = "2")]
    pub(super) phase: Option<i32>,
    #[prost(int64, optional, tag = "3")]
    pub(super) duration_us: Option<i64>,
    #[prost(int64, optional, tag = "4")]
    pub(super) thread_duration_us: Option<i64>,
    #[prost(uint64, optional, tag = "6")]
    pub(super) unscoped_id: Option<u64>,
    #[prost(string, optional, tag = "7")]
    pub(super) id_scope: Option<String>,
    #[prost(uint64, optional, tag = "8")]
    pub(super) bind_id: Option<u64>,
    #[prost(uint64, optional, tag = "10")]
    pub(super) local_id: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub(super) global_id: Option<u64>,
    #[prost(bool, optional, tag = "12")]
    pub(super) bind_to_enclosing: Option<bool>,
    #[prost(int32, optional, tag = "13")]
    pub(super) flow_direction: Option<i32>,
    #[prost(int32, optional, tag = "14")]
    pub(super) instant_event_scope: Option<i32>,
    #[prost(int32, optional, tag = "18")]
    pub(super) pid_override: Option<i32>,
    #[prost(int32, optional, tag = "19")]
    pub(super) tid_override: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InlineCallstack {
    #[prost(message, repeated, tag = "1")]
    pub(super) frames: Vec<InlineFrame>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InlineFrame {
    #[prost(string, optional, tag = "1")]
    pub(super) function_name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(super) source_file: Option<String>,
    #[prost(uint32, optional, tag = "3")]
    pub(super) line_number: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DebugAnnotation {
    #[prost(uint64, optional, tag = "1")]
    pub(super) name_iid: Option<u64>,
    #[prost(bool, optional, tag = "2")]
    pub(super) bool_value: Option<bool>,
    #[prost(uint64, optional, tag = "3")]
    pub(super) uint_value: Option<u64>,
    #[prost(int64, optional, tag = "4")]
    pub(super) int_value: Option<i64>,
    #[prost(double, optional, tag = "5")]
    pub(super) double_value: Option<f64>,
    #[prost(string, optional, tag = "6")]
    pub(super) string_value: Option<String>,
    #[prost(uint64, optional, tag = "7")]
    pub(super) pointer_value: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub(super) nested_value: Option<NestedValue>,
    #[prost(string, optional, tag = "9")]
    pub(super) legacy_json_value: Option<String>,
    #[prost(string, optional, tag = "10")]
    pub(super) name: Option<String>,
    #[prost(message, repeated, tag = "11")]
    pub(super) dict_entries: Vec<DebugAnnotation>,
    #[prost(message, repeated, tag = "12")]
    pub(super) array_values: Vec<DebugAnnotation>,
    #[prost(bytes = "vec", optional, tag = "14")]
    pub(super) proto_value: Option<Vec<u8>>,
    #[prost(uint64, optional, tag = "17")]
    pub(super) string_value_iid: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NestedValue {
    #[prost(int32, optional, tag = "1")]
    pub(super) nested_type: Option<i32>,
    #[prost(string, repeated, tag = "2")]
    pub(super) dict_keys: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    pub(super) dict_values: Vec<NestedValue>,
    #[prost(message, repeated, tag = "4")]
    pub(super) array_values: Vec<NestedValue>,
    #[prost(int64, optional, tag = "5")]
    pub(super) int_value: Option<i64>,
    #[prost(double, optional, tag = "6")]
    pub(super) double_value: Option<f64>,
    #[prost(bool, optional, tag = "7")]
    pub(super) bool_value: Option<bool>,
    #[prost(string, optional, tag = "8")]
    pub(super) string_value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedData {
    #[prost(message, repeated, tag = "1")]
    pub(super) event_categories: Vec<InternedName>,
    #[prost(message, repeated, tag = "2")]
    pub(super) event_names: Vec<InternedName>,
    #[prost(message, repeated, tag = "3")]
    pub(super) debug_annotation_names: Vec<InternedName>,
    #[prost(message, repeated, tag = "4")]
    pub(super) source_locations: Vec<SourceLocation>,
    #[prost(message, repeated, tag = "5")]
    pub(super) function_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "6")]
    pub(super) frames: Vec<Frame>,
    #[prost(message, repeated, tag = "7")]
    pub(super) callstacks: Vec<Callstack>,
    #[prost(message, repeated, tag = "17")]
    pub(super) mapping_paths: Vec<InternedString>,
    #[prost(message, repeated, tag = "18")]
    pub(super) source_paths: Vec<InternedString>,
    #[prost(message, repeated, tag = "19")]
    pub(super) mappings: Vec<Mapping>,
    #[prost(message, repeated, tag = "29")]
    pub(super) debug_annotation_string_values: Vec<InternedString>,
}

/// `EventCategory`, `EventName` and `DebugAnnotationName`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedName {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedString {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(super) text: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SourceLocation {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) file_name: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(super) function_name: Option<String>,
    #[prost(uint32, optional, tag = "4")]
    pub(super) line_number: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Frame {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) function_name_id: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub(super) mapping_id: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    pub(super) rel_pc: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub(super) source_path_iid: Option<u64>,
    #[prost(uint32, optional, tag = "6")]
    pub(super) line_number: Option<u32>,
    #[prost(string, optional, tag = "8")]
    pub(super) kind: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Callstack {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    pub(super) frame_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Mapping {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(uint64, repeated, packed = "false", tag = "7")]
    pub(super) path_string_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PerfSample {
    #[prost(uint32, optional, tag = "2")]
    pub(super) pid: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub(super) tid: Option<u32>,
    #[prost(uint64, optional, tag = "4")]
    pub(super) callstack_iid: Option<u64>,
    #[prost(uint64, optional, tag = "6")]
    pub(super) timebase_count: Option<u64>,
    #[prost(int32, optional, tag = "18")]
    pub(super) sample_skipped_reason: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StreamingProfilePacket {
    #[prost(uint64, repeated, packed = "false", tag = "1")]
    pub(super) callstack_iids: Vec<u64>,
    #[prost(int64, repeated, packed = "false", tag = "2")]
    pub(super) timestamp_deltas_us: Vec<i64>,
}
