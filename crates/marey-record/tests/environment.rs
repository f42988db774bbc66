//! Only the thread that starts a session looks at the environment: any other may find that the program is
//! setting a variable, and `setenv` frees what it reads.
//!
//! This program has a `getenv` of its own, which the standard library calls.

#![cfg(not(loom))]
#![expect(clippy::disallowed_methods, reason = "nobody sets a variable in a test")]
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use marey_record::{Format, NodeKind, SessionOptions, api};
use std::ffi::{CStr, c_char};
use std::path::Path;
use std::process::Command;
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
        while let Some(variable) = (*at).as_mut() {
            let text = CStr::from_ptr(variable).to_bytes();
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
    api::enter(api::intern("scope"), NodeKind::Scope);
    api::exit(api::intern("scope"));
}

fn on_thread(run: impl FnOnce() + Send + 'static) {
    thread::Builder::new().name("records".to_owned()).spawn(run).unwrap().join().unwrap();
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

#[expect(unsafe_code, reason = "std has no fork")]
fn fork() {
    // SAFETY: the child ends at once.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(0),
            pid => assert_eq!(libc::waitpid(pid, std::ptr::null_mut(), 0), pid),
        }
    }
}

#[test]
fn no_other_thread_looks_at_the_environment() {
    const ALONE: &str = "MAREY_TEST_ALONE";
    if let Some(folder) = std::env::var_os(ALONE) {
        let folder = Path::new(&folder);
        STARTER.store(this_thread(), Ordering::SeqCst);
        start(folder, "tree", Format::Hatchet);
        start(folder, "trace", Format::ChromeTrace);
        on_thread(record);
        let checkpoint = folder.join("tree.hatchet");
        wait_for_checkpoint(&checkpoint);
        fork();
        on_thread(record);
        wait_for_checkpoint(&checkpoint);
        on_thread(|| api::alive().into_iter().for_each(|id| drop(api::finalize(id, None))));
        STARTER.store(0, Ordering::SeqCst);
        let [own, others] = &LOOKS;
        assert!(own.load(Ordering::SeqCst) > 0, "this is not the `getenv` that is called");
        assert_eq!(others.load(Ordering::SeqCst), 0);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "no_other_thread_looks_at_the_environment"])
        .env(ALONE, folder.path())
        .env("MAREY_CHECKPOINT_SECS", "0.01")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
