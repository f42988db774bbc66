//! The trace sessions of the process and their spool, behind one lock.

use super::log::Log;
use super::run_directory::RunDirectory;
use super::snapshot::SpoolSnapshot;
use super::spool::Spool;
use crate::error::Error;
use crate::losses;
use crate::session::Session;
use crate::thread::ThreadTree;
use marey_model::loss::LossCause;
use marey_model::spool::SessionEvent;
use std::sync::{Arc, Mutex};

/// The tracer of the process.
pub(super) static TRACER: Mutex<Tracer> =
    Mutex::new(Tracer { sessions: Vec::new(), run_directory: None, is_ring: false, spool: None });

/// The trace sessions of the process, and their spool.
pub(super) struct Tracer {
    /// In the order in which they started.
    pub(super) sessions: Vec<TraceSession>,
    /// The run directory of the first session, `None` without sessions.
    pub(super) run_directory: Option<Arc<RunDirectory>>,
    /// Whether the sessions keep only their last records.
    pub(super) is_ring: bool,
    /// `None` until the first session starts, and after a fork until there is data to write.
    pub(super) spool: Option<Spool>,
}

impl Tracer {
    /// Returns the spool with all sessions written to it. Creates it if needed. `None` if there is
    /// no session.
    pub(super) fn spool(&mut self) -> Result<Option<&mut Spool>, Error> {
        let Self { sessions, run_directory, is_ring, spool } = self;
        let Some(run_directory) = run_directory else { return Ok(None) };
        let spool = match spool {
            Some(spool) => spool,
            None => spool.insert(Spool::create(run_directory, *is_ring)?),
        };
        sessions
            .iter_mut()
            .filter(|session| session.phase_start.is_none())
            .for_each(|session| spool.write_session_start(session));
        Ok(Some(spool))
    }

    /// Returns the spool if it exists. Creates it if these threads have entries to write.
    pub(super) fn spool_for(&mut self, threads: &[Arc<ThreadTree>]) -> Option<&mut Spool> {
        let has_entries = |tree: &Arc<ThreadTree>| tree.log().is_some_and(|log| !log.is_empty());
        if self.spool.is_none() && !threads.iter().any(has_entries) {
            return None;
        }
        match self.spool() {
            Ok(spool) => spool,
            Err(_no_spool) => {
                let lost = threads.iter().filter_map(|tree| tree.log()).map(Log::discard).sum();
                losses::add(LossCause::Spool, lost);
                None
            }
        }
    }

    /// Returns the spool, if there is one, and the start of the session's current phase in it.
    pub(super) fn snapshot(&mut self, session: &Session) -> Option<(SpoolSnapshot, u64)> {
        let snapshot = self.spool.as_ref().map(Spool::snapshot);
        snapshot.zip(self.session(session.slot).and_then(|session| session.phase_start))
    }

    pub(super) fn session(&mut self, slot: u32) -> Option<&mut TraceSession> {
        self.sessions.iter_mut().find(|session| session.slot == slot)
    }

    /// Removes a session. If it was the last one, returns the spool, which the caller ends without
    /// the tracer's lock.
    pub(super) fn remove(&mut self, slot: u32) -> Option<Spool> {
        self.sessions.retain(|session| session.slot != slot);
        if !self.sessions.is_empty() {
            return None;
        }
        self.run_directory = None;
        self.spool.take()
    }
}

/// A live trace session.
#[derive(Clone, Debug)]
pub(super) struct TraceSession {
    pub(super) slot: u32,
    /// Path of the profile, without its extension.
    pub(super) base: String,
    pub(super) start_ticks: u64,
    /// The phase, the state and the time of its last change. Kept for a spool that is created
    /// later.
    pub(super) phase: u32,
    pub(super) is_active: bool,
    pub(super) changed_ticks: u64,
    /// The start of its current phase in the spool, in bytes; `None` until the session is written
    /// to the spool.
    pub(super) phase_start: Option<u64>,
}

impl TraceSession {
    pub(super) fn new(session: &Session, is_active: bool) -> Self {
        Self {
            slot: session.slot,
            base: session.base.clone(),
            start_ticks: session.start.ticks,
            phase: session.phase,
            is_active,
            changed_ticks: session.start.ticks,
            phase_start: None,
        }
    }

    pub(super) fn apply(&mut self, event: SessionEvent, ticks: u64) {
        match event {
            SessionEvent::Activated => self.is_active = true,
            SessionEvent::Deactivated => self.is_active = false,
            SessionEvent::Phase(phase) => self.phase = phase,
            SessionEvent::Started | SessionEvent::Finalized => {}
        }
        self.changed_ticks = ticks;
    }
}
