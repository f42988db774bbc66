//! The offsets of the fields of activity records and callback data, and the API version since which
//! each field exists.

pub use super::record::Field;

/// The layout of one kind of record.
#[derive(Debug)]
pub struct RecordLayout {
    /// Name of the layout.
    pub name: &'static str,
    /// Structures in the vendor's headers, oldest first.
    pub structs: &'static [StructVersion],
    /// The fields that marey uses.
    pub fields: &'static [NamedField],
}

/// One version of a record.
#[derive(Clone, Copy, Debug)]
pub struct StructVersion {
    /// Name in the vendor's headers.
    pub c_name: &'static str,
    /// Size.
    pub bytes: usize,
    /// First API version that writes this structure; 0 for the oldest.
    pub since: u32,
}

/// A field with its name.
#[derive(Clone, Copy, Debug)]
pub struct NamedField {
    /// Name in the vendor's headers.
    pub c_name: &'static str,
    /// Offset, size and version.
    pub field: Field,
}

impl RecordLayout {
    /// Returns the structure that a library of this API version writes.
    pub fn written_by(&self, api_version: u32) -> &StructVersion {
        let newest = self.structs.iter().rev().find(|version| version.since <= api_version);
        newest.unwrap_or(&self.structs[0])
    }

    /// Returns the size of a record in that version.
    pub fn bytes(&self, api_version: u32) -> usize {
        self.written_by(api_version).bytes
    }
}

/// Declares layouts: structures by name, size and first version, then fields by offset, size and
/// first version.
macro_rules! layouts {
    ($(
        #[doc = $doc:literal]
        $module:ident: $($c_name:literal $bytes:literal $(since $since:literal)?),+;
        { $($field:ident = $c_field:literal @ $offset:literal + $size:literal $(since $from:literal)?;)+ }
    )+) => {
        $(
            #[doc = $doc]
            pub mod $module {
                use super::{Field, RecordLayout, NamedField, StructVersion};

                $(
                    #[doc = concat!("`", $c_field, "`.")]
                    pub const $field: Field =
                        Field { offset: $offset, size: $size, since: 0 $(+ $from)? };
                )+

                /// The layout.
                pub static LAYOUT: RecordLayout = RecordLayout {
                    name: stringify!($module),
                    structs: &[$(
                        StructVersion { c_name: $c_name, bytes: $bytes, since: 0 $(+ $since)? }
                    ),+],
                    fields: &[$(NamedField { c_name: $c_field, field: $field }),+],
                };
            }
        )+

        /// Every layout.
        pub static ALL: &[&RecordLayout] = &[$(&$module::LAYOUT),+];
    };
}

// The version after `since` is the oldest one that `cargo xtask layout` checks. So a record is
// never assumed to be longer than it is.
layouts! {
    /// Common start of every activity record.
    common: "CUpti_Activity" 8;
    {
        KIND = "kind" @ 0 + 4;
    }

    /// A kernel. Timestamps are in nanoseconds of CUPTI's clock; `end` is 0 while unknown.
    kernel:
        "CUpti_ActivityKernel9" 208,
        "CUpti_ActivityKernel10" 216 since 130_000,
        "CUpti_ActivityKernel11" 224 since 130_101,
        "CUpti_ActivityKernel12" 232 since 130_301,
        "CUpti_ActivityKernel13" 248 since 130_401;
    {
        REGISTERS_PER_THREAD = "registersPerThread" @ 6 + 2;
        START = "start" @ 16 + 8;
        END = "end" @ 24 + 8;
        COMPLETED = "completed" @ 32 + 8;
        DEVICE_ID = "deviceId" @ 40 + 4;
        CONTEXT_ID = "contextId" @ 44 + 4;
        STREAM_ID = "streamId" @ 48 + 4;
        GRID_X = "gridX" @ 52 + 4;
        GRID_Y = "gridY" @ 56 + 4;
        GRID_Z = "gridZ" @ 60 + 4;
        BLOCK_X = "blockX" @ 64 + 4;
        BLOCK_Y = "blockY" @ 68 + 4;
        BLOCK_Z = "blockZ" @ 72 + 4;
        STATIC_SHARED_MEMORY = "staticSharedMemory" @ 76 + 4;
        DYNAMIC_SHARED_MEMORY = "dynamicSharedMemory" @ 80 + 4;
        LOCAL_MEMORY_PER_THREAD = "localMemoryPerThread" @ 84 + 4;
        CORRELATION_ID = "correlationId" @ 92 + 4;
        GRID_ID = "gridId" @ 96 + 8;
        NAME = "name" @ 104 + 8;
        QUEUED = "queued" @ 120 + 8;
        SUBMITTED = "submitted" @ 128 + 8;
        LAUNCH_TYPE = "launchType" @ 136 + 1;
        SHARED_MEMORY_EXECUTED = "sharedMemoryExecuted" @ 140 + 4;
        GRAPH_NODE_ID = "graphNodeId" @ 144 + 8;
        GRAPH_ID = "graphId" @ 156 + 4;
        CHANNEL_ID = "channelID" @ 168 + 4;
        CHANNEL_TYPE = "channelType" @ 172 + 4;
        CLUSTER_X = "clusterX" @ 176 + 4;
        CLUSTER_Y = "clusterY" @ 180 + 4;
        CLUSTER_Z = "clusterZ" @ 184 + 4;
        LOCAL_MEMORY_TOTAL = "localMemoryTotal_v2" @ 192 + 8;
        MAX_ACTIVE_CLUSTERS = "maxActiveClusters" @ 204 + 4;
        IS_DEVICE_LAUNCHED = "isDeviceLaunched" @ 208 + 1 since 130_000;
        PRIORITY = "priority" @ 216 + 4 since 130_101;
        SOURCE_GRAPH_ID = "sourceGraphId" @ 232 + 4 since 130_401;
        SOURCE_GRAPH_NODE_ID = "sourceGraphNodeId" @ 240 + 8 since 130_401;
    }

    /// A copy of memory, except between devices.
    memcpy:
        "CUpti_ActivityMemcpy5" 88,
        "CUpti_ActivityMemcpy6" 96 since 26,
        "CUpti_ActivityMemcpy7" 112 since 130_401;
    {
        COPY_KIND = "copyKind" @ 4 + 1;
        SRC_KIND = "srcKind" @ 5 + 1;
        DST_KIND = "dstKind" @ 6 + 1;
        FLAGS = "flags" @ 7 + 1;
        BYTES = "bytes" @ 8 + 8;
        START = "start" @ 16 + 8;
        END = "end" @ 24 + 8;
        DEVICE_ID = "deviceId" @ 32 + 4;
        CONTEXT_ID = "contextId" @ 36 + 4;
        STREAM_ID = "streamId" @ 40 + 4;
        CORRELATION_ID = "correlationId" @ 44 + 4;
        GRAPH_NODE_ID = "graphNodeId" @ 64 + 8;
        GRAPH_ID = "graphId" @ 72 + 4;
        CHANNEL_ID = "channelID" @ 76 + 4;
        CHANNEL_TYPE = "channelType" @ 80 + 4;
        IS_DEVICE_LAUNCHED = "isDeviceLaunched" @ 84 + 1 since 130_000;
        COPY_COUNT = "copyCount" @ 88 + 8 since 26;
        SOURCE_GRAPH_ID = "sourceGraphId" @ 96 + 4 since 130_401;
        SOURCE_GRAPH_NODE_ID = "sourceGraphNodeId" @ 104 + 8 since 130_401;
    }

    /// A copy between devices.
    memcpy_peer: "CUpti_ActivityMemcpyPtoP4" 96;
    {
        COPY_KIND = "copyKind" @ 4 + 1;
        SRC_KIND = "srcKind" @ 5 + 1;
        DST_KIND = "dstKind" @ 6 + 1;
        FLAGS = "flags" @ 7 + 1;
        BYTES = "bytes" @ 8 + 8;
        START = "start" @ 16 + 8;
        END = "end" @ 24 + 8;
        DEVICE_ID = "deviceId" @ 32 + 4;
        CONTEXT_ID = "contextId" @ 36 + 4;
        STREAM_ID = "streamId" @ 40 + 4;
        SRC_DEVICE_ID = "srcDeviceId" @ 44 + 4;
        SRC_CONTEXT_ID = "srcContextId" @ 48 + 4;
        DST_DEVICE_ID = "dstDeviceId" @ 52 + 4;
        DST_CONTEXT_ID = "dstContextId" @ 56 + 4;
        CORRELATION_ID = "correlationId" @ 60 + 4;
        GRAPH_NODE_ID = "graphNodeId" @ 72 + 8;
        GRAPH_ID = "graphId" @ 80 + 4;
        CHANNEL_ID = "channelID" @ 84 + 4;
        CHANNEL_TYPE = "channelType" @ 88 + 4;
    }

    /// A fill of memory.
    memset:
        "CUpti_ActivityMemset4" 88,
        "CUpti_ActivityMemset5" 104 since 130_401;
    {
        VALUE = "value" @ 4 + 4;
        BYTES = "bytes" @ 8 + 8;
        START = "start" @ 16 + 8;
        END = "end" @ 24 + 8;
        DEVICE_ID = "deviceId" @ 32 + 4;
        CONTEXT_ID = "contextId" @ 36 + 4;
        STREAM_ID = "streamId" @ 40 + 4;
        CORRELATION_ID = "correlationId" @ 44 + 4;
        FLAGS = "flags" @ 48 + 2;
        MEMORY_KIND = "memoryKind" @ 50 + 2;
        GRAPH_NODE_ID = "graphNodeId" @ 64 + 8;
        GRAPH_ID = "graphId" @ 72 + 4;
        CHANNEL_ID = "channelID" @ 76 + 4;
        CHANNEL_TYPE = "channelType" @ 80 + 4;
        IS_DEVICE_LAUNCHED = "isDeviceLaunched" @ 84 + 1 since 130_000;
        SOURCE_GRAPH_ID = "sourceGraphId" @ 88 + 4 since 130_401;
        SOURCE_GRAPH_NODE_ID = "sourceGraphNodeId" @ 96 + 8 since 130_401;
    }

    /// A synchronisation: of the host with the device, or of a stream with an event.
    synchronization:
        "CUpti_ActivitySynchronization" 40,
        "CUpti_ActivitySynchronization2" 56 since 26;
    {
        TYPE = "type" @ 4 + 4;
        START = "start" @ 8 + 8;
        END = "end" @ 16 + 8;
        CORRELATION_ID = "correlationId" @ 24 + 4;
        CONTEXT_ID = "contextId" @ 28 + 4;
        STREAM_ID = "streamId" @ 32 + 4;
        CUDA_EVENT_ID = "cudaEventId" @ 36 + 4;
        CUDA_EVENT_SYNC_ID = "cudaEventSyncId" @ 40 + 8 since 26;
        RETURN_VALUE = "returnValue" @ 48 + 4 since 26;
    }

    /// A call of the driver or runtime API.
    api: "CUpti_ActivityAPI" 40;
    {
        CBID = "cbid" @ 4 + 4;
        START = "start" @ 8 + 8;
        END = "end" @ 16 + 8;
        PROCESS_ID = "processId" @ 24 + 4;
        THREAD_ID = "threadId" @ 28 + 4;
        CORRELATION_ID = "correlationId" @ 32 + 4;
        RETURN_VALUE = "returnValue" @ 36 + 4;
    }

    /// Overhead of the driver or of CUPTI.
    overhead:
        "CUpti_ActivityOverhead" 40,
        "CUpti_ActivityOverhead3" 56 since 22;
    {
        OVERHEAD_KIND = "overheadKind" @ 4 + 4;
        OBJECT_KIND = "objectKind" @ 8 + 4;
        OBJECT_ID = "objectId" @ 12 + 12;
        OBJECT_THREAD = "objectId.pt.threadId" @ 16 + 4;
        OBJECT_DEVICE = "objectId.dcs.deviceId" @ 12 + 4;
        START = "start" @ 24 + 8;
        END = "end" @ 32 + 8;
        CORRELATION_ID = "correlationId" @ 40 + 4 since 22;
    }

    /// An external correlation id that applied to a call.
    external_correlation: "CUpti_ActivityExternalCorrelation" 24;
    {
        EXTERNAL_KIND = "externalKind" @ 4 + 4;
        EXTERNAL_ID = "externalId" @ 8 + 8;
        CORRELATION_ID = "correlationId" @ 16 + 4;
    }

    /// A marker: start or end of an NVTX range, or an NVTX mark.
    marker: "CUpti_ActivityMarker2" 56;
    {
        FLAGS = "flags" @ 4 + 4;
        TIMESTAMP = "timestamp" @ 8 + 8;
        ID = "id" @ 16 + 4;
        OBJECT_KIND = "objectKind" @ 20 + 4;
        OBJECT_ID = "objectId" @ 24 + 12;
        NAME = "name" @ 40 + 8;
        DOMAIN = "domain" @ 48 + 8;
    }

    /// Payload of a marker.
    marker_data:
        "CUpti_ActivityMarkerData" 32,
        "CUpti_ActivityMarkerData2" 40 since 130_000;
    {
        FLAGS = "flags" @ 4 + 4;
        ID = "id" @ 8 + 4;
        PAYLOAD_KIND = "payloadKind" @ 12 + 4;
        PAYLOAD = "payload" @ 16 + 8;
        COLOR = "color" @ 24 + 4;
        CATEGORY = "category" @ 28 + 4;
        DOMAIN_ID = "cuptiDomainId" @ 32 + 4 since 130_000;
    }

    /// Execution of a whole graph, if its nodes are not traced individually.
    graph_trace:
        "CUpti_ActivityGraphTrace" 48,
        "CUpti_ActivityGraphTrace2" 56 since 22;
    {
        CORRELATION_ID = "correlationId" @ 4 + 4;
        START = "start" @ 8 + 8;
        END = "end" @ 16 + 8;
        DEVICE_ID = "deviceId" @ 24 + 4;
        GRAPH_ID = "graphId" @ 28 + 4;
        CONTEXT_ID = "contextId" @ 32 + 4;
        STREAM_ID = "streamId" @ 36 + 4;
        END_DEVICE_ID = "endDeviceId" @ 48 + 4 since 22;
        END_CONTEXT_ID = "endContextId" @ 52 + 4 since 22;
    }

    /// A host function executed by a graph.
    graph_host_node: "CUpti_ActivityGraphHostNode" 56 since 130_101;
    {
        STREAM_ID = "streamId" @ 4 + 4 since 130_101;
        CONTEXT_ID = "contextId" @ 8 + 4 since 130_101;
        DEVICE_ID = "deviceId" @ 12 + 4 since 130_101;
        CORRELATION_ID = "correlationId" @ 16 + 4 since 130_101;
        GRAPH_ID = "graphId" @ 20 + 4 since 130_101;
        GRAPH_NODE_ID = "graphNodeId" @ 24 + 8 since 130_101;
        PROCESS_ID = "processId" @ 32 + 4 since 130_101;
        THREAD_ID = "threadId" @ 36 + 4 since 130_101;
        START = "start" @ 40 + 8 since 130_101;
        END = "end" @ 48 + 8 since 130_101;
    }

    /// A device of the process.
    device:
        "CUpti_ActivityDevice4" 176,
        "CUpti_ActivityDevice5" 184 since 22,
        "CUpti_ActivityDevice6" 192 since 130_202;
    {
        GLOBAL_MEMORY_BANDWIDTH = "globalMemoryBandwidth" @ 8 + 8;
        GLOBAL_MEMORY_SIZE = "globalMemorySize" @ 16 + 8;
        L2_CACHE_SIZE = "l2CacheSize" @ 28 + 4;
        NUM_THREADS_PER_WARP = "numThreadsPerWarp" @ 32 + 4;
        CORE_CLOCK_RATE = "coreClockRate" @ 36 + 4;
        NUM_MULTIPROCESSORS = "numMultiprocessors" @ 44 + 4;
        MAX_WARPS_PER_MULTIPROCESSOR = "maxWarpsPerMultiprocessor" @ 52 + 4;
        MAX_BLOCKS_PER_MULTIPROCESSOR = "maxBlocksPerMultiprocessor" @ 56 + 4;
        MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = "maxSharedMemoryPerMultiprocessor" @ 60 + 4;
        MAX_REGISTERS_PER_MULTIPROCESSOR = "maxRegistersPerMultiprocessor" @ 64 + 4;
        MAX_THREADS_PER_BLOCK = "maxThreadsPerBlock" @ 76 + 4;
        COMPUTE_CAPABILITY_MAJOR = "computeCapabilityMajor" @ 104 + 4;
        COMPUTE_CAPABILITY_MINOR = "computeCapabilityMinor" @ 108 + 4;
        ID = "id" @ 112 + 4;
        ECC_ENABLED = "eccEnabled" @ 116 + 4;
        UUID = "uuid" @ 120 + 16;
        NAME = "name" @ 136 + 8;
        IS_MIG_ENABLED = "isMigEnabled" @ 145 + 1;
    }

    /// A context of a device.
    context:
        "CUpti_ActivityContext" 16,
        "CUpti_ActivityContext2" 24 since 22,
        "CUpti_ActivityContext3" 32 since 24,
        "CUpti_ActivityContext4" 40 since 130_101;
    {
        CONTEXT_ID = "contextId" @ 4 + 4;
        DEVICE_ID = "deviceId" @ 8 + 4;
        NULL_STREAM_ID = "nullStreamId" @ 14 + 2;
        PARENT_CONTEXT_ID = "parentContextId" @ 16 + 4 since 22;
        IS_GREEN_CONTEXT = "isGreenContext" @ 20 + 1 since 22;
        PROCESS_ID = "processId" @ 32 + 8 since 130_101;
    }

    /// A name that the program assigned to a thread, device, context or stream.
    name: "CUpti_ActivityName" 32;
    {
        OBJECT_KIND = "objectKind" @ 4 + 4;
        OBJECT_ID = "objectId" @ 8 + 12;
        NAME = "name" @ 24 + 8;
    }

    /// A stream of a context.
    stream: "CUpti_ActivityStream" 24;
    {
        CONTEXT_ID = "contextId" @ 4 + 4;
        STREAM_ID = "streamId" @ 8 + 4;
        PRIORITY = "priority" @ 12 + 4;
        FLAG = "flag" @ 16 + 4;
        CORRELATION_ID = "correlationId" @ 20 + 4;
    }

    /// Callback data of a driver or runtime call.
    callback_data: "CUpti_CallbackData" 72;
    {
        SITE = "callbackSite" @ 0 + 4;
        FUNCTION_NAME = "functionName" @ 8 + 8;
        PARAMS = "functionParams" @ 16 + 8;
        RETURN = "functionReturnValue" @ 24 + 8;
        SYMBOL_NAME = "symbolName" @ 32 + 8;
        CONTEXT = "context" @ 40 + 8;
        CONTEXT_UID = "contextUid" @ 48 + 4;
        CORRELATION_DATA = "correlationData" @ 56 + 8;
        CORRELATION_ID = "correlationId" @ 64 + 4;
    }

    /// Callback data of a resource; the type of the descriptor depends on the callback id.
    resource_data: "CUpti_ResourceData" 24;
    {
        CONTEXT = "context" @ 0 + 8;
        STREAM = "resourceHandle.stream" @ 8 + 8;
        DESCRIPTOR = "resourceDescriptor" @ 16 + 8;
    }

    /// Descriptor of a graph or graph node.
    graph_data: "CUpti_GraphData" 56;
    {
        GRAPH = "graph" @ 0 + 8;
        ORIGINAL_GRAPH = "originalGraph" @ 8 + 8;
        NODE = "node" @ 16 + 8;
        ORIGINAL_NODE = "originalNode" @ 24 + 8;
        NODE_TYPE = "nodeType" @ 32 + 4;
        DEPENDENCY = "dependency" @ 40 + 8;
        GRAPH_EXEC = "graphExec" @ 48 + 8;
    }

    /// Descriptor of a module.
    module_data: "CUpti_ModuleResourceData" 24;
    {
        MODULE_ID = "moduleId" @ 0 + 4;
        CUBIN_SIZE = "cubinSize" @ 8 + 8;
        CUBIN = "pCubin" @ 16 + 8;
    }

    /// Parameters of `cuptiSubscribe_v2`.
    subscriber_params:
        "CUpti_SubscriberParams" 32 since 130_000,
        "CUpti_SubscriberParams" 40 since 130_202;
    {
        STRUCT_SIZE = "structSize" @ 0 + 8 since 130_000;
        SUBSCRIBER_NAME = "subscriberName" @ 8 + 8 since 130_000;
        OLD_SUBSCRIBER_NAME = "oldSubscriberName" @ 16 + 8 since 130_000;
        OLD_SUBSCRIBER_SIZE = "oldSubscriberSize" @ 24 + 8 since 130_000;
        ALLOW_MULTIPLE_SUBSCRIBERS = "allowMultipleSubscribers" @ 32 + 1 since 130_202;
    }
}
