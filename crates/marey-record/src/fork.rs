//! What a fork does to the recorder: nothing in the parent, and a fresh start in the child.

use crate::checkpoint;
use crate::device;
use crate::environment;
use crate::lock::{lock, try_lock};
use crate::names;
use crate::progress;
use crate::recorder;
use crate::trace;
use crate::worker::{self, Worker};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io::Write;
use std::mem::ManuallyDrop;
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

/// The threads that are gone while the process forks.
const WORKERS: [&Worker; 2] = [&checkpoint::WORKER, &trace::WORKER];

/// A fork waits so long for the background threads to end. Who counts the process's threads after it, as
/// CPython does, sees them only where a disk is slower than this.
const PATIENCE: Duration = Duration::from_millis(100);

/// Threads of sources, which are gone meanwhile too. A child has none until it asks for them.
static SOURCES: Mutex<Vec<&'static Worker>> = Mutex::new(Vec::new());

thread_local! {
    /// Our locks, from before the fork until after it. Never dropped: handlers of the process's end fork
    /// too, when a thread's own have run.
    static HELD: ManuallyDrop<RefCell<Option<Box<dyn Any>>>> =
        const { ManuallyDrop::new(RefCell::new(None)) };
    /// Whether the thread is in a call of a vendor's library that is made with locks held.
    static IS_IN_LIBRARY: Cell<bool> = const { Cell::new(false) };
    /// Whether the caller of the next fork of this thread restarts the background threads.
    static IS_DEFERRED: Cell<bool> = const { Cell::new(false) };
}

/// The library is loaded: from now on there may be locks that a child must not find locked.
pub(crate) fn note_load() {
    static NOTED: Once = Once::new();
    NOTED.call_once(handle);
}

/// Installs the handlers, once; and the one that writes the files when the process ends.
///
/// Libraries of vendors that were loaded before the first session have handlers too, maybe. What runs
/// before a fork runs in reverse, and who holds our locks may wait for theirs: so ours are there again.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        handle();
        finish_at_exit();
    });
}

/// Has forks wait for our locks. Of several handlers the first does it all.
#[expect(unsafe_code, reason = "pthread_atfork takes C functions")]
fn handle() {
    // SAFETY: the functions live as long as the library, which is never unloaded: its thread-local
    // destructors pin it.
    unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
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
    if is_of_library() || HELD.with(|slot| slot.borrow().is_some()) {
        return;
    }
    let deadline = Instant::now() + PATIENCE;
    let held = loop {
        pause_workers(deadline);
        if let Some(held) = try_hold(Instant::now() >= deadline) {
            break held;
        }
    };
    HELD.with(|slot| *slot.borrow_mut() = Some(held));
}

/// Whether the calling thread's fork is one of a vendor's library, which starts a helper: that becomes
/// another program at once.
fn is_of_library() -> bool {
    worker::is_ours() || IS_IN_LIBRARY.get()
}

/// Calls a vendor's library with locks held that the handlers would take.
pub(crate) fn in_library<T>(call: impl FnOnce() -> T) -> T {
    let was_inside = IS_IN_LIBRARY.replace(true);
    let value = call();
    IS_IN_LIBRARY.set(was_inside);
    value
}

/// Stops the background threads, which need our locks to end. One that writes to a slow disk is left
/// behind at the deadline: it holds no lock then that a child needs.
fn pause_workers(deadline: Instant) {
    let sources = lock(&SOURCES).clone();
    sources.into_iter().chain(WORKERS).for_each(|worker| worker.pause(deadline));
}

/// Takes all our locks, in the order in which others take them: sessions, what devices' sources hold, the
/// rest. Those around the background threads are held while a thread ends that needs the others, so
/// nobody may wait for them here: without them, or with a thread that has begun again, there is nothing
/// unless `workers_may_run`.
fn try_hold(workers_may_run: bool) -> Option<Box<dyn Any>> {
    let sessions = recorder::hold_sessions();
    let source = device::hold_source();
    let held = (recorder::hold(), names::hold(), environment::hold());
    let sources = try_lock(&SOURCES)?;
    let workers = sources.iter().copied().chain(WORKERS);
    let threads = workers.map(|worker| worker.try_hold(workers_may_run));
    let threads: Vec<_> = threads.collect::<Option<_>>()?;
    Some(Box::new((threads, sources, held, source, sessions)))
}

/// Lets go of our locks; `false` where another handler has, and for forks that took none.
fn let_go() -> bool {
    HELD.with(|slot| slot.borrow_mut().take()).is_some()
}

extern "C" fn after_in_parent() {
    if let_go() && !IS_DEFERRED.take() {
        restart_workers();
    }
}

extern "C" fn after_in_child() {
    if !let_go() {
        return;
    }
    IS_DEFERRED.set(false);
    WORKERS.into_iter().for_each(Worker::forget);
    for source in lock(&SOURCES).drain(..) {
        source.forget();
        source.stay_away();
    }
    checkpoint::begin_child();
    device::begin_child_source();
    recorder::begin_child();
    restart_workers();
}

extern "C" fn at_exit() {
    device::process_ends();
    for id in recorder::alive() {
        if let Err(error) = recorder::finalize(id, None) {
            // The process is over, and standard error may be too.
            drop(writeln!(std::io::stderr(), "marey: error: {error}"));
        }
    }
    // A daemon thread of Python may be in the middle of it.
    progress::wait_for_writers();
    // What a session could not end must not call a library that has ended.
    device::stop();
    for worker in WORKERS {
        worker.stop();
    }
}
