use super::request_drain;
use super::spool::Spool;
use super::tracer::TRACER;
use crate::lock::lock;
use crate::output::Format;
use crate::session::SessionOptions;
use crate::{api, device, os, recorder};
use marey_model::context::NodeKind;
use std::sync::{Arc, mpsc};
use std::time::Duration;

fn enter_and_exit(name: &str) {
    api::enter(api::intern(name), NodeKind::Scope);
    api::exit(api::intern(name));
}

/// Ends the sessions and exits, in the child of a fork.
#[expect(unsafe_code, reason = "a forked child must not run the parent's exit handlers")]
fn end_child() -> ! {
    for session in api::live_sessions() {
        drop(api::activate(session));
    }
    enter_and_exit("in the child");
    let all: Result<Vec<_>, _> =
        api::live_sessions().into_iter().map(|id| api::finalize(id, None)).collect();
    // SAFETY: a system call that takes a plain number.
    unsafe { libc::_exit(i32::from(all.is_err())) }
}

/// Forks, and waits until the child has ended all sessions and exited.
#[expect(unsafe_code, reason = "std has no fork")]
fn fork() {
    // SAFETY: the child calls only what a forked child may call, and does not return.
    let child = unsafe { libc::fork() };
    if child == 0 {
        end_child();
    }
    let mut status = 0;
    // SAFETY: `status` is writable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
}

#[test]
#[expect(unsafe_code, reason = "std has no alarms")]
fn a_hanging_disk_blocks_neither_ending_threads_nor_forks() {
    // SAFETY: a system call that takes a plain number. It ends this process if something waits
    // for the disk.
    unsafe { libc::alarm(60) };
    let folder = tempfile::tempdir().unwrap();
    let options = |name: &str, format| {
        let name = folder.path().join(name).to_str().unwrap().to_owned();
        SessionOptions { format, ..SessionOptions::named(name) }
    };
    let checkpointed = api::start(&options("chrome", Format::ChromeTrace)).unwrap();
    let session = api::start(&options("trace", Format::Run)).unwrap();
    let ended = api::start(&options("ended", Format::ChromeTrace)).unwrap();
    let discarded = api::start(&options("discarded", Format::Run)).unwrap();
    let (_, appender) = lock(&TRACER).spool.as_ref().map(Spool::file_and_appender).unwrap();
    let hanging_disk = lock(&appender);
    let record = || enter_and_exit("on a thread that ends");
    std::thread::Builder::new().spawn(record).unwrap().join().unwrap();
    // Wait until a thread that writes has a reference to the appender, beside the spool's and
    // this one.
    request_drain();
    while Arc::strong_count(&appender) < 3 {
        std::thread::yield_now();
    }
    let start = |write: Box<dyn FnOnce() + Send>| {
        let references = Arc::strong_count(&appender);
        let thread = std::thread::Builder::new().spawn(write).unwrap();
        while Arc::strong_count(&appender) <= references {
            std::thread::yield_now();
        }
        thread
    };
    let pauses = start(Box::new(move || {
        api::deactivate(session).unwrap();
        api::activate(session).unwrap();
        api::advance_phase(session).unwrap();
    }));
    fork();
    let other = options("other", Format::Run);
    let starts = start(Box::new(move || {
        api::start(&other).unwrap();
    }));
    fork();
    let checkpoints = start(Box::new(api::write_checkpoints));
    fork();
    let ends = start(Box::new(move || drop(api::finalize(ended, None).unwrap())));
    fork();
    // This thread waits for the thread that ends a session.
    let discards = std::thread::Builder::new().spawn(move || api::discard(discarded).unwrap());
    api::activate(checkpointed).unwrap();
    fork();
    drop(hanging_disk);
    for thread in [pauses, starts, checkpoints, ends, discards.unwrap()] {
        thread.join().unwrap();
    }
    for name in ["chrome.chrome_trace", "ended.chrome_trace"] {
        let trace = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(trace.contains("on a thread that ends"), "{name}: {trace}");
    }
    let paths = api::finalize(session, None).unwrap();
    let spools = paths[0].join("spool").read_dir().unwrap();
    assert_eq!(spools.count(), 6);
}

#[test]
fn a_fork_that_waits_for_the_tracer_keeps_no_lock_that_the_spool_takes() {
    let tracer = lock(&TRACER);
    let (thread_id, forking_thread) = mpsc::sync_channel(1);
    let take_locks = move || {
        thread_id.send(os::thread_id()).unwrap();
        drop(recorder::lock_for_fork());
    };
    let forking = std::thread::Builder::new().spawn(take_locks).unwrap();
    let stat = format!("/proc/self/task/{}/stat", forking_thread.recv().unwrap());
    while !std::fs::read_to_string(&stat).unwrap().contains(") S ") {
        std::thread::yield_now();
    }
    let (done, is_done) = mpsc::sync_channel(1);
    let read = move || {
        drop((device::devices(), device::notes()));
        done.send(()).unwrap();
    };
    let reading = std::thread::Builder::new().spawn(read).unwrap();
    let is_read = is_done.recv_timeout(Duration::from_secs(10));
    drop(tracer);
    forking.join().unwrap();
    reading.join().unwrap();
    assert_eq!(is_read, Ok(()));
}
