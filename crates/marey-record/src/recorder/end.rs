//! The end of a session: its data leave the threads, and its files are written.

use super::phases::{OpenScopes, close_phase, set_spool_range};
use super::{SESSIONS, deactivate_and_wait, fold_ended_threads, live_sessions};
use crate::control::CONTROL;
use crate::device::{self, FlushMode};
use crate::error::Error;
use crate::lock::lock;
use crate::output::Format;
use crate::progress::WritingGuard;
use crate::session::{Session, SessionId};
use crate::trace::EndedTrace;
use crate::writing::{self, WriteJob};
use crate::{checkpoint, clock, endpoint, local, metadata, registry, sampling, system, trace};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Ends a session and writes its files, in `format` or the session's own format. Returns their
/// paths.
pub fn finalize(id: SessionId, format: Option<Format>) -> Result<Vec<PathBuf>, Error> {
    let start_ticks = clock::ticks();
    let _writing = WritingGuard::begin();
    let format = match format {
        Some(format) => format,
        None => lock(&SESSIONS).get(id)?.options.format,
    };
    let mut session = end_session(id, Some(format))?;
    endpoint::stop_if_idle();
    sampling::wake();
    let spool = session.spool.clone();
    if format == Format::Run {
        let spool = spool.filter(|_| !session.is_quiet());
        return Ok(spool
            .map(|spool| spool.file.run_directory().path().to_owned())
            .into_iter()
            .collect());
    }
    metadata::add_flushing_since(start_ticks);
    let written = WriteJob::for_ended_session(&mut session, format).write();
    if let Err(error) = written.result {
        // The spool keeps the data that could not be written.
        if let Some(spool) = spool {
            spool.file.keep();
        }
        return Err(error);
    }
    Ok(written.paths)
}

/// Ends a session without writing anything.
pub fn discard(id: SessionId) -> Result<(), Error> {
    let session = end_session(id, None)?;
    endpoint::stop_if_idle();
    sampling::wake();
    lock(&session.outputs).is_closed = true;
    Ok(())
}

/// Stops a session before its end, if it has the data that the format needs. Returns its slot,
/// whether it is the last session, and the lock of ending sessions. Events that began before this
/// call are complete.
fn stop_recording(
    id: SessionId,
    format: Option<Format>,
) -> Result<(u32, bool, Arc<Mutex<()>>), Error> {
    local::exit_ended_remotely();
    let mut sessions = lock(&SESSIONS);
    let session = sessions.get(id)?;
    if let Some(format) = format {
        session.check_format(format)?;
    }
    let slot = session.slot;
    deactivate_and_wait(slot);
    Ok((slot, sessions.live.len() == 1, Arc::clone(&sessions.end_lock)))
}

/// Removes a session from the masks and its data from the threads. Returns the session with all its
/// phases, to be written in `format` if there is one.
///
/// Fails, and ends nothing, if the session lacks the data that the format needs.
fn end_session(id: SessionId, format: Option<Format>) -> Result<Session, Error> {
    let (slot, is_last, ends) = stop_recording(id, format)?;
    // Collects the activities of all launches; nothing more is launched for this session.
    device::flush(if is_last { FlushMode::Final } else { FlushMode::WaitForDevices });
    // Held while the spool is written: the last session ends the spool that earlier ones read.
    let _ending = lock(&ends);
    let mut sessions = lock(&SESSIONS);
    if sessions.live.contains_key(&id) {
        // Another thread may have activated the session in between.
        deactivate_and_wait(slot);
    }
    let running = fold_ended_threads(&mut sessions);
    let mut session = sessions.live.remove(&id).ok_or(Error::UnknownSession(id))?;
    let ended_ticks = clock::ticks();
    close_phase(&mut session, &running, Vec::new(), OpenScopes::Included);
    for (&phase, closed) in &mut session.closed_phases {
        device::add_to_tree(slot, phase, closed.tree.get_mut());
    }
    device::end_session(slot);
    let trace = session.is_trace().then(|| trace::end_session(&session, ended_ticks));
    CONTROL.remove(slot);
    if session.is_trace() && !trace::has_sessions() {
        free_logs();
    }
    if sessions.live.is_empty() {
        device::stop();
    }
    drop(sessions);
    if let Some(trace) = trace {
        write_trace(&mut session, trace, format)?;
    }
    Ok(session)
}

/// Writes the spool of a session that has ended, and opens what its files are written from. A disk may
/// hang, so the caller does not hold the sessions' lock.
fn write_trace(
    session: &mut Session,
    mut trace: EndedTrace,
    format: Option<Format>,
) -> Result<(), Error> {
    let spool = trace.write();
    // The playback opens the spool before it is complete: a collector may remove it after that.
    let writes_chrome_trace = format == Some(Format::ChromeTrace);
    // A playback that is past the first phases serves only a session that does not write these
    // phases again.
    let flushes_phases = session.options.flush_phases;
    let playback = match (session.playback.take().filter(|_| flushes_phases), &spool) {
        (None, Ok(Some((spool, _)))) if writes_chrome_trace => {
            writing::open_playback(session.slot, spool).map(Some)
        }
        (playback, _) => Ok(playback),
    };
    // A ring removes segments that are not kept as soon as its last session is removed.
    if let Ok(Some((spool, _))) = &spool
        && format.is_some()
        && !session.is_quiet()
        && !session.is_for_stdout()
    {
        spool.file.keep();
    }
    trace.end();
    let needs_spool = format.is_some_and(Format::needs_trace) && !session.is_quiet();
    let spool = match spool {
        Err(error) if needs_spool => return Err(error),
        spool => spool.ok().flatten(),
    };
    if let Some((spool, phase_start)) = spool {
        session.spool = Some(spool);
        set_spool_range(session, phase_start..u64::MAX);
    }
    session.playback = playback?;
    Ok(())
}

/// Frees the threads' logs after the last trace session, if it is certain that no thread writes to
/// them. The caller holds the sessions' lock, so no session begins in between.
fn free_logs() {
    let threads = registry::running_threads();
    if registry::wait_outside_events(&threads) {
        trace::free_logs(&threads);
    }
}

/// Ends the background threads if no session is alive. The next session starts them again.
pub fn end_idle_threads() {
    if !live_sessions().is_empty() {
        return;
    }
    trace::WORKER.stop();
    checkpoint::WORKER.stop();
    system::WORKER.stop();
    // A session may have started meanwhile.
    if !live_sessions().is_empty() {
        checkpoint::ensure_running();
        trace::WORKER.ensure_running();
        system::ensure_running();
    }
}
