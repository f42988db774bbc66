//! The background thread: it writes checkpoints and takes over the logs of trace sessions, so that a
//! SIGKILL loses at most one interval of either, and it ends a process that SIGTERM would end, after
//! the files are written.
//!
//! It takes no signal itself. Across a fork it is stopped and started again, so that the program is
//! single-threaded whenever it would be without us.

use crate::bell::Bell;
use crate::local;
use crate::recorder;
use crate::trace;
use marey_model::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const DEFAULT_INTERVAL_SECS: f64 = 10.0;

static WORKER: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);
static BELL: Bell = Bell::new();
/// Whether somebody hears the bell.
static HEARS: AtomicBool = AtomicBool::new(false);
static TERMINATED: AtomicBool = AtomicBool::new(false);
static HANDLER: AtomicBool = AtomicBool::new(false);

/// Calls to the thread. Stop, after the checkpoint that it may be writing.
const STOP: u32 = 1;
/// End the process as SIGTERM does.
const TERM: u32 = 2;
/// Take over the logs, and look again when that is due next.
pub(crate) const DRAIN: u32 = 4;

/// Makes a call; async-signal-safe.
pub(crate) fn call(call: u32) {
    BELL.ring(call);
}

fn worker() -> MutexGuard<'static, Option<JoinHandle<()>>> {
    WORKER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the thread if it does not run.
pub(crate) fn ensure_running() {
    let mut worker = worker();
    if worker.is_some() {
        return;
    }
    BELL.take();
    install_sigterm_handler();
    let thread =
        with_signals_blocked(|| std::thread::Builder::new().name("marey".to_owned()).spawn(run));
    HEARS.store(thread.is_ok(), Ordering::SeqCst);
    *worker = thread.ok();
}

/// Stops the thread, after the checkpoint that it may be writing. Whether it ran.
pub(crate) fn stop() -> bool {
    let Some(thread) = worker().take() else { return false };
    HEARS.store(false, Ordering::SeqCst);
    BELL.ring(STOP);
    // It cannot panic with anything that we could do better about.
    drop(thread.join());
    true
}

/// Holds the lock over a fork.
pub(crate) fn hold() -> impl Sized + use<> {
    worker()
}

/// In the child of a fork, where the thread does not exist.
pub(crate) fn forget() {
    HEARS.store(false, Ordering::SeqCst);
    if let Some(thread) = worker().take() {
        leak(thread);
    }
}

#[expect(clippy::mem_forget, reason = "there is no thread behind the handle to detach from")]
fn leak(thread: JoinHandle<()>) {
    std::mem::forget(thread);
}

fn run() {
    let interval = interval();
    let mut next_checkpoint = interval.map(|interval| Instant::now() + interval);
    loop {
        let until_checkpoint =
            next_checkpoint.map(|at| at.saturating_duration_since(Instant::now()));
        let until_drain = trace::is_on().then_some(trace::PERIOD);
        let calls = BELL.wait(until_checkpoint.into_iter().chain(until_drain).min());
        if calls & TERM != 0 {
            end_by_sigterm();
        }
        if calls & STOP != 0 {
            return;
        }
        trace::drain();
        if next_checkpoint.is_some_and(|at| at <= Instant::now()) {
            recorder::write_tree_checkpoints();
            next_checkpoint = interval.map(|interval| Instant::now() + interval);
        }
    }
}

/// Time between checkpoints; `None` where there shall be none.
fn interval() -> Option<Duration> {
    let secs = recorder::env_number(env::CHECKPOINT_SECS).unwrap_or(DEFAULT_INTERVAL_SECS);
    Duration::try_from_secs_f64(secs).ok().filter(|interval| !interval.is_zero())
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

/// Installs our handler, once, if SIGTERM would end the process right away.
#[expect(unsafe_code, reason = "std has no signals")]
fn install_sigterm_handler() {
    if HANDLER.swap(true, Ordering::SeqCst) {
        return;
    }
    // SAFETY: plain data, filled in by the first call and below.
    unsafe {
        let mut present: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGTERM, std::ptr::null(), &raw mut present);
        if present.sa_sigaction != libc::SIG_DFL {
            return;
        }
        let mut ours: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = on_sigterm as *const () as libc::sighandler_t;
        ours.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGTERM, &raw const ours, std::ptr::null_mut());
    }
}

/// Hands the signal to the thread, and does not let the program go on. Without a thread, ends the
/// process as if we were not here.
extern "C" fn on_sigterm(_signal: libc::c_int) {
    if !HEARS.load(Ordering::SeqCst) {
        die_by_sigterm();
        return;
    }
    if !TERMINATED.swap(true, Ordering::SeqCst) {
        BELL.ring(TERM);
    }
    // Whoever writes the files waits for the event that this thread may be in.
    if !local::is_in_event() {
        await_end();
        die_by_sigterm();
    }
}

/// Waits for the thread to end the process; gives up after a while, in case the signal came while
/// this thread held a lock that writing needs, such as the allocator's.
#[expect(unsafe_code, reason = "poll(2) is the sleep that a signal handler may call")]
fn await_end() {
    const STEPS: u32 = 100;
    const STEP_MILLIS: i32 = 50;
    for _ in 0..STEPS {
        // SAFETY: no descriptors, so nothing is read or written.
        unsafe { libc::poll(std::ptr::null_mut(), 0, STEP_MILLIS) };
    }
}

/// Writes every session's files, then lets the signal do what it would have done.
fn end_by_sigterm() {
    for id in recorder::alive() {
        // There is nobody left to tell.
        drop(recorder::finalize(id, None));
    }
    die_by_sigterm();
}

/// Restores the default action and sends the signal again. Uses only what a handler may call.
#[expect(unsafe_code, reason = "std has no signals")]
fn die_by_sigterm() {
    // SAFETY: plain data; the calls are async-signal-safe.
    unsafe {
        let mut default: libc::sigaction = std::mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(libc::SIGTERM, &raw const default, std::ptr::null_mut());
        let mut term: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut term);
        libc::sigaddset(&raw mut term, libc::SIGTERM);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const term, std::ptr::null_mut());
        libc::kill(libc::getpid(), libc::SIGTERM);
    }
}
