//! The callbacks by which CUPTI requests empty activity buffers and returns completed ones.
//!
//! The callback for a completed buffer finds its records and reads the names of kernels at once.
//! CUPTI's documentation does not say how long a name lives, and a program may unload the kernel's
//! module. The decoder reads the other fields later.

#![expect(unsafe_code, reason = "the library's own interface")]

use super::abi::constants::kind;
use super::abi::layout::kernel;
use super::abi::record::Record;
use super::buffers::{self, FullBuffer, RecordPosition};
use super::functions::CuContext;
use super::library;
use super::names;
use super::reader::{DRAIN, WORKER};
use super::subscription::Subscription;
use crate::lock;
use marey_model::loss::LossCause;
use marey_record::api;
use std::ffi::c_void;
use std::sync::Mutex;

/// The subscription whose buffers are completed; `None` between two sessions.
static SUBSCRIPTION: Mutex<Option<Subscription>> = Mutex::new(None);

/// Sets the subscription before its first buffer is completed, and `None` at its end.
pub(super) fn set_subscription(subscription: Option<Subscription>) {
    *lock(&SUBSCRIPTION) = subscription;
}

/// Locks the state for a fork.
pub(super) fn lock_for_fork() -> impl Sized + use<> {
    lock(&SUBSCRIPTION)
}

/// The first API version that accepts a null buffer.
const NULL_BUFFER_ACCEPTED_SINCE: u32 = 27;

/// Size of a substitute buffer, for versions that do not accept a null buffer when the pool is
/// exhausted. Its records are counted as losses and discarded.
const SUBSTITUTE_BUFFER_BYTES: usize = 4 << 10;

/// Gives CUPTI an empty buffer.
///
/// # Safety
/// The three addresses are writable.
pub(super) unsafe extern "C" fn on_buffer_requested(
    buffer: *mut *mut u8,
    size: *mut usize,
    max_records: *mut usize,
) {
    let words = buffers::acquire().or_else(|| {
        let accepts_null = library::loaded_library()
            .is_some_and(|library| library.api_version >= NULL_BUFFER_ACCEPTED_SINCE);
        (!accepts_null).then(|| buffers::allocate(SUBSTITUTE_BUFFER_BYTES))
    });
    let (address, bytes) = match words {
        Some(words) => {
            buffers::count_lent();
            let bytes = size_of_val(&*words);
            (Box::into_raw(words).cast::<u8>(), bytes)
        }
        None => (std::ptr::null_mut(), 0),
    };
    // SAFETY: guaranteed by the caller.
    unsafe {
        *buffer = address;
        *size = bytes;
        *max_records = 0;
    }
}

/// Gives CUPTI an empty buffer, in shared mode.
///
/// # Safety
/// The first three addresses are writable.
pub(super) unsafe extern "C" fn on_shared_buffer_requested(
    buffer: *mut *mut u8,
    size: *mut usize,
    max_records: *mut usize,
    _info: *mut c_void,
) {
    // SAFETY: guaranteed by the caller.
    unsafe { on_buffer_requested(buffer, size, max_records) }
}

/// Takes a completed buffer from CUPTI.
///
/// # Safety
/// The buffer comes from [`on_buffer_requested`], has this size, and is no longer used by CUPTI.
pub(super) unsafe extern "C" fn on_buffer_completed(
    _context: CuContext,
    _stream_id: u32,
    buffer: *mut u8,
    size: usize,
    valid_size: usize,
) {
    // SAFETY: guaranteed by the caller.
    unsafe { on_shared_buffer_completed(buffer, size, valid_size, std::ptr::null_mut()) }
}

/// Takes a completed buffer from CUPTI, in shared mode.
///
/// # Safety
/// As for [`on_buffer_completed`].
pub(super) unsafe extern "C" fn on_shared_buffer_completed(
    buffer: *mut u8,
    size: usize,
    valid_size: usize,
    _info: *mut c_void,
) {
    if buffer.is_null() {
        return;
    }
    let address = buffer.cast::<c_void>().cast::<u64>();
    let words = std::ptr::slice_from_raw_parts_mut(address, size / size_of::<u64>());
    // SAFETY: `on_buffer_requested` leaked a box of this length at this address, and CUPTI
    // completes each buffer once.
    let words = unsafe { Box::from_raw(words) };
    let mut full = FullBuffer { words, valid_bytes: valid_size, records: Vec::new() };
    full.records = find_records(full.bytes());
    buffers::count_returned();
    if size == SUBSTITUTE_BUFFER_BYTES {
        api::count_losses(LossCause::DeviceRecord, full.records.len() as u64);
        return;
    }
    buffers::push_full(full);
    WORKER.request(DRAIN);
}

/// Returns the positions of the records in these bytes of a buffer, and the names of the kernels.
/// Finds nothing outside of a subscription.
fn find_records(bytes: &[u8]) -> Vec<RecordPosition> {
    let subscription = *lock(&SUBSCRIPTION);
    let Some(subscription) = subscription else { return Vec::new() };
    let buffer_start = bytes.as_ptr().cast_mut();
    let mut previous = std::ptr::null_mut();
    let mut records = Vec::new();
    // SAFETY: CUPTI has completed the buffer with this length and no longer writes to it;
    // `previous` is null or was returned by the previous call.
    while let Some(next) = unsafe { subscription.next_record(buffer_start, bytes.len(), previous) }
    {
        previous = next;
        let record_offset = next.addr().wrapping_sub(buffer_start.addr());
        let Some(bytes) = bytes.get(record_offset..) else { break };
        let record = Record::new(bytes, subscription.api_version());
        let name_address = match record.kind() {
            Some(kind::CONCURRENT_KERNEL | kind::KERNEL) => {
                record.read_string_address(kernel::NAME)
            }
            _ => None,
        };
        // SAFETY: CUPTI passes the record with its name to this callback, so the name is valid
        // until the callback returns.
        let kernel_name_id = name_address.map(|address| unsafe { names::intern(address) });
        records.push(RecordPosition { offset_bytes: record_offset as u32, kernel_name_id });
    }
    records
}
