//! Calls that Python's main thread makes at its next line.
//!
//! CPython 3.10 and 3.11 tell the main thread of a new call only when it gets the GIL, unless it has added the call
//! itself. One that runs alone would never look, so it is told here, by the word that CPython itself sets.

use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

/// The word `eval_breaker` of the interpreter; null where it is not known, or not needed.
static BREAKER: AtomicPtr<AtomicI32> = AtomicPtr::new(null_mut());

type Call = extern "C" fn(*mut c_void) -> c_int;

/// Finds the word. On the main thread, where CPython sets it, the result is compared with that.
pub(crate) fn prepare(py: Python<'_>) {
    let version = py.version_info();
    // On 64-bit machines, from `internal/pycore_interp.h` and `internal/pycore_ceval.h`.
    let offset = match (version.major, version.minor) {
        (3, 10) => 68,
        (3, 11) => 100,
        _ => return,
    };
    if !BREAKER.load(Ordering::Acquire).is_null() {
        return;
    }
    // SAFETY: the GIL is held, and the interpreter is larger than the offset.
    let found: *mut AtomicI32 = unsafe { ffi::PyInterpreterState_Get().byte_add(offset).cast() };
    // SAFETY: aligned memory of the interpreter, which lives as long as Python.
    let word = unsafe { &*found };
    let before = word.load(Ordering::Relaxed);
    // SAFETY: may be called on any thread; the function lives as long as the library.
    let is_added = unsafe { ffi::Py_AddPendingCall(Some(do_nothing), null_mut()) } == 0;
    if is_added && (before, word.load(Ordering::Relaxed)) == (0, 1) {
        BREAKER.store(found, Ordering::Release);
    }
}

extern "C" fn do_nothing(_argument: *mut c_void) -> c_int {
    0
}

/// Adds a call. May be called on any thread, with or without the GIL. A full queue is the only failure.
pub(crate) fn call_soon(call: Call) {
    // SAFETY: may be called on any thread at any time.
    if unsafe { ffi::Py_IsInitialized() } == 0 {
        // A program that embeds Python may record after it has finalized the interpreter.
        return;
    }
    // SAFETY: may be called without the GIL while there is an interpreter; the function lives as long as the library.
    unsafe { ffi::Py_AddPendingCall(Some(call), null_mut()) };
    // SAFETY: null, or a word of the interpreter, which exists as for the call above.
    if let Some(breaker) = unsafe { BREAKER.load(Ordering::Acquire).as_ref() } {
        breaker.store(1, Ordering::Relaxed);
    }
}
