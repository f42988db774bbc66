//! Activity buffers of the profilers: requested from, filled for, and completed to each client.

#![expect(unsafe_code, reason = "the memory and the functions are the profiler's")]

use crate::activity::CLIENT_COUNT;
use crate::ffi::Address;
use crate::record::{self, Version};
use crate::thread::counts;
use crate::{attribute, lock, name, output, settings, thread};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Mutex;

/// Callback for a requested buffer: its address, its size, and the maximum number of records (0: as
/// many as fit).
pub(crate) type RequestCallback = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// Callback for a completed buffer: context, stream, buffer, its size, and the size of the records.
pub(crate) type CompleteCallback = extern "C" fn(Address, u32, *mut u8, usize, usize);
/// Like [`RequestCallback`], in shared mode, with an information structure.
pub(crate) type ScopedRequestCallback =
    extern "C" fn(*mut *mut u8, *mut usize, *mut usize, &mut RequestInfo);
/// Like [`CompleteCallback`], in shared mode.
pub(crate) type ScopedCompleteCallback = extern "C" fn(*mut u8, usize, usize, &mut CompleteInfo);

/// `CUpti_BufferCallbackRequestInfo`.
#[repr(C)]
pub(crate) struct RequestInfo {
    size: usize,
}

/// `CUpti_BufferCallbackCompleteInfo`.
#[repr(C)]
pub(crate) struct CompleteInfo {
    size: usize,
    thread: u64,
    layouts: *const c_void,
    layout_count: usize,
}

#[derive(Clone, Copy)]
pub(crate) enum BufferCallbacks {
    Process(RequestCallback, CompleteCallback),
    Scoped(ScopedRequestCallback, ScopedCompleteCallback),
}

static BUFFER_CALLBACKS: Mutex<[Option<BufferCallbacks>; CLIENT_COUNT]> =
    Mutex::new([None; CLIENT_COUNT]);

/// Sets the callbacks of a client; `None` when it leaves.
pub(crate) fn register(client: usize, callbacks: Option<BufferCallbacks>) {
    lock(&BUFFER_CALLBACKS)[client] = callbacks;
}

/// Removes all callbacks.
pub(crate) fn unregister_all() {
    *lock(&BUFFER_CALLBACKS) = [None; CLIENT_COUNT];
}

pub(crate) fn is_registered(client: usize) -> bool {
    lock(&BUFFER_CALLBACKS)[client].is_some()
}

pub(crate) fn is_any_registered() -> bool {
    lock(&BUFFER_CALLBACKS).iter().any(Option::is_some)
}

/// A buffer of a profiler.
pub(crate) struct Buffer {
    client: usize,
    address: *mut u8,
    size: usize,
    used_bytes: usize,
    records_left: usize,
    /// Number of records in progress.
    unfinished_records: usize,
}

// SAFETY: the profiler gives the memory away until it is completed, and any thread may use it.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Requests a buffer for at least one record of this size; a smaller buffer is completed empty.
    pub(crate) fn request(client: usize, min_bytes: usize) -> Option<Self> {
        let callbacks = lock(&BUFFER_CALLBACKS)[client]?;
        let (mut address, mut size, mut max_records) = (std::ptr::null_mut(), 0, 0);
        let outputs = (&raw mut address, &raw mut size, &raw mut max_records);
        match callbacks {
            BufferCallbacks::Process(request, _) => request(outputs.0, outputs.1, outputs.2),
            BufferCallbacks::Scoped(request, _) => {
                let mut info = RequestInfo { size: size_of::<RequestInfo>() };
                request(outputs.0, outputs.1, outputs.2, &mut info);
            }
        }
        counts().buffers_requested.add(1);
        let records_left = if max_records == 0 { usize::MAX } else { max_records };
        let buffer = (!address.is_null()).then_some(Self {
            client,
            address,
            size,
            used_bytes: 0,
            records_left,
            unfinished_records: 0,
        })?;
        if attribute::promises_zeroed() && !buffer.is_zeroed() {
            counts().buffers_dirty.add(1);
        }
        if size < min_bytes {
            buffer.complete();
            return None;
        }
        Some(buffer)
    }

    /// Appends a record. Returns false if it does not fit.
    pub(crate) fn append(&mut self, record: &[u8]) -> bool {
        if self.records_left == 0 || self.size - self.used_bytes < record.len() {
            return false;
        }
        // SAFETY: the profiler guarantees that `size` bytes are writable, and enough of them are
        // left.
        unsafe {
            let target = self.address.add(self.used_bytes);
            target.copy_from_nonoverlapping(record.as_ptr(), record.len());
        }
        self.used_bytes += record.len();
        self.records_left -= 1;
        if name::are_temporary() {
            record::names_in(record).for_each(name::note_written);
        }
        true
    }

    /// Whether all activities in the buffer have ended.
    const fn is_complete(&self) -> bool {
        self.unfinished_records == 0
    }

    /// Whether the buffer begins with zeros, where an earlier use would have left records. Checking
    /// all of it would take longer than filling it.
    fn is_zeroed(&self) -> bool {
        const CHECKED_BYTES: usize = 1024;
        // SAFETY: the profiler guarantees that `size` bytes are accessible, by us alone.
        let bytes =
            unsafe { std::slice::from_raw_parts(self.address, self.size.min(CHECKED_BYTES)) };
        bytes.iter().all(|&byte| byte == 0)
    }

    /// Ends the activities in progress now, or just after their start.
    fn finish(&mut self, now_nanos: u64, version: Version) {
        if self.is_complete() {
            return;
        }
        // SAFETY: `append` has written this many bytes, and only we access the buffer.
        let mut remaining =
            unsafe { std::slice::from_raw_parts_mut(self.address, self.used_bytes) };
        while let Some(size) = version.size_of(record::kind_of(remaining))
            && let Some((record, remaining_after)) = remaining.split_at_mut_checked(size)
        {
            record::finish_kernel(record, now_nanos);
            remaining = remaining_after;
        }
        self.unfinished_records = 0;
    }

    /// Completes the buffer, without holding a lock: the profiler calls the library from its
    /// callback.
    pub(crate) fn complete(self) {
        let Some(callbacks) = lock(&BUFFER_CALLBACKS)[self.client] else { return };
        counts().buffers_completed.add(1);
        let names = self.names();
        let (address, size, used) = (self.address, self.size, self.used_bytes);
        match callbacks {
            BufferCallbacks::Process(_, complete) => {
                complete(std::ptr::null_mut(), 0, address, size, used);
            }
            BufferCallbacks::Scoped(_, complete) => {
                let mut info = CompleteInfo {
                    size: size_of::<CompleteInfo>(),
                    thread: thread::id().into(),
                    layouts: std::ptr::null(),
                    layout_count: 0,
                };
                complete(address, size, used, &mut info);
            }
        }
        names.into_iter().for_each(name::note_delivered);
    }

    /// Returns the addresses of the names in the records, if names are temporary.
    fn names(&self) -> Vec<usize> {
        let mut names = Vec::new();
        if !name::are_temporary() {
            return names;
        }
        let version = settings::version();
        // SAFETY: `append` has written this many bytes, and only we access the buffer.
        let mut bytes = unsafe { std::slice::from_raw_parts(self.address, self.used_bytes) };
        while let Some((record, rest)) = output::split_record(bytes, version) {
            names.extend(record::names_in(record));
            bytes = rest;
        }
        names
    }
}

/// The buffers that a flush completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushMode {
    /// Buffers with records, if all their activities have ended.
    Records,
    /// All buffers. Activities in progress are not reported again.
    Forced,
}

/// The buffers of a client.
#[derive(Default)]
pub(crate) struct Buffers {
    /// Current buffers: one, or one per launching thread.
    current: BTreeMap<u32, Buffer>,
    /// Spare buffers, from simultaneous requests of two threads.
    spare: Vec<Buffer>,
    /// Full buffers with activities in progress.
    withheld: Vec<Buffer>,
}

/// Returns the lane of the calling thread: 0 if all threads share a buffer, else its own.
pub(crate) fn lane() -> u32 {
    if settings::is_buffer_per_thread() { thread::id() } else { 0 }
}

/// Whether the activity of a record has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordState {
    Ended,
    Unfinished,
}

/// Result of writing a record.
pub(crate) enum PutResult {
    Written,
    /// There is another buffer now. Retry.
    Retry,
    /// The record does not fit: complete this buffer and retry.
    Full(Buffer),
    /// There is no buffer: request one and retry.
    NoBuffer,
}

impl Buffers {
    pub(crate) const fn new() -> Self {
        Self { current: BTreeMap::new(), spare: Vec::new(), withheld: Vec::new() }
    }

    /// Writes a record to the buffer of a lane.
    #[inline]
    pub(crate) fn put(&mut self, lane: u32, record: &[u8], state: RecordState) -> PutResult {
        let Some(buffer) = self.current.get_mut(&lane) else { return self.use_spare(lane) };
        if buffer.append(record) {
            buffer.unfinished_records += usize::from(state == RecordState::Unfinished);
            return PutResult::Written;
        }
        match self.current.remove(&lane) {
            Some(buffer) if buffer.is_complete() => PutResult::Full(buffer),
            buffer => {
                self.withheld.extend(buffer);
                self.use_spare(lane)
            }
        }
    }

    fn use_spare(&mut self, lane: u32) -> PutResult {
        match self.spare.pop() {
            Some(spare) => {
                self.current.insert(lane, spare);
                PutResult::Retry
            }
            None => PutResult::NoBuffer,
        }
    }

    pub(crate) fn add(&mut self, buffer: Buffer) {
        self.spare.push(buffer);
    }

    /// Ends all activities in progress.
    pub(crate) fn finish(&mut self, now_nanos: u64, version: Version) {
        let buffers = self.current.values_mut().chain(&mut self.withheld);
        buffers.for_each(|buffer| buffer.finish(now_nanos, version));
    }

    /// Removes the buffers that a flush completes.
    pub(crate) fn remove_ready(&mut self, flush: FlushMode) -> Vec<Buffer> {
        if flush == FlushMode::Forced {
            let Self { current, spare, withheld } = std::mem::take(self);
            return spare.into_iter().chain(withheld).chain(current.into_values()).collect();
        }
        let is_ready = |buffer: &mut Buffer| buffer.is_complete() && buffer.used_bytes > 0;
        let withheld = self.withheld.extract_if(.., is_ready);
        let current = self.current.extract_if(.., |_lane, buffer| is_ready(buffer));
        withheld.chain(current.map(|(_lane, buffer)| buffer)).collect()
    }
}
