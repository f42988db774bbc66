//! Layouts of activity records: every field at its offset, without gaps, fields of newer versions
//! last. The record of an older version is a prefix of the newest one. Adjacent fields that no
//! record of the double sets are one field, `zeros_OFFSET`.

#![expect(unsafe_code, reason = "views records as bytes")]

/// Activity kinds: `CUpti_ActivityKind`.
pub(crate) mod kind {
    pub(crate) const COPY: u32 = 1;
    pub(crate) const FILL: u32 = 2;
    pub(crate) const KERNEL: u32 = 3;
    pub(crate) const DRIVER: u32 = 4;
    pub(crate) const RUNTIME: u32 = 5;
    pub(crate) const DEVICE: u32 = 8;
    pub(crate) const CONTEXT: u32 = 9;
    pub(crate) const CONCURRENT_KERNEL: u32 = 10;
    pub(crate) const NAME: u32 = 11;
    pub(crate) const MARKER: u32 = 12;
    pub(crate) const OVERHEAD: u32 = 17;
    pub(crate) const PEER_COPY: u32 = 22;
    pub(crate) const SYNCHRONIZATION: u32 = 38;
    pub(crate) const EXTERNAL_CORRELATION: u32 = 39;
    pub(crate) const GRAPH_TRACE: u32 = 51;
}

/// API version of the played library, as returned by `cuptiGetVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub u32);

impl Version {
    /// Supported versions: those of CUDA 12.8, 12.9, 13.0 and 13.5.
    pub(crate) const SUPPORTED: [u32; 4] = [26, 28, 130_001, 130_500];

    /// Returns the size of a record of this kind; `None` for unsupported kinds.
    #[inline]
    pub(crate) const fn size_of(self, kind: u32) -> Option<usize> {
        let is_13 = self.0 >= 130_000;
        let is_13_5 = self.0 >= 130_500;
        Some(match kind {
            kind::KERNEL | kind::CONCURRENT_KERNEL if is_13_5 => 248,
            kind::KERNEL | kind::CONCURRENT_KERNEL if is_13 => 216,
            kind::KERNEL | kind::CONCURRENT_KERNEL => 208,
            kind::COPY if is_13_5 => 112,
            kind::COPY | kind::PEER_COPY => 96,
            kind::FILL if is_13_5 => 104,
            kind::FILL => 88,
            kind::DRIVER | kind::RUNTIME => 40,
            kind::DEVICE if is_13_5 => 192,
            kind::DEVICE => 184,
            kind::CONTEXT if is_13_5 => 40,
            kind::CONTEXT | kind::NAME => 32,
            kind::MARKER | kind::OVERHEAD | kind::SYNCHRONIZATION | kind::GRAPH_TRACE => 56,
            kind::EXTERNAL_CORRELATION => 24,
            _ => return None,
        })
    }
}

/// A record in the newest layout.
///
/// # Safety
///
/// The type is `repr(C)`, has no padding, and begins with its kind.
pub(crate) unsafe trait Record: Copy {
    fn kind(&self) -> u32;

    /// Returns the bytes of the record in this version.
    #[inline]
    fn bytes(&self, version: Version) -> &[u8] {
        let size = version.size_of(self.kind()).unwrap_or_default().min(size_of::<Self>());
        // SAFETY: the trait guarantees that all bytes are initialised, and the size is at most the
        // type's.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size) }
    }
}

/// Returns the kind of the record at the start of these bytes.
pub(crate) fn kind_of(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |kind| u32::from_ne_bytes(*kind))
}

/// Ends an unfinished kernel now, or just after its start.
pub(crate) fn finish_kernel(record: &mut [u8], now_nanos: u64) {
    const START_OFFSET: usize = std::mem::offset_of!(KernelRecord, start_nanos);
    const END_OFFSET: usize = std::mem::offset_of!(KernelRecord, end_nanos);
    const COMPLETED_OFFSET: usize = std::mem::offset_of!(KernelRecord, completed_nanos);
    if !matches!(kind_of(record), kind::KERNEL | kind::CONCURRENT_KERNEL) {
        return;
    }
    let read =
        |offset: usize| record[offset..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
    let (start_nanos, end) = (read(START_OFFSET), read(END_OFFSET));
    if start_nanos != 0 && end == 0 {
        let end = now_nanos.max(start_nanos + 1).to_ne_bytes();
        record[END_OFFSET..END_OFFSET + end.len()].copy_from_slice(&end);
        record[COMPLETED_OFFSET..COMPLETED_OFFSET + end.len()].copy_from_slice(&end);
    }
}

/// Returns the addresses of the names that the record at the start of these bytes contains.
pub(crate) fn names_in(record: &[u8]) -> impl Iterator<Item = usize> {
    const KERNEL_NAMES: &[usize] = &[std::mem::offset_of!(KernelRecord, name)];
    const OBJECT_NAMES: &[usize] = &[std::mem::offset_of!(NameRecord, name)];
    const MARKER_NAMES: &[usize] =
        &[std::mem::offset_of!(MarkerRecord, name), std::mem::offset_of!(MarkerRecord, domain)];
    let offsets = match kind_of(record) {
        kind::KERNEL | kind::CONCURRENT_KERNEL => KERNEL_NAMES,
        kind::NAME => OBJECT_NAMES,
        kind::MARKER => MARKER_NAMES,
        _ => &[],
    };
    offsets.iter().filter_map(|&offset| {
        record.get(offset..)?.first_chunk().map(|address| usize::from_ne_bytes(*address))
    })
}

macro_rules! records {
    ($(
        $(#[$meta:meta])*
        struct $name:ident($size:literal) {
            $($field:ident: $type:ty = $offset:literal,)*
        }
    )*) => {$(
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct $name {
            $(pub $field: $type,)*
        }
        const _: () = {
            $(assert!(std::mem::offset_of!($name, $field) == $offset);)*
            assert!(size_of::<$name>() == $size);
            assert!(0 $(+ size_of::<$type>())* == $size, "the layout has padding");
        };
        // SAFETY: by the assertions above; every record begins with `kind`.
        unsafe impl Record for $name {
            fn kind(&self) -> u32 {
                self.kind
            }
        }
    )*};
}

records! {
    struct KernelRecord(248) {
        kind: u32 = 0,
        zeros_4: [u8; 2] = 4,
        registers: u16 = 6,
        zeros_8: [u32; 2] = 8,
        start_nanos: u64 = 16,
        end_nanos: u64 = 24,
        completed_nanos: u64 = 32,
        device_id: u32 = 40,
        context_id: u32 = 44,
        stream_id: u32 = 48,
        grid: [i32; 3] = 52,
        block: [i32; 3] = 64,
        static_shared_bytes: i32 = 76,
        dynamic_shared_bytes: i32 = 80,
        local_bytes_per_thread: u32 = 84,
        zeros_88: u32 = 88,
        correlation_id: u32 = 92,
        grid_id: i64 = 96,
        name: usize = 104,
        zeros_112: [u32; 7] = 112,
        shared_bytes_executed: u32 = 140,
        graph_node_id: u64 = 144,
        zeros_152: u32 = 152,
        graph_id: u32 = 156,
        zeros_160: [u32; 4] = 160,
        cluster: [u32; 3] = 176,
        zeros_188: [u32; 11] = 188,
        source_graph_id: u32 = 232,
        zeros_236: u32 = 236,
        source_node_id: u64 = 240,
    }

    struct CopyRecord(112) {
        kind: u32 = 0,
        copy_kind: u8 = 4,
        source: u8 = 5,
        target: u8 = 6,
        flags: u8 = 7,
        bytes: u64 = 8,
        start_nanos: u64 = 16,
        end_nanos: u64 = 24,
        device_id: u32 = 32,
        context_id: u32 = 36,
        stream_id: u32 = 40,
        correlation_id: u32 = 44,
        zeros_48: [u32; 4] = 48,
        graph_node_id: u64 = 64,
        graph_id: u32 = 72,
        zeros_76: [u32; 3] = 76,
        copies: u64 = 88,
        source_graph_id: u32 = 96,
        zeros_100: u32 = 100,
        source_node_id: u64 = 104,
    }

    /// A copy between devices.
    struct PeerRecord(96) {
        kind: u32 = 0,
        copy_kind: u8 = 4,
        source: u8 = 5,
        target: u8 = 6,
        flags: u8 = 7,
        bytes: u64 = 8,
        start_nanos: u64 = 16,
        end_nanos: u64 = 24,
        device_id: u32 = 32,
        context_id: u32 = 36,
        stream_id: u32 = 40,
        source_device_id: u32 = 44,
        source_context_id: u32 = 48,
        target_device_id: u32 = 52,
        target_context_id: u32 = 56,
        correlation_id: u32 = 60,
        zeros_64: u64 = 64,
        graph_node_id: u64 = 72,
        graph_id: u32 = 80,
        zeros_84: [u32; 3] = 84,
    }

    struct FillRecord(104) {
        kind: u32 = 0,
        value: u32 = 4,
        bytes: u64 = 8,
        start_nanos: u64 = 16,
        end_nanos: u64 = 24,
        device_id: u32 = 32,
        context_id: u32 = 36,
        stream_id: u32 = 40,
        correlation_id: u32 = 44,
        zeros_48: u16 = 48,
        memory_kind: u16 = 50,
        zeros_52: [u32; 3] = 52,
        graph_node_id: u64 = 64,
        graph_id: u32 = 72,
        zeros_76: [u32; 3] = 76,
        source_graph_id: u32 = 88,
        zeros_92: u32 = 92,
        source_node_id: u64 = 96,
    }

    /// A synchronisation of the host or a stream.
    struct SynchronizationRecord(56) {
        kind: u32 = 0,
        wait_kind: u32 = 4,
        start_nanos: u64 = 8,
        end_nanos: u64 = 16,
        correlation_id: u32 = 24,
        context_id: u32 = 28,
        stream_id: u32 = 32,
        event_id: u32 = 36,
        zeros_40: [u64; 2] = 40,
    }

    /// Overhead of the driver or libcupti.
    struct OverheadRecord(56) {
        kind: u32 = 0,
        overhead_kind: u32 = 4,
        object_kind: u32 = 8,
        object: [u32; 3] = 12,
        start_nanos: u64 = 24,
        end_nanos: u64 = 32,
        correlation_id: u32 = 40,
        zeros_44: [u32; 3] = 44,
    }

    /// A driver or runtime call.
    struct ApiRecord(40) {
        kind: u32 = 0,
        cbid: u32 = 4,
        start_nanos: u64 = 8,
        end_nanos: u64 = 16,
        process_id: u32 = 24,
        thread_id: u32 = 28,
        correlation_id: u32 = 32,
        result_code: u32 = 36,
    }

    struct ExternalRecord(24) {
        kind: u32 = 0,
        external_kind: u32 = 4,
        external_id: u64 = 8,
        correlation_id: u32 = 16,
        zeros_20: u32 = 20,
    }

    struct MarkerRecord(56) {
        kind: u32 = 0,
        flags: u32 = 4,
        timestamp: u64 = 8,
        id: u32 = 16,
        object_kind: u32 = 20,
        object: [u32; 3] = 24,
        zeros_36: u32 = 36,
        name: usize = 40,
        domain: usize = 48,
    }

    /// Execution of a whole graph.
    struct GraphRecord(56) {
        kind: u32 = 0,
        correlation_id: u32 = 4,
        start_nanos: u64 = 8,
        end_nanos: u64 = 16,
        device_id: u32 = 24,
        graph_id: u32 = 28,
        context_id: u32 = 32,
        stream_id: u32 = 36,
        zeros_40: u64 = 40,
        end_device_id: u32 = 48,
        end_context_id: u32 = 52,
    }

    struct DeviceRecord(192) {
        kind: u32 = 0,
        zeros_4: u32 = 4,
        memory_kilobytes_per_sec: u64 = 8,
        memory_bytes: u64 = 16,
        constant_bytes: u32 = 24,
        l2_bytes: u32 = 28,
        threads_per_warp: u32 = 32,
        clock_khz: u32 = 36,
        copy_engines: u32 = 40,
        multiprocessors: u32 = 44,
        ipc: u32 = 48,
        warps_per_multiprocessor: u32 = 52,
        blocks_per_multiprocessor: u32 = 56,
        shared_bytes_per_multiprocessor: u32 = 60,
        registers_per_multiprocessor: u32 = 64,
        registers_per_block: u32 = 68,
        shared_bytes_per_block: u32 = 72,
        threads_per_block: u32 = 76,
        block: [u32; 3] = 80,
        grid: [u32; 3] = 92,
        major: u32 = 104,
        minor: u32 = 108,
        id: u32 = 112,
        has_ecc: u32 = 116,
        uuid: [u8; 16] = 120,
        name: usize = 136,
        is_visible: u8 = 144,
        zeros_145: [u8; 7] = 145,
        gpu_instance: u32 = 152,
        compute_instance: u32 = 156,
        zeros_160: [u32; 6] = 160,
        texture_clusters: u32 = 184,
        zeros_188: u32 = 188,
    }

    struct ContextRecord(40) {
        kind: u32 = 0,
        context_id: u32 = 4,
        device_id: u32 = 8,
        api: u16 = 12,
        null_stream_id: u16 = 14,
        parent: u32 = 16,
        zeros_20: [u32; 3] = 20,
        process_id: u64 = 32,
    }

    /// The name of a device, context, stream or thread.
    struct NameRecord(32) {
        kind: u32 = 0,
        object_kind: u32 = 4,
        object: [u32; 3] = 8,
        zeros_20: u32 = 20,
        name: usize = 24,
    }
}
