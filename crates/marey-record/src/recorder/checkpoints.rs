//! Checkpoints: the current state of sessions, written while they record.

use super::phases::snapshot_open_phase;
use super::{SESSIONS, fold_ended_threads};
use crate::error::Error;
use crate::lock::lock;
use crate::output::Format;
use crate::progress::WritingGuard;
use crate::session::{Session, SessionId};
use crate::writing::WriteJob;
use crate::{clock, device, losses, metadata, trace};
use marey_model::loss::LossCause;
use std::sync::Arc;

/// Writes the current state of every session to its file.
pub fn write_checkpoints() {
    write_checkpoints_of(|_| true, || true);
}

/// Writes the current state of all sessions that do not trace, while `should_continue` returns
/// true: the spool is the checkpoint of a trace session. Returns whether all were written.
pub(crate) fn write_tree_checkpoints(should_continue: fn() -> bool) -> bool {
    write_checkpoints_of(|session| !session.is_trace(), should_continue)
}

fn write_checkpoints_of(is_selected: fn(&Session) -> bool, should_continue: fn() -> bool) -> bool {
    let _writing = WritingGuard::begin();
    let sessions = lock(&SESSIONS);
    let ids = sessions.live.iter().filter(|(_, session)| is_selected(session));
    let ids: Vec<_> = ids.map(|(&id, _)| id).collect();
    drop(sessions);
    for id in ids {
        if !should_continue() {
            return false;
        }
        if write_checkpoint(id).is_err() {
            losses::count(LossCause::CheckpointFailed);
        }
    }
    true
}

fn write_checkpoint(id: SessionId) -> Result<(), Error> {
    let start_ticks = clock::ticks();
    if let Some(job) = prepare_checkpoint(id)? {
        run_write_job(id, job)?;
        metadata::add_flushing_since(start_ticks);
    }
    Ok(())
}

/// Prepares a checkpoint of a session, `None` if it has no file to write.
fn prepare_checkpoint(id: SessionId) -> Result<Option<WriteJob>, Error> {
    let mut sessions = lock(&SESSIONS);
    let running = fold_ended_threads(&mut sessions);
    let Ok(session) = sessions.get(id) else { return Ok(None) };
    if session.is_for_stdout() {
        return Ok(None);
    }
    if session.options.format == Format::Run {
        // The spool is the checkpoint.
        trace::snapshot(session)?;
        drop(sessions);
        trace::write_all();
        return Ok(None);
    }
    let mut tree = Arc::new(snapshot_open_phase(session, &running));
    device::add_to_tree(session.slot, session.phase, &mut tree);
    WriteJob::for_checkpoint(session, tree).map(Some)
}

/// Writes a job's files, without a lock that other threads need.
pub(super) fn run_write_job(id: SessionId, mut job: WriteJob) -> Result<(), Error> {
    let written = job.write();
    if let Some(session) = lock(&SESSIONS).live.get_mut(&id) {
        written.phases.iter().for_each(|&phase| session.mark_phase_written(phase));
        session.playback = session.playback.take().or(job.playback);
    }
    written.result
}
