//! Another tool in the process, which records kernels by CUPTI too.

use crate::harness::NOTHING;
use marey_gpu::cupti::abi::constants::kind;
use marey_gpu::cupti::functions::{Subscriber, SubscriberParams};
use marey_gpu::cupti::library::{self, Library};
use marey_gpu::cupti::search::Hints;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Records of kernels that it got.
static KERNELS: AtomicUsize = AtomicUsize::new(0);
static SUBSCRIBER: AtomicUsize = AtomicUsize::new(0);

/// Words of its buffers: little more than a record each, so that they go round.
const WORDS: usize = 64;

pub(crate) fn kernels() -> usize {
    KERNELS.load(Ordering::SeqCst)
}

fn library() -> &'static Library {
    library::open(&Hints::from_env(Vec::new())).unwrap()
}

/// Subscribes as the only one; the code.
#[expect(unsafe_code, reason = "it calls the C interface, as any profiler does")]
pub(crate) fn subscribe_alone() -> (u32, Subscriber) {
    let mut subscriber = std::ptr::null_mut();
    // SAFETY: the callback stays, and the handle can be written.
    let code = unsafe { (library().functions.subscribe)(&raw mut subscriber, on_call, NOTHING) };
    (code, subscriber)
}

/// Subscribes beside others, or as one that bears none; the code.
#[expect(unsafe_code, reason = "it calls the C interface, as any profiler does")]
pub(crate) fn subscribe(name: &CStr, allows_others: bool) -> (u32, Subscriber) {
    let mut params = SubscriberParams {
        struct_size: size_of::<SubscriberParams>(),
        name: name.as_ptr(),
        holder: std::ptr::null_mut(),
        holder_bytes: 0,
        allows_others: allows_others.into(),
        padding: [0; 7],
    };
    let mut subscriber = std::ptr::null_mut();
    let scoped = library().scoped.as_ref().unwrap();
    // SAFETY: the callback stays, the handle can be written, and the parameters are whole.
    let code =
        unsafe { (scoped.subscribe)(&raw mut subscriber, on_call, NOTHING, &raw mut params) };
    (code, subscriber)
}

/// Records kernels beside others.
#[expect(unsafe_code, reason = "it calls the C interface, as any profiler does")]
pub(crate) fn record(subscriber: Subscriber) {
    SUBSCRIBER.store(subscriber.expose_provenance(), Ordering::SeqCst);
    let scoped = library().scoped.as_ref().unwrap();
    // SAFETY: the functions stay, and the subscriber is there.
    let codes = unsafe {
        [
            (scoped.activity_register_callbacks)(subscriber, requested, completed),
            (scoped.activity_enable)(subscriber, kind::CONCURRENT_KERNEL, NOTHING),
        ]
    };
    assert_eq!(codes, [0, 0]);
}

/// Records kernels for the process, without a subscriber; the codes.
#[expect(unsafe_code, reason = "it calls the C interface, as any profiler does")]
pub(crate) fn record_process() -> [u32; 2] {
    let functions = &library().functions;
    // SAFETY: the functions stay.
    unsafe {
        [
            (functions.activity_register_callbacks)(process_requested, process_completed),
            (functions.activity_enable)(kind::CONCURRENT_KERNEL),
        ]
    }
}

#[expect(unsafe_code, reason = "it calls the C interface, as any profiler does")]
pub(crate) fn leave(subscriber: Subscriber) {
    // SAFETY: the subscriber is there, and not used afterwards.
    assert_eq!(unsafe { (library().functions.unsubscribe)(subscriber) }, 0);
}

#[expect(unsafe_code, reason = "it calls the C interface, as any profiler does")]
pub(crate) fn flush() {
    // SAFETY: any flags may be given.
    assert_eq!(unsafe { (library().functions.activity_flush_all)(0) }, 0);
}

extern "C" fn on_call(_: *mut c_void, _: u32, _: u32, _: *const c_void) {}

#[expect(unsafe_code, reason = "the library's own interface")]
unsafe extern "C" fn requested(
    buffer: *mut *mut u8,
    size: *mut usize,
    most: *mut usize,
    info: *mut c_void,
) {
    // SAFETY: the library's information begins with its size.
    assert_eq!(unsafe { info.cast::<usize>().read() }, size_of::<usize>());
    // SAFETY: as here.
    unsafe { process_requested(buffer, size, most) }
}

#[expect(unsafe_code, reason = "the library's own interface")]
unsafe extern "C" fn process_requested(buffer: *mut *mut u8, size: *mut usize, most: *mut usize) {
    let words = Box::leak(vec![0_u64; WORDS].into_boxed_slice());
    // SAFETY: the library passes three places for answers.
    unsafe {
        *buffer = words.as_mut_ptr().cast();
        *size = size_of_val(words);
        *most = 0;
    }
}

#[expect(unsafe_code, reason = "the library's own interface")]
unsafe extern "C" fn completed(buffer: *mut u8, _: usize, valid: usize, _: *mut c_void) {
    let scoped = library().scoped.as_ref().unwrap();
    let subscriber = std::ptr::with_exposed_provenance_mut(SUBSCRIBER.load(Ordering::SeqCst));
    let mut record = std::ptr::null_mut();
    // SAFETY: the buffer is the one that was asked for, and so much of it is records.
    while unsafe { (scoped.activity_get_next_record)(subscriber, buffer, valid, &raw mut record) }
        == 0
    {
        KERNELS.fetch_add(1, Ordering::SeqCst);
    }
}

#[expect(unsafe_code, reason = "the library's own interface")]
unsafe extern "C" fn process_completed(_: *mut c_void, _: u32, _: *mut u8, _: usize, _: usize) {}
