//! Another tool in the process that records kernels with CUPTI.

#![expect(unsafe_code, reason = "calls of the C interface")]

use crate::harness::UNUSED;
use marey_gpu::cupti::abi::constants::kind;
use marey_gpu::cupti::functions::{Subscriber, SubscriberParams};
use marey_gpu::cupti::library::{self, Library};
use marey_gpu::cupti::search::Hints;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of kernel records that it received.
static KERNELS: AtomicUsize = AtomicUsize::new(0);
static SUBSCRIBER: AtomicUsize = AtomicUsize::new(0);

/// Size of its buffers in words: little more than a record, so that many are used.
const WORDS: usize = 64;

pub(crate) fn kernel_count() -> usize {
    KERNELS.load(Ordering::SeqCst)
}

fn library() -> &'static Library {
    library::open(&Hints::from_env(Vec::new())).unwrap()
}

/// Subscribes exclusively. Returns the code.
pub(crate) fn subscribe_exclusive() -> (u32, Subscriber) {
    let mut subscriber = std::ptr::null_mut();
    // SAFETY: the callback lives as long as the process, and the handle is writable.
    let code = unsafe { (library().functions.subscribe)(&raw mut subscriber, on_call, UNUSED) };
    (code, subscriber)
}

/// Subscribes with the per-subscriber functions. Returns the code.
pub(crate) fn subscribe(name: &CStr, allows_others: bool) -> (u32, Subscriber) {
    let mut params = SubscriberParams {
        struct_size: size_of::<SubscriberParams>(),
        name: name.as_ptr(),
        existing_name: std::ptr::null_mut(),
        existing_name_bytes: 0,
        allows_others: allows_others.into(),
        padding: [0; 7],
    };
    let mut subscriber = std::ptr::null_mut();
    let shared_mode = library().shared_mode.as_ref().unwrap();
    // SAFETY: the callback lives as long as the process, the handle is writable, and the parameters are
    // initialised.
    let code =
        unsafe { (shared_mode.subscribe)(&raw mut subscriber, on_call, UNUSED, &raw mut params) };
    (code, subscriber)
}

/// Subscribes beside other tools, and records kernels.
pub(crate) fn start() -> Subscriber {
    let (code, subscriber) = subscribe(c"other", true);
    assert_eq!(code, 0);
    record_kernels(subscriber);
    subscriber
}

/// Records kernels for this subscriber.
fn record_kernels(subscriber: Subscriber) {
    SUBSCRIBER.store(subscriber.expose_provenance(), Ordering::SeqCst);
    let shared_mode = library().shared_mode.as_ref().unwrap();
    // SAFETY: the functions live as long as the process, and the subscriber is valid.
    let codes = unsafe {
        [
            (shared_mode.activity_register_callbacks)(subscriber, on_requested, on_completed),
            (shared_mode.activity_enable)(subscriber, kind::CONCURRENT_KERNEL, UNUSED),
        ]
    };
    assert_eq!(codes, [0, 0]);
}

/// Records kernels with the process-wide functions, without a subscriber. Returns the codes.
pub(crate) fn record_kernels_of_process() -> [u32; 2] {
    let functions = &library().functions;
    // SAFETY: the functions live as long as the process.
    unsafe {
        [
            (functions.activity_register_callbacks)(on_process_requested, on_process_completed),
            (functions.activity_enable)(kind::CONCURRENT_KERNEL),
        ]
    }
}

pub(crate) fn unsubscribe(subscriber: Subscriber) {
    // SAFETY: the subscriber is valid, and not used afterwards.
    assert_eq!(unsafe { (library().functions.unsubscribe)(subscriber) }, 0);
}

pub(crate) fn flush() {
    // SAFETY: CUPTI accepts any flags.
    assert_eq!(unsafe { (library().functions.activity_flush_all)(0) }, 0);
}

extern "C" fn on_call(_: *mut c_void, _: u32, _: u32, _: *const c_void) {}

unsafe extern "C" fn on_requested(
    buffer: *mut *mut u8,
    size: *mut usize,
    max_records: *mut usize,
    info: *mut c_void,
) {
    // SAFETY: the library's structure begins with its size.
    assert_eq!(unsafe { info.cast::<usize>().read() }, size_of::<usize>());
    // SAFETY: guaranteed by the caller.
    unsafe { on_process_requested(buffer, size, max_records) }
}

unsafe extern "C" fn on_process_requested(
    buffer: *mut *mut u8,
    size: *mut usize,
    max_records: *mut usize,
) {
    let words = Box::leak(vec![0_u64; WORDS].into_boxed_slice());
    // SAFETY: the library passes three writable addresses.
    unsafe {
        *buffer = words.as_mut_ptr().cast();
        *size = size_of_val(words);
        *max_records = 0;
    }
}

unsafe extern "C" fn on_completed(buffer: *mut u8, _: usize, valid: usize, _: *mut c_void) {
    let shared_mode = library().shared_mode.as_ref().unwrap();
    let subscriber = std::ptr::with_exposed_provenance_mut(SUBSCRIBER.load(Ordering::SeqCst));
    let mut record = std::ptr::null_mut();
    // SAFETY: the buffer was provided by `on_requested`, and `valid` bytes of it contain records.
    while unsafe {
        (shared_mode.activity_get_next_record)(subscriber, buffer, valid, &raw mut record)
    } == 0
    {
        KERNELS.fetch_add(1, Ordering::SeqCst);
    }
}

unsafe extern "C" fn on_process_completed(_: *mut c_void, _: u32, _: *mut u8, _: usize, _: usize) {}
