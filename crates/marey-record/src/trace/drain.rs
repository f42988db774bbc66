//! The background thread that drains the logs into the spool's buffer, and the buffer into the file.

use super::frame_buffer;
use super::has_sessions;
use super::ring;
use super::spool::Spool;
use super::tracer::TRACER;
use crate::lock::lock;
use crate::registry;
use crate::worker::{STOP, Worker};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The thread that drains the logs. It has no other work.
pub(crate) static WORKER: Worker = Worker::new("marey-spool", run);

/// The request to drain the logs before the period has passed.
const DRAIN: u32 = 2;

/// The longest time between two drains of the logs.
pub(super) const PERIOD: Duration = Duration::from_millis(200);

/// The time of the last drain on the recorder's clock, 0 for never. It outlives the thread: a
/// restart after a fork keeps the period, so that even a program that forks often is drained.
static LAST_DRAIN_TICKS: AtomicU64 = AtomicU64::new(0);

/// Requests a drain because a log is half full. May be called in the middle of an event.
#[cold]
pub(crate) fn request_drain() {
    WORKER.request(DRAIN);
}

fn run() {
    loop {
        let last_ticks = LAST_DRAIN_TICKS.load(Ordering::Relaxed);
        let since_drain = Duration::from_nanos(crate::clock::nanos_since(last_ticks));
        let timeout = has_sessions().then(|| PERIOD.saturating_sub(since_drain));
        if WORKER.wait(timeout) & STOP != 0 {
            return;
        }
        LAST_DRAIN_TICKS.store(crate::clock::ticks(), Ordering::Relaxed);
        drain();
    }
}

/// Drains the threads' logs and writes them.
pub(super) fn drain() {
    if !has_sessions() {
        return;
    }
    let threads = registry::running_threads();
    for thread in &threads {
        let mut tracer = lock(&TRACER);
        let Some(spool) = tracer.spool_for(std::slice::from_ref(thread)) else { continue };
        spool.drain_thread(thread);
        let should_flush = spool.should_flush();
        drop(tracer);
        if should_flush {
            flush_spool();
            ring::continue_if_full();
        }
    }
    if let Some(spool) = lock(&TRACER).spool_for(&threads) {
        spool.write_state(&threads);
    }
    flush_spool();
    ring::continue_if_full();
}

/// Writes the spool's buffer to the file without the tracer's lock, so that a slow disk blocks
/// neither ending threads nor forks.
pub(crate) fn flush_spool() {
    let Some((file, appender)) = lock(&TRACER).spool.as_ref().map(Spool::file_and_appender) else {
        return;
    };
    let mut appender = lock(&appender);
    // Hold a reference only while the appender is locked. The spool also ends under that lock. So
    // no thread keeps the run directory locked after the end, when the next run of this name would
    // join it.
    let Some(file) = file.upgrade() else { return };
    let with_spool = |update: &mut dyn FnMut(&mut Spool)| {
        // The last session may have ended meanwhile.
        if let Some(spool) = lock(&TRACER).spool.as_mut().filter(|spool| spool.has_file(&file)) {
            update(spool);
        }
    };
    let start_ticks = crate::clock::ticks();
    file.run_directory().relock();
    let has_space =
        appender.is_space_check_due().then(|| frame_buffer::has_free_space(file.path()));
    let mut chunk = None;
    with_spool(&mut |spool| chunk = Some(spool.take_chunk()));
    let Some(chunk) = chunk else { return };
    let mut written = Some((chunk.append_to(&mut appender), chunk));
    let nanos = crate::clock::nanos_since(start_ticks);
    with_spool(&mut |spool| {
        if let Some((written, chunk)) = written.take() {
            spool.finish_chunk(written, chunk, &appender);
            spool.add_flushing(nanos, has_space);
        }
    });
}
