//! A thread of ours beside the program's: started when it is needed, called by a bell, and gone while
//! the process forks, so that the program is single-threaded whenever it would be without us.

use crate::bell::Bell;
use crate::registry::{lock, try_lock};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The call to end, which every thread follows after what it is at.
pub const STOP: u32 = 1;

/// As much as threads of Rust have otherwise.
const STACK_BYTES: usize = 2 << 20;

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
        self.bell.wait(timeout)
    }

    /// Whether calls are heard; async-signal-safe.
    pub(crate) fn hears(&self) -> bool {
        self.hears.load(Ordering::SeqCst)
    }

    /// Starts the thread if it does not run.
    pub(crate) fn ensure_running(&self) {
        let mut thread = lock(&self.thread);
        if thread.is_some() {
            return;
        }
        self.bell.take();
        // Without a size, who makes the first thread asks the environment for one.
        let builder =
            std::thread::Builder::new().name(self.name.to_owned()).stack_size(STACK_BYTES);
        let run = self.run;
        let started = with_signals_blocked(|| {
            builder.spawn(move || {
                IS_OURS.set(true);
                run();
            })
        });
        self.hears.store(started.is_ok(), Ordering::SeqCst);
        *thread = started.ok();
    }

    /// Stops the thread, after what it is at. Whether it ran.
    pub fn stop(&self) -> bool {
        self.is_paused.store(false, Ordering::SeqCst);
        self.end()
    }

    fn end(&self) -> bool {
        // Held until it is gone: one that began meanwhile would take its calls.
        let mut slot = lock(&self.thread);
        let Some(thread) = slot.take() else { return false };
        self.hears.store(false, Ordering::SeqCst);
        self.call(STOP);
        // It cannot panic with anything that we could do better about.
        drop(thread.join());
        true
    }

    /// Stops the thread until [`Self::resume`].
    pub(crate) fn pause(&self) {
        // Whoever stops it meanwhile is heard, and another pause that is not over yet.
        let was_paused = self.is_paused.swap(true, Ordering::SeqCst);
        if !self.end() && !was_paused {
            self.is_paused.store(false, Ordering::SeqCst);
        }
    }

    /// Starts the thread again, if it was paused.
    pub(crate) fn resume(&self) {
        if self.is_paused.swap(false, Ordering::SeqCst) {
            self.ensure_running();
        }
    }

    /// Has [`Self::resume`] start nothing: in a child, where nobody has asked for the thread.
    pub(crate) fn stay_away(&self) {
        self.is_paused.store(false, Ordering::SeqCst);
    }

    /// Holds the lock over a fork, if the thread does not run and nobody is about to change that.
    pub(crate) fn try_hold(&self) -> Option<impl Sized> {
        try_lock(&self.thread).filter(|thread| thread.is_none())
    }

    /// In the child of a fork, where the thread does not exist.
    pub(crate) fn forget(&self) {
        self.hears.store(false, Ordering::SeqCst);
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
