//! The fork handlers. They stop the background threads and take all locks around a fork, so that
//! recording continues in the parent and starts afresh in the child.

use crate::checkpoint;
use crate::device;
use crate::endpoint;
use crate::environment;
use crate::error::Error;
use crate::lock::{lock, try_lock};
use crate::names;
use crate::perf;
use crate::progress;
use crate::python_requests;
use crate::recorder;
use crate::sampling;
use crate::system;
use crate::trace;
use crate::worker::{self, Worker};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io::Write;
use std::mem::ManuallyDrop;
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

/// The background threads that are stopped while the process forks.
const WORKERS: [&Worker; 4] =
    [&endpoint::WORKER, &system::WORKER, &checkpoint::WORKER, &trace::WORKER];

/// The longest time that a fork waits for the background threads to end. They outlive it only if a
/// disk is slower than this, or no processor is free for them. A program that counts its threads
/// after a fork, as CPython does, then sees them.
const PAUSE_TIMEOUT: Duration = Duration::from_millis(100);

/// The threads of sources, which also stop during a fork. A child has none until it starts one.
static SOURCES: Mutex<Vec<&'static Worker>> = Mutex::new(Vec::new());

thread_local! {
    /// The recorder's locks, held from before the fork until after it. Never dropped, because the
    /// process's exit handlers may fork after this thread's destructors have run.
    static LOCKS: ManuallyDrop<RefCell<Option<Box<dyn Any>>>> =
        const { ManuallyDrop::new(RefCell::new(None)) };
    /// Whether the thread is in a call of a vendor's library that is made with locks held.
    static IS_IN_LIBRARY: Cell<bool> = const { Cell::new(false) };
    /// Whether the caller of this thread's next fork restarts the background threads.
    static IS_RESTART_DEFERRED: Cell<bool> = const { Cell::new(false) };
}

/// Registers the fork handlers when the library is loaded, because from then on a child could
/// inherit a held lock.
pub(crate) fn on_load() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(register_fork_handlers);
}

/// Registers the fork handlers and the exit handler that writes the files, once.
///
/// The fork handlers are registered again. Prepare handlers run last-in first-out, and the
/// recorder's must run before those of vendors' libraries that were loaded before the first
/// session: a thread that holds a lock of the recorder may wait for a lock of such a library.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        register_fork_handlers();
        register_exit_handler();
    });
}

/// Registers the handlers that take the recorder's locks around a fork. If they are registered
/// twice, the first to run does all the work.
#[expect(unsafe_code, reason = "pthread_atfork takes C functions")]
fn register_fork_handlers() {
    // SAFETY: the functions live as long as the library, which is never unloaded: its thread-local
    // destructors pin it.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_in_parent), Some(after_in_child)) };
}

/// Registers the exit handler that finalizes the sessions. Exit handlers run last-in first-out, so
/// it runs before the handlers that are registered by now.
#[expect(unsafe_code, reason = "atexit takes a C function")]
fn register_exit_handler() {
    // SAFETY: the function lives as long as the library, which is never unloaded.
    unsafe { libc::atexit(at_exit) };
}

/// Defers the restart of the background threads after the next fork of this thread to the caller.
///
/// CPython checks for other threads in the parent right after a fork of its own and warns of them;
/// it calls [`restart_workers`] after that. A fork made by a C library restarts them at once.
pub(crate) fn defer_restart() {
    IS_RESTART_DEFERRED.set(true);
}

/// Restarts the background threads that a fork has stopped.
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
        // The library has registered its exit handlers. The recorder's must run before them, so it
        // is registered later.
        register_exit_handler();
    }
    source.ensure_running();
}

extern "C" fn before_fork() {
    if is_library_fork() || LOCKS.with(|locks| locks.borrow().is_some()) {
        return;
    }
    let deadline = Instant::now() + PAUSE_TIMEOUT;
    let locks = loop {
        pause_workers(deadline);
        if let Some(locks) = try_lock_all(Instant::now() >= deadline) {
            break locks;
        }
    };
    LOCKS.with(|slot| *slot.borrow_mut() = Some(locks));
}

/// Whether a vendor's library makes this fork to start a helper, which runs another program at
/// once.
fn is_library_fork() -> bool {
    worker::is_worker_thread() || IS_IN_LIBRARY.get()
}

/// Calls a vendor's library with locks held that the fork handlers would take.
pub(crate) fn call_library<T>(call: impl FnOnce() -> T) -> T {
    let was_in_library = IS_IN_LIBRARY.replace(true);
    let value = call();
    IS_IN_LIBRARY.set(was_in_library);
    value
}

/// Stops the background threads, which need the recorder's locks to end. A thread that writes to a
/// slow disk is left running at the deadline. By then it holds no lock that a child needs.
fn pause_workers(deadline: Instant) {
    let sources = lock(&SOURCES).clone();
    let workers: Vec<_> = sources.into_iter().chain(WORKERS).collect();
    // All are asked before the first is waited for, so that they end at the same time.
    for deadline in [Instant::now(), deadline] {
        for worker in &workers {
            worker.pause(deadline);
        }
    }
}

/// Takes all locks of the recorder in the lock order: sessions, the locks of device sources, the
/// remaining locks. Only tries the locks of the background threads, because they are held while a
/// thread ends, which needs the other locks. Returns `None` if one of them is taken, or if a worker
/// has been restarted and `workers_may_run` is false.
fn try_lock_all(workers_may_run: bool) -> Option<Box<dyn Any>> {
    let sessions = recorder::lock_sessions_for_fork();
    let source = device::lock_source_for_fork();
    let other_locks = (
        sampling::lock_for_fork(),
        recorder::lock_for_fork(),
        perf::lock_for_fork(),
        names::lock_for_fork(),
        environment::lock_for_fork(),
        endpoint::lock_for_fork(),
        python_requests::lock_for_fork(),
        system::lock_for_fork(),
    );
    let sources = try_lock(&SOURCES)?;
    let workers = sources.iter().copied().chain(WORKERS);
    let threads = workers.map(|worker| worker.try_lock_for_fork(workers_may_run));
    let threads: Vec<_> = threads.collect::<Option<_>>()?;
    Some(Box::new((threads, sources, other_locks, source, sessions)))
}

/// Releases the recorder's locks. Returns `false` if another handler has released them or the fork
/// took none.
fn release_locks() -> bool {
    LOCKS.with(|locks| locks.borrow_mut().take()).is_some()
}

extern "C" fn after_in_parent() {
    if release_locks() && !IS_RESTART_DEFERRED.take() {
        restart_workers();
    }
}

extern "C" fn after_in_child() {
    if !release_locks() {
        return;
    }
    IS_RESTART_DEFERRED.set(false);
    WORKERS.into_iter().for_each(Worker::reset_in_child);
    for source in lock(&SOURCES).drain(..) {
        source.reset_in_child();
        source.cancel_resume();
    }
    endpoint::begin_child();
    python_requests::begin_child();
    checkpoint::begin_child();
    sampling::begin_child();
    device::begin_child_source();
    recorder::begin_child();
    restart_workers();
}

extern "C" fn at_exit() {
    device::begin_process_exit();
    for id in recorder::live_sessions() {
        match recorder::finalize(id, None) {
            // Another thread has ended the session, such as the one that handles SIGTERM.
            Ok(_) | Err(Error::UnknownSession(_)) => {}
            // Standard error may be closed at process exit.
            Err(error) => drop(writeln!(std::io::stderr(), "marey: error: {error}")),
        }
    }
    // A daemon thread of Python may still be writing.
    progress::wait_for_writers();
    // A session that could not be ended must not call a library that has shut down.
    device::stop();
    for worker in WORKERS {
        worker.stop();
    }
}
