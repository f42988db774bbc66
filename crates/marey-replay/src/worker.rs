//! The worker thread, which calls the profiler with records that other threads have staged, if the
//! script selects it. It is stopped while the process forks, and joined at exit.

#![expect(unsafe_code, reason = "pthread_atfork and atexit")]

use crate::activity::Clients;
use crate::buffers::{FlushMode, RecordState};
use crate::output::{self, Output, output};
use crate::{lock, settings};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Staged size at which the worker is woken.
const WAKE_BYTES: usize = 256 << 10;
/// Staged size at which threads wait for the worker.
const WAIT_BYTES: usize = 4 << 20;

/// Records staged for the worker.
pub(crate) struct Staging {
    /// Records, each after a byte for its clients and four bytes for its lane.
    records: Vec<u8>,
    flush: Option<FlushMode>,
    /// Number of requested flushes, and of completed ones.
    requested_flushes: u64,
    completed_flushes: u64,
    is_stopping: bool,
}

impl Staging {
    pub(crate) const fn new() -> Self {
        Self {
            records: Vec::new(),
            flush: None,
            requested_flushes: 0,
            completed_flushes: 0,
            is_stopping: false,
        }
    }
}

static WORKER_THREAD: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);
static WORK_ARRIVED: Condvar = Condvar::new();
static WORK_DONE: Condvar = Condvar::new();
static FLUSH_PERIOD_MILLIS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Sets the period of flushes; 0 disables them.
pub(crate) fn set_flush_period(millis: u32) {
    FLUSH_PERIOD_MILLIS.store(millis.into(), Relaxed);
    WORK_ARRIVED.notify_all();
}

/// Stages a record for the worker, and waits if it cannot keep up.
pub(crate) fn stage(
    mut output: MutexGuard<'_, Output>,
    clients: Clients,
    lane: u32,
    record: &[u8],
) {
    while output.staging.records.len() > WAIT_BYTES && !IS_WORKER.get() {
        output = WORK_DONE.wait(output).unwrap_or_else(PoisonError::into_inner);
    }
    output.staging.records.push(clients.0);
    output.staging.records.extend_from_slice(&lane.to_ne_bytes());
    output.staging.records.extend_from_slice(record);
    if output.staging.records.len() > WAKE_BYTES {
        WORK_ARRIVED.notify_one();
    }
}

/// Flushes, and waits for the completion except on the worker itself.
pub(crate) fn flush(flush: FlushMode) {
    let mut output = output();
    let staging = &mut output.staging;
    if staging.flush != Some(FlushMode::Forced) {
        staging.flush = Some(flush);
    }
    staging.requested_flushes += 1;
    let flush_number = staging.requested_flushes;
    WORK_ARRIVED.notify_one();
    while !IS_WORKER.get()
        && output.staging.completed_flushes < flush_number
        && !output.staging.is_stopping
    {
        output = WORK_DONE.wait(output).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Starts the worker if it is not running.
pub(crate) fn ensure_running() {
    static HANDLERS: Once = Once::new();
    HANDLERS.call_once(|| {
        // SAFETY: the functions use only the library's own statics, and glibc removes the entries
        // of both lists when it unloads the library that registered them.
        unsafe {
            libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork));
            libc::atexit(stop_at_exit);
        }
    });
    let mut thread = lock(&WORKER_THREAD);
    if thread.is_none() {
        output().staging.is_stopping = false;
        let builder = std::thread::Builder::new().name("replay-worker".to_owned());
        *thread = builder.spawn(run).ok();
    }
}

/// Stops the worker after the staged records. Returns whether it was running.
pub(crate) fn stop() -> bool {
    let Some(thread) = lock(&WORKER_THREAD).take() else { return false };
    output().staging.is_stopping = true;
    WORK_ARRIVED.notify_all();
    // Joining fails only if the worker panicked.
    drop(thread.join());
    true
}

/// Records that were not flushed are lost at exit, as in the real library: the profiler may already
/// be partly destroyed.
extern "C" fn stop_at_exit() {
    output().staging.records.clear();
    stop();
}

thread_local! {
    /// Held while the process forks, so that the child finds the output in a consistent state.
    static OUTPUT_DURING_FORK: Cell<Option<MutexGuard<'static, Output>>> =
        const { Cell::new(None) };
}

extern "C" fn before_fork() {
    stop();
    OUTPUT_DURING_FORK.set(Some(output()));
}

extern "C" fn after_fork() {
    drop(OUTPUT_DURING_FORK.take());
    if settings::is_delivered_by_worker() {
        ensure_running();
    }
}

fn run() {
    IS_WORKER.set(true);
    let mut records = Vec::new();
    let mut output = output();
    loop {
        let staging = &mut output.staging;
        std::mem::swap(&mut records, &mut staging.records);
        let (flush, requested_flushes) = (staging.flush.take(), staging.requested_flushes);
        let is_last = staging.is_stopping;
        drop(output);
        deliver(&records, flush);
        records.clear();
        output = self::output::output();
        output.staging.completed_flushes = requested_flushes;
        WORK_DONE.notify_all();
        if is_last {
            return;
        }
        if output.staging.records.len() <= WAKE_BYTES && output.staging.flush.is_none() {
            output = wait(output);
        }
    }
}

/// Waits for work or for the next periodic flush.
fn wait(mut output: MutexGuard<'static, Output>) -> MutexGuard<'static, Output> {
    if output.staging.is_stopping {
        return output;
    }
    let period_millis = FLUSH_PERIOD_MILLIS.load(Relaxed);
    if period_millis == 0 {
        return WORK_ARRIVED.wait(output).unwrap_or_else(PoisonError::into_inner);
    }
    let (guard, waited) = WORK_ARRIVED
        .wait_timeout(output, Duration::from_millis(period_millis))
        .unwrap_or_else(PoisonError::into_inner);
    output = guard;
    if waited.timed_out() && output.staging.flush.is_none() {
        output.staging.flush = Some(FlushMode::Records);
    }
    output
}

fn deliver(mut records: &[u8], flush: Option<FlushMode>) {
    let version = settings::version();
    while let Some((clients, bytes)) = records.split_first()
        && let Some((lane, bytes)) = bytes.split_first_chunk()
        && let Some((record, rest)) = output::split_record(bytes, version)
    {
        let (clients, lane) = (Clients(*clients), u32::from_ne_bytes(*lane));
        output::write(output(), clients, lane, record, RecordState::Ended);
        records = rest;
    }
    if let Some(flush) = flush {
        output::complete_buffers(flush);
    }
}
