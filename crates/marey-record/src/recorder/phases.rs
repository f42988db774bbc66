//! Phases of a session: closed, written, dropped, and read while the threads go on.

use super::checkpoints::run_write_job;
use super::{SESSIONS, fold_ended_threads};
use crate::column::Column;
use crate::control::CONTROL;
use crate::device::{self, FlushMode};
use crate::error::Error;
use crate::lock::lock;
use crate::merged::MergedTree;
use crate::output::{Contents, Format, TreeDocument};
use crate::phase::{ClosedPhase, PhaseTree};
use crate::progress::WritingGuard;
use crate::session::{Session, SessionId};
use crate::thread::ThreadTree;
use crate::writing::WriteJob;
use crate::{clock, local, metadata, registry, trace};
use marey_model::spool::SessionEvent;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::sync::Arc;

/// Closes the session's phase and opens the next. Returns the number of the next phase.
pub fn advance_phase(id: SessionId) -> Result<u32, Error> {
    let _writing = WritingGuard::begin();
    let (flushes_phases, is_trace) = {
        let mut sessions = lock(&SESSIONS);
        let session = sessions.get(id)?;
        (session.options.flush_phases, session.is_trace())
    };
    // A trace assigns an activity to the phase in which it reaches the spool.
    device::flush(if is_trace { FlushMode::WaitForDevices } else { FlushMode::CompletedOnly });
    let (next, closed) = {
        let mut sessions = lock(&SESSIONS);
        let running = fold_ended_threads(&mut sessions);
        let session = sessions.get(id)?;
        let (closed, next) = (session.phase, session.phase + 1);
        begin_phase(session, &running, next);
        (next, session.closed_phases.get(&closed).map(|closed| closed.tree.clone()))
    };
    if is_trace {
        trace::flush_spool();
    }
    // Merges the tree without the lock.
    if let Some(closed) = closed {
        closed.get();
    }
    if flushes_phases {
        if !is_trace {
            // A tree must contain all kernels that were launched in its phase.
            device::flush(FlushMode::WaitForDevices);
        }
        let mut sessions = lock(&SESSIONS);
        let session = sessions.get(id)?;
        let is_run = session.options.format == Format::Run;
        let job = if is_run { None } else { Some(WriteJob::for_closed_phases(session)?) };
        drop(sessions);
        job.map_or(Ok(()), |job| run_write_job(id, job))?;
    }
    Ok(next)
}

/// Closes the session's phase and opens one with this number. For a trace, [`trace::flush_spool`] must
/// follow, without the sessions' lock.
fn begin_phase(session: &mut Session, threads: &[Arc<ThreadTree>], phase: u32) {
    let next_columns: Vec<_> =
        threads.iter().map(|thread| thread.next_column(session.slot)).collect();
    let now = clock::ticks();
    device::begin_phase(session.slot, phase);
    close_phase(session, threads, next_columns, OpenScopes::LeftOut);
    if session.is_trace() {
        let spool_range = trace::write_event(session, SessionEvent::Phase(phase), now);
        set_spool_range(session, spool_range);
    }
    session.phase = phase;
}

/// Sets the spool range of the phase that was just closed.
pub(super) fn set_spool_range(session: &mut Session, spool_range: Range<u64>) {
    if let Some(closed) = session.closed_phases.get_mut(&session.phase) {
        closed.spool_range = spool_range;
    }
}

/// Whether a closed phase contains the times so far of scopes that are still open.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenScopes {
    Included,
    LeftOut,
}

/// Moves the threads' data into the list of closed phases. `next_columns` has columns for the next
/// phase, in the order of the threads.
pub(super) fn close_phase(
    session: &mut Session,
    threads: &[Arc<ThreadTree>],
    next_columns: Vec<Option<Box<Column>>>,
    open_scopes: OpenScopes,
) {
    let view = session.view();
    let next_columns = next_columns.into_iter().chain(std::iter::repeat_with(|| None));
    let columns: Vec<_> = threads
        .iter()
        .zip(next_columns)
        .map(|(thread, next)| thread.replace_column(view.slot, next))
        .collect();
    CONTROL.invalidate();
    let is_certain = registry::wait_outside_events(threads);
    let mut tree = std::mem::take(&mut session.ended_threads);
    let mut taken = Vec::new();
    for (thread, column) in threads.iter().zip(columns) {
        let Some(column) = column else { continue };
        if is_certain && !thread.is_stuck() {
            taken.push((Arc::clone(thread), column));
        } else {
            tree.absorb_column(thread, view, &column);
            leak(column);
        }
    }
    let mut tree = PhaseTree::of_columns(tree, view, taken);
    if open_scopes == OpenScopes::Included {
        let tree = Arc::make_mut(tree.get_mut());
        for thread in threads {
            tree.absorb_open_scopes(thread, view);
        }
    }
    let phase = ClosedPhase { tree, spool_range: 0..0, is_written: false };
    session.closed_phases.insert(session.phase, phase);
}

/// Leaks a column that a thread may still write to: the thread is stuck in an event, or the kernel
/// has no `membarrier` and no thread's state is certain.
#[expect(clippy::mem_forget, reason = "freeing it would not be safe there")]
fn leak<T>(column: T) {
    std::mem::forget(column);
}

/// Whether a phase is complete: no data will be added to it.
pub fn is_phase_complete(id: SessionId, phase: u32) -> Result<bool, Error> {
    let mut sessions = lock(&SESSIONS);
    let session = sessions.get(id)?;
    Ok(phase < session.phase && !device::is_phase_waiting(session.slot, phase))
}

/// Drops the data of these phases. A dropped open phase begins again.
pub fn clear_phases(id: SessionId, phases: RangeInclusive<u32>) -> Result<(), Error> {
    let mut sessions = lock(&SESSIONS);
    let running = fold_ended_threads(&mut sessions);
    let session = sessions.get(id)?;
    session.closed_phases.retain(|phase, _| !phases.contains(phase));
    device::clear_phases(session.slot, &phases);
    if phases.contains(&session.phase) {
        let phase = session.phase;
        begin_phase(session, &running, phase);
        session.closed_phases.remove(&phase);
        if session.is_trace() {
            drop(sessions);
            trace::flush_spool();
        }
    }
    Ok(())
}

/// Returns a phase's profile as a document.
pub fn get_data(id: SessionId, phase: u32, format: Format) -> Result<Vec<u8>, Error> {
    local::exit_ended_remotely();
    device::flush(FlushMode::CompletedOnly);
    let mut sessions = lock(&SESSIONS);
    let running = fold_ended_threads(&mut sessions);
    let session = sessions.get(id)?;
    if session.is_trace() {
        return Err(Error::DataNeedsTree);
    }
    let mut tree = match session.closed_phases.get(&phase) {
        Some(closed) => Arc::clone(closed.tree.get()),
        None if phase == session.phase => Arc::new(snapshot_open_phase(session, &running)),
        None => return Err(Error::PhaseWithoutData(phase)),
    };
    device::add_to_tree(session.slot, phase, &mut tree);
    let meta = metadata::for_session(session, false);
    drop(sessions);
    let mut bytes = Vec::new();
    let document = TreeDocument { tree: &tree, meta: &meta };
    let mut contents = match format {
        Format::Hatchet => Contents::Hatchet(document),
        Format::HatchetMsgpack => Contents::HatchetMsgpack(document),
        Format::ChromeTrace | Format::Run => return Err(Error::FormatNeedsTrace(format)),
    };
    contents
        .write(&mut bytes)
        .map_err(|source| Error::write("write", Path::new("memory"), source))?;
    Ok(bytes)
}

/// Returns a snapshot of the open phase, while the threads go on. The caller holds the sessions'
/// lock.
pub(super) fn snapshot_open_phase(session: &Session, threads: &[Arc<ThreadTree>]) -> MergedTree {
    let mut tree = session.ended_threads.clone();
    for thread in threads {
        tree.absorb_running(thread, session.view());
    }
    tree
}
