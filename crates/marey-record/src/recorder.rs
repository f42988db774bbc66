//! The process's recorder: its sessions, and everything that is not an event.
//!
//! Lock order: sessions, then the traces', then a session's outputs, then the list of written files;
//! the registry's locks come last. Only the sessions' lock is held while waiting for a thread to leave an event;
//! events never take it.

use crate::clock::{self, Pair};
use crate::control::{CONTROL, MAX_SESSIONS, bit};
use crate::device::{self, Flush};
use crate::environment;
use crate::error::Error;
use crate::local;
use crate::lock::lock;
use crate::losses;
use crate::merged::MergedTree;
use crate::output::{Contents, Document, Format};
use crate::progress::{self, Writing};
use crate::registry;
use crate::session::{self, ClosedPhase, Session, SessionId, SessionOptions};
use crate::thread::ThreadTree;
use crate::writing::{self, Work};
use crate::{account, checkpoint, fork, trace};
use marey_model::context::ContextSource;
use marey_model::env;
use marey_model::spool::SessionEvent;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};

static SESSIONS: Mutex<Sessions> = Mutex::new(Sessions::new());

pub(crate) struct Sessions {
    alive: BTreeMap<SessionId, Session>,
    next_id: SessionId,
    next_slot: u32,
}

impl Sessions {
    const fn new() -> Self {
        Self { alive: BTreeMap::new(), next_id: 0, next_slot: 0 }
    }

    fn get(&mut self, id: SessionId) -> Result<&mut Session, Error> {
        self.alive.get_mut(&id).ok_or(Error::UnknownSession(id))
    }

    /// A slot that no session has; the one used last comes last.
    fn free_slot(&mut self) -> Option<u32> {
        let live = CONTROL.live.load(Ordering::Relaxed);
        let open = registry::sessions_of_open_scopes();
        let mut free = (0..MAX_SESSIONS)
            .map(|offset| (self.next_slot + offset) % MAX_SESSIONS)
            .filter(|&slot| live & bit(slot) == 0);
        // A scope that is still open bears the bits of sessions that are over.
        let slot = free.clone().find(|&slot| open & bit(slot) == 0).or_else(|| free.next())?;
        self.next_slot = (slot + 1) % MAX_SESSIONS;
        Some(slot)
    }
}

/// Most nodes of a thread's tree.
pub(crate) fn max_nodes() -> u32 {
    static MAX_NODES: OnceLock<u32> = OnceLock::new();
    *MAX_NODES.get_or_init(|| environment::number(env::MAX_NODES).unwrap_or(1_000_000))
}

/// Moves what ended threads recorded into the sessions, and lets the threads go. Returns those that
/// ran at that very moment.
fn fold_ended(sessions: &mut Sessions) -> Vec<Arc<ThreadTree>> {
    let (running, ended) = registry::take_ended();
    for session in sessions.alive.values_mut() {
        let view = session.view();
        for tree in &ended {
            let column = tree.take_column(view.slot);
            session.ended_threads.absorb_taken(tree, view, column.as_deref(), false);
        }
    }
    running
}

/// [`fold_ended`], unless somebody holds the sessions, who will do so soon.
pub(crate) fn try_fold_ended() {
    if let Ok(mut sessions) = SESSIONS.try_lock() {
        fold_ended(&mut sessions);
    }
}

/// Starts a session, active at once. A live session with the same path is activated and returned.
pub(crate) fn start(options: &SessionOptions) -> Result<SessionId, Error> {
    clock::calibrate();
    fork::install();
    let base = session::base_for(&options.name, account::rank());
    if options.format == Format::Run && session::means_stdout(&base) {
        return Err(Error::RunToStdout);
    }
    let mut sessions = lock(&SESSIONS);
    let same = sessions.alive.iter().find(|(_, session)| session.base == base);
    if let Some((&id, session)) = same {
        resume(session);
        return Ok(id);
    }
    let slot = sessions.free_slot().ok_or(Error::TooManySessions(MAX_SESSIONS))?;
    if sessions.alive.is_empty() {
        begin_epoch();
    }
    let id = sessions.next_id;
    sessions.next_id += 1;
    let session = Session {
        options: options.clone(),
        base,
        slot,
        phase: 0,
        closed: BTreeMap::new(),
        ended_threads: MergedTree::default(),
        started: Pair::now(),
        outputs: Arc::default(),
        playback: None,
        recorded: None,
        has_flushed: false,
    };
    if session.is_trace() {
        trace::begin(&session)?;
    }
    device::begin_session(&session);
    CONTROL.mark(slot, options.context == ContextSource::Python, session.is_trace());
    sessions.alive.insert(id, session);
    CONTROL.begin(slot);
    drop(sessions);
    account::measure_scope();
    checkpoint::ensure_running();
    if options.format.needs_trace() {
        trace::WORKER.ensure_running();
        trace::ask_for_drain();
    }
    Ok(id)
}

/// Recording starts from nothing: older trees are void, and the caller's thread is the main one.
fn begin_epoch() {
    account::reset();
    registry::begin_epoch();
    device::begin_epoch();
    CONTROL.begin_epoch();
    local::event(|_| ());
}

/// Lets a session record.
pub(crate) fn activate(id: SessionId) -> Result<(), Error> {
    resume(lock(&SESSIONS).get(id)?);
    Ok(())
}

fn resume(session: &Session) {
    let active = CONTROL.active.load(Ordering::Relaxed);
    if session.is_trace() && active & bit(session.slot) == 0 {
        trace::note(session, SessionEvent::Activated, clock::ticks());
    }
    CONTROL.activate(session.slot);
}

/// Stops a session from recording. Events that began before this are complete when it returns.
pub(crate) fn deactivate(id: SessionId) -> Result<(), Error> {
    let mut sessions = lock(&SESSIONS);
    let session = sessions.get(id)?;
    if silence(session.slot) && session.is_trace() {
        trace::note(session, SessionEvent::Deactivated, clock::ticks());
    }
    Ok(())
}

/// Takes a session out of those that record; whether it was one. Events that began before this are complete
/// when it returns.
fn silence(slot: u32) -> bool {
    let was_active = CONTROL.deactivate(slot);
    registry::wait_outside_events(&registry::running());
    was_active
}

/// Ids of the live sessions, lowest first.
pub(crate) fn alive() -> Vec<SessionId> {
    lock(&SESSIONS).alive.keys().copied().collect()
}

/// Ends a session and writes its files, in `format` or the session's own. Returns their paths.
pub(crate) fn finalize(id: SessionId, format: Option<Format>) -> Result<Vec<PathBuf>, Error> {
    let began = clock::ticks();
    let _writing = Writing::begin();
    let format = match format {
        Some(format) => format,
        None => lock(&SESSIONS).get(id)?.options.format,
    };
    let mut session = end(id, Some(format))?;
    let recorded = session.recorded.clone();
    if format == Format::Run {
        let recorded = recorded.filter(|_| !session.is_quiet());
        return Ok(recorded
            .map(|recorded| recorded.file.run().path().to_owned())
            .into_iter()
            .collect());
    }
    account::add_flushing_since(began);
    let written = Work::of_ended(&mut session, format).write();
    if let Err(error) = written.result {
        // What could not be written is still there.
        if let Some(recorded) = recorded {
            recorded.file.keep();
        }
        return Err(error);
    }
    Ok(written.paths)
}

/// Ends a session without writing anything.
pub(crate) fn discard(id: SessionId) -> Result<(), Error> {
    let session = end(id, None)?;
    lock(&session.outputs).closed = true;
    Ok(())
}

/// Stops a session for good, if it has what this format needs; its slot, and whether it is the last one.
/// Events that began before this are complete.
fn record_no_more(id: SessionId, format: Option<Format>) -> Result<(u32, bool), Error> {
    let mut sessions = lock(&SESSIONS);
    let session = sessions.get(id)?;
    if let Some(format) = format {
        session.check_format(format)?;
    }
    let slot = session.slot;
    silence(slot);
    Ok((slot, sessions.alive.len() == 1))
}

/// Takes a session out of the masks and out of the threads, with everything in its phases, to be written
/// in `format` if there is one.
///
/// Fails, and ends nothing, if the session has not what the format needs.
fn end(id: SessionId, format: Option<Format>) -> Result<Session, Error> {
    let (slot, is_last) = record_no_more(id, format)?;
    // What was launched before is told of now, and nothing is launched any more.
    device::flush(if is_last { Flush::Last } else { Flush::Finished });
    let mut sessions = lock(&SESSIONS);
    if sessions.alive.contains_key(&id) {
        // Another thread may have let it record again meanwhile.
        silence(slot);
    }
    let running = fold_ended(&mut sessions);
    let mut session = sessions.alive.remove(&id).ok_or(Error::UnknownSession(id))?;
    let ended_ticks = clock::ticks();
    close_phase(&mut session, &running, true);
    for (&phase, closed) in &mut session.closed {
        device::fold_into(slot, phase, &mut closed.tree);
    }
    device::end_session(slot);
    let needs_spool = format.is_some_and(Format::needs_trace) && !session.is_quiet();
    let recorded = if session.is_trace() { trace::end(&session, ended_ticks) } else { Ok(None) };
    // Before the spool is complete: a collector may take it away then.
    let is_played = format == Some(Format::ChromeTrace);
    // One that has been read up to somewhere serves only those who do not write all phases again.
    let flushes = session.options.flush_phases;
    let playback = match (session.playback.take().filter(|_| flushes), &recorded) {
        (None, Ok(Some((recorded, _)))) if is_played => {
            writing::playback(session.slot, recorded).map(Some)
        }
        (playback, _) => Ok(playback),
    };
    if session.is_trace() {
        trace::forget(&session);
    }
    CONTROL.forget(slot);
    if session.is_trace() && !trace::is_on() {
        free_logs();
    }
    if sessions.alive.is_empty() {
        device::stop();
    }
    let recorded = match recorded {
        Err(error) if needs_spool => return Err(error),
        recorded => recorded.ok().flatten(),
    };
    if let Some((recorded, part_start)) = recorded {
        if format.is_some() && !session.is_quiet() && !session.is_for_stdout() {
            recorded.file.keep();
        }
        session.recorded = Some(recorded);
        set_part(&mut session, part_start..u64::MAX);
    }
    session.playback = playback?;
    Ok(session)
}

/// Frees the threads' logs after the last session that wanted them, if one can be sure that nobody writes to
/// them. The sessions are locked, so none begins meanwhile.
fn free_logs() {
    let threads = registry::running();
    if registry::wait_outside_events(&threads) {
        trace::free_logs(&threads);
    }
}

// Phases.

/// Closes the session's phase and opens the next, whose number is returned.
pub(crate) fn advance_phase(id: SessionId) -> Result<u32, Error> {
    let _writing = Writing::begin();
    let (is_written, is_trace) = {
        let mut sessions = lock(&SESSIONS);
        let session = sessions.get(id)?;
        (session.options.flush_phases, session.is_trace())
    };
    // A phase of a trace has the records that were written in it.
    device::flush(if is_trace { Flush::Finished } else { Flush::Done });
    let next = {
        let mut sessions = lock(&SESSIONS);
        let running = fold_ended(&mut sessions);
        let session = sessions.get(id)?;
        let next = session.phase + 1;
        begin_phase(session, &running, next);
        next
    };
    if is_written {
        if !is_trace {
            // A tree goes to its file with everything that was launched in its phase.
            device::flush(Flush::Finished);
        }
        let mut sessions = lock(&SESSIONS);
        let session = sessions.get(id)?;
        let is_run = session.options.format == Format::Run;
        let work = if is_run { None } else { Some(Work::of_closed_phases(session)?) };
        drop(sessions);
        work.map_or(Ok(()), |work| write(id, work))?;
    }
    Ok(next)
}

/// Writes what was gathered, which nobody else is kept from anything by.
fn write(id: SessionId, mut work: Work) -> Result<(), Error> {
    let written = work.write();
    if let Some(session) = lock(&SESSIONS).alive.get_mut(&id) {
        written.phases.iter().for_each(|&phase| session.phase_is_written(phase));
        session.playback = session.playback.take().or(work.playback);
    }
    written.result
}

/// Closes the session's phase and opens one of this number.
fn begin_phase(session: &mut Session, threads: &[Arc<ThreadTree>], phase: u32) {
    let now = clock::ticks();
    device::begin_phase(session.slot, phase);
    close_phase(session, threads, false);
    if session.is_trace() {
        let part = trace::note(session, SessionEvent::Phase(phase), now);
        set_part(session, part);
    }
    session.phase = phase;
}

/// Sets where the records of the phase are that was just closed.
fn set_part(session: &mut Session, part: Range<u64>) {
    if let Some(closed) = session.closed.get_mut(&session.phase) {
        closed.part = part;
    }
}

/// Moves what the threads hold into the list of closed phases.
fn close_phase(session: &mut Session, threads: &[Arc<ThreadTree>], with_open: bool) {
    let view = session.view();
    let columns: Vec<_> = threads.iter().map(|thread| thread.take_column(view.slot)).collect();
    CONTROL.has_changed();
    let is_sure = registry::wait_outside_events(threads);
    let mut tree = std::mem::take(&mut session.ended_threads);
    for (thread, column) in threads.iter().zip(columns) {
        tree.absorb_taken(thread, view, column.as_deref(), with_open);
        if !is_sure || thread.is_stuck() {
            leak(column);
        }
    }
    let phase = ClosedPhase { tree: Arc::new(tree), part: 0..0, is_written: false };
    session.closed.insert(session.phase, phase);
}

/// Keeps a column forever: a thread may still write to it, which is stuck in an event, or which nobody can
/// be sure of where the kernel has no `membarrier`.
#[expect(clippy::mem_forget, reason = "freeing it would not be safe there")]
fn leak<T>(column: T) {
    std::mem::forget(column);
}

/// Whether a phase will receive nothing more.
pub(crate) fn is_phase_complete(id: SessionId, phase: u32) -> Result<bool, Error> {
    let mut sessions = lock(&SESSIONS);
    let session = sessions.get(id)?;
    Ok(phase < session.phase && !device::is_waiting(session.slot, phase))
}

/// Drops a phase's data, or that of all phases up to it. The open phase begins anew.
pub(crate) fn clear(id: SessionId, phase: u32, up_to: bool) -> Result<(), Error> {
    let mut sessions = lock(&SESSIONS);
    let running = fold_ended(&mut sessions);
    let session = sessions.get(id)?;
    let is_meant = |candidate: u32| if up_to { candidate <= phase } else { candidate == phase };
    session.closed.retain(|&candidate, _| !is_meant(candidate));
    device::clear_phases(session.slot, is_meant);
    if is_meant(session.phase) {
        let phase = session.phase;
        begin_phase(session, &running, phase);
        session.closed.remove(&phase);
    }
    Ok(())
}

/// A phase's profile as a document in memory.
pub(crate) fn get_data(id: SessionId, phase: u32, format: Format) -> Result<Vec<u8>, Error> {
    device::flush(Flush::Done);
    let mut sessions = lock(&SESSIONS);
    let running = fold_ended(&mut sessions);
    let session = sessions.get(id)?;
    if session.is_trace() {
        return Err(Error::DataNeedsTree);
    }
    let mut tree = match session.closed.get(&phase) {
        Some(closed) => Arc::clone(&closed.tree),
        None if phase == session.phase => Arc::new(look_at_open_phase(session, &running)),
        None => return Err(Error::PhaseWithoutData(phase)),
    };
    device::fold_into(session.slot, phase, &mut tree);
    let meta = account::meta(session, false);
    drop(sessions);
    let mut bytes = Vec::new();
    let document = Document { tree: &tree, meta: &meta };
    let mut contents = match format {
        Format::Hatchet => Contents::Hatchet(document),
        Format::HatchetMsgpack => Contents::HatchetMsgpack(document),
        Format::ChromeTrace | Format::Run => return Err(Error::FormatNeedsTrace(format)),
    };
    contents.write(&mut bytes).map_err(|source| Error::Write {
        action: "write",
        path: PathBuf::from("memory"),
        source,
    })?;
    Ok(bytes)
}

/// The open phase as it stands, while the threads go on. The caller holds the sessions' lock.
fn look_at_open_phase(session: &Session, threads: &[Arc<ThreadTree>]) -> MergedTree {
    let mut tree = session.ended_threads.clone();
    for thread in threads {
        tree.absorb_running(thread, session.view());
    }
    tree
}

/// Scopes of this thread's stack that a session sees.
pub(crate) fn depth(id: SessionId) -> Result<u32, Error> {
    let slot = lock(&SESSIONS).get(id)?.slot;
    Ok(local::event(|local| local.depth_of(slot)))
}

/// Whether a session's paths are Python frames.
pub(crate) fn context(id: SessionId) -> Result<ContextSource, Error> {
    Ok(lock(&SESSIONS).get(id)?.options.context)
}

/// The run directory that a session's events are in; `None` if it keeps none.
pub(crate) fn run_dir(id: SessionId) -> Result<Option<PathBuf>, Error> {
    let mut sessions = lock(&SESSIONS);
    let is_trace = sessions.get(id)?.is_trace();
    Ok(if is_trace { trace::run_dir() } else { None })
}

/// Writes no file for this session if it records nothing.
pub(crate) fn set_quiet_if_empty(id: SessionId) -> Result<(), Error> {
    lock(&SESSIONS).get(id)?.options.quiet_if_empty = true;
    Ok(())
}

// Checkpoints.

/// Writes the present state of every session to its file.
pub(crate) fn write_checkpoints() {
    write_checkpoints_of(|_| true, || true);
}

/// The same for those that keep no events, as long as `goes_on` holds: the spool is the checkpoint of the
/// others. Whether it held to the end.
pub(crate) fn write_tree_checkpoints(goes_on: fn() -> bool) -> bool {
    write_checkpoints_of(|session| !session.is_trace(), goes_on)
}

fn write_checkpoints_of(is_meant: fn(&Session) -> bool, goes_on: fn() -> bool) -> bool {
    let _writing = Writing::begin();
    let sessions = lock(&SESSIONS);
    let meant = sessions.alive.iter().filter(|(_, session)| is_meant(session));
    let meant: Vec<_> = meant.map(|(&id, _)| id).collect();
    drop(sessions);
    for id in meant {
        if !goes_on() {
            return false;
        }
        if write_checkpoint(id).is_err() {
            losses::count(marey_model::loss::LossCause::CheckpointFailed);
        }
    }
    true
}

fn write_checkpoint(id: SessionId) -> Result<(), Error> {
    let began = clock::ticks();
    if let Some(work) = checkpoint_of(id)? {
        write(id, work)?;
        account::add_flushing_since(began);
    }
    Ok(())
}

/// What a checkpoint of a session is made of; `None` if there is none to be made.
fn checkpoint_of(id: SessionId) -> Result<Option<Work>, Error> {
    let mut sessions = lock(&SESSIONS);
    let running = fold_ended(&mut sessions);
    let Ok(session) = sessions.get(id) else { return Ok(None) };
    if session.is_for_stdout() {
        return Ok(None);
    }
    if session.options.format == Format::Run {
        // Its checkpoint is the spool.
        trace::recorded(session)?;
        return Ok(None);
    }
    let mut tree = Arc::new(look_at_open_phase(session, &running));
    device::fold_into(session.slot, session.phase, &mut tree);
    Work::of_checkpoint(session, tree).map(Some)
}

// Fork.

/// Holds the sessions over a fork; before anything else.
pub(crate) fn hold_sessions() -> impl Sized + use<> {
    lock(&SESSIONS)
}

/// Holds what else a child would find locked.
pub(crate) fn hold() -> impl Sized + use<> {
    (device::hold(), trace::hold(), writing::hold(), registry::hold())
}

/// In the child: the sessions go on with nothing recorded, under names of their own.
pub(crate) fn begin_child() {
    let mut sessions = lock(&SESSIONS);
    for session in sessions.alive.values_mut() {
        if !session.is_for_stdout() {
            session.base = format!("{}.{}", session.base, std::process::id());
        }
        session.options.quiet_if_empty = true;
        session.phase = 0;
        session.closed.clear();
        session.ended_threads = MergedTree::default();
        session.started = Pair::now();
        // The parent may hold the lock of the old one; its files are the parent's anyway.
        session.outputs = Arc::default();
        session.playback = None;
    }
    writing::begin_child();
    progress::begin_child();
    registry::begin_child();
    device::begin_child(sessions.alive.values());
    trace::begin_child(sessions.alive.values());

    account::reset();
    local::restart_after_fork();
}
