//! Activity functions, in a process-wide and a per-subscriber variant.

#![expect(unsafe_code, reason = "functions of the C interface")]

use super::code;
use crate::activity::{PROCESS_CLIENT, client_of_subscriber};
use crate::buffers::{
    self, BufferCallbacks, CompleteCallback, FlushMode, RequestCallback, ScopedCompleteCallback,
    ScopedRequestCallback,
};
use crate::callback::{self, Subscriber};
use crate::context::Context;
use crate::ffi::{Address, Handle, INVALID_VALUE, Out, exports};
use crate::record::kind_of;
use crate::thread::{self, ExternalId};
use crate::{activity, attribute, clock, output, settings, worker};

/// Runs `run` for the process, unless there is a subscriber in shared mode.
fn for_process(run: impl FnOnce() -> i32) -> i32 {
    if callback::is_any_shared() { code::NOT_COMPATIBLE } else { run() }
}

/// Runs `run` for a subscriber in shared mode, unless records are enabled for the process.
fn for_subscriber(subscriber: Handle<Subscriber>, run: impl FnOnce(usize) -> i32) -> i32 {
    let Some(subscriber) = subscriber.get().filter(|subscriber| subscriber.is_subscribed()) else {
        return INVALID_VALUE;
    };
    if !subscriber.is_shared() || is_process_recorded() {
        return code::NOT_COMPATIBLE;
    }
    run(client_of_subscriber(subscriber.index()))
}

fn is_process_recorded() -> bool {
    buffers::is_registered(PROCESS_CLIENT) && activity::is_recording(PROCESS_CLIENT)
}

fn enable(client: usize, kind: u32, is_enabled: bool) -> i32 {
    if activity::enable(client, kind, is_enabled) { 0 } else { code::INVALID_KIND }
}

fn push_external(client: usize, kind: u32, id: u64) -> i32 {
    thread::push_external_id(ExternalId { client, kind, id });
    0
}

fn pop_external(client: usize, kind: u32, popped_id: &Out<u64>) -> i32 {
    let Some(id) = thread::pop_external_id(client, kind) else { return code::QUEUE_EMPTY };
    popped_id.set_if_not_null(id);
    0
}

/// Advances in a buffer by the sizes of records in this version.
fn next_record(buffer: *const u8, valid_bytes: usize, record: &Out<*const u8>) -> i32 {
    let Some(previous_record) = record.get() else { return INVALID_VALUE };
    if buffer.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: the caller passes one of its buffers, with `valid_bytes` bytes of records.
    let bytes = unsafe { std::slice::from_raw_parts(buffer, valid_bytes) };
    let version = settings::version();
    let mut offset = 0;
    if !previous_record.is_null() {
        let Some(last_offset) = (previous_record as usize).checked_sub(buffer as usize) else {
            return INVALID_VALUE;
        };
        let Some(previous_record) = bytes.get(last_offset..) else { return INVALID_VALUE };
        let Some(size) = version.size_of(kind_of(previous_record)) else {
            return code::INVALID_KIND;
        };
        offset = last_offset + size;
    }
    let Some(next) = bytes.get(offset..).filter(|rest| !rest.is_empty()) else {
        return code::MAX_LIMIT_REACHED;
    };
    match version.size_of(kind_of(next)) {
        Some(size) if size <= next.len() => record.set(next.as_ptr()),
        _ => code::INVALID_KIND,
    }
}

exports! {
    fn cuptiActivityRegisterCallbacks(
        request: Option<RequestCallback>,
        complete: Option<CompleteCallback>,
    ) {
        let (Some(request), Some(complete)) = (request, complete) else { return INVALID_VALUE };
        for_process(|| {
            buffers::register(PROCESS_CLIENT, Some(BufferCallbacks::Process(request, complete)));
            0
        })
    }

    fn cuptiActivityRegisterCallbacks_v2(
        subscriber: Handle<Subscriber>,
        request: Option<ScopedRequestCallback>,
        complete: Option<ScopedCompleteCallback>,
    ) {
        let (Some(request), Some(complete)) = (request, complete) else { return INVALID_VALUE };
        for_subscriber(subscriber, |client| {
            buffers::register(client, Some(BufferCallbacks::Scoped(request, complete)));
            0
        })
    }

    fn cuptiActivityEnable(kind: u32) {
        for_process(|| enable(PROCESS_CLIENT, kind, true))
    }

    fn cuptiActivityEnable_v2(subscriber: Handle<Subscriber>, kind: u32, _configuration: Address) {
        for_subscriber(subscriber, |client| enable(client, kind, true))
    }

    fn cuptiActivityDisable(kind: u32) {
        for_process(|| enable(PROCESS_CLIENT, kind, false))
    }

    fn cuptiActivityDisable_v2(subscriber: Handle<Subscriber>, kind: u32, _configuration: Address) {
        for_subscriber(subscriber, |client| enable(client, kind, false))
    }

    fn cuptiActivityEnableContext(_context: Handle<Context>, kind: u32) {
        for_process(|| enable(PROCESS_CLIENT, kind, true))
    }

    fn cuptiActivityDisableContext(_context: Handle<Context>, kind: u32) {
        for_process(|| enable(PROCESS_CLIENT, kind, false))
    }

    /// Flushes all clients: there is no flush of a single one.
    fn cuptiActivityFlushAll(flag: u32) {
        if !buffers::is_any_registered() {
            return code::INVALID_OPERATION;
        }
        output::flush(if flag & 1 == 0 { FlushMode::Records } else { FlushMode::Forced });
        0
    }

    /// Only the worker flushes periodically; there is no thread for it with inline delivery.
    fn cuptiActivityFlushPeriod(millis: u32) {
        worker::set_flush_period(millis);
        0
    }

    fn cuptiActivityGetNextRecord(buffer: *const u8, valid_bytes: usize, record: Out<*const u8>) {
        for_process(|| next_record(buffer, valid_bytes, &record))
    }

    fn cuptiActivityGetNextRecord_v2(
        subscriber: Handle<Subscriber>,
        buffer: *const u8,
        valid_bytes: usize,
        record: Out<*const u8>,
    ) {
        for_subscriber(subscriber, |_| next_record(buffer, valid_bytes, &record))
    }

    fn cuptiActivityGetStructSize(kind: u32, _version: u32, size: Out<usize>) {
        match settings::version().size_of(kind) {
            Some(bytes) => size.set(bytes),
            None => code::INVALID_KIND,
        }
    }

    fn cuptiActivityGetNumDroppedRecords(
        _context: Handle<Context>,
        _stream: u32,
        dropped: Out<usize>,
    ) {
        for_process(|| dropped.set(output::take_dropped(PROCESS_CLIENT) as usize))
    }

    fn cuptiActivityGetNumDroppedRecords_v2(
        subscriber: Handle<Subscriber>,
        _context: Handle<Context>,
        _stream: u32,
        dropped: Out<usize>,
    ) {
        for_subscriber(subscriber, |client| dropped.set(output::take_dropped(client) as usize))
    }

    fn cuptiActivitySetAttribute(number: u32, size: Out<usize>, value: *const u8) {
        let Some(size) = size.get().filter(|size| (1..=8).contains(size)) else { return INVALID_VALUE };
        if value.is_null() {
            return INVALID_VALUE;
        }
        let mut word = [0; 8];
        // SAFETY: the caller passes a value of this size.
        word[..size].copy_from_slice(unsafe { std::slice::from_raw_parts(value, size) });
        if attribute::set(number, u64::from_le_bytes(word)) { 0 } else { INVALID_VALUE }
    }

    fn cuptiActivityGetAttribute(number: u32, size: Out<usize>, value: Out<u64>) {
        let Some(word) = attribute::get(number) else { return INVALID_VALUE };
        if size.get() != Some(size_of::<u64>()) {
            return INVALID_VALUE;
        }
        value.set(word)
    }

    fn cuptiActivityPushExternalCorrelationId(kind: u32, id: u64) {
        for_process(|| push_external(PROCESS_CLIENT, kind, id))
    }

    fn cuptiActivityPushExternalCorrelationId_v2(
        subscriber: Handle<Subscriber>,
        kind: u32,
        id: u64,
    ) {
        for_subscriber(subscriber, |client| push_external(client, kind, id))
    }

    fn cuptiActivityPopExternalCorrelationId(kind: u32, last: Out<u64>) {
        for_process(|| pop_external(PROCESS_CLIENT, kind, &last))
    }

    fn cuptiActivityPopExternalCorrelationId_v2(
        subscriber: Handle<Subscriber>,
        kind: u32,
        last: Out<u64>,
    ) {
        for_subscriber(subscriber, |client| pop_external(client, kind, &last))
    }

    fn cuptiGetTimestamp(timestamp: Out<u64>) {
        for_process(|| timestamp.set(clock::now_nanos()))
    }

    fn cuptiGetTimestamp_v2(subscriber: Handle<Subscriber>, timestamp: Out<u64>) {
        for_subscriber(subscriber, |_| timestamp.set(clock::now_nanos()))
    }

    /// Not supported: only hardware newer than the simulated one has it.
    fn cuptiActivityEnableHWTrace(_enable: u8) {
        code::NOT_SUPPORTED
    }

    fn cuptiActivityEnableLatencyTimestamps(_enable: u8) {
        0
    }

    /// Accepted, but not called: records have timestamps of the script's clock.
    fn cuptiActivityRegisterTimestampCallback(callback: Address) {
        if callback.is_null() { INVALID_VALUE } else { 0 }
    }
}
