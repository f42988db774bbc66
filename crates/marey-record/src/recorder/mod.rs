//! The process's sessions: start, end, phases, checkpoints, forks.
//!
//! Lock order: the end of a session, sessions, traces, a session's outputs, the list of written files,
//! the registry's locks. Only the first two are held while waiting for a thread to leave an event;
//! events never take them. Only the first is held while a spool is written.

mod checkpoints;
mod end;
mod fork;
mod phases;

pub use self::checkpoints::write_checkpoints;
pub(crate) use self::checkpoints::write_tree_checkpoints;
pub use self::end::{discard, end_idle_threads, finalize};
pub(crate) use self::fork::{begin_child, lock_for_fork, lock_sessions_for_fork};
pub use self::phases::{advance_phase, clear_phases, get_data, is_phase_complete};

use crate::clock::{self, ClockReading};
use crate::control::{CONTROL, MAX_SESSIONS, bit};
use crate::detached::Detached;
use crate::error::Error;
use crate::local;
use crate::lock::lock;
use crate::merged::MergedTree;
use crate::output::Format;
use crate::registry;
use crate::session::{self, Session, SessionId, SessionOptions};
use crate::thread::ThreadTree;
use crate::{checkpoint, device, endpoint, metadata, settings, system, trace};
use marey_model::context::ContextSource;
use marey_model::spool::SessionEvent;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, Mutex};

static SESSIONS: Mutex<Sessions> = Mutex::new(Sessions::new());

pub(crate) struct Sessions {
    live: BTreeMap<SessionId, Session>,
    next_id: SessionId,
    next_slot: u32,
    /// The session that used each slot last.
    last_in_slot: [Option<SessionId>; MAX_SESSIONS as usize],
    /// Locked, before the sessions are, by a thread that ends a session and writes its spool. A fork
    /// does not lock it: the child has another one.
    end_lock: LazyLock<Arc<Mutex<()>>>,
}

impl Sessions {
    const fn new() -> Self {
        Self {
            live: BTreeMap::new(),
            next_id: 0,
            next_slot: 0,
            last_in_slot: [None; MAX_SESSIONS as usize],
            end_lock: LazyLock::new(Arc::default),
        }
    }

    fn get(&mut self, id: SessionId) -> Result<&mut Session, Error> {
        self.live.get_mut(&id).ok_or(Error::UnknownSession(id))
    }

    /// Takes a free slot. The slot used last is the last choice.
    fn take_free_slot(&mut self) -> Option<u32> {
        let live_sessions = CONTROL.live_sessions.load(Ordering::Relaxed);
        let open_sessions = registry::sessions_of_open_scopes();
        let mut free_slots = (0..MAX_SESSIONS)
            .map(|offset| (self.next_slot + offset) % MAX_SESSIONS)
            .filter(|&slot| live_sessions & bit(slot) == 0);
        // A scope that is still open has the bits of sessions that have ended.
        let slot = free_slots
            .clone()
            .find(|&slot| open_sessions & bit(slot) == 0)
            .or_else(|| free_slots.next())?;
        self.next_slot = (slot + 1) % MAX_SESSIONS;
        Some(slot)
    }
}

/// Moves the data of ended threads into the sessions and frees the threads. Returns the threads
/// that were running at the same moment.
fn fold_ended_threads(sessions: &mut Sessions) -> Vec<Arc<ThreadTree>> {
    let (running, ended) = registry::take_ended();
    for session in sessions.live.values_mut() {
        let view = session.view();
        for tree in &ended {
            if let Some(column) = tree.take_column(view.slot) {
                session.ended_threads.absorb_column(tree, view, &column);
            }
        }
    }
    running
}

/// Calls [`fold_ended_threads`], unless the sessions are locked: the thread with the lock will do
/// so soon.
pub(crate) fn try_fold_ended_threads() {
    if let Ok(mut sessions) = SESSIONS.try_lock() {
        fold_ended_threads(&mut sessions);
    }
}

/// Starts a session, active at once. A live session with the same path is activated and returned.
/// The environment variables are those that were copied last.
pub fn start(options: &SessionOptions) -> Result<SessionId, Error> {
    clock::calibrate();
    crate::fork::install();
    let base = session::base_path(&options.name, metadata::rank());
    if options.format == Format::Run && session::is_stdout_name(&base) {
        return Err(Error::RunToStdout);
    }
    if options.is_ring && (options.format != Format::Run || options.flush_phases) {
        return Err(Error::RingFormat);
    }
    let mut sessions = lock(&SESSIONS);
    let existing = sessions.live.iter().find(|(_, session)| session.base == base);
    if let Some((&id, session)) = existing {
        let is_logged = activate_and_log(session);
        drop(sessions);
        if is_logged {
            trace::flush_spool();
        }
        return Ok(id);
    }
    let slot = sessions.take_free_slot().ok_or(Error::TooManySessions(MAX_SESSIONS))?;
    if sessions.live.is_empty() {
        begin_epoch();
    }
    let id = sessions.next_id;
    sessions.next_id += 1;
    if let Some(last_id) = sessions.last_in_slot.get_mut(slot as usize) {
        *last_id = Some(id);
    }
    let session = Session {
        options: options.clone(),
        base,
        slot,
        phase: 0,
        closed_phases: BTreeMap::new(),
        ended_threads: MergedTree::default(),
        start: ClockReading::now(),
        outputs: Arc::default(),
        playback: None,
        spool: None,
        has_written_phase: false,
    };
    if session.is_trace() {
        trace::begin_session(&session)?;
    }
    device::begin_session(&session);
    CONTROL.configure(slot, options.context == ContextSource::Python, session.is_trace());
    sessions.live.insert(id, session);
    CONTROL.begin(slot, options.is_addressed_only);
    drop(sessions);
    if options.format.needs_trace() {
        trace::flush_spool();
    }
    metadata::measure_scope();
    checkpoint::ensure_running();
    endpoint::ensure_running();
    if options.is_ring {
        checkpoint::install_sigusr1_handler();
    }
    if options.format.needs_trace() {
        trace::WORKER.ensure_running();
        trace::request_drain();
        system::ensure_running();
    }
    Ok(id)
}

/// Begins an epoch with the first session: invalidates older trees, and makes the calling thread
/// the main one.
fn begin_epoch() {
    metadata::reset();
    registry::begin_epoch();
    device::begin_epoch();
    settings::note_ignored_variables();
    CONTROL.begin_epoch();
    local::event(|_| ());
}

/// Lets a session record.
pub fn activate(id: SessionId) -> Result<(), Error> {
    let is_logged = activate_and_log(lock(&SESSIONS).get(id)?);
    if is_logged {
        trace::flush_spool();
    }
    Ok(())
}

/// Activates a session. Returns whether this is an event of a trace; [`trace::flush_spool`] must then
/// follow, without the sessions' lock.
fn activate_and_log(session: &Session) -> bool {
    let is_logged = session.is_trace() && CONTROL.addressable_sessions() & bit(session.slot) == 0;
    if is_logged {
        trace::write_event(session, SessionEvent::Activated, clock::ticks());
    }
    CONTROL.activate(session.slot, session.options.is_addressed_only);
    is_logged
}

/// Stops a session from recording. Events that began before this call are complete when it returns.
pub fn deactivate(id: SessionId) -> Result<(), Error> {
    let mut sessions = lock(&SESSIONS);
    let session = sessions.get(id)?;
    if deactivate_and_wait(session.slot) && session.is_trace() {
        trace::write_event(session, SessionEvent::Deactivated, clock::ticks());
        drop(sessions);
        trace::flush_spool();
    }
    Ok(())
}

/// Deactivates a session and returns whether it was active. Events that began before this call are
/// complete when it returns.
fn deactivate_and_wait(slot: u32) -> bool {
    let was_active = CONTROL.deactivate(slot);
    registry::wait_outside_events(&registry::running_threads());
    was_active
}

/// Returns the slot of a session, live or ended, until another session uses it.
pub(crate) fn slot_of(id: SessionId) -> Option<u32> {
    let last_in_slot = lock(&SESSIONS).last_in_slot;
    last_in_slot.iter().position(|&last_id| last_id == Some(id)).map(|slot| slot as u32)
}

/// Returns the ids of the live sessions, lowest first.
pub fn live_sessions() -> Vec<SessionId> {
    lock(&SESSIONS).live.keys().copied().collect()
}

/// A live session, for those who ask from outside.
#[derive(Debug)]
pub(crate) struct SessionFacts {
    pub(crate) id: SessionId,
    /// Path of the file that the session writes, unless it writes the run alone.
    pub(crate) file: Option<String>,
    /// Path of the run directory that has the session's events, if it traces.
    pub(crate) run: Option<String>,
    pub(crate) format: Format,
    pub(crate) is_active: bool,
    pub(crate) phase: u32,
    pub(crate) start_ticks: u64,
}

/// Returns the live sessions, lowest id first.
pub(crate) fn describe_sessions() -> Vec<SessionFacts> {
    let run_directory = trace::run_dir().map(|path| path.to_string_lossy().into_owned());
    let active_sessions = CONTROL.active_sessions.load(Ordering::Relaxed);
    let sessions = lock(&SESSIONS);
    let describe = |(&id, session): (&SessionId, &Session)| {
        let format = session.options.format;
        let file = || format!("{}.{}", session.phase_base(session.phase), format.as_str());
        SessionFacts {
            id,
            file: (format != Format::Run).then(file),
            run: run_directory.clone().filter(|_| session.is_trace()),
            format,
            is_active: active_sessions & bit(session.slot) != 0,
            phase: session.phase,
            start_ticks: session.start.ticks,
        }
    };
    sessions.live.iter().map(describe).collect()
}

/// Returns the ids of the live sessions that record, lowest first.
pub fn active_sessions() -> Vec<SessionId> {
    let addressable_sessions = CONTROL.addressable_sessions();
    let sessions = lock(&SESSIONS);
    let recording =
        sessions.live.iter().filter(|(_, session)| addressable_sessions & bit(session.slot) != 0);
    recording.map(|(&id, _)| id).collect()
}

/// Returns a scope, by default the session's root, as one that is addressed to a session: values
/// added to it and scopes inside it are recorded in this session alone. `None` if the session has not
/// seen the scope, so that it has no node for its values, or the thread cannot record.
pub fn address(id: SessionId, scope: Option<&Detached>) -> Result<Option<Arc<Detached>>, Error> {
    let slot = lock(&SESSIONS).get(id)?.slot;
    Ok(Detached::in_session(scope, slot))
}

/// Returns the number of scopes on this thread's stack that a session sees.
pub fn stack_depth(id: SessionId) -> Result<u32, Error> {
    let slot = lock(&SESSIONS).get(id)?.slot;
    Ok(local::event(|local| local.visible_depth(slot)))
}

/// Returns the source of a session's paths.
pub fn context_source(id: SessionId) -> Result<ContextSource, Error> {
    Ok(lock(&SESSIONS).get(id)?.options.context)
}

/// Returns the run directory that contains a session's events, `None` without a trace.
pub fn run_dir(id: SessionId) -> Result<Option<PathBuf>, Error> {
    let mut sessions = lock(&SESSIONS);
    let is_trace = sessions.get(id)?.is_trace();
    Ok(if is_trace { trace::run_dir() } else { None })
}

/// Makes a session write no file if it records nothing.
pub fn set_quiet_if_empty(id: SessionId) -> Result<(), Error> {
    lock(&SESSIONS).get(id)?.options.quiet_if_empty = true;
    Ok(())
}
