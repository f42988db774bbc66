//! The process's recorder: its threads and sessions, and everything that is not an event.
//!
//! Lock order: sessions, then threads, then main. No lock of these is held while waiting for a
//! thread to leave an event, except the sessions', which events never take.

use crate::clock::{self, Pair};
use crate::control::{CONTROL, MAX_SESSIONS, bit};
use crate::error::Error;
use crate::local;
use crate::losses;
use crate::merged::MergedTree;
use crate::output::{Document, Format, Meta, Overhead, Process};
use crate::session::{self, ClosedPhase, Session, SessionId, SessionOptions};
use crate::sync::heavy_fence;
use crate::thread::ThreadTree;
use crate::{checkpoint, fork};
use marey_model::context::ContextSource;
use marey_model::{env, rank};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

/// Threads that ended, kept until there are this many of them.
const ENDED_BEFORE_FOLD: usize = 64;

static SESSIONS: Mutex<Sessions> = Mutex::new(Sessions::new());
static THREADS: Mutex<Threads> = Mutex::new(Threads::new());
static MAIN: Mutex<Option<Arc<ThreadTree>>> = Mutex::new(None);
/// Files that this process wrote and may write again.
static WRITTEN: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);
static FLUSHING_NANOS: AtomicU64 = AtomicU64::new(0);
/// Cost of a scope in thousandths of a nanosecond.
static SCOPE_PICOS: AtomicU64 = AtomicU64::new(0);

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
        let open = sessions_of_open_scopes();
        let mut free = (0..MAX_SESSIONS)
            .map(|offset| (self.next_slot + offset) % MAX_SESSIONS)
            .filter(|&slot| live & bit(slot) == 0);
        // A scope that is still open bears the bits of sessions that are over.
        let slot = free.clone().find(|&slot| open & bit(slot) == 0).or_else(|| free.next())?;
        self.next_slot = (slot + 1) % MAX_SESSIONS;
        Some(slot)
    }
}

struct Threads {
    running: Vec<Arc<ThreadTree>>,
    ended: Vec<Arc<ThreadTree>>,
    started: u64,
    /// Events of trees that are forgotten.
    past_events: u64,
}

impl Threads {
    const fn new() -> Self {
        Self { running: Vec::new(), ended: Vec::new(), started: 0, past_events: 0 }
    }

    fn forget(&mut self, tree: &Arc<ThreadTree>) -> bool {
        let before = self.running.len();
        self.running.retain(|running| !Arc::ptr_eq(running, tree));
        self.running.len() < before
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere must not spread into the program; the data is valid at every step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Most nodes of a thread's tree.
pub(crate) fn max_nodes() -> u32 {
    static MAX_NODES: OnceLock<u32> = OnceLock::new();
    *MAX_NODES.get_or_init(|| env_number(env::MAX_NODES).unwrap_or(1_000_000))
}

/// The number that an environment variable holds.
pub(crate) fn env_number<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.trim().parse().ok()
}

// Threads.

/// A thread begins to record. Returns its tree and its first scope id.
pub(crate) fn thread_started() -> (Arc<ThreadTree>, u64) {
    const IDS_PER_THREAD_LOG2: u32 = 40;
    let tree = Arc::new(ThreadTree::new());
    let mut threads = lock(&THREADS);
    threads.running.push(Arc::clone(&tree));
    let ordinal = threads.started;
    threads.started += 1;
    drop(threads);
    lock(&MAIN).get_or_insert_with(|| Arc::clone(&tree));
    (tree, (ordinal << IDS_PER_THREAD_LOG2) + 1)
}

/// A thread is over. Its tree is kept for the sessions that are alive.
pub(crate) fn thread_ended(tree: &Arc<ThreadTree>) {
    let mut threads = lock(&THREADS);
    if !threads.forget(tree) {
        return;
    }
    if !CONTROL.is_live() {
        threads.past_events += tree.seq.events();
        return;
    }
    threads.ended.push(Arc::clone(tree));
    let is_time = threads.ended.len() >= ENDED_BEFORE_FOLD;
    drop(threads);
    // Whoever holds the lock now folds the threads soon.
    if is_time && let Ok(mut sessions) = SESSIONS.try_lock() {
        fold_ended(&mut sessions);
    }
}

/// A tree of an older epoch is not needed any more.
pub(crate) fn forget_thread(tree: &Arc<ThreadTree>) {
    let mut threads = lock(&THREADS);
    threads.forget(tree);
    threads.past_events += tree.seq.events();
}

/// The tree of the main thread, unless it is `own`.
pub(crate) fn main_tree(own: &Arc<ThreadTree>) -> Option<Arc<ThreadTree>> {
    lock(&MAIN).clone().filter(|main| !Arc::ptr_eq(main, own))
}

/// Moves what ended threads recorded into the sessions, and lets the threads go. Returns those that
/// ran at that very moment: a thread is in one of the two, also if it ends meanwhile.
fn fold_ended(sessions: &mut Sessions) -> Vec<Arc<ThreadTree>> {
    let mut threads = lock(&THREADS);
    let running = threads.running.clone();
    let ended = std::mem::take(&mut threads.ended);
    threads.past_events += ended.iter().map(|tree| tree.seq.events()).sum::<u64>();
    drop(threads);
    for session in sessions.alive.values_mut() {
        let view = session.view();
        for tree in &ended {
            let column = tree.take_column(view.slot);
            session.ended_threads.absorb_taken(tree, view, column.as_deref(), false);
        }
    }
    running
}

fn running_threads() -> Vec<Arc<ThreadTree>> {
    lock(&THREADS).running.clone()
}

/// The bits of the sessions, over or not, that saw a scope entered which is open now.
fn sessions_of_open_scopes() -> u64 {
    let threads = running_threads();
    let frames = threads.iter().flat_map(|thread| thread.open_frames());
    frames.fold(0, |bits, frame| bits | frame.sessions)
}

/// Waits until every thread has left the event that it may be in. Whether one can be sure of it.
fn wait_outside_events(threads: &[Arc<ThreadTree>]) -> bool {
    let is_sure = heavy_fence();
    for thread in threads {
        thread.seq.wait_outside_event();
    }
    is_sure
}

// Sessions.

/// Starts a session, active at once. A live session with the same path is activated and returned.
pub(crate) fn start(options: &SessionOptions) -> Result<SessionId, Error> {
    clock::calibrate();
    fork::install();
    let base = session::base_for(&options.name, process_rank());
    let mut sessions = lock(&SESSIONS);
    let same = sessions.alive.iter().find(|(_, session)| session.base == base);
    if let Some((&id, session)) = same {
        CONTROL.active.fetch_or(bit(session.slot), Ordering::SeqCst);
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
    };
    sessions.alive.insert(id, session);
    if options.context == ContextSource::Python {
        CONTROL.python.fetch_or(bit(slot), Ordering::SeqCst);
    }
    CONTROL.live.fetch_or(bit(slot), Ordering::SeqCst);
    CONTROL.active.fetch_or(bit(slot), Ordering::SeqCst);
    drop(sessions);
    let picos = local::measure_scope_nanos() * 1000.0;
    SCOPE_PICOS.store(picos as u64, Ordering::Relaxed);
    checkpoint::ensure_running();
    Ok(id)
}

/// Recording starts from nothing: older trees are void, and the caller's thread is the main one.
fn begin_epoch() {
    losses::reset();
    FLUSHING_NANOS.store(0, Ordering::Relaxed);
    let mut threads = lock(&THREADS);
    threads.ended.clear();
    threads.past_events = 0;
    drop(threads);
    *lock(&MAIN) = None;
    CONTROL.epoch.fetch_add(1, Ordering::SeqCst);
    local::event(|_| ());
}

fn process_rank() -> Option<u32> {
    rank::from_env(|name| std::env::var(name).ok())
}

/// Lets a session record.
pub(crate) fn activate(id: SessionId) -> Result<(), Error> {
    let mut sessions = lock(&SESSIONS);
    let slot = sessions.get(id)?.slot;
    CONTROL.active.fetch_or(bit(slot), Ordering::SeqCst);
    Ok(())
}

/// Stops a session from recording. Events that began before this are complete when it returns.
pub(crate) fn deactivate(id: SessionId) -> Result<(), Error> {
    let mut sessions = lock(&SESSIONS);
    let slot = sessions.get(id)?.slot;
    CONTROL.active.fetch_and(!bit(slot), Ordering::SeqCst);
    wait_outside_events(&running_threads());
    Ok(())
}

/// Ids of the live sessions, lowest first.
pub(crate) fn alive() -> Vec<SessionId> {
    lock(&SESSIONS).alive.keys().copied().collect()
}

/// Ends a session and writes its files, in `format` or the session's own. Returns their paths.
pub(crate) fn finalize(id: SessionId, format: Option<Format>) -> Result<Vec<PathBuf>, Error> {
    let began = clock::ticks();
    let mut session = end(id)?;
    let format = format.unwrap_or(session.options.format);
    if session.options.flush_phases {
        session.closed.retain(|_, phase| !phase.is_written);
    }
    FLUSHING_NANOS.fetch_add(elapsed(began), Ordering::Relaxed);
    let meta = meta_of(&session, true);
    let outputs = Arc::clone(&session.outputs);
    let mut outputs = lock(&outputs);
    outputs.closed = true;
    let mut paths = Vec::new();
    for (phase, closed) in &session.closed {
        let is_quiet = session.options.quiet_if_empty && closed.tree.is_empty();
        if is_quiet {
            continue;
        }
        let document = Document { tree: &closed.tree, meta: &meta };
        let base = session.base_of(*phase);
        paths.extend(outputs.write(&base, format, &document, &is_ours)?);
    }
    lock(&WRITTEN).extend(paths.iter().cloned());
    Ok(paths)
}

/// Ends a session without writing anything.
pub(crate) fn discard(id: SessionId) -> Result<(), Error> {
    let session = end(id)?;
    lock(&session.outputs).closed = true;
    Ok(())
}

/// Takes a session out of the masks and out of the threads, with everything in its phases.
fn end(id: SessionId) -> Result<Session, Error> {
    let mut sessions = lock(&SESSIONS);
    let slot = sessions.get(id)?.slot;
    CONTROL.active.fetch_and(!bit(slot), Ordering::SeqCst);
    wait_outside_events(&running_threads());
    let running = fold_ended(&mut sessions);
    let mut session = sessions.alive.remove(&id).ok_or(Error::UnknownSession(id))?;
    close_phase(&mut session, &running, true);
    CONTROL.live.fetch_and(!bit(slot), Ordering::SeqCst);
    CONTROL.python.fetch_and(!bit(slot), Ordering::SeqCst);
    Ok(session)
}

fn is_ours(path: &Path) -> bool {
    lock(&WRITTEN).contains(path)
}

// Phases.

/// Closes the session's phase and opens the next, whose number is returned.
pub(crate) fn advance_phase(id: SessionId) -> Result<u32, Error> {
    let mut sessions = lock(&SESSIONS);
    let running = fold_ended(&mut sessions);
    let session = sessions.get(id)?;
    close_phase(session, &running, false);
    session.phase += 1;
    let next = session.phase;
    if session.options.flush_phases {
        write_closed_phases(session)?;
    }
    Ok(next)
}

/// Moves what the threads hold into the list of closed phases.
fn close_phase(session: &mut Session, threads: &[Arc<ThreadTree>], with_open: bool) {
    let view = session.view();
    let columns: Vec<_> = threads.iter().map(|thread| thread.take_column(view.slot)).collect();
    let is_sure = wait_outside_events(threads);
    let mut tree = std::mem::take(&mut session.ended_threads);
    for (thread, column) in threads.iter().zip(columns) {
        tree.absorb_taken(thread, view, column.as_deref(), with_open);
        if !is_sure {
            leak(column);
        }
    }
    let phase = ClosedPhase { tree: Arc::new(tree), is_written: false };
    session.closed.insert(session.phase, phase);
}

/// Keeps a column forever: a thread may still write to it where the kernel has no `membarrier`.
#[expect(clippy::mem_forget, reason = "freeing it would not be safe there")]
fn leak<T>(column: T) {
    std::mem::forget(column);
}

fn write_closed_phases(session: &mut Session) -> Result<(), Error> {
    let meta = meta_of(session, false);
    let format = session.options.format;
    let bases: Vec<_> = session
        .closed
        .iter()
        .filter(|(_, phase)| !phase.is_written)
        .map(|(&phase, _)| (phase, session.base_of(phase)))
        .collect();
    for (phase, base) in bases {
        let Some(closed) = session.closed.get_mut(&phase) else { continue };
        let document = Document { tree: &closed.tree, meta: &meta };
        let path = lock(&session.outputs).write(&base, format, &document, &is_ours)?;
        lock(&WRITTEN).extend(path);
        closed.is_written = true;
    }
    Ok(())
}

/// Whether a phase will receive nothing more.
pub(crate) fn is_phase_complete(id: SessionId, phase: u32) -> Result<bool, Error> {
    Ok(phase < lock(&SESSIONS).get(id)?.phase)
}

/// Drops a phase's data, or that of all phases up to it. The open phase begins anew.
pub(crate) fn clear(id: SessionId, phase: u32, up_to: bool) -> Result<(), Error> {
    let mut sessions = lock(&SESSIONS);
    let running = fold_ended(&mut sessions);
    let session = sessions.get(id)?;
    let is_meant = |candidate: u32| if up_to { candidate <= phase } else { candidate == phase };
    session.closed.retain(|&candidate, _| !is_meant(candidate));
    if is_meant(session.phase) {
        close_phase(session, &running, false);
        session.closed.remove(&session.phase);
    }
    Ok(())
}

/// A phase's profile as a document in memory.
pub(crate) fn get_data(id: SessionId, phase: u32, format: Format) -> Result<Vec<u8>, Error> {
    let mut sessions = lock(&SESSIONS);
    let running = fold_ended(&mut sessions);
    let session = sessions.get(id)?;
    let tree = match session.closed.get(&phase) {
        Some(closed) => Arc::clone(&closed.tree),
        None if phase == session.phase => Arc::new(look_at_open_phase(session, &running)),
        None => return Err(Error::PhaseWithoutData(phase)),
    };
    let meta = meta_of(session, false);
    drop(sessions);
    let mut bytes = Vec::new();
    let document = Document { tree: &tree, meta: &meta };
    document.write(format, &mut bytes).map_err(|source| Error::Write {
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

/// Writes no file for this session if it records nothing.
pub(crate) fn set_quiet_if_empty(id: SessionId) -> Result<(), Error> {
    lock(&SESSIONS).get(id)?.options.quiet_if_empty = true;
    Ok(())
}

// Checkpoints and the document's account of itself.

/// Writes the present state of every session to its file.
pub(crate) fn write_checkpoints() {
    for id in alive() {
        if write_checkpoint(id).is_err() {
            losses::count(marey_model::loss::LossCause::CheckpointFailed);
        }
    }
}

fn write_checkpoint(id: SessionId) -> Result<(), Error> {
    let began = clock::ticks();
    let mut sessions = lock(&SESSIONS);
    let running = fold_ended(&mut sessions);
    let Ok(session) = sessions.get(id) else { return Ok(()) };
    if session.is_for_stdout() {
        return Ok(());
    }
    write_closed_phases(session)?;
    let tree = look_at_open_phase(session, &running);
    let (meta, base) = (meta_of(session, false), session.base_of(session.phase));
    let (format, outputs) = (session.options.format, Arc::clone(&session.outputs));
    let is_quiet = session.options.quiet_if_empty && tree.is_empty();
    drop(sessions);
    let mut outputs = lock(&outputs);
    if !outputs.closed && !is_quiet {
        let document = Document { tree: &tree, meta: &meta };
        let path = outputs.write(&base, format, &document, &is_ours)?;
        lock(&WRITTEN).extend(path);
    }
    FLUSHING_NANOS.fetch_add(elapsed(began), Ordering::Relaxed);
    Ok(())
}

fn elapsed(since_ticks: u64) -> u64 {
    clock::nanos(clock::ticks().saturating_sub(since_ticks))
}

fn meta_of(session: &Session, complete: bool) -> Meta {
    let threads = lock(&THREADS);
    let trees = threads.running.iter().chain(&threads.ended);
    let events = threads.past_events + trees.map(|tree| tree.seq.events()).sum::<u64>();
    drop(threads);
    let scope_nanos = SCOPE_PICOS.load(Ordering::Relaxed) as f64 / 1000.0;
    let mut losses = losses::snapshot().to_vec();
    losses.sort_by_key(|(cause, _)| cause.as_str());
    Meta {
        process: Process {
            pid: std::process::id(),
            rank: process_rank(),
            host: host_name(),
            start_unix_nanos: session.started.unix_nanos,
            duration_nanos: elapsed(session.started.ticks),
            complete,
        },
        overhead: Overhead {
            events,
            scope_nanos,
            recording_nanos: (events as f64 * scope_nanos / 2.0) as u64,
            flushing_nanos: FLUSHING_NANOS.load(Ordering::Relaxed),
        },
        losses,
    }
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| String::new(), |name| name.trim().to_owned())
}

// Fork.

/// Holds everything that a child would find locked, from before the fork until after it.
pub(crate) fn hold() -> impl Sized + use<> {
    (lock(&SESSIONS), lock(&WRITTEN), lock(&THREADS), lock(&MAIN))
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
    }
    lock(&WRITTEN).clear();
    let mut threads = lock(&THREADS);
    // The other threads are not here; the forking one begins anew.
    *threads = Threads::new();
    drop(threads);
    *lock(&MAIN) = None;
    losses::reset();
    FLUSHING_NANOS.store(0, Ordering::Relaxed);
    local::restart_after_fork();
}
