//! Background threads. They start on demand, wake at requests, and stop while the process forks, so
//! that a program that is single-threaded without marey is also single-threaded at a fork.

use crate::lock::{lock, try_lock};
use crate::os;
use crate::requests::Requests;
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The request to end, which every worker obeys after its current piece of work.
pub const STOP: u32 = 1;

/// Rust's default stack size.
const STACK_BYTES: usize = 2 << 20;

/// State of a worker: it runs.
const RUNNING: u32 = 0;
/// State of a worker: it was asked to end. Until it obeys, the request can be withdrawn.
const STOPPING: u32 = 1;
/// State of a worker: it has ended, or only has to return.
const STOPPED: u32 = 2;

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is a worker.
pub(crate) fn is_worker_thread() -> bool {
    IS_WORKER.get()
}

/// A background thread. It blocks all signals.
///
/// The recorder starts its own workers. [`crate::api::start_source`] starts the worker of a source.
#[derive(Debug)]
pub struct Worker {
    name: &'static str,
    run: fn(),
    /// The thread returns its id in the kernel.
    thread: Mutex<Option<JoinHandle<u64>>>,
    requests: Requests,
    /// Makes a thread that waits for something else than requests look at the requests.
    wake: fn(),
    /// One of the states above.
    state: AtomicU32,
    /// Raised when the thread has ended.
    ended: Requests,
    /// Whether a thread is waiting for requests.
    is_listening: AtomicBool,
    /// Whether a fork has stopped the thread.
    is_paused: AtomicBool,
}

impl Worker {
    /// Creates a worker that calls `run`, which must return when it receives [`STOP`].
    pub const fn new(name: &'static str, run: fn()) -> Self {
        Self::with_wake(name, run, || {})
    }

    /// Creates a worker that may wait for something else than requests. `wake` is called after the
    /// request to stop and must make the worker call [`Self::wait`].
    pub(crate) const fn with_wake(name: &'static str, run: fn(), wake: fn()) -> Self {
        Self {
            name,
            run,
            wake,
            thread: Mutex::new(None),
            requests: Requests::new(),
            state: AtomicU32::new(STOPPED),
            ended: Requests::new(),
            is_listening: AtomicBool::new(false),
            is_paused: AtomicBool::new(false),
        }
    }

    /// Sends a request to the thread. Async-signal-safe.
    pub fn request(&self, request: u32) {
        self.requests.add(request);
    }

    /// Waits for requests and returns them, 0 after the timeout. Only for the worker's own thread.
    pub fn wait(&self, timeout: Option<Duration>) -> u32 {
        let requests = self.requests.wait(timeout);
        if requests & STOP != 0 && !self.transition(STOPPING, STOPPED) {
            // The request to stop was withdrawn.
            return requests & !STOP;
        }
        requests
    }

    /// Whether the thread is to end after its current piece of work. Only for the worker's own
    /// thread.
    pub(crate) fn is_stopping(&self) -> bool {
        self.state.load(Ordering::SeqCst) == STOPPING
    }

    fn transition(&self, from: u32, to: u32) -> bool {
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Whether requests are received, now or after a fork that is in progress. Async-signal-safe.
    pub(crate) fn is_listening(&self) -> bool {
        self.is_listening.load(Ordering::SeqCst) || self.is_paused()
    }

    /// Whether a fork has stopped the thread and will start it again. Async-signal-safe.
    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::SeqCst)
    }

    /// Starts the thread if it is not running.
    pub(crate) fn ensure_running(&'static self) {
        let mut thread = lock(&self.thread);
        if thread.is_some()
            && (self.transition(STOPPING, RUNNING) || self.transition(RUNNING, RUNNING))
        {
            self.is_listening.store(true, Ordering::SeqCst);
            return;
        }
        if let Some(ended) = thread.take() {
            drop(ended.join());
        }
        self.requests.withdraw(STOP);
        self.ended.take();
        self.state.store(RUNNING, Ordering::SeqCst);
        // Set the stack size, because std would otherwise read `RUST_MIN_STACK` from the
        // environment.
        let builder =
            std::thread::Builder::new().name(self.name.to_owned()).stack_size(STACK_BYTES);
        let started = with_signals_blocked(|| {
            builder.spawn(move || {
                IS_WORKER.set(true);
                (self.run)();
                self.state.store(STOPPED, Ordering::SeqCst);
                self.ended.add(1);
                os::thread_id()
            })
        });
        self.is_listening.store(started.is_ok(), Ordering::SeqCst);
        *thread = started.ok();
    }

    /// Stops the thread after its current piece of work. Returns whether it was running.
    pub fn stop(&self) -> bool {
        self.finish(None)
    }

    /// Ends the thread. A thread that has not ended by the deadline is left to end later, unless
    /// [`Self::ensure_running`] withdraws the request. Returns whether there was a thread.
    fn finish(&self, deadline: Option<Instant>) -> bool {
        // Stay locked until the thread has ended, because a new thread would take its requests.
        let mut slot = lock(&self.thread);
        if deadline.is_none() {
            // A fork that is in progress must not restart the thread.
            self.is_paused.store(false, Ordering::SeqCst);
        }
        let Some(thread) = slot.take() else { return false };
        self.is_listening.store(false, Ordering::SeqCst);
        self.transition(RUNNING, STOPPING);
        self.request(STOP);
        (self.wake)();
        if let Some(deadline) = deadline {
            while !thread.is_finished() && self.state.load(Ordering::SeqCst) != STOPPED {
                let remaining = deadline.saturating_duration_since(Instant::now());
                if remaining.is_zero() {
                    *slot = Some(thread);
                    return true;
                }
                self.ended.wait(Some(remaining));
            }
        }
        // A panic of the thread cannot be handled here.
        if let Ok(id) = thread.join() {
            wait_for_removal(id);
        }
        true
    }

    /// Stops the thread until [`Self::resume`]. At the deadline the thread is left to end later.
    pub(crate) fn pause(&self, deadline: Instant) {
        // A concurrent `stop` clears the flag after this, and wins. The flag of a pause that is not
        // finished stays set.
        let was_paused = self.is_paused.swap(true, Ordering::SeqCst);
        if !self.finish(Some(deadline)) && !was_paused {
            self.is_paused.store(false, Ordering::SeqCst);
        }
    }

    /// Restarts the thread if it was paused.
    pub(crate) fn resume(&'static self) {
        if self.is_paused.swap(false, Ordering::SeqCst) {
            self.ensure_running();
        }
    }

    /// Makes [`Self::resume`] start nothing. For the child of a fork, which has not asked for the
    /// thread.
    pub(crate) fn cancel_resume(&self) {
        self.is_paused.store(false, Ordering::SeqCst);
    }

    /// Takes the lock for the duration of a fork. Returns `None` if another thread is starting or
    /// stopping the worker, or if the worker runs and `may_run` is false.
    pub(crate) fn try_lock_for_fork(&self, may_run: bool) -> Option<impl Sized> {
        try_lock(&self.thread).filter(|thread| may_run || thread.is_none())
    }

    /// Resets the state in the child of a fork, where the thread does not exist.
    pub(crate) fn reset_in_child(&self) {
        self.is_listening.store(false, Ordering::SeqCst);
        self.state.store(STOPPED, Ordering::SeqCst);
        self.requests.take();
        leak(lock(&self.thread).take());
    }
}

/// Waits until the kernel no longer lists a thread that has ended, which is a moment after
/// `pthread_join(3)` has returned. CPython warns of a fork if the kernel lists another thread.
#[expect(clippy::disallowed_methods, reason = "nothing can wait for the kernel to remove a thread")]
fn wait_for_removal(thread_id: u64) {
    /// A debugger that does not collect the thread keeps it in the list.
    const TIMEOUT: Duration = Duration::from_millis(100);
    const PAUSE: Duration = Duration::from_micros(50);
    let start = Instant::now();
    while os::is_thread(thread_id) && start.elapsed() < TIMEOUT {
        std::thread::sleep(PAUSE);
    }
}

#[expect(clippy::mem_forget, reason = "there is no thread behind the handle to detach from")]
fn leak(thread: Option<JoinHandle<u64>>) {
    std::mem::forget(thread);
}

#[expect(unsafe_code, reason = "the thread must inherit a full signal mask")]
fn with_signals_blocked<T>(run: impl FnOnce() -> T) -> T {
    // SAFETY: plain data; both sets are initialised by the calls before they are read.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: valid sets; these calls fail only for arguments that are wrong.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
    }
    let value = run();
    // SAFETY: `before` was filled in above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    value
}
