//! The background thread that writes checkpoints, so that a SIGKILL loses at most one interval, and that
//! ends a process that SIGTERM would end, after the files are written.

use crate::environment;
use crate::local;
use crate::progress;
use crate::recorder;
use crate::worker::{STOP, Worker};
use marey_model::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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
    let mut next = interval.map(|interval| Instant::now() + interval);
    loop {
        let calls = WORKER.wait(next.map(|at| at.saturating_duration_since(Instant::now())));
        if calls & TERM != 0 {
            end_by_sigterm();
        }
        if calls & STOP != 0 {
            return;
        }
        if next.is_some_and(|at| at <= Instant::now()) {
            recorder::write_tree_checkpoints();
            next = interval.map(|interval| Instant::now() + interval);
        }
    }
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
    // Whoever writes the files waits for the event that this thread may be in, and for the files that
    // it may be writing.
    if !local::is_in_event() && !progress::is_writer() {
        wait_while(|| true);
        die_by_sigterm();
    }
}

/// Waits as long as this holds and files grow; gives up a while after they have grown last, in case the
/// signal came while a thread held a lock that writing needs, such as the allocator's.
#[expect(unsafe_code, reason = "poll(2) is the sleep that a signal handler may call")]
fn wait_while(holds: fn() -> bool) {
    const STEPS: u32 = 100;
    const STEP_MILLIS: i32 = 50;
    let (mut bytes, mut idle_steps) = (progress::bytes(), 0);
    while idle_steps < STEPS && holds() {
        // SAFETY: no descriptors, so nothing is read or written.
        unsafe { libc::poll(std::ptr::null_mut(), 0, STEP_MILLIS) };
        let has_grown = progress::bytes() != bytes;
        bytes = progress::bytes();
        idle_steps = if has_grown { 0 } else { idle_steps + 1 };
    }
}

/// Writes every session's files, then lets the signal do what it would have done.
fn end_by_sigterm() {
    for id in recorder::alive() {
        // There is nobody left to tell.
        drop(recorder::finalize(id, None));
    }
    wait_while(progress::has_writers);
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
