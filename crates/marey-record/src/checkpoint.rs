//! The background thread that writes checkpoints, so that a SIGKILL loses at most one interval, and that
//! ends a process that SIGTERM would end, after the files are written.

use crate::account;
use crate::clock;
use crate::device;
use crate::environment;
use crate::local;
use crate::lock;
use crate::progress;
use crate::recorder;
use crate::worker::{STOP, Worker};
use marey_model::env;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const DEFAULT_INTERVAL_SECS: f64 = 10.0;

/// The thread.
pub(crate) static WORKER: Worker = Worker::new("marey", run);
static TERMINATED: AtomicBool = AtomicBool::new(false);
static HANDLER: AtomicBool = AtomicBool::new(false);

/// The call to end the process as SIGTERM does.
const TERM: u32 = 2;

/// Starts the thread if it does not run.
pub(crate) fn ensure_running() {
    install_sigterm_handler();
    WORKER.ensure_running();
}

fn run() {
    let interval = interval();
    // A thread that a fork has stopped goes on in its interval.
    if LAST_TICKS.load(Ordering::Relaxed) == 0 {
        rest();
    }
    loop {
        let left = interval.map(|interval| interval.saturating_sub(rested()));
        let calls = WORKER.wait(left);
        if calls & TERM != 0 {
            end_by_sigterm();
        }
        if calls & STOP != 0 {
            return;
        }
        let is_due = interval.is_some_and(|interval| rested() >= interval);
        if is_due && recorder::write_tree_checkpoints(|| !WORKER.is_asked_to_end()) {
            rest();
        }
    }
}

/// When all checkpoints were written last, on the recorder's clock; 0 for never.
static LAST_TICKS: AtomicU64 = AtomicU64::new(0);

fn rest() {
    LAST_TICKS.store(clock::ticks(), Ordering::Relaxed);
}

/// Time since all checkpoints were written.
fn rested() -> Duration {
    Duration::from_nanos(account::elapsed_nanos(LAST_TICKS.load(Ordering::Relaxed)))
}

/// Time between checkpoints; `None` where there shall be none.
fn interval() -> Option<Duration> {
    let secs = environment::number(env::CHECKPOINT_SECS).unwrap_or(DEFAULT_INTERVAL_SECS);
    Duration::try_from_secs_f64(secs).ok().filter(|interval| !interval.is_zero())
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
    if !WORKER.hears() {
        die_by_sigterm();
        return;
    }
    if !TERMINATED.swap(true, Ordering::SeqCst) {
        WORKER.call(TERM);
    }
    // Whoever writes the files waits for the event that this thread may be in, for the files that it may
    // be writing, and for the locks that it may hold.
    if !local::is_in_event() && !lock::is_awaited() {
        progress::wait_while(|| true);
        die_by_sigterm();
    }
}

/// In the child of a fork, which is not the process that was told to end.
pub(crate) fn begin_child() {
    TERMINATED.store(false, Ordering::SeqCst);
    LAST_TICKS.store(0, Ordering::Relaxed);
}

/// Writes every session's files, then lets the signal do what it would have done.
fn end_by_sigterm() {
    device::process_ends();
    for id in recorder::alive() {
        // There is nobody left to tell.
        drop(recorder::finalize(id, None));
    }
    progress::wait_for_writers();
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
