//! What a fork does to the recorder: nothing in the parent, and a fresh start in the child.

use crate::checkpoint;
use crate::device;
use crate::names;
use crate::recorder;
use crate::registry::lock;
use crate::trace;
use crate::worker::{self, Worker};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io::Write;
use std::sync::{Mutex, MutexGuard, Once};

/// The threads that are gone while the process forks.
const WORKERS: [&Worker; 2] = [&checkpoint::WORKER, &trace::WORKER];

/// Threads of sources, which are gone meanwhile too. A child has none until it asks for them.
static SOURCES: Mutex<Vec<&'static Worker>> = Mutex::new(Vec::new());

thread_local! {
    /// Our locks, from before the fork until after it.
    static HELD: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
    /// Whether the caller of the next fork of this thread restarts the background threads.
    static IS_DEFERRED: Cell<bool> = const { Cell::new(false) };
}

/// Installs the handlers, once; and the one that writes the files when the process ends.
#[expect(unsafe_code, reason = "pthread_atfork takes C functions")]
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: the functions live as long as the library, which is never unloaded: its
        // thread-local destructors pin it.
        unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
        finish_at_exit();
    });
}

/// Has the sessions end with the process, before anything does that was there when this was called:
/// handlers run in reverse.
#[expect(unsafe_code, reason = "atexit takes a C function")]
fn finish_at_exit() {
    // SAFETY: as above.
    unsafe { libc::atexit(at_exit) };
}

/// Leaves it to the caller to start the background threads again after the next fork of this thread.
///
/// CPython warns of threads right after a fork of its own, in the parent: it calls [`restart_workers`]
/// when that is over. It knows nothing of a fork that a C library makes.
pub(crate) fn defer_restart() {
    IS_DEFERRED.set(true);
}

/// Starts the background threads again that a fork has stopped.
pub(crate) fn restart_workers() {
    WORKERS.into_iter().for_each(Worker::resume);
    lock(&SOURCES).iter().for_each(|source| source.resume());
}

/// Starts the thread of a source, whose library is loaded.
pub(crate) fn start_source(source: &'static Worker) {
    install();
    let mut sources = lock(&SOURCES);
    if !sources.iter().any(|known| std::ptr::eq(*known, source)) {
        sources.push(source);
        // The library has handlers of its own.
        finish_at_exit();
    }
    source.ensure_running();
}

extern "C" fn before() {
    if worker::is_ours() {
        // A vendor's library starts a helper, which becomes another program at once.
        return;
    }
    // They use the others.
    let sources = pause_sources();
    WORKERS.into_iter().for_each(Worker::pause);
    let threads: Vec<_> = sources.iter().map(|source| source.hold()).collect();
    let workers = (sources, threads, WORKERS.map(Worker::hold));
    let source = device::hold_source();
    let held: Box<dyn Any> = Box::new((workers, source, recorder::hold(), names::hold()));
    HELD.with_borrow_mut(|slot| *slot = Some(held));
}

/// Stops the threads of sources. The list is free meanwhile: one of them may be about to start another.
fn pause_sources() -> MutexGuard<'static, Vec<&'static Worker>> {
    loop {
        let known = lock(&SOURCES).clone();
        known.iter().filter(|source| source.hears()).for_each(|source| source.pause());
        let sources = lock(&SOURCES);
        if !sources.iter().any(|source| source.hears()) {
            return sources;
        }
    }
}

extern "C" fn after_in_parent() {
    if worker::is_ours() {
        return;
    }
    HELD.with_borrow_mut(Option::take);
    if !IS_DEFERRED.take() {
        restart_workers();
    }
}

extern "C" fn after_in_child() {
    if worker::is_ours() {
        return;
    }
    HELD.with_borrow_mut(Option::take);
    IS_DEFERRED.set(false);
    WORKERS.into_iter().for_each(Worker::forget);
    for source in lock(&SOURCES).drain(..) {
        source.forget();
        source.stay_away();
    }
    device::begin_child_source();
    recorder::begin_child();
    restart_workers();
}

extern "C" fn at_exit() {
    for id in recorder::alive() {
        if let Err(error) = recorder::finalize(id, None) {
            // The process is over, and standard error may be too.
            drop(writeln!(std::io::stderr(), "marey: error: {error}"));
        }
    }
    // What a session could not end must not call a library that has ended.
    device::stop();
    for worker in WORKERS {
        worker.stop();
    }
}
