//! The functions of CUPTI that we call, and those of ours that it calls.

use std::ffi::{c_char, c_void};
use std::mem::offset_of;

use super::abi::layout::subscriber_params;
use super::dl::functions;

/// The handle of a subscriber.
pub type Subscriber = *mut c_void;
/// A context of the driver.
pub type CuContext = *mut c_void;
/// A stream of the driver.
pub type CuStream = *mut c_void;

/// Called at both ends of a call, and for resources: what we gave when subscribing, the domain, the
/// number in it, and data whose layout depends on the domain.
pub type Callback =
    unsafe extern "C" fn(userdata: *mut c_void, domain: u32, cbid: u32, data: *const c_void);

/// Called for an empty buffer: where its address, its bytes, and the most records in it (0: as many as fit) go.
pub type BufferRequested =
    unsafe extern "C" fn(buffer: *mut *mut u8, size: *mut usize, max_records: *mut usize);

/// Called with a full buffer: its address, its bytes, and those that hold records.
pub type BufferCompleted = unsafe extern "C" fn(
    context: CuContext,
    stream_id: u32,
    buffer: *mut u8,
    size: usize,
    valid_size: usize,
);

/// What a subscriber beside others says and is told: laid out as in
/// [`subscriber_params`](super::abi::layout::subscriber_params).
#[repr(C)]
#[derive(Debug)]
pub struct SubscriberParams {
    /// Bytes of this structure.
    pub struct_size: usize,
    /// What others are told of us.
    pub name: *const c_char,
    /// Where the name goes of who has subscribed before.
    pub holder: *mut c_char,
    /// Bytes there.
    pub holder_bytes: usize,
    /// Whether others may subscribe too.
    pub allows_others: u8,
    /// Nothing.
    pub padding: [u8; 7],
}

const _: () = {
    assert!(offset_of!(SubscriberParams, struct_size) == subscriber_params::STRUCT_SIZE.offset);
    assert!(offset_of!(SubscriberParams, name) == subscriber_params::SUBSCRIBER_NAME.offset);
    assert!(offset_of!(SubscriberParams, holder) == subscriber_params::OLD_SUBSCRIBER_NAME.offset);
    assert!(
        offset_of!(SubscriberParams, holder_bytes) == subscriber_params::OLD_SUBSCRIBER_SIZE.offset
    );
    assert!(
        offset_of!(SubscriberParams, allows_others)
            == subscriber_params::ALLOW_MULTIPLE_SUBSCRIBERS.offset
    );
    assert!(size_of::<SubscriberParams>() == subscriber_params::LAYOUT.structs[1].bytes);
};

/// As [`BufferRequested`], of a subscriber beside others. The last argument says nothing that we need.
pub type ScopedBufferRequested = unsafe extern "C" fn(
    buffer: *mut *mut u8,
    size: *mut usize,
    max_records: *mut usize,
    info: *mut c_void,
);

/// As [`BufferCompleted`], of a subscriber beside others.
pub type ScopedBufferCompleted =
    unsafe extern "C" fn(buffer: *mut u8, size: usize, valid_size: usize, info: *mut c_void);

functions! {
    /// Calls that take the subscriber, where [`Functions`] have them for the process. So several tools
    /// record at once; a process in which one uses these and another those gives 14 to the later.
    pub struct ScopedFunctions -> u32;

    needed {
        /// Becomes a subscriber; 39 if there is one that bears no other.
        subscribe = c"cuptiSubscribe_v2" (subscriber: *mut Subscriber, callback: Callback, userdata: *mut c_void, params: *mut SubscriberParams);
        /// Says who gives and takes the subscriber's buffers.
        activity_register_callbacks = c"cuptiActivityRegisterCallbacks_v2" (subscriber: Subscriber, requested: ScopedBufferRequested, completed: ScopedBufferCompleted);
        /// Turns a kind of records on; a null configuration asks for whole records.
        activity_enable = c"cuptiActivityEnable_v2" (subscriber: Subscriber, kind: u32, config: *mut c_void);
        /// Turns a kind of records off.
        activity_disable = c"cuptiActivityDisable_v2" (subscriber: Subscriber, kind: u32, config: *mut c_void);
        /// Goes to the next record.
        activity_get_next_record = c"cuptiActivityGetNextRecord_v2" (subscriber: Subscriber, buffer: *mut u8, valid_size: usize, record: *mut *mut u8);
        /// How many records the subscriber lost since it last asked.
        activity_get_num_dropped_records = c"cuptiActivityGetNumDroppedRecords_v2" (subscriber: Subscriber, context: CuContext, stream_id: u32, dropped: *mut usize);
        /// The time by which the subscriber's records are stamped, in nanoseconds.
        get_timestamp = c"cuptiGetTimestamp_v2" (subscriber: Subscriber, timestamp: *mut u64);
    }

    optional {}
}

functions! {
    /// Functions of a libcupti. Each gives a code of [`result`](super::abi::result).
    ///
    /// None may be called while a lock is held that a callback takes.
    pub struct Functions -> u32;

    needed {
        /// Becomes the subscriber of the process; 39 if there is one.
        subscribe = c"cuptiSubscribe" (subscriber: *mut Subscriber, callback: Callback, userdata: *mut c_void);
        /// Ends that.
        unsubscribe = c"cuptiUnsubscribe" (subscriber: Subscriber);
        /// Turns one callback on (1) or off (0).
        enable_callback = c"cuptiEnableCallback" (enable: u32, subscriber: Subscriber, domain: u32, cbid: u32);
        /// Turns all callbacks of a domain on (1) or off (0).
        enable_domain = c"cuptiEnableDomain" (enable: u32, subscriber: Subscriber, domain: u32);
        /// Says who gives and takes buffers, for the process.
        activity_register_callbacks = c"cuptiActivityRegisterCallbacks" (requested: BufferRequested, completed: BufferCompleted);
        /// Turns a kind of records on.
        activity_enable = c"cuptiActivityEnable" (kind: u32);
        /// Turns a kind of records off.
        activity_disable = c"cuptiActivityDisable" (kind: u32);
        /// Has buffers completed, with flags of [`flush`](super::abi::constants::flush).
        activity_flush_all = c"cuptiActivityFlushAll" (flags: u32);
        /// Goes to the next record: null, or the last one, becomes the next. 12 at the end.
        activity_get_next_record = c"cuptiActivityGetNextRecord" (buffer: *mut u8, valid_size: usize, record: *mut *mut u8);
        /// How many records were dropped since it was last asked; a null context for all.
        activity_get_num_dropped_records = c"cuptiActivityGetNumDroppedRecords" (context: CuContext, stream_id: u32, dropped: *mut usize);
        /// Sets one of [`attribute`](super::abi::constants::attribute).
        activity_set_attribute = c"cuptiActivitySetAttribute" (attribute: u32, value_size: *mut usize, value: *mut c_void);
        /// Puts a number of ours on the thread's stack of them.
        activity_push_external_correlation_id = c"cuptiActivityPushExternalCorrelationId" (kind: u32, id: u64);
        /// Takes the last one off.
        activity_pop_external_correlation_id = c"cuptiActivityPopExternalCorrelationId" (kind: u32, last_id: *mut u64);
        /// The time by which records are stamped, in nanoseconds.
        get_timestamp = c"cuptiGetTimestamp" (timestamp: *mut u64);
        /// The API version.
        get_version = c"cuptiGetVersion" (version: *mut u32);
        /// Takes the library out of the program. Whoever else uses this copy loses it too.
        finalize = c"cuptiFinalize" ();
    }

    optional {
        /// Has buffers completed every so many milliseconds; 0 ends that.
        activity_flush_period = c"cuptiActivityFlushPeriod" (millis: u32);
        /// Has the hardware stamp kernels, on Blackwell and later.
        activity_enable_hw_trace = c"cuptiActivityEnableHWTrace" (enable: u8);
        /// The text of a code. Some versions have none where there is no driver: see [`result`](super::abi::result).
        get_result_string = c"cuptiGetResultString" (result: u32, text: *mut *const c_char);
        /// The name of a call, by its domain and number.
        get_callback_name = c"cuptiGetCallbackName" (domain: u32, cbid: u32, name: *mut *const c_char);
        /// The number of a graph, as records have it.
        get_graph_id = c"cuptiGetGraphId" (graph: *mut c_void, id: *mut u32);
        /// The number of an executable graph.
        get_graph_exec_id = c"cuptiGetGraphExecId" (graph_exec: *mut c_void, id: *mut u32);
        /// The number of a node.
        get_graph_node_id = c"cuptiGetGraphNodeId" (node: *mut c_void, id: *mut u64);
        /// The number of a context.
        get_context_id = c"cuptiGetContextId" (context: CuContext, id: *mut u32);
        /// The number of a context's device.
        get_device_id = c"cuptiGetDeviceId" (context: CuContext, id: *mut u32);
        /// The number of a stream; 1 if the null stream means the thread's own.
        get_stream_id_ex = c"cuptiGetStreamIdEx" (context: CuContext, stream: CuStream, per_thread_stream: u8, id: *mut u32);
    }
}
