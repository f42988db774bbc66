//! What a fork does to the recorder: nothing in the parent, and a fresh start in the child.

use crate::checkpoint;
use crate::names;
use crate::recorder;
use std::any::Any;
use std::cell::RefCell;
use std::io::Write;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static CHECKPOINTS_STOPPED: AtomicBool = AtomicBool::new(false);
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

/// Leaves it to the caller to start the background thread again after a fork.
///
/// CPython warns of threads right after a fork, in the parent: it calls
/// [`restart_checkpoints`] when that is over.
pub(crate) fn defer_restart() {
    RESTART_IS_OURS.store(false, Ordering::Relaxed);
}

/// Starts the background thread again, if a fork stopped it.
pub(crate) fn restart_checkpoints() {
    if CHECKPOINTS_STOPPED.swap(false, Ordering::SeqCst) {
        checkpoint::ensure_running();
    }
}

extern "C" fn before() {
    if checkpoint::stop() {
        CHECKPOINTS_STOPPED.store(true, Ordering::SeqCst);
    }
    let held: Box<dyn Any> = Box::new((checkpoint::hold(), recorder::hold(), names::hold()));
    HELD.with_borrow_mut(|slot| *slot = Some(held));
}

extern "C" fn after_in_parent() {
    HELD.with_borrow_mut(Option::take);
    if RESTART_IS_OURS.load(Ordering::Relaxed) {
        restart_checkpoints();
    }
}

extern "C" fn after_in_child() {
    HELD.with_borrow_mut(Option::take);
    checkpoint::forget();
    recorder::begin_child();
    restart_checkpoints();
}

extern "C" fn at_exit() {
    for id in recorder::alive() {
        if let Err(error) = recorder::finalize(id, None) {
            // The process is over, and standard error may be too.
            drop(writeln!(std::io::stderr(), "marey: error: {error}"));
        }
    }
    checkpoint::stop();
}
