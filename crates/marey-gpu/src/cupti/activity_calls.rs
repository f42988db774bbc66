//! The calls about records that a library has twice: for the process, and for one subscriber of several.

use super::delivery;
use super::functions::{Functions, ScopedFunctions, Subscriber};
use std::ffi::c_void;
use std::fmt::Debug;

/// Calls for a subscriber. Each gives the library's code.
///
/// # Safety
/// Of each function: the subscriber is the library's, and it has not ended.
#[expect(unsafe_code, reason = "calls of the library")]
pub(super) trait ActivityCalls: Debug + Sync {
    /// Says by which of our functions buffers come and go.
    unsafe fn register_buffers(&self, subscriber: Subscriber) -> u32;
    /// Has a kind of records written.
    unsafe fn enable(&self, subscriber: Subscriber, kind: u32) -> u32;
    /// Has a kind of records written no more.
    unsafe fn disable(&self, subscriber: Subscriber, kind: u32) -> u32;
    /// Goes from the record before (null: from before the first one) to the next.
    ///
    /// # Safety
    /// So many bytes of the buffer hold records, and `record` has null or what this gave before.
    unsafe fn next_record(
        &self,
        subscriber: Subscriber,
        buffer: *mut u8,
        valid: usize,
        record: &mut *mut u8,
    ) -> u32;
    /// How many records found no room since this was asked last.
    unsafe fn dropped(&self, subscriber: Subscriber, dropped: &mut usize) -> u32;
    /// The time by which records are stamped.
    unsafe fn timestamp(&self, subscriber: Subscriber, nanos: &mut u64) -> u32;
}

/// All contexts, and the whole record: where a call takes one, or how much of one.
const ALL: *mut c_void = std::ptr::null_mut();

// SAFETY, of all calls below: the caller's promise, addresses are of variables that are borrowed for the
// call, and our functions live as long as the process.

/// For the process, whose only subscriber it is.
#[expect(unsafe_code, reason = "calls of the library")]
impl ActivityCalls for Functions {
    unsafe fn register_buffers(&self, _: Subscriber) -> u32 {
        // SAFETY: as above.
        unsafe { (self.activity_register_callbacks)(delivery::requested, delivery::completed) }
    }

    unsafe fn enable(&self, _: Subscriber, kind: u32) -> u32 {
        // SAFETY: as above.
        unsafe { (self.activity_enable)(kind) }
    }

    unsafe fn disable(&self, _: Subscriber, kind: u32) -> u32 {
        // SAFETY: as above.
        unsafe { (self.activity_disable)(kind) }
    }

    unsafe fn next_record(
        &self,
        _: Subscriber,
        buffer: *mut u8,
        valid: usize,
        record: &mut *mut u8,
    ) -> u32 {
        // SAFETY: as above.
        unsafe { (self.activity_get_next_record)(buffer, valid, record) }
    }

    unsafe fn dropped(&self, _: Subscriber, dropped: &mut usize) -> u32 {
        // SAFETY: as above.
        unsafe { (self.activity_get_num_dropped_records)(ALL, 0, dropped) }
    }

    unsafe fn timestamp(&self, _: Subscriber, nanos: &mut u64) -> u32 {
        // SAFETY: as above.
        unsafe { (self.get_timestamp)(nanos) }
    }
}

/// For one subscriber, beside others.
#[expect(unsafe_code, reason = "calls of the library")]
impl ActivityCalls for ScopedFunctions {
    unsafe fn register_buffers(&self, subscriber: Subscriber) -> u32 {
        let (requested, completed) = (delivery::scoped_requested, delivery::scoped_completed);
        // SAFETY: as above.
        unsafe { (self.activity_register_callbacks)(subscriber, requested, completed) }
    }

    unsafe fn enable(&self, subscriber: Subscriber, kind: u32) -> u32 {
        // SAFETY: as above.
        unsafe { (self.activity_enable)(subscriber, kind, ALL) }
    }

    unsafe fn disable(&self, subscriber: Subscriber, kind: u32) -> u32 {
        // SAFETY: as above.
        unsafe { (self.activity_disable)(subscriber, kind, ALL) }
    }

    unsafe fn next_record(
        &self,
        subscriber: Subscriber,
        buffer: *mut u8,
        valid: usize,
        record: &mut *mut u8,
    ) -> u32 {
        // SAFETY: as above.
        unsafe { (self.activity_get_next_record)(subscriber, buffer, valid, record) }
    }

    unsafe fn dropped(&self, subscriber: Subscriber, dropped: &mut usize) -> u32 {
        // SAFETY: as above.
        unsafe { (self.activity_get_num_dropped_records)(subscriber, ALL, 0, dropped) }
    }

    unsafe fn timestamp(&self, subscriber: Subscriber, nanos: &mut u64) -> u32 {
        // SAFETY: as above.
        unsafe { (self.get_timestamp)(subscriber, nanos) }
    }
}
