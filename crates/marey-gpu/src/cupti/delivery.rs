//! What the library calls when it needs a buffer, and when it has filled one.

use super::abi::result;
use super::buffers;
use super::functions::CuContext;
use super::library;
use super::reader::{DRAIN, WORKER};
use marey_model::loss::LossCause;
use marey_record::api;
use std::ffi::c_void;

/// The first API version that bears to get no buffer.
const REJECTS_SINCE: u32 = 27;

/// Bytes of a buffer where there is none left, and the library would not bear to get none: what it writes
/// there is counted and thrown away.
const DISCARDED_BYTES: usize = 4 << 10;

/// A buffer is needed.
///
/// # Safety
/// The three addresses can be written.
#[expect(unsafe_code, reason = "the library's own interface")]
pub(super) unsafe extern "C" fn requested(
    buffer: *mut *mut u8,
    size: *mut usize,
    max_records: *mut usize,
) {
    let words = buffers::take().or_else(|| {
        let takes_none =
            library::opened().is_some_and(|library| library.api_version >= REJECTS_SINCE);
        (!takes_none).then(|| buffers::new(DISCARDED_BYTES))
    });
    let (address, bytes) = match words {
        Some(words) => {
            buffers::lent();
            let bytes = size_of_val(&*words);
            (Box::into_raw(words).cast::<u8>(), bytes)
        }
        None => (std::ptr::null_mut(), 0),
    };
    // SAFETY: the caller's promise.
    unsafe {
        *buffer = address;
        *size = bytes;
        *max_records = 0;
    }
}

/// A subscriber beside others needs a buffer.
///
/// # Safety
/// The first three addresses can be written.
#[expect(unsafe_code, reason = "the library's own interface")]
pub(super) unsafe extern "C" fn scoped_requested(
    buffer: *mut *mut u8,
    size: *mut usize,
    max_records: *mut usize,
    _info: *mut c_void,
) {
    // SAFETY: the caller's promise.
    unsafe { requested(buffer, size, max_records) }
}

/// A buffer has been filled.
///
/// # Safety
/// The buffer is one of [`requested`], of this size, which the library uses no more.
#[expect(unsafe_code, reason = "the library's own interface")]
pub(super) unsafe extern "C" fn completed(
    _context: CuContext,
    _stream_id: u32,
    buffer: *mut u8,
    size: usize,
    valid_size: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { scoped_completed(buffer, size, valid_size, std::ptr::null_mut()) }
}

/// A buffer of a subscriber beside others has been filled.
///
/// # Safety
/// As of [`completed`].
#[expect(unsafe_code, reason = "the library's own interface")]
pub(super) unsafe extern "C" fn scoped_completed(
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
    // SAFETY: `requested` made a box of so many words of it, and the library gives it back once.
    let words = unsafe { Box::from_raw(words) };
    buffers::returned();
    if size == DISCARDED_BYTES {
        api::count_losses(LossCause::DeviceRecord, count_records(&words, valid_size));
        return;
    }
    buffers::fill(words, valid_size);
    WORKER.request(DRAIN);
}

/// Returns how many records are in a buffer that the library has filled to this length.
#[expect(unsafe_code, reason = "the library walks its own records")]
fn count_records(words: &[u64], valid: usize) -> u64 {
    let buffer = words.as_ptr().cast::<u8>().cast_mut();
    let Some(library) = library::opened() else { return 0 };
    let next_record = library.functions.activity_get_next_record;
    let (mut last, mut count) = (std::ptr::null_mut(), 0);
    // SAFETY: the buffer has records up to there, and `last` is null or what the call before gave.
    while unsafe { next_record(buffer, valid, &raw mut last) } == result::SUCCESS {
        count += 1;
    }
    count
}
