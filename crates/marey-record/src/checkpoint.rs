//! The background thread that writes checkpoints, so that a SIGKILL loses at most one interval.
//! After a SIGTERM it writes the files and then ends the process.

use crate::clock;
use crate::device;
use crate::endpoint;
use crate::local;
use crate::lock;
use crate::losses;
use crate::progress;
use crate::recorder;
use crate::sampling;
use crate::settings;
use crate::trace;
use crate::worker::{STOP, Worker};
use marey_model::loss::LossCause;
use marey_model::setting::Setting;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// The checkpoint thread.
pub(crate) static WORKER: Worker = Worker::new("marey", run);
/// The id of the process that received SIGTERM, 0 for none. A child of a fork has another id.
static SIGTERM_PID: AtomicU32 = AtomicU32::new(0);
static IS_HANDLER_INSTALLED: AtomicBool = AtomicBool::new(false);

/// The request to write the files and end the process by SIGTERM.
const TERMINATE: u32 = 2;
/// The request to save the ring as a run, because SIGUSR1 has arrived.
const SAVE_RING: u32 = 4;
/// The request to sample Python's stacks, because the signal for it has arrived.
const SAMPLE: u32 = 8;

/// Starts the thread if it is not running, and installs the SIGTERM handler.
pub(crate) fn ensure_running() {
    install_sigterm_handler();
    WORKER.ensure_running();
}

fn run() {
    // A thread that is restarted after a fork continues its interval.
    if LAST_ROUND_TICKS.load(Ordering::Relaxed) == 0 {
        restart_interval();
    }
    loop {
        let interval = checkpoint_interval();
        let timeout = interval.map(|interval| interval.saturating_sub(since_last_round()));
        let requests = WORKER.wait(timeout);
        if requests & TERMINATE != 0 {
            end_by_sigterm();
        }
        if requests & STOP != 0 {
            return;
        }
        if requests & SAMPLE != 0 {
            sampling::signal();
        }
        if requests & SAVE_RING != 0 && matches!(trace::save_ring(), Some(Err(_))) {
            losses::count(LossCause::CheckpointFailed);
        }
        let is_due = interval.is_some_and(|interval| since_last_round() >= interval);
        if is_due && recorder::write_tree_checkpoints(|| !WORKER.is_stopping()) {
            restart_interval();
        }
    }
}

/// The time of the last complete round of checkpoints, on the recorder's clock; 0 for never.
static LAST_ROUND_TICKS: AtomicU64 = AtomicU64::new(0);

fn restart_interval() {
    LAST_ROUND_TICKS.store(clock::ticks(), Ordering::Relaxed);
}

/// Returns the time since the last complete round of checkpoints.
fn since_last_round() -> Duration {
    Duration::from_nanos(clock::nanos_since(LAST_ROUND_TICKS.load(Ordering::Relaxed)))
}

/// Returns the time between checkpoints, `None` if they are disabled.
fn checkpoint_interval() -> Option<Duration> {
    let secs = settings::value(Setting::CheckpointInterval);
    Duration::try_from_secs_f64(secs).ok().filter(|interval| !interval.is_zero())
}

/// A signal handler.
type Handler = extern "C" fn(libc::c_int);

/// Installs the handler, once, if SIGTERM has its default action.
fn install_sigterm_handler() {
    if !IS_HANDLER_INSTALLED.swap(true, Ordering::SeqCst) {
        install_handler(libc::SIGTERM, on_sigterm);
    }
}

/// Installs a handler if the signal has its default action. Returns whether it was installed.
fn install_handler(signal: libc::c_int, handler: Handler) -> bool {
    replace_action(signal, libc::SIG_DFL, handler as *const () as libc::sighandler_t)
}

/// Replaces the action of a signal if the current one is as expected. Returns whether it was.
#[expect(unsafe_code, reason = "std has no signals")]
fn replace_action(
    signal: libc::c_int,
    expected: libc::sighandler_t,
    action: libc::sighandler_t,
) -> bool {
    // SAFETY: plain data, filled in by the first call and below.
    unsafe {
        let mut current: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut current);
        if current.sa_sigaction != expected {
            return false;
        }
        let mut replaced: libc::sigaction = std::mem::zeroed();
        replaced.sa_sigaction = action;
        replaced.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &raw const replaced, std::ptr::null_mut()) == 0
    }
}

/// Installs the handler that saves the ring, if SIGUSR1 has its default action.
pub(crate) fn install_sigusr1_handler() {
    install_handler(libc::SIGUSR1, on_sigusr1);
}

/// Moves the handler that samples Python's stacks from one signal to another; 0 means none. If the
/// process already handles the new signal, changes nothing and returns false.
pub(crate) fn move_sample_handler(from: libc::c_int, to: libc::c_int) -> bool {
    if from == to {
        return true;
    }
    if to != 0 && !install_handler(to, on_sample_signal) {
        return false;
    }
    let handler = on_sample_signal as *const () as libc::sighandler_t;
    if from != 0 {
        replace_action(from, handler, libc::SIG_DFL);
    }
    true
}

/// Passes the signal to the thread. Async-signal-safe.
extern "C" fn on_sigusr1(_signal: libc::c_int) {
    WORKER.request(SAVE_RING);
}

/// Handles the signal at which Python's stacks are sampled. Async-signal-safe.
extern "C" fn on_sample_signal(_signal: libc::c_int) {
    WORKER.request(SAMPLE);
}

/// Passes the signal to the thread and parks the program's main thread. Without a background
/// thread, ends the process as the default action does.
extern "C" fn on_sigterm(_signal: libc::c_int) {
    if !WORKER.is_listening() {
        die_by_sigterm();
        return;
    }
    let pid = std::process::id();
    if SIGTERM_PID.swap(pid, Ordering::SeqCst) != pid {
        WORKER.request(TERMINATE);
    }
    // Only the main thread may be parked, and only outside of events and locks. The thread that
    // writes the files waits for the event that this thread may be in, for files that it may be
    // writing, and for locks that it may hold, so a thread with one of these must go on. A
    // library's thread must go on too, because it may deliver the devices' records, and so must a
    // thread that forks, because it starts the background thread again.
    let may_park = !WORKER.is_paused() && !local::is_in_event() && !lock::must_not_park();
    if is_main_thread() && may_park {
        progress::wait_while(|| true);
        die_by_sigterm();
    }
}

/// Whether the calling thread is the first of its process. Async-signal-safe.
#[expect(unsafe_code, reason = "std does not have the ids of threads")]
fn is_main_thread() -> bool {
    // SAFETY: the calls have no arguments and cannot fail.
    unsafe { libc::gettid() == libc::getpid() }
}

/// Repeats a SIGTERM request in the child of a fork, whose worker has not received it.
pub(crate) fn begin_child() {
    if SIGTERM_PID.load(Ordering::SeqCst) == std::process::id() {
        WORKER.request(TERMINATE);
    }
    LAST_ROUND_TICKS.store(0, Ordering::Relaxed);
}

/// Writes every session's files, then ends the process by the default action of the signal.
fn end_by_sigterm() {
    device::begin_process_exit();
    for id in recorder::live_sessions() {
        // No caller is left to report an error to.
        drop(recorder::finalize(id, None));
    }
    progress::wait_for_writers();
    endpoint::remove_path();
    die_by_sigterm();
}

/// Restores the default action and sends the signal again. Calls only async-signal-safe functions.
#[expect(unsafe_code, reason = "std has no signals")]
fn die_by_sigterm() {
    // SAFETY: plain data; the calls are async-signal-safe.
    unsafe {
        let mut default: libc::sigaction = std::mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(libc::SIGTERM, &raw const default, std::ptr::null_mut());
        let mut sigterm: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut sigterm);
        libc::sigaddset(&raw mut sigterm, libc::SIGTERM);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const sigterm, std::ptr::null_mut());
        libc::kill(libc::getpid(), libc::SIGTERM);
    }
}
