//! Schedules calls that Python's main thread makes at its next line, with `Py_AddPendingCall`.
//!
//! CPython 3.10 and 3.11 notice a pending call of another thread only when the main thread takes
//! the GIL. A main thread that never gives the GIL up would never make the call. On these versions
//! this file also sets `eval_breaker`, the word by which CPython makes the thread look.

use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

/// The word `eval_breaker` of the interpreter. Null where its place is unknown or it is not needed.
static EVAL_BREAKER: AtomicPtr<AtomicI32> = AtomicPtr::new(null_mut());

type Call = extern "C" fn(*mut c_void) -> c_int;

/// Finds `eval_breaker`. Trusts the place only after CPython itself has set the word there, which
/// it does when the main thread adds a pending call.
pub(crate) fn prepare(py: Python<'_>) {
    let version = py.version_info();
    // The offsets of 64-bit builds, from `internal/pycore_interp.h` and `internal/pycore_ceval.h`.
    let offset = match (version.major, version.minor) {
        (3, 10) => 68,
        (3, 11) => 100,
        _ => return,
    };
    if !EVAL_BREAKER.load(Ordering::Acquire).is_null() {
        return;
    }
    // SAFETY: the GIL is held, and the interpreter is larger than the offset.
    let candidate: *mut AtomicI32 =
        unsafe { ffi::PyInterpreterState_Get().byte_add(offset).cast() };
    // SAFETY: aligned memory of the interpreter, which lives as long as Python.
    let word = unsafe { &*candidate };
    let before = word.load(Ordering::Relaxed);
    // SAFETY: may be called on any thread; the function lives as long as the library.
    let is_added = unsafe { ffi::Py_AddPendingCall(Some(do_nothing), null_mut()) } == 0;
    if is_added && (before, word.load(Ordering::Relaxed)) == (0, 1) {
        EVAL_BREAKER.store(candidate, Ordering::Release);
    }
}

extern "C" fn do_nothing(_argument: *mut c_void) -> c_int {
    0
}

/// A function that the main thread is to call soon, and is not to call twice for two requests. So
/// it takes one of the 32 places in the queue of pending calls at most, which are the program's too.
pub(crate) struct PendingCall {
    call: Call,
    is_in_queue: AtomicBool,
}

impl PendingCall {
    /// Returns a request for a function, which calls [`Self::begin`] first.
    pub(crate) const fn new(call: Call) -> Self {
        Self { call, is_in_queue: AtomicBool::new(false) }
    }

    /// Requests the call. Any thread may do so, with or without the GIL. Returns whether the call
    /// is in the queue, which may be full.
    pub(crate) fn request(&self) -> bool {
        // SAFETY: may be called on any thread at any time.
        if unsafe { ffi::Py_IsInitialized() } == 0 {
            // A program that embeds Python may record after the end of the interpreter.
            return false;
        }
        if !self.is_in_queue.swap(true, Ordering::AcqRel) {
            // SAFETY: may be called without the GIL while there is an interpreter, and the function
            // lives as long as the library.
            let is_added = unsafe { ffi::Py_AddPendingCall(Some(self.call), null_mut()) } == 0;
            if !is_added {
                self.is_in_queue.store(false, Ordering::Release);
                return false;
            }
        }
        // SAFETY: null, or a word of the interpreter, which exists as was checked above.
        if let Some(breaker) = unsafe { EVAL_BREAKER.load(Ordering::Acquire).as_ref() } {
            breaker.store(1, Ordering::Relaxed);
        }
        true
    }

    /// Begins the call: a request from now on is for another one.
    pub(crate) fn begin(&self) {
        self.is_in_queue.store(false, Ordering::Release);
    }
}
