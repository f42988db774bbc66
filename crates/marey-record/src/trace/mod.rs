//! Trace sessions: carry every scope and value from the threads' logs to a file that outlives the
//! process.
//!
//! While a trace session is alive, a thread appends each scope that it exits to its log ([`log`]).
//! A background thread moves the logs into the spool, the process's one append-only file. Data in
//! the file survives a SIGKILL.
//!
//! Lock order: the sessions' lock, the lock of the spool's appender, the tracer's, the registry's.

mod activities;
mod clock;
mod drain;
mod file;
mod frame_buffer;
mod log;
mod nodes;
mod records;
mod ring;
mod run_directory;
mod snapshot;
mod spool;
#[cfg(test)]
mod tests;
mod texts;
mod thread;
mod tracer;

pub(crate) use self::drain::{WORKER, flush_spool, request_drain};
pub(crate) use self::log::Log;
pub(crate) use self::records::{
    add_activities, has_samples, write_collectives, write_counters,
    write_counters_to_existing_spool, write_samples, write_variables,
};
pub(crate) use self::ring::save as save_ring;
pub(crate) use self::snapshot::{EndedTrace, SpoolSnapshot};

use self::run_directory::RunDirectory;
use self::tracer::{TRACER, TraceSession, Tracer};
use crate::control::{CONTROL, bit};
use crate::error::Error;
use crate::lock::lock;
use crate::registry;
use crate::session::Session;
use crate::thread::ThreadTree;
use marey_model::spool::SessionEvent;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Whether a trace session is alive.
pub(crate) fn has_sessions() -> bool {
    CONTROL.trace_sessions.load(Ordering::Relaxed) != 0
}

/// Whether a trace session records now.
pub(crate) fn is_recording() -> bool {
    CONTROL.addressable_sessions() & CONTROL.trace_sessions.load(Ordering::Relaxed) != 0
}

/// Adds a session before it records. Fails if no spool can be created. The caller must then call
/// [`flush_spool`] without the sessions' lock.
pub(crate) fn begin_session(session: &Session) -> Result<(), Error> {
    let mut tracer = lock(&TRACER);
    if tracer.run_directory.is_none() {
        records::forget_samples();
        tracer.run_directory = Some(Arc::new(RunDirectory::open(&session.options.name)?));
        tracer.is_ring = session.options.is_ring;
    } else if tracer.is_ring != session.options.is_ring {
        return Err(Error::RingBesideTrace);
    }
    tracer.sessions.push(TraceSession::new(session, true));
    let created = tracer.spool().map(drop);
    if created.is_err() {
        // There is no spool that would have to be ended.
        drop(tracer.remove(session.slot));
    }
    created
}

/// Puts an event of a session into the spool's buffer, after everything that threads have logged
/// before. Returns the range of the spool with the phase up to here. The caller must then call
/// [`flush_spool`] without the sessions' lock.
pub(crate) fn write_event(session: &Session, event: SessionEvent, ticks: u64) -> Range<u64> {
    let mut tracer = lock(&TRACER);
    let threads = registry::running_threads();
    // Without a spool nothing was recorded yet, and only the session stores the event.
    let range = tracer.spool_for(&threads).map(|spool| {
        spool.drain(&threads);
        spool.write_event(session.slot, event, &session.base, ticks)
    });
    update_session(&mut tracer, session, event, ticks, range)
}

/// Updates a session after an event. `range` is the event's frame in the spool, if there is one.
/// Returns the range of the phase up to here.
fn update_session(
    tracer: &mut Tracer,
    session: &Session,
    event: SessionEvent,
    ticks: u64,
    range: Option<Range<u64>>,
) -> Range<u64> {
    let Some(trace_session) = tracer.session(session.slot) else { return 0..0 };
    trace_session.apply(event, ticks);
    let (Some(start), Some(range)) = (trace_session.phase_start, range) else { return 0..0 };
    if let SessionEvent::Phase(_) = event {
        trace_session.phase_start = Some(range.end);
    }
    start..range.start
}

/// Removes a session that no longer records, and puts its end into the spool's buffer.
pub(crate) fn end_session(session: &Session, ticks: u64) -> EndedTrace {
    let mut tracer = lock(&TRACER);
    let threads = registry::running_threads();
    let created = if session.is_quiet() { Ok(()) } else { tracer.spool().map(drop) };
    if let Some(spool) = tracer.spool_for(&threads) {
        spool.drain(&threads);
        spool.write_open(&threads, Some(session.slot));
        spool.write_event(session.slot, SessionEvent::Finalized, &session.base, ticks);
        spool.write_overhead_and_clock();
    }
    let snapshot = tracer.snapshot(session);
    EndedTrace { snapshot, last_spool: tracer.remove(session.slot), error: created.err() }
}

/// Frees the logs of these threads after the last trace session. No event uses them any more. The
/// log of a thread that is stuck in an event stays.
pub(crate) fn free_logs(threads: &[Arc<ThreadTree>]) {
    let _tracer = lock(&TRACER);
    for tree in threads.iter().filter(|tree| !tree.is_stuck()) {
        drop(tree.take_log());
    }
}

/// Returns the run directory of the trace sessions, if there are any.
pub(crate) fn run_dir() -> Option<PathBuf> {
    lock(&TRACER).run_directory.as_ref().map(|run_directory| run_directory.path().to_owned())
}

/// Drains the logs into the spool's buffer. Returns the spool with everything recorded so far, and
/// the start of the session's current phase in it. The caller must then call
/// [`SpoolSnapshot::write`] or [`write_all`] without the sessions' lock.
pub(crate) fn snapshot(session: &Session) -> Result<Option<(SpoolSnapshot, u64)>, Error> {
    let mut tracer = lock(&TRACER);
    let threads = registry::running_threads();
    if let Some(spool) = tracer.spool()? {
        spool.drain(&threads);
        spool.write_overhead_and_clock();
    }
    Ok(tracer.snapshot(session))
}

/// Writes the spool's buffer, and continues a full ring in another segment.
pub(crate) fn write_all() {
    ring::continue_if_full();
    flush_spool();
}

/// Drains and frees the log of the calling thread, which is ending.
pub(crate) fn end_thread(tree: &Arc<ThreadTree>) {
    if tree.log().is_none() {
        return;
    }
    let mut tracer = lock(&TRACER);
    if has_sessions()
        && let Some(spool) = tracer.spool_for(std::slice::from_ref(tree))
    {
        spool.end_thread(tree);
    }
    // Other threads access logs only under the tracer's lock, which this thread holds.
    drop(tree.take_log());
}

/// Removes the threads with these trees. Nothing more will be written about them.
pub(crate) fn remove_threads(generations: impl Iterator<Item = u64>) {
    let mut tracer = lock(&TRACER);
    if let Some(spool) = &mut tracer.spool {
        generations.for_each(|generation| spool.remove_thread(generation));
    }
}

/// Takes the lock for the duration of a fork.
pub(crate) fn lock_for_fork() -> impl Sized + use<> {
    lock(&TRACER)
}

/// Continues the sessions in the child of a fork, with a spool of its own.
pub(crate) fn begin_child<'a>(sessions: impl Iterator<Item = &'a Session>) {
    let mut tracer = lock(&TRACER);
    if let Some(spool) = tracer.spool.take() {
        // The file belongs to the parent.
        spool.abandon();
    }
    records::forget_samples();
    let active = CONTROL.addressable_sessions();
    tracer.sessions = sessions
        .filter(|session| session.is_trace())
        .map(|session| TraceSession::new(session, active & bit(session.slot) != 0))
        .collect();
}
