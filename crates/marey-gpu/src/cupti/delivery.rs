//! CUPTI's callbacks for requested and completed activity buffers.

use super::abi::result;
use super::buffers;
use super::functions::CuContext;
use super::library;
use super::reader::{DRAIN, WORKER};
use marey_model::loss::LossCause;
use marey_record::api;
use std::ffi::c_void;

/// The first API version that accepts a null buffer.
const NULL_BUFFER_SINCE: u32 = 27;

/// Size of a substitute buffer, for versions that do not accept a null buffer when the pool is
/// exhausted. Its records are counted as losses and discarded.
const SUBSTITUTE_BYTES: usize = 4 << 10;

/// CUPTI requests an empty buffer.
///
/// # Safety
/// The three addresses are writable.
#[expect(unsafe_code, reason = "the library's own interface")]
pub(super) unsafe extern "C" fn requested(
    buffer: *mut *mut u8,
    size: *mut usize,
    max_records: *mut usize,
) {
    let words = buffers::acquire().or_else(|| {
        let accepts_null = library::loaded_library()
            .is_some_and(|library| library.api_version >= NULL_BUFFER_SINCE);
        (!accepts_null).then(|| buffers::new(SUBSTITUTE_BYTES))
    });
    let (address, bytes) = match words {
        Some(words) => {
            buffers::lent();
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

/// CUPTI requests an empty buffer, in shared mode.
///
/// # Safety
/// The first three addresses are writable.
#[expect(unsafe_code, reason = "the library's own interface")]
pub(super) unsafe extern "C" fn scoped_requested(
    buffer: *mut *mut u8,
    size: *mut usize,
    max_records: *mut usize,
    _info: *mut c_void,
) {
    // SAFETY: guaranteed by the caller.
    unsafe { requested(buffer, size, max_records) }
}

/// CUPTI has completed a buffer.
///
/// # Safety
/// The buffer comes from [`requested`], has this size, and is no longer used by CUPTI.
#[expect(unsafe_code, reason = "the library's own interface")]
pub(super) unsafe extern "C" fn completed(
    _context: CuContext,
    _stream_id: u32,
    buffer: *mut u8,
    size: usize,
    valid_size: usize,
) {
    // SAFETY: guaranteed by the caller.
    unsafe { scoped_completed(buffer, size, valid_size, std::ptr::null_mut()) }
}

/// CUPTI has completed a buffer, in shared mode.
///
/// # Safety
/// As for [`completed`].
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
    // SAFETY: `requested` leaked a box of this length at this address, and CUPTI completes each
    // buffer once.
    let words = unsafe { Box::from_raw(words) };
    buffers::returned();
    if size == SUBSTITUTE_BYTES {
        api::count_losses(LossCause::DeviceRecord, count_records(&words, valid_size));
        return;
    }
    buffers::push_full(words, valid_size);
    WORKER.request(DRAIN);
}

/// Returns the number of records in a buffer of which `valid` bytes are filled.
#[expect(unsafe_code, reason = "the library walks its own records")]
fn count_records(words: &[u64], valid: usize) -> u64 {
    let buffer = words.as_ptr().cast::<u8>().cast_mut();
    let Some(library) = library::loaded_library() else { return 0 };
    let next_record = library.functions.activity_get_next_record;
    let (mut last, mut count) = (std::ptr::null_mut(), 0);
    // SAFETY: `valid` bytes of the buffer contain records, and `last` is null or set by the
    // previous call.
    while unsafe { next_record(buffer, valid, &raw mut last) } == result::SUCCESS {
        count += 1;
    }
    count
}
