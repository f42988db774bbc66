//! Only the thread that starts a session reads the environment: on any other thread the program may
//! be setting a variable at the same time, and `setenv` frees the memory that is read.
//!
//! This program defines a `getenv` of its own, which the standard library calls.

use crate::harness::{fork, on_thread, run_in_subprocess, scope, start, start_trace, wait_until};
use marey_record::{Format, api};
use std::ffi::{CStr, c_char};
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// The thread that may read the environment; 0 while reads are not counted.
static STARTER: AtomicI32 = AtomicI32::new(0);
/// The number of reads by that thread, and by other threads.
static READ_COUNTS: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];

/// As for `getenv` of the C library.
#[expect(unsafe_code, reason = "it replaces the C library's function")]
#[unsafe(no_mangle)]
unsafe extern "C" fn getenv(name: *const c_char) -> *mut c_char {
    unsafe extern "C" {
        static environ: *const *mut c_char;
    }
    let starter = STARTER.load(Ordering::SeqCst);
    if starter != 0 {
        READ_COUNTS[usize::from(starter != this_thread())].fetch_add(1, Ordering::SeqCst);
    }
    // SAFETY: the caller passes a C string, and the environment is an array of C strings terminated
    // by null.
    unsafe {
        let name = CStr::from_ptr(name).to_bytes();
        let mut entry = environ;
        while !(*entry).is_null() {
            let text = CStr::from_ptr(*entry).to_bytes();
            if text.strip_prefix(name).is_some_and(|suffix| suffix.starts_with(b"=")) {
                return (*entry).add(name.len() + 1);
            }
            entry = entry.add(1);
        }
    }
    std::ptr::null_mut()
}

#[expect(unsafe_code, reason = "std has no kernel id of a thread")]
fn this_thread() -> i32 {
    // SAFETY: a call without arguments that cannot fail.
    unsafe { libc::gettid() }
}

fn record() {
    on_thread("records", || scope("scope", || {}));
}

/// Waits until the background thread has written a file.
fn wait_for_checkpoint(file: &Path) {
    wait_until("no checkpoint was written", || file.exists());
    std::fs::remove_file(file).unwrap();
}

#[test]
fn no_other_thread_reads_the_environment() {
    run_in_subprocess(&[("MAREY_CHECKPOINT_SECS", "0.01")], || {
        STARTER.store(this_thread(), Ordering::SeqCst);
        start("tree", Format::Hatchet);
        start_trace("trace");
        record();
        let checkpoint = Path::new("tree.hatchet");
        wait_for_checkpoint(checkpoint);
        assert_eq!(fork(|| 0), 0);
        record();
        wait_for_checkpoint(checkpoint);
        on_thread("ends", || {
            for session in api::live_sessions() {
                drop(api::finalize(session, None));
            }
        });
        STARTER.store(0, Ordering::SeqCst);
        let [by_starter, by_others] = &READ_COUNTS;
        assert!(by_starter.load(Ordering::SeqCst) > 0, "this program's `getenv` is not called");
        assert_eq!(by_others.load(Ordering::SeqCst), 0);
    });
}
