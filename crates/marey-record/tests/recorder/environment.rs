//! Only the thread that starts a session looks at the environment: any other may find that the program is
//! setting a variable, and `setenv` frees what it reads.
//!
//! This program has a `getenv` of its own, which the standard library calls.

use crate::harness::{Role, Turn, fork, on_thread, part, scope};
use marey_record::{Format, SessionOptions, api};
use std::ffi::{CStr, c_char};
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The thread that may look; 0 while nobody watches.
static STARTER: AtomicI32 = AtomicI32::new(0);
/// How often it did, and others.
static LOOKS: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];

/// # Safety
/// As for that of the C library.
#[expect(unsafe_code, reason = "it stands for the C library's")]
#[unsafe(no_mangle)]
unsafe extern "C" fn getenv(name: *const c_char) -> *mut c_char {
    unsafe extern "C" {
        static environ: *const *mut c_char;
    }
    let starter = STARTER.load(Ordering::SeqCst);
    if starter != 0 {
        LOOKS[usize::from(starter != this_thread())].fetch_add(1, Ordering::SeqCst);
    }
    // SAFETY: the caller passes a text, and the environment is a list of texts that ends with null.
    unsafe {
        let name = CStr::from_ptr(name).to_bytes();
        let mut at = environ;
        while !(*at).is_null() {
            let text = CStr::from_ptr(*at).to_bytes();
            if text.strip_prefix(name).is_some_and(|rest| rest.starts_with(b"=")) {
                return (*at).add(name.len() + 1);
            }
            at = at.add(1);
        }
    }
    std::ptr::null_mut()
}

#[expect(unsafe_code, reason = "std does not tell")]
fn this_thread() -> i32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

fn start(folder: &Path, name: &str, format: Format) {
    let name = folder.join(name);
    let options = SessionOptions { format, ..SessionOptions::named(name.to_str().unwrap()) };
    api::start(&options).unwrap();
}

fn record() {
    on_thread("records", || scope("scope", || {}));
}

/// Waits until the background thread has written a file.
fn wait_for_checkpoint(file: &Path) {
    let end = Instant::now() + Duration::from_mins(1);
    while !file.exists() {
        assert!(Instant::now() < end, "no checkpoint was written");
        thread::yield_now();
    }
    std::fs::remove_file(file).unwrap();
}

#[test]
fn no_other_thread_looks_at_the_environment() {
    const TEST: &str = "environment::no_other_thread_looks_at_the_environment";
    if let Some((_, folder)) = part() {
        STARTER.store(this_thread(), Ordering::SeqCst);
        start(&folder, "tree", Format::Hatchet);
        start(&folder, "trace", Format::ChromeTrace);
        record();
        let checkpoint = folder.join("tree.hatchet");
        wait_for_checkpoint(&checkpoint);
        assert_eq!(fork(|| 0), 0);
        record();
        wait_for_checkpoint(&checkpoint);
        on_thread("ends", || api::alive().into_iter().for_each(|id| drop(api::finalize(id, None))));
        STARTER.store(0, Ordering::SeqCst);
        let [own, others] = &LOOKS;
        assert!(own.load(Ordering::SeqCst) > 0, "this is not the `getenv` that is called");
        assert_eq!(others.load(Ordering::SeqCst), 0);
        return;
    }
    let turn = Turn::begin();
    Role::new(TEST, "run", &turn).run(&[("MAREY_CHECKPOINT_SECS", "0.01")]);
}
