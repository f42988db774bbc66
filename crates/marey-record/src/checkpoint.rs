//! The background thread: it writes checkpoints, so that a SIGKILL loses at most one interval, and
//! it ends a process that SIGTERM would end, after the files are written.
//!
//! It takes no signal itself. Across a fork it is stopped and started again, so that the program is
//! single-threaded whenever it would be without us.

use crate::local;
use crate::recorder;
use marey_model::env;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const DEFAULT_INTERVAL_SECS: f64 = 10.0;

static WORKER: Mutex<Option<Worker>> = Mutex::new(None);
/// The pipe's end by which anybody wakes the thread, also a signal handler; -1 for none.
static WAKE: AtomicI32 = AtomicI32::new(-1);
static TERMINATED: AtomicBool = AtomicBool::new(false);
static HANDLER: AtomicBool = AtomicBool::new(false);

struct Worker {
    thread: JoinHandle<()>,
    pipe: Pipe,
}

fn worker() -> MutexGuard<'static, Option<Worker>> {
    WORKER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the thread if it does not run.
pub(crate) fn ensure_running() {
    let mut worker = worker();
    if worker.is_some() {
        return;
    }
    let Some(pipe) = Pipe::new() else { return };
    let reader = pipe.reader;
    WAKE.store(pipe.writer, Ordering::SeqCst);
    install_sigterm_handler();
    let thread = with_signals_blocked(|| {
        std::thread::Builder::new().name("marey".to_owned()).spawn(move || run(reader))
    });
    if let Ok(thread) = thread {
        *worker = Some(Worker { thread, pipe });
    }
}

/// Stops the thread, after the checkpoint that it may be writing. Whether it ran.
pub(crate) fn stop() -> bool {
    let Some(Worker { thread, pipe }) = worker().take() else { return false };
    WAKE.store(-1, Ordering::SeqCst);
    wake(pipe.writer, STOP);
    // It cannot panic with anything that we could do better about.
    drop(thread.join());
    drop(pipe);
    true
}

/// Holds the lock over a fork.
pub(crate) fn hold() -> impl Sized + use<> {
    worker()
}

/// In the child of a fork, where the thread does not exist.
pub(crate) fn forget() {
    WAKE.store(-1, Ordering::SeqCst);
    if let Some(Worker { thread, pipe }) = worker().take() {
        leak(thread);
        drop(pipe);
    }
}

#[expect(clippy::mem_forget, reason = "there is no thread behind the handle to detach from")]
fn leak(thread: JoinHandle<()>) {
    std::mem::forget(thread);
}

fn run(reader: i32) {
    let interval = interval();
    let mut next = interval.map(|interval| Instant::now() + interval);
    loop {
        match wait(reader, next.map(|at| at.saturating_duration_since(Instant::now()))) {
            Some(STOP) => return,
            Some(_) => end_by_sigterm(),
            None => {
                recorder::write_checkpoints();
                next = interval.map(|interval| Instant::now() + interval);
            }
        }
    }
}

/// Time between checkpoints; `None` where there shall be none.
fn interval() -> Option<Duration> {
    let secs = recorder::env_number(env::CHECKPOINT_SECS).unwrap_or(DEFAULT_INTERVAL_SECS);
    Duration::try_from_secs_f64(secs).ok().filter(|interval| !interval.is_zero())
}

const STOP: u8 = 0;
const TERM: u8 = 1;

struct Pipe {
    reader: i32,
    writer: i32,
}

#[expect(unsafe_code, reason = "std has no pipe that a signal handler may write to")]
impl Pipe {
    fn new() -> Option<Self> {
        let mut ends = [-1; 2];
        // SAFETY: pipe2 writes two descriptors to the array, which holds two.
        let failed = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0;
        let [reader, writer] = ends;
        (!failed).then_some(Self { reader, writer })
    }
}

#[expect(unsafe_code, reason = "closes what `new` opened")]
impl Drop for Pipe {
    fn drop(&mut self) {
        // SAFETY: both descriptors are ours and are closed nowhere else.
        unsafe {
            libc::close(self.reader);
            libc::close(self.writer);
        }
    }
}

/// Waits for a byte; `None` when the time is over first.
#[expect(unsafe_code, reason = "poll(2) on our own descriptor")]
fn wait(reader: i32, timeout: Option<Duration>) -> Option<u8> {
    let millis = timeout.map_or(-1, |timeout| {
        // Rounded up, lest the last millisecond be spent in a loop.
        i32::try_from(timeout.as_millis() + 1).unwrap_or(i32::MAX)
    });
    let mut poll = libc::pollfd { fd: reader, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd.
    if unsafe { libc::poll(&raw mut poll, 1, millis) } <= 0 {
        return None;
    }
    let mut byte = STOP;
    // SAFETY: one byte to a valid place. At the end of the pipe the byte stays `STOP`.
    unsafe { libc::read(reader, (&raw mut byte).cast(), 1) };
    Some(byte)
}

#[expect(unsafe_code, reason = "write(2) is what a signal handler may call")]
fn wake(writer: i32, byte: u8) {
    // SAFETY: one byte from a valid place; a closed descriptor is an error that changes nothing.
    unsafe { libc::write(writer, (&raw const byte).cast(), 1) };
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
    let writer = WAKE.load(Ordering::SeqCst);
    if writer < 0 {
        die_by_sigterm();
        return;
    }
    if !TERMINATED.swap(true, Ordering::SeqCst) {
        wake(writer, TERM);
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
