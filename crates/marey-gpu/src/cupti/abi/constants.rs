//! CUPTI's enumerations: activity kinds, domains, attributes, and values of record fields.

/// A constant with its names.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    /// Name in the vendor's headers.
    pub c_name: &'static str,
    /// Value.
    pub value: u32,
    /// First API version with the constant; 0 for all.
    pub since: u32,
    /// Description.
    pub description: &'static str,
}

/// Declares enumerations. Each has the prefix of the vendor's names, then for each constant marey's
/// name, the rest of the vendor's name, the value, and the description.
macro_rules! constants {
    ($(
        #[doc = $doc:literal]
        $module:ident: $prefix:literal
        { $(
            $name:ident = $suffix:literal $value:literal $description:literal
            $(since $since:literal)?;
        )+ }
    )+) => {
        $(
            #[doc = $doc]
            pub mod $module {
                use super::Constant;

                $(
                    #[doc = concat!("`", $prefix, $suffix, "`: ", $description, ".")]
                    pub const $name: u32 = $value;
                )+

                /// Every constant.
                pub static ALL: &[Constant] = &[$(
                    Constant {
                        c_name: concat!($prefix, $suffix),
                        value: $name,
                        since: 0 $(+ $since)?,
                        description: $description,
                    }
                ),+];

                /// Returns the description of a value.
                pub fn description(value: u32) -> Option<&'static str> {
                    let constant = ALL.iter().find(|constant| constant.value == value);
                    constant.map(|constant| constant.description)
                }
            }
        )+

        /// Every enumeration.
        pub static ALL: &[&[Constant]] = &[$($module::ALL),+];
    };
}

constants! {
    /// Kinds of activity records.
    kind: "CUPTI_ACTIVITY_KIND_" {
        MEMCPY = "MEMCPY" 1 "copy";
        MEMSET = "MEMSET" 2 "fill";
        KERNEL = "KERNEL" 3 "serialized kernel";
        DRIVER = "DRIVER" 4 "call of the driver";
        RUNTIME = "RUNTIME" 5 "call of the runtime";
        DEVICE = "DEVICE" 8 "device";
        CONTEXT = "CONTEXT" 9 "context";
        CONCURRENT_KERNEL = "CONCURRENT_KERNEL" 10 "kernel";
        NAME = "NAME" 11 "name of a thread, device, context or stream";
        MARKER = "MARKER" 12 "start, end or mark of NVTX";
        MARKER_DATA = "MARKER_DATA" 13 "payload of an NVTX range or mark";
        OVERHEAD = "OVERHEAD" 17 "overhead";
        MEMCPY2 = "MEMCPY2" 22 "copy from device to device";
        CUDA_EVENT = "CUDA_EVENT" 36 "event recorded on a stream";
        STREAM = "STREAM" 37 "stream";
        SYNCHRONIZATION = "SYNCHRONIZATION" 38 "wait";
        EXTERNAL_CORRELATION = "EXTERNAL_CORRELATION" 39 "external correlation id";
        INTERNAL_LAUNCH_API = "INTERNAL_LAUNCH_API" 48 "launch by the driver itself";
        GRAPH_TRACE = "GRAPH_TRACE" 51 "launch of a whole graph";
        GRAPH_HOST_NODE = "GRAPH_HOST_NODE" 56 "host function of a graph" since 130_101;
    }

    /// Domains of callbacks.
    domain: "CUPTI_CB_DOMAIN_" {
        DRIVER_API = "DRIVER_API" 1 "calls of the driver";
        RUNTIME_API = "RUNTIME_API" 2 "calls of the runtime";
        RESOURCE = "RESOURCE" 3 "resources";
        SYNCHRONIZE = "SYNCHRONIZE" 4 "waits";
        NVTX = "NVTX" 5 "NVTX calls";
        STATE = "STATE" 6 "errors of the library" since 22;
    }

    /// Callbacks of [`domain::RESOURCE`].
    resource: "CUPTI_CBID_RESOURCE_" {
        CONTEXT_CREATED = "CONTEXT_CREATED" 1 "context created";
        CONTEXT_DESTROY_STARTING = "CONTEXT_DESTROY_STARTING" 2 "context about to be destroyed";
        STREAM_CREATED = "STREAM_CREATED" 3 "stream created";
        STREAM_DESTROY_STARTING = "STREAM_DESTROY_STARTING" 4 "stream about to be destroyed";
        CU_INIT_FINISHED = "CU_INIT_FINISHED" 5 "driver initialised";
        MODULE_LOADED = "MODULE_LOADED" 6 "module loaded";
        MODULE_UNLOAD_STARTING = "MODULE_UNLOAD_STARTING" 7 "module about to be unloaded";
        GRAPH_CREATED = "GRAPH_CREATED" 9 "graph created";
        GRAPH_DESTROY_STARTING = "GRAPH_DESTROY_STARTING" 10 "graph about to be destroyed";
        GRAPH_CLONED = "GRAPH_CLONED" 11 "graph cloned";
        GRAPHNODE_CREATED = "GRAPHNODE_CREATED" 13 "graph node created";
        GRAPHNODE_DESTROY_STARTING = "GRAPHNODE_DESTROY_STARTING" 14 "graph node about to be destroyed";
        GRAPHEXEC_CREATE_STARTING = "GRAPHEXEC_CREATE_STARTING" 17 "executable graph about to be created";
        GRAPHEXEC_CREATED = "GRAPHEXEC_CREATED" 18 "executable graph created";
        GRAPHEXEC_DESTROY_STARTING = "GRAPHEXEC_DESTROY_STARTING" 19 "executable graph about to be destroyed";
        GRAPHNODE_CLONED = "GRAPHNODE_CLONED" 20 "graph node cloned";
    }

    /// Callbacks of [`domain::SYNCHRONIZE`].
    synchronize: "CUPTI_CBID_SYNCHRONIZE_" {
        STREAM_SYNCHRONIZED = "STREAM_SYNCHRONIZED" 1 "stream synchronized";
        CONTEXT_SYNCHRONIZED = "CONTEXT_SYNCHRONIZED" 2 "context synchronized";
    }

    /// Callbacks of [`domain::STATE`].
    state: "CUPTI_CBID_STATE_" {
        FATAL_ERROR = "FATAL_ERROR" 1 "fatal error of the library" since 22;
        ERROR = "ERROR" 2 "error" since 22;
        WARNING = "WARNING" 3 "warning" since 22;
    }

    /// Site of a callback in an API call.
    site: "CUPTI_API_" {
        ENTER = "ENTER" 0 "before the call";
        EXIT = "EXIT" 1 "after the call";
    }

    /// Attributes of `cuptiActivitySetAttribute`.
    attribute: "CUPTI_ACTIVITY_ATTR_" {
        DEVICE_BUFFER_SIZE = "DEVICE_BUFFER_SIZE" 0 "bytes of a buffer on the device, as a `size_t`";
        DEVICE_BUFFER_POOL_LIMIT = "DEVICE_BUFFER_POOL_LIMIT" 2 "most buffers on a device, as a `size_t`";
        ZEROED_OUT_ACTIVITY_BUFFER = "ZEROED_OUT_ACTIVITY_BUFFER" 5 "whether buffers are zeroed by the client, as a byte";
        DEVICE_BUFFER_PRE_ALLOCATE_VALUE = "DEVICE_BUFFER_PRE_ALLOCATE_VALUE" 6 "buffers that a context begins with, as a `size_t`";
        MEM_ALLOCATION_TYPE_HOST_PINNED = "MEM_ALLOCATION_TYPE_HOST_PINNED" 8 "whether these buffers are in pinned host memory, as a byte";
        PER_THREAD_ACTIVITY_BUFFER = "PER_THREAD_ACTIVITY_BUFFER" 9 "whether each thread has its own buffer, as a byte" since 22;
    }

    /// Flags of `cuptiActivityFlushAll`.
    flush: "CUPTI_ACTIVITY_FLAG_FLUSH_" {
        FORCED = "FORCED" 1 "including incomplete records";
    }

    /// Flags of markers.
    marker_flag: "CUPTI_ACTIVITY_FLAG_MARKER_" {
        INSTANTANEOUS = "INSTANTANEOUS" 1 "mark";
        START = "START" 2 "begin of a range";
        END = "END" 4 "end of a range";
    }

    /// Types of marker payloads.
    payload_kind: "CUPTI_METRIC_VALUE_KIND_" {
        DOUBLE = "DOUBLE" 0 "real number";
        UINT64 = "UINT64" 1 "whole number";
        INT64 = "INT64" 4 "whole number with a sign";
    }

    /// Kinds of overhead records.
    overhead_kind: "CUPTI_ACTIVITY_OVERHEAD_" {
        UNKNOWN = "UNKNOWN" 0 "unknown";
        DRIVER_COMPILER = "DRIVER_COMPILER" 1 "compilation by the driver";
        BUFFER_FLUSH = "CUPTI_BUFFER_FLUSH" 0x1_0000 "flush of activity buffers";
        INSTRUMENTATION = "CUPTI_INSTRUMENTATION" 0x2_0000 "instrumentation";
        RESOURCE = "CUPTI_RESOURCE" 0x3_0000 "resources of the tracer";
        RUNTIME_TRIGGERED_MODULE_LOADING = "RUNTIME_TRIGGERED_MODULE_LOADING" 0x4_0000 "loading of a module" since 22;
        LAZY_FUNCTION_LOADING = "LAZY_FUNCTION_LOADING" 0x5_0000 "lazy loading of a function" since 22;
        COMMAND_BUFFER_FULL = "COMMAND_BUFFER_FULL" 0x6_0000 "full command buffer" since 22;
        ACTIVITY_BUFFER_REQUEST = "ACTIVITY_BUFFER_REQUEST" 0x7_0000 "request of an activity buffer" since 24;
        UVM_ACTIVITY_INIT = "UVM_ACTIVITY_INIT" 0x8_0000 "set-up of unified-memory tracing" since 26;
    }

    /// Kinds of objects that a record refers to.
    object_kind: "CUPTI_ACTIVITY_OBJECT_" {
        UNKNOWN = "UNKNOWN" 0 "unknown";
        PROCESS = "PROCESS" 1 "process";
        THREAD = "THREAD" 2 "thread";
        DEVICE = "DEVICE" 3 "device";
        CONTEXT = "CONTEXT" 4 "context";
        STREAM = "STREAM" 5 "stream";
    }

    /// Types of synchronisation records.
    synchronization_type: "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_" {
        UNKNOWN = "UNKNOWN" 0 "unknown";
        EVENT_SYNCHRONIZE = "EVENT_SYNCHRONIZE" 1 "host waits for an event";
        STREAM_WAIT_EVENT = "STREAM_WAIT_EVENT" 2 "stream waits for an event";
        STREAM_SYNCHRONIZE = "STREAM_SYNCHRONIZE" 3 "host waits for a stream";
        CONTEXT_SYNCHRONIZE = "CONTEXT_SYNCHRONIZE" 4 "host waits for a context";
    }

    /// Kinds of copies.
    memcpy_kind: "CUPTI_ACTIVITY_MEMCPY_KIND_" {
        UNKNOWN = "UNKNOWN" 0 "unknown";
        HTOD = "HTOD" 1 "HtoD";
        DTOH = "DTOH" 2 "DtoH";
        HTOA = "HTOA" 3 "HtoA";
        ATOH = "ATOH" 4 "AtoH";
        ATOA = "ATOA" 5 "AtoA";
        ATOD = "ATOD" 6 "AtoD";
        DTOA = "DTOA" 7 "DtoA";
        DTOD = "DTOD" 8 "DtoD";
        HTOH = "HTOH" 9 "HtoH";
        PTOP = "PTOP" 10 "PtoP";
    }

    /// Kinds of memory.
    memory_kind: "CUPTI_ACTIVITY_MEMORY_KIND_" {
        UNKNOWN = "UNKNOWN" 0 "Unknown";
        PAGEABLE = "PAGEABLE" 1 "Pageable";
        PINNED = "PINNED" 2 "Pinned";
        DEVICE = "DEVICE" 3 "Device";
        ARRAY = "ARRAY" 4 "Array";
        MANAGED = "MANAGED" 5 "Managed";
        DEVICE_STATIC = "DEVICE_STATIC" 6 "Device Static";
        MANAGED_STATIC = "MANAGED_STATIC" 7 "Managed Static";
    }

    /// Launch types of kernels.
    launch_type: "CUPTI_ACTIVITY_LAUNCH_TYPE_" {
        REGULAR = "REGULAR" 0 "regular";
        COOPERATIVE_SINGLE_DEVICE = "COOPERATIVE_SINGLE_DEVICE" 1 "cooperative";
        COOPERATIVE_MULTI_DEVICE = "COOPERATIVE_MULTI_DEVICE" 2 "cooperative on several devices";
        CBL_COMMANDLIST = "CBL_COMMANDLIST" 3 "command list";
    }

    /// Types of hardware channels.
    channel_type: "CUPTI_CHANNEL_TYPE_" {
        INVALID = "INVALID" 0 "unknown";
        COMPUTE = "COMPUTE" 1 "compute";
        ASYNC_MEMCPY = "ASYNC_MEMCPY" 2 "asynchronous copy";
    }

    /// Flags of streams.
    stream_flag: "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_" {
        UNKNOWN = "UNKNOWN" 0 "unknown";
        DEFAULT = "DEFAULT" 1 "waits for the null stream";
        NON_BLOCKING = "NON_BLOCKING" 2 "does not wait for the null stream";
        NULL = "NULL" 3 "the null stream";
    }

    /// Kinds of external correlation ids.
    external_kind: "CUPTI_EXTERNAL_CORRELATION_KIND_" {
        UNKNOWN = "UNKNOWN" 1 "unknown";
        CUSTOM0 = "CUSTOM0" 3 "custom 0";
        CUSTOM1 = "CUSTOM1" 4 "custom 1";
        CUSTOM2 = "CUSTOM2" 5 "custom 2";
    }

    /// Types of graph nodes.
    node_type: "CU_GRAPH_NODE_TYPE_" {
        KERNEL = "KERNEL" 0 "kernel";
        MEMCPY = "MEMCPY" 1 "copy";
        MEMSET = "MEMSET" 2 "fill";
        HOST = "HOST" 3 "host function";
        GRAPH = "GRAPH" 4 "graph";
        EMPTY = "EMPTY" 5 "nothing";
        WAIT_EVENT = "WAIT_EVENT" 6 "wait for an event";
        EVENT_RECORD = "EVENT_RECORD" 7 "record of an event";
        MEM_ALLOC = "MEM_ALLOC" 10 "allocation";
        MEM_FREE = "MEM_FREE" 11 "release";
    }
}
