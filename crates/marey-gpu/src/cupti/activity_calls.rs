//! CUPTI's activity functions behind one trait, in two variants: per process, and per subscriber in
//! shared mode.

use super::delivery;
use super::functions::{Functions, SharedModeFunctions, Subscriber};
use std::ffi::c_void;
use std::fmt::Debug;

/// Activity functions for a subscriber. Each returns a `CUptiResult`.
///
/// # Safety
/// For each function: the subscriber belongs to the library and has not been unsubscribed.
#[expect(unsafe_code, reason = "calls of the library")]
pub(super) trait ActivityCalls: Debug + Sync {
    /// Registers marey's callbacks for requested and completed buffers.
    unsafe fn register_buffers(&self, subscriber: Subscriber) -> u32;
    /// Enables an activity kind.
    unsafe fn enable_kind(&self, subscriber: Subscriber, kind: u32) -> u32;
    /// Disables an activity kind.
    unsafe fn disable_kind(&self, subscriber: Subscriber, kind: u32) -> u32;
    /// Advances `record` to the next record of a buffer (from null to the first).
    ///
    /// # Safety
    /// `valid_bytes` bytes of the buffer contain records, and `record` is null or was set by this
    /// function.
    unsafe fn next_record(
        &self,
        subscriber: Subscriber,
        buffer: *mut u8,
        valid_bytes: usize,
        record: &mut *mut u8,
    ) -> u32;
    /// Writes the number of records dropped since the last call.
    unsafe fn take_dropped_count(&self, subscriber: Subscriber, count: &mut usize) -> u32;
    /// Writes the current time of the clock that timestamps records.
    unsafe fn timestamp(&self, subscriber: Subscriber, nanos: &mut u64) -> u32;
}

/// All contexts, or the default configuration, as an argument of activity functions.
const ALL_CONTEXTS: *mut c_void = std::ptr::null_mut();

// The contract of the trait and of its functions is the caller's. All addresses that are passed are
// of variables borrowed for the call, and the callbacks live as long as the process.

/// For the only subscriber of the process.
#[expect(unsafe_code, reason = "calls of the library")]
impl ActivityCalls for Functions {
    unsafe fn register_buffers(&self, _: Subscriber) -> u32 {
        // SAFETY: the callbacks live as long as the process.
        unsafe {
            (self.activity_register_callbacks)(
                delivery::on_buffer_requested,
                delivery::on_buffer_completed,
            )
        }
    }

    unsafe fn enable_kind(&self, _: Subscriber, kind: u32) -> u32 {
        // SAFETY: CUPTI accepts any kind.
        unsafe { (self.activity_enable)(kind) }
    }

    unsafe fn disable_kind(&self, _: Subscriber, kind: u32) -> u32 {
        // SAFETY: CUPTI accepts any kind.
        unsafe { (self.activity_disable)(kind) }
    }

    unsafe fn next_record(
        &self,
        _: Subscriber,
        buffer: *mut u8,
        valid_bytes: usize,
        record: &mut *mut u8,
    ) -> u32 {
        // SAFETY: the caller keeps the contract of `next_record`.
        unsafe { (self.activity_get_next_record)(buffer, valid_bytes, record) }
    }

    unsafe fn take_dropped_count(&self, _: Subscriber, count: &mut usize) -> u32 {
        // SAFETY: the number is writable during the call.
        unsafe { (self.activity_get_num_dropped_records)(ALL_CONTEXTS, 0, count) }
    }

    unsafe fn timestamp(&self, _: Subscriber, nanos: &mut u64) -> u32 {
        // SAFETY: the number is writable during the call.
        unsafe { (self.get_timestamp)(nanos) }
    }
}

/// For one of several subscribers.
#[expect(unsafe_code, reason = "calls of the library")]
impl ActivityCalls for SharedModeFunctions {
    unsafe fn register_buffers(&self, subscriber: Subscriber) -> u32 {
        let (requested, completed) =
            (delivery::on_shared_buffer_requested, delivery::on_shared_buffer_completed);
        // SAFETY: the subscriber is valid, and the callbacks live as long as the process.
        unsafe { (self.activity_register_callbacks)(subscriber, requested, completed) }
    }

    unsafe fn enable_kind(&self, subscriber: Subscriber, kind: u32) -> u32 {
        // SAFETY: the subscriber is valid.
        unsafe { (self.activity_enable)(subscriber, kind, ALL_CONTEXTS) }
    }

    unsafe fn disable_kind(&self, subscriber: Subscriber, kind: u32) -> u32 {
        // SAFETY: the subscriber is valid.
        unsafe { (self.activity_disable)(subscriber, kind, ALL_CONTEXTS) }
    }

    unsafe fn next_record(
        &self,
        subscriber: Subscriber,
        buffer: *mut u8,
        valid_bytes: usize,
        record: &mut *mut u8,
    ) -> u32 {
        // SAFETY: the subscriber is valid, and the caller keeps the contract of `next_record`.
        unsafe { (self.activity_get_next_record)(subscriber, buffer, valid_bytes, record) }
    }

    unsafe fn take_dropped_count(&self, subscriber: Subscriber, count: &mut usize) -> u32 {
        // SAFETY: the subscriber is valid, and the number is writable during the call.
        unsafe { (self.activity_get_num_dropped_records)(subscriber, ALL_CONTEXTS, 0, count) }
    }

    unsafe fn timestamp(&self, subscriber: Subscriber, nanos: &mut u64) -> u32 {
        // SAFETY: the subscriber is valid, and the number is writable during the call.
        unsafe { (self.get_timestamp)(subscriber, nanos) }
    }
}
