//! A thread of ours beside the program's: started when it is needed, called by a bell, and gone while
//! the process forks, so that the program is single-threaded whenever it would be without us.

use crate::bell::Bell;
use crate::lock::{lock, try_lock};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The call to end, which every thread follows after what it is at.
pub const STOP: u32 = 1;

/// As much as threads of Rust have otherwise.
const STACK_BYTES: usize = 2 << 20;

/// States of a thread: it goes on.
const RUNS: u32 = 0;
/// It is to end as soon as it hears of it; that may be withdrawn until then.
const ASKED: u32 = 1;
/// It has ended, or is about to and does nothing more.
const ENDS: u32 = 2;

thread_local! {
    static IS_OURS: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is one of these.
pub(crate) fn is_ours() -> bool {
    IS_OURS.get()
}

/// A background thread. It takes no signals.
///
/// The recorder's own are started by it; the one of a source by [`crate::api::start_source`].
#[derive(Debug)]
pub struct Worker {
    name: &'static str,
    run: fn(),
    thread: Mutex<Option<JoinHandle<()>>>,
    bell: Bell,
    /// One of the states above.
    state: AtomicU32,
    /// Rings when the thread has ended.
    end: Bell,
    /// Whether somebody hears the bell.
    hears: AtomicBool,
    /// Whether a fork has stopped it.
    is_paused: AtomicBool,
}

impl Worker {
    /// A thread that shall do this, until it hears [`STOP`].
    pub const fn new(name: &'static str, run: fn()) -> Self {
        Self {
            name,
            run,
            thread: Mutex::new(None),
            bell: Bell::new(),
            state: AtomicU32::new(ENDS),
            end: Bell::new(),
            hears: AtomicBool::new(false),
            is_paused: AtomicBool::new(false),
        }
    }

    /// Makes a call; async-signal-safe.
    pub fn call(&self, call: u32) {
        self.bell.ring(call);
    }

    /// The thread's own: waits for calls and takes them; 0 if the time was over first.
    pub fn wait(&self, timeout: Option<Duration>) -> u32 {
        let calls = self.bell.wait(timeout);
        if calls & STOP != 0 && !self.change(ASKED, ENDS) {
            return calls & !STOP; // it was withdrawn
        }
        calls
    }

    /// The thread's own: whether it is to end after the piece of work that it is at.
    pub(crate) fn is_asked_to_end(&self) -> bool {
        self.state.load(Ordering::SeqCst) == ASKED
    }

    fn change(&self, from: u32, to: u32) -> bool {
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Whether calls are heard, now or after a fork that is under way; async-signal-safe.
    pub(crate) fn hears(&self) -> bool {
        self.hears.load(Ordering::SeqCst) || self.is_paused.load(Ordering::SeqCst)
    }

    /// Starts the thread if it does not run.
    pub(crate) fn ensure_running(&'static self) {
        let mut thread = lock(&self.thread);
        if thread.is_some() && (self.change(ASKED, RUNS) || self.change(RUNS, RUNS)) {
            self.hears.store(true, Ordering::SeqCst);
            return;
        }
        if let Some(ended) = thread.take() {
            drop(ended.join());
        }
        self.bell.withdraw(STOP);
        self.end.take();
        self.state.store(RUNS, Ordering::SeqCst);
        // Without a size, who makes the first thread asks the environment for one.
        let builder =
            std::thread::Builder::new().name(self.name.to_owned()).stack_size(STACK_BYTES);
        let started = with_signals_blocked(|| {
            builder.spawn(move || {
                IS_OURS.set(true);
                (self.run)();
                self.state.store(ENDS, Ordering::SeqCst);
                self.end.ring(1);
            })
        });
        self.hears.store(started.is_ok(), Ordering::SeqCst);
        *thread = started.ok();
    }

    /// Stops the thread, after what it is at. Whether it ran.
    pub fn stop(&self) -> bool {
        self.is_paused.store(false, Ordering::SeqCst);
        self.finish(None)
    }

    /// Has the thread end. One that has not ended by the deadline is left to end later, unless
    /// [`Self::ensure_running`] withdraws that. Whether there was one.
    fn finish(&self, deadline: Option<Instant>) -> bool {
        // Held until it is gone: one that began meanwhile would take its calls.
        let mut slot = lock(&self.thread);
        let Some(thread) = slot.take() else { return false };
        self.hears.store(false, Ordering::SeqCst);
        self.change(RUNS, ASKED);
        self.call(STOP);
        if let Some(deadline) = deadline {
            while !thread.is_finished() && self.state.load(Ordering::SeqCst) != ENDS {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    *slot = Some(thread);
                    return true;
                }
                self.end.wait(Some(left));
            }
        }
        // It cannot panic with anything that we could do better about.
        drop(thread.join());
        true
    }

    /// Stops the thread until [`Self::resume`], or as soon as it can if the deadline comes first.
    pub(crate) fn pause(&self, deadline: Instant) {
        // Whoever stops it meanwhile is heard, and another pause that is not over yet.
        let was_paused = self.is_paused.swap(true, Ordering::SeqCst);
        if !self.finish(Some(deadline)) && !was_paused {
            self.is_paused.store(false, Ordering::SeqCst);
        }
    }

    /// Starts the thread again, if it was paused.
    pub(crate) fn resume(&'static self) {
        if self.is_paused.swap(false, Ordering::SeqCst) {
            self.ensure_running();
        }
    }

    /// Has [`Self::resume`] start nothing: in a child, where nobody has asked for the thread.
    pub(crate) fn stay_away(&self) {
        self.is_paused.store(false, Ordering::SeqCst);
    }

    /// Holds the lock over a fork, if nobody is about to start or stop the thread, and it does not run
    /// unless it `may_run`.
    pub(crate) fn try_hold(&self, may_run: bool) -> Option<impl Sized> {
        try_lock(&self.thread).filter(|thread| may_run || thread.is_none())
    }

    /// In the child of a fork, where the thread does not exist.
    pub(crate) fn forget(&self) {
        self.hears.store(false, Ordering::SeqCst);
        self.state.store(ENDS, Ordering::SeqCst);
        self.bell.take();
        leak(lock(&self.thread).take());
    }
}

#[expect(clippy::mem_forget, reason = "there is no thread behind the handle to detach from")]
fn leak(thread: Option<JoinHandle<()>>) {
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
