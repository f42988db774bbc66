//! What a fork does to the recorder: nothing in the parent, and a fresh start in the child.

use crate::checkpoint;
use crate::names;
use crate::recorder;
use crate::trace;
use crate::worker::Worker;
use std::any::Any;
use std::cell::RefCell;
use std::io::Write;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// The threads that are gone while the process forks.
const WORKERS: [&Worker; 2] = [&checkpoint::WORKER, &trace::WORKER];

static RESTART_IS_OURS: AtomicBool = AtomicBool::new(true);

thread_local! {
    /// Our locks, from before the fork until after it.
    static HELD: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
}

/// Installs the handlers, once; and the one that writes the files when the process ends.
#[expect(unsafe_code, reason = "pthread_atfork and atexit take C functions")]
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: the functions live as long as the library, which is never unloaded: its
        // thread-local destructors pin it.
        unsafe {
            libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child));
            libc::atexit(at_exit);
        }
    });
}

/// Leaves it to the caller to start the background threads again after a fork.
///
/// CPython warns of threads right after a fork, in the parent: it calls [`restart_workers`] when that
/// is over.
pub(crate) fn defer_restart() {
    RESTART_IS_OURS.store(false, Ordering::Relaxed);
}

/// Starts the background threads again that a fork has stopped.
pub(crate) fn restart_workers() {
    WORKERS.into_iter().for_each(Worker::resume);
}

extern "C" fn before() {
    WORKERS.into_iter().for_each(Worker::pause);
    let held: Box<dyn Any> = Box::new((WORKERS.map(Worker::hold), recorder::hold(), names::hold()));
    HELD.with_borrow_mut(|slot| *slot = Some(held));
}

extern "C" fn after_in_parent() {
    HELD.with_borrow_mut(Option::take);
    if RESTART_IS_OURS.load(Ordering::Relaxed) {
        restart_workers();
    }
}

extern "C" fn after_in_child() {
    HELD.with_borrow_mut(Option::take);
    WORKERS.into_iter().for_each(Worker::forget);
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
    for worker in WORKERS {
        worker.stop();
    }
}
