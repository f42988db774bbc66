//! Activity records: which, where to, when.

#![expect(unsafe_code, reason = "functions of the C interface")]

use super::code;
use crate::buffers::{self, Complete, Flush, Request};
use crate::context::Context;
use crate::ffi::{Address, Handle, INVALID, Out, exports};
use crate::record::kind_of;
use crate::thread::{self, External};
use crate::{activity, lock, output, settings, worker};
use std::sync::Mutex;

/// Attributes hold a word each; their numbers are below this.
static ATTRIBUTES: Mutex<[u64; 32]> = Mutex::new([0; 32]);

fn enable(kind: u32, is_enabled: bool) -> i32 {
    if activity::enable(kind, is_enabled) { 0 } else { code::INVALID_KIND }
}

exports! {
    fn cuptiActivityRegisterCallbacks(request: Option<Request>, complete: Option<Complete>) {
        let (Some(request), Some(complete)) = (request, complete) else { return INVALID };
        buffers::register(Some((request, complete)));
        0
    }

    fn cuptiActivityEnable(kind: u32) {
        enable(kind, true)
    }

    fn cuptiActivityDisable(kind: u32) {
        enable(kind, false)
    }

    fn cuptiActivityEnableContext(_context: Handle<Context>, kind: u32) {
        enable(kind, true)
    }

    fn cuptiActivityDisableContext(_context: Handle<Context>, kind: u32) {
        enable(kind, false)
    }

    fn cuptiActivityFlushAll(flag: u32) {
        if !buffers::is_registered() {
            return code::INVALID_OPERATION;
        }
        output::flush(if flag & 1 == 0 { Flush::Records } else { Flush::Forced });
        0
    }

    /// Honoured by the worker; there is nobody to do it where records are delivered inline.
    fn cuptiActivityFlushPeriod(millis: u32) {
        worker::set_period(millis);
        0
    }

    /// Walks a buffer by the sizes that records have in this version.
    fn cuptiActivityGetNextRecord(buffer: *const u8, valid: usize, record: Out<*const u8>) {
        let Some(last) = record.get() else { return INVALID };
        if buffer.is_null() {
            return INVALID;
        }
        // SAFETY: the caller shows a buffer of ours, of which so many bytes are records.
        let bytes = unsafe { std::slice::from_raw_parts(buffer, valid) };
        let version = settings::version();
        let mut offset = 0;
        if !last.is_null() {
            let Some(at) = (last as usize).checked_sub(buffer as usize) else { return INVALID };
            let Some(last) = bytes.get(at..) else { return INVALID };
            let Some(size) = version.size_of(kind_of(last)) else { return code::INVALID_KIND };
            offset = at + size;
        }
        let Some(next) = bytes.get(offset..).filter(|rest| !rest.is_empty()) else {
            return code::MAX_LIMIT_REACHED;
        };
        match version.size_of(kind_of(next)) {
            Some(size) if size <= next.len() => record.set(next.as_ptr()),
            _ => code::INVALID_KIND,
        }
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
        dropped.set(output::take_dropped() as usize)
    }

    fn cuptiActivitySetAttribute(attribute: u32, size: Out<usize>, value: *const u8) {
        let Some(size) = size.get().filter(|size| (1..=8).contains(size)) else { return INVALID };
        if value.is_null() {
            return INVALID;
        }
        let mut word = [0; 8];
        // SAFETY: the caller shows a value of this size.
        word[..size].copy_from_slice(unsafe { std::slice::from_raw_parts(value, size) });
        match lock(&ATTRIBUTES).get_mut(attribute as usize) {
            Some(held) => *held = u64::from_le_bytes(word),
            None => return INVALID,
        }
        0
    }

    fn cuptiActivityGetAttribute(attribute: u32, size: Out<usize>, value: Out<u64>) {
        let Some(word) = lock(&ATTRIBUTES).get(attribute as usize).copied() else { return INVALID };
        if size.get() != Some(size_of::<u64>()) {
            return INVALID;
        }
        value.set(word)
    }

    fn cuptiActivityPushExternalCorrelationId(kind: u32, id: u64) {
        thread::push_external(External { kind, id });
        0
    }

    fn cuptiActivityPopExternalCorrelationId(kind: u32, last: Out<u64>) {
        let Some(id) = thread::pop_external(kind) else { return code::QUEUE_EMPTY };
        last.set_if_wanted(id);
        0
    }

    /// Only hardware later than what is played has it.
    fn cuptiActivityEnableHWTrace(_enable: u8) {
        code::NOT_SUPPORTED
    }

    fn cuptiActivityEnableLatencyTimestamps(_enable: u8) {
        0
    }

    /// Taken and not called: records are stamped with the script's clock.
    fn cuptiActivityRegisterTimestampCallback(callback: Address) {
        if callback.is_null() { INVALID } else { 0 }
    }
}
