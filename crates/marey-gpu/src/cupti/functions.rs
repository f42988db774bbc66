//! The tables of CUPTI's functions, loaded by name, and the types of the callbacks that CUPTI
//! calls.

use std::ffi::{c_char, c_void};
use std::mem::offset_of;

use super::abi::layout::subscriber_params;
use super::dl::functions;

/// Handle of a subscriber.
pub type Subscriber = *mut c_void;
/// A CUDA context.
pub type CuContext = *mut c_void;

/// The subscriber's callback, called at entry and exit of API calls and for resources. Its
/// arguments are the user data of the subscription, the domain, the callback id, and data whose
/// layout depends on the domain.
pub type Callback =
    unsafe extern "C" fn(userdata: *mut c_void, domain: u32, cbid: u32, data: *const c_void);

/// The callback for a requested buffer. It writes the buffer's address, its size, and the maximum
/// number of records (0: as many as fit).
pub type BufferRequested =
    unsafe extern "C" fn(buffer: *mut *mut u8, size: *mut usize, max_records: *mut usize);

/// The callback for a completed buffer. It receives the buffer's address, its size, and the size of
/// the part with records.
pub type BufferCompleted = unsafe extern "C" fn(
    context: CuContext,
    stream_id: u32,
    buffer: *mut u8,
    size: usize,
    valid_size: usize,
);

/// Parameters of `cuptiSubscribe_v2`, laid out as in
/// [`subscriber_params`](super::abi::layout::subscriber_params).
#[repr(C)]
#[derive(Debug)]
pub struct SubscriberParams {
    /// Size of this structure.
    pub struct_size: usize,
    /// Name of this subscriber, for other tools.
    pub name: *const c_char,
    /// Buffer that receives the name of the existing subscriber.
    pub existing_name: *mut c_char,
    /// Size of that buffer.
    pub existing_name_bytes: usize,
    /// Whether other tools may subscribe too.
    pub allows_others: u8,
    /// Padding.
    pub padding: [u8; 7],
}

const _: () = {
    assert!(offset_of!(SubscriberParams, struct_size) == subscriber_params::STRUCT_SIZE.offset);
    assert!(offset_of!(SubscriberParams, name) == subscriber_params::SUBSCRIBER_NAME.offset);
    assert!(
        offset_of!(SubscriberParams, existing_name)
            == subscriber_params::OLD_SUBSCRIBER_NAME.offset
    );
    assert!(
        offset_of!(SubscriberParams, existing_name_bytes)
            == subscriber_params::OLD_SUBSCRIBER_SIZE.offset
    );
    assert!(
        offset_of!(SubscriberParams, allows_others)
            == subscriber_params::ALLOW_MULTIPLE_SUBSCRIBERS.offset
    );
    assert!(size_of::<SubscriberParams>() == subscriber_params::LAYOUT.structs[1].bytes);
};

/// Like [`BufferRequested`], in shared mode. The last argument is not used.
pub type SharedBufferRequested = unsafe extern "C" fn(
    buffer: *mut *mut u8,
    size: *mut usize,
    max_records: *mut usize,
    info: *mut c_void,
);

/// Like [`BufferCompleted`], in shared mode.
pub type SharedBufferCompleted =
    unsafe extern "C" fn(buffer: *mut u8, size: usize, valid_size: usize, info: *mut c_void);

functions! {
    /// Functions with a subscriber argument, for shared mode, in which several tools can record at
    /// once. [`Functions`] apply to the whole process instead. In a process that mixes both
    /// variants, the later calls fail with code 14.
    pub struct SharedModeFunctions -> u32;

    required {
        /// Subscribes; fails with 39 if a subscriber does not allow others.
        subscribe = c"cuptiSubscribe_v2" (subscriber: *mut Subscriber, callback: Callback, userdata: *mut c_void, params: *mut SubscriberParams);
        /// Registers the callbacks for the subscriber's buffers.
        activity_register_callbacks = c"cuptiActivityRegisterCallbacks_v2" (subscriber: Subscriber, requested: SharedBufferRequested, completed: SharedBufferCompleted);
        /// Enables an activity kind; a null configuration selects whole records.
        activity_enable = c"cuptiActivityEnable_v2" (subscriber: Subscriber, kind: u32, config: *mut c_void);
        /// Disables an activity kind.
        activity_disable = c"cuptiActivityDisable_v2" (subscriber: Subscriber, kind: u32, config: *mut c_void);
        /// Advances to the next record.
        activity_get_next_record = c"cuptiActivityGetNextRecord_v2" (subscriber: Subscriber, buffer: *mut u8, valid_size: usize, record: *mut *mut u8);
        /// Writes the number of records that the subscriber lost since the last call.
        activity_get_num_dropped_records = c"cuptiActivityGetNumDroppedRecords_v2" (subscriber: Subscriber, context: CuContext, stream_id: u32, dropped: *mut usize);
        /// Writes the current time of the clock of the subscriber's records, in nanoseconds.
        get_timestamp = c"cuptiGetTimestamp_v2" (subscriber: Subscriber, timestamp: *mut u64);
    }

    optional {}
}

functions! {
    /// Functions of libcupti. Each returns a `CUptiResult`, see [`result`](super::abi::result).
    ///
    /// No lock that a callback takes may be held during a call.
    pub struct Functions -> u32;

    required {
        /// Subscribes; fails with 39 if the process has a subscriber.
        subscribe = c"cuptiSubscribe" (subscriber: *mut Subscriber, callback: Callback, userdata: *mut c_void);
        /// Ends the subscription.
        unsubscribe = c"cuptiUnsubscribe" (subscriber: Subscriber);
        /// Enables (1) or disables (0) a callback.
        enable_callback = c"cuptiEnableCallback" (enable: u32, subscriber: Subscriber, domain: u32, cbid: u32);
        /// Enables (1) or disables (0) all callbacks of a domain.
        enable_domain = c"cuptiEnableDomain" (enable: u32, subscriber: Subscriber, domain: u32);
        /// Registers the callbacks for buffers of the process.
        activity_register_callbacks = c"cuptiActivityRegisterCallbacks" (requested: BufferRequested, completed: BufferCompleted);
        /// Enables an activity kind.
        activity_enable = c"cuptiActivityEnable" (kind: u32);
        /// Disables an activity kind.
        activity_disable = c"cuptiActivityDisable" (kind: u32);
        /// Flushes activity buffers, with flags of [`flush`](super::abi::constants::flush).
        activity_flush_all = c"cuptiActivityFlushAll" (flags: u32);
        /// Advances from a record, or null, to the next one. Returns 12 after the last record.
        activity_get_next_record = c"cuptiActivityGetNextRecord" (buffer: *mut u8, valid_size: usize, record: *mut *mut u8);
        /// Writes the number of records dropped since the last call; a null context means all.
        activity_get_num_dropped_records = c"cuptiActivityGetNumDroppedRecords" (context: CuContext, stream_id: u32, dropped: *mut usize);
        /// Sets one of [`attribute`](super::abi::constants::attribute).
        activity_set_attribute = c"cuptiActivitySetAttribute" (attribute: u32, value_size: *mut usize, value: *mut c_void);
        /// Pushes an external correlation id on the calling thread's stack.
        activity_push_external_correlation_id = c"cuptiActivityPushExternalCorrelationId" (kind: u32, id: u64);
        /// Pops an external correlation id.
        activity_pop_external_correlation_id = c"cuptiActivityPopExternalCorrelationId" (kind: u32, last_id: *mut u64);
        /// Writes the current time of the clock of the records, in nanoseconds.
        get_timestamp = c"cuptiGetTimestamp" (timestamp: *mut u64);
        /// Writes the API version.
        get_version = c"cuptiGetVersion" (version: *mut u32);
        /// Detaches CUPTI from the process, for all users of this copy.
        finalize = c"cuptiFinalize" ();
    }

    optional {
        /// Sets a period after which buffers are flushed; 0 disables it.
        activity_flush_period = c"cuptiActivityFlushPeriod" (millis: u32);
        /// Writes the id of a graph node.
        get_graph_node_id = c"cuptiGetGraphNodeId" (node: *mut c_void, id: *mut u64);
        /// Writes the device number of a context.
        get_device_id = c"cuptiGetDeviceId" (context: CuContext, id: *mut u32);
    }
}
