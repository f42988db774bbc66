//! The process's sessions: start, end, phases, checkpoints, forks.
//!
//! Lock order: sessions, traces, a session's outputs, the list of written files, the registry's
//! locks. Only the sessions' lock is held while waiting for a thread to leave an event; events
//! never take it.

use crate::clock::{self, ClockReading};
use crate::column::Column;
use crate::control::{CONTROL, MAX_SESSIONS, bit};
use crate::detached::Detached;
use crate::device::{self, FlushMode};
use crate::error::Error;
use crate::local;
use crate::lock::lock;
use crate::losses;
use crate::merged::MergedTree;
use crate::output::{Contents, Document, Format};
use crate::phase::{ClosedPhase, PhaseTree};
use crate::progress::{self, WritingGuard};
use crate::registry;
use crate::sampling;
use crate::session::{self, Session, SessionId, SessionOptions};
use crate::thread::ThreadTree;
use crate::writing::{self, WriteJob};
use crate::{checkpoint, endpoint, fork, metadata, system, trace};
use marey_model::context::ContextSource;
use marey_model::spool::SessionEvent;
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

static SESSIONS: Mutex<Sessions> = Mutex::new(Sessions::new());

pub(crate) struct Sessions {
    alive: BTreeMap<SessionId, Session>,
    next_id: SessionId,
    next_slot: u32,
    /// The session that used each slot last.
    last_in_slot: [Option<SessionId>; MAX_SESSIONS as usize],
}

impl Sessions {
    const fn new() -> Self {
        Self {
            alive: BTreeMap::new(),
            next_id: 0,
            next_slot: 0,
            last_in_slot: [None; MAX_SESSIONS as usize],
        }
    }

    fn get(&mut self, id: SessionId) -> Result<&mut Session, Error> {
        self.alive.get_mut(&id).ok_or(Error::UnknownSession(id))
    }

    /// Takes a free slot. The slot used last is the last choice.
    fn take_free_slot(&mut self) -> Option<u32> {
        let live = CONTROL.live.load(Ordering::Relaxed);
        let open_sessions = registry::sessions_of_open_scopes();
        let mut free = (0..MAX_SESSIONS)
            .map(|offset| (self.next_slot + offset) % MAX_SESSIONS)
            .filter(|&slot| live & bit(slot) == 0);
        // A scope that is still open has the bits of sessions that have ended.
        let slot =
            free.clone().find(|&slot| open_sessions & bit(slot) == 0).or_else(|| free.next())?;
        self.next_slot = (slot + 1) % MAX_SESSIONS;
        Some(slot)
    }
}

/// Moves the data of ended threads into the sessions and frees the threads. Returns the threads
/// that were running at the same moment.
fn fold_ended_threads(sessions: &mut Sessions) -> Vec<Arc<ThreadTree>> {
    let (running, ended) = registry::take_ended();
    for session in sessions.alive.values_mut() {
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
pub(crate) fn start(options: &SessionOptions) -> Result<SessionId, Error> {
    clock::calibrate();
    fork::install();
    let base = session::base_path(&options.name, metadata::rank());
    if options.format == Format::Run && session::is_stdout_name(&base) {
        return Err(Error::RunToStdout);
    }
    if options.is_ring && (options.format != Format::Run || options.flush_phases) {
        return Err(Error::RingFormat);
    }
    let mut sessions = lock(&SESSIONS);
    let existing = sessions.alive.iter().find(|(_, session)| session.base == base);
    if let Some((&id, session)) = existing {
        activate_and_log(session);
        return Ok(id);
    }
    let slot = sessions.take_free_slot().ok_or(Error::TooManySessions(MAX_SESSIONS))?;
    if sessions.alive.is_empty() {
        begin_epoch();
    }
    let id = sessions.next_id;
    sessions.next_id += 1;
    if let Some(last) = sessions.last_in_slot.get_mut(slot as usize) {
        *last = Some(id);
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
    sessions.alive.insert(id, session);
    CONTROL.begin(slot, options.only_addressed);
    drop(sessions);
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
    CONTROL.begin_epoch();
    local::event(|_| ());
}

/// Lets a session record.
pub(crate) fn activate(id: SessionId) -> Result<(), Error> {
    activate_and_log(lock(&SESSIONS).get(id)?);
    Ok(())
}

fn activate_and_log(session: &Session) {
    if session.is_trace() && CONTROL.addressable() & bit(session.slot) == 0 {
        trace::write_event(session, SessionEvent::Activated, clock::ticks());
    }
    CONTROL.activate(session.slot, session.options.only_addressed);
}

/// Stops a session from recording. Events that began before this call are complete when it returns.
pub(crate) fn deactivate(id: SessionId) -> Result<(), Error> {
    let mut sessions = lock(&SESSIONS);
    let session = sessions.get(id)?;
    if deactivate_and_wait(session.slot) && session.is_trace() {
        trace::write_event(session, SessionEvent::Deactivated, clock::ticks());
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
    let last = lock(&SESSIONS).last_in_slot;
    last.iter().position(|&last| last == Some(id)).map(|slot| slot as u32)
}

/// Returns the ids of the live sessions, lowest first.
pub(crate) fn live_sessions() -> Vec<SessionId> {
    lock(&SESSIONS).alive.keys().copied().collect()
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
    let active = CONTROL.active.load(Ordering::Relaxed);
    let sessions = lock(&SESSIONS);
    let describe = |(&id, session): (&SessionId, &Session)| {
        let format = session.options.format;
        let file = || format!("{}.{}", session.phase_base(session.phase), format.as_str());
        SessionFacts {
            id,
            file: (format != Format::Run).then(file),
            run: run_directory.clone().filter(|_| session.is_trace()),
            format,
            is_active: active & bit(session.slot) != 0,
            phase: session.phase,
            start_ticks: session.start.ticks,
        }
    };
    sessions.alive.iter().map(describe).collect()
}

/// Returns the ids of the live sessions that record, lowest first.
pub(crate) fn active_sessions() -> Vec<SessionId> {
    let active = CONTROL.addressable();
    let sessions = lock(&SESSIONS);
    let records = sessions.alive.iter().filter(|(_, session)| active & bit(session.slot) != 0);
    records.map(|(&id, _)| id).collect()
}

/// Ends the background threads if no session is alive. The next session starts them again.
pub(crate) fn end_idle_threads() {
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

/// Ends a session and writes its files, in `format` or the session's own format. Returns their
/// paths.
pub(crate) fn finalize(id: SessionId, format: Option<Format>) -> Result<Vec<PathBuf>, Error> {
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
pub(crate) fn discard(id: SessionId) -> Result<(), Error> {
    let session = end_session(id, None)?;
    endpoint::stop_if_idle();
    sampling::wake();
    lock(&session.outputs).closed = true;
    Ok(())
}

/// Stops a session before its end, if it has the data that the format needs. Returns its slot, and
/// whether it is the last session. Events that began before this call are complete.
fn stop_recording(id: SessionId, format: Option<Format>) -> Result<(u32, bool), Error> {
    let mut sessions = lock(&SESSIONS);
    let session = sessions.get(id)?;
    if let Some(format) = format {
        session.check_format(format)?;
    }
    let slot = session.slot;
    deactivate_and_wait(slot);
    Ok((slot, sessions.alive.len() == 1))
}

/// Removes a session from the masks and its data from the threads. Returns the session with all its
/// phases, to be written in `format` if there is one.
///
/// Fails, and ends nothing, if the session lacks the data that the format needs.
fn end_session(id: SessionId, format: Option<Format>) -> Result<Session, Error> {
    let (slot, is_last) = stop_recording(id, format)?;
    // Collects the activities of all launches; nothing more is launched for this session.
    device::flush(if is_last { FlushMode::Final } else { FlushMode::WaitForDevices });
    let mut sessions = lock(&SESSIONS);
    if sessions.alive.contains_key(&id) {
        // Another thread may have activated the session in between.
        deactivate_and_wait(slot);
    }
    let running = fold_ended_threads(&mut sessions);
    let mut session = sessions.alive.remove(&id).ok_or(Error::UnknownSession(id))?;
    let ended_ticks = clock::ticks();
    close_phase(&mut session, &running, Vec::new(), OpenScopes::Included);
    for (&phase, closed) in &mut session.closed_phases {
        device::add_to_tree(slot, phase, closed.tree.get_mut());
    }
    device::end_session(slot);
    let needs_spool = format.is_some_and(Format::needs_trace) && !session.is_quiet();
    let spool =
        if session.is_trace() { trace::end_session(&session, ended_ticks) } else { Ok(None) };
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
    if session.is_trace() {
        trace::remove_session(&session);
    }
    CONTROL.remove(slot);
    if session.is_trace() && !trace::has_sessions() {
        free_logs();
    }
    if sessions.alive.is_empty() {
        device::stop();
    }
    let spool = match spool {
        Err(error) if needs_spool => return Err(error),
        spool => spool.ok().flatten(),
    };
    if let Some((spool, phase_start)) = spool {
        session.spool = Some(spool);
        set_spool_range(&mut session, phase_start..u64::MAX);
    }
    session.playback = playback?;
    Ok(session)
}

/// Frees the threads' logs after the last trace session, if it is certain that no thread writes to
/// them. The caller holds the sessions' lock, so no session begins in between.
fn free_logs() {
    let threads = registry::running_threads();
    if registry::wait_outside_events(&threads) {
        trace::free_logs(&threads);
    }
}

// Phases.

/// Closes the session's phase and opens the next. Returns the number of the next phase.
pub(crate) fn advance_phase(id: SessionId) -> Result<u32, Error> {
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

/// Writes a job's files, without a lock that other threads need.
fn run_write_job(id: SessionId, mut job: WriteJob) -> Result<(), Error> {
    let written = job.write();
    if let Some(session) = lock(&SESSIONS).alive.get_mut(&id) {
        written.phases.iter().for_each(|&phase| session.mark_phase_written(phase));
        session.playback = session.playback.take().or(job.playback);
    }
    written.result
}

/// Closes the session's phase and opens one with this number.
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
fn set_spool_range(session: &mut Session, spool_range: Range<u64>) {
    if let Some(closed) = session.closed_phases.get_mut(&session.phase) {
        closed.spool_range = spool_range;
    }
}

/// Whether a closed phase contains the times so far of scopes that are still open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenScopes {
    Included,
    LeftOut,
}

/// Moves the threads' data into the list of closed phases. `next_columns` has columns for the next
/// phase, in the order of the threads.
fn close_phase(
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
pub(crate) fn is_phase_complete(id: SessionId, phase: u32) -> Result<bool, Error> {
    let mut sessions = lock(&SESSIONS);
    let session = sessions.get(id)?;
    Ok(phase < session.phase && !device::is_phase_waiting(session.slot, phase))
}

/// Drops the data of these phases. A dropped open phase begins again.
pub(crate) fn clear_phases(id: SessionId, phases: RangeInclusive<u32>) -> Result<(), Error> {
    let mut sessions = lock(&SESSIONS);
    let running = fold_ended_threads(&mut sessions);
    let session = sessions.get(id)?;
    session.closed_phases.retain(|phase, _| !phases.contains(phase));
    device::clear_phases(session.slot, &phases);
    if phases.contains(&session.phase) {
        let phase = session.phase;
        begin_phase(session, &running, phase);
        session.closed_phases.remove(&phase);
    }
    Ok(())
}

/// Returns a phase's profile as a document.
pub(crate) fn get_data(id: SessionId, phase: u32, format: Format) -> Result<Vec<u8>, Error> {
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

/// Returns a snapshot of the open phase, while the threads go on. The caller holds the sessions'
/// lock.
fn snapshot_open_phase(session: &Session, threads: &[Arc<ThreadTree>]) -> MergedTree {
    let mut tree = session.ended_threads.clone();
    for thread in threads {
        tree.absorb_running(thread, session.view());
    }
    tree
}

/// Returns a scope, by default the root, as one that is addressed to a session.
pub(crate) fn address(
    id: SessionId,
    scope: Option<&Detached>,
) -> Result<Option<Arc<Detached>>, Error> {
    let slot = lock(&SESSIONS).get(id)?.slot;
    Ok(Detached::in_session(scope, slot))
}

/// Returns the number of scopes on this thread's stack that a session sees.
pub(crate) fn stack_depth(id: SessionId) -> Result<u32, Error> {
    let slot = lock(&SESSIONS).get(id)?.slot;
    Ok(local::event(|local| local.visible_depth(slot)))
}

/// Returns the source of a session's paths.
pub(crate) fn context_source(id: SessionId) -> Result<ContextSource, Error> {
    Ok(lock(&SESSIONS).get(id)?.options.context)
}

/// Returns the run directory that contains a session's events, `None` without a trace.
pub(crate) fn run_dir(id: SessionId) -> Result<Option<PathBuf>, Error> {
    let mut sessions = lock(&SESSIONS);
    let is_trace = sessions.get(id)?.is_trace();
    Ok(if is_trace { trace::run_dir() } else { None })
}

/// Makes a session write no file if it records nothing.
pub(crate) fn set_quiet_if_empty(id: SessionId) -> Result<(), Error> {
    lock(&SESSIONS).get(id)?.options.quiet_if_empty = true;
    Ok(())
}

// Checkpoints.

/// Writes the current state of every session to its file.
pub(crate) fn write_checkpoints() {
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
    let ids = sessions.alive.iter().filter(|(_, session)| is_selected(session));
    let ids: Vec<_> = ids.map(|(&id, _)| id).collect();
    drop(sessions);
    for id in ids {
        if !should_continue() {
            return false;
        }
        if write_checkpoint(id).is_err() {
            losses::count(marey_model::loss::LossCause::CheckpointFailed);
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
        return Ok(None);
    }
    let mut tree = Arc::new(snapshot_open_phase(session, &running));
    device::add_to_tree(session.slot, session.phase, &mut tree);
    WriteJob::for_checkpoint(session, tree).map(Some)
}

// Fork.

/// Locks the sessions for the duration of a fork. This is the first lock in the order.
pub(crate) fn lock_sessions_for_fork() -> impl Sized + use<> {
    lock(&SESSIONS)
}

/// Takes the other locks of the recorder for the duration of a fork.
pub(crate) fn lock_for_fork() -> impl Sized + use<> {
    (
        device::lock_for_fork(),
        trace::lock_for_fork(),
        writing::lock_for_fork(),
        registry::lock_for_fork(),
    )
}

/// Restarts the sessions in the child of a fork, without data and under names of their own.
pub(crate) fn begin_child() {
    let mut sessions = lock(&SESSIONS);
    for session in sessions.alive.values_mut() {
        if !session.is_for_stdout() {
            session.base = format!("{}.{}", session.base, std::process::id());
        }
        session.options.quiet_if_empty = true;
        session.phase = 0;
        session.closed_phases.clear();
        session.ended_threads = MergedTree::default();
        session.start = ClockReading::now();
        // The parent may have locked the old outputs, and its files are the parent's.
        session.outputs = Arc::default();
        session.playback = None;
    }
    writing::begin_child();
    progress::begin_child();
    registry::begin_child();
    device::begin_child(sessions.alive.values());
    trace::begin_child(sessions.alive.values());

    metadata::reset();
    local::restart_after_fork();
}
