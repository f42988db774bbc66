//! Trace sessions: carry every scope and value from the threads' logs to a file that outlives the
//! process.
//!
//! While a trace session is alive, a thread appends each scope that it exits to its log ([`log`]).
//! A background thread moves the logs into the spool, the process's one append-only file. Data in
//! the file survives a SIGKILL.
//!
//! Lock order: the sessions' lock, the lock of the spool's appender, this module's, the registry's.

mod activities;
mod clock;
mod file;
mod frame_buffer;
mod log;
mod nodes;
mod ring;
mod run_directory;
mod spool;
mod texts;
mod thread;

pub(crate) use self::file::SpoolFile;
pub(crate) use self::log::Log;
pub(crate) use self::ring::save as save_ring;

use self::file::Appender;
use self::run_directory::RunDirectory;
use self::spool::Spool;
use crate::api::{Collective, CounterSample, LineVariables, StackSample};
use crate::control::CONTROL;
use crate::device::{JoinedActivity, Threads};
use crate::error::Error;
use crate::lock::lock;
use crate::losses;
use crate::output::Extent;
use crate::registry;
use crate::session::Session;
use crate::thread::ThreadTree;
use crate::worker::{STOP, Worker};
use marey_model::loss::LossCause;
use marey_model::spool::{Detail, SampleCause, SessionEvent};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The thread that drains the logs. It has no other work.
pub(crate) static WORKER: Worker = Worker::new("marey-spool", run);

/// The request to drain the logs before the period has passed.
const DRAIN: u32 = 2;

/// The longest time between two drains of the logs.
const PERIOD: Duration = Duration::from_millis(200);

static TRACER: Mutex<Tracer> =
    Mutex::new(Tracer { sessions: Vec::new(), run_directory: None, is_ring: false, spool: None });

/// The trace sessions of the process, and their spool.
struct Tracer {
    /// In the order in which they started.
    sessions: Vec<TraceSession>,
    /// The run directory of the first session, `None` without sessions.
    run_directory: Option<Arc<RunDirectory>>,
    /// Whether the sessions keep only their last records.
    is_ring: bool,
    /// `None` until the first session starts, and after a fork until there is data to write.
    spool: Option<Spool>,
}

/// Whether the spool has samples of call stacks.
static HAS_SAMPLES: AtomicBool = AtomicBool::new(false);

/// A live trace session.
#[derive(Clone, Debug)]
struct TraceSession {
    slot: u32,
    /// Path of the profile, without its extension.
    base: String,
    start_ticks: u64,
    /// The phase, the state and the time of its last change. Kept for a spool that is created
    /// later.
    phase: u32,
    is_active: bool,
    changed_ticks: u64,
    /// The start of its current phase in the spool, in bytes; `None` until the session is written
    /// to the spool.
    phase_start: Option<u64>,
}

/// The spool's file and its extent at one time. The end of the extent may still be in the buffer.
#[derive(Clone, Debug)]
pub(crate) struct SpoolSnapshot {
    pub(crate) file: Arc<SpoolFile>,
    appender: Arc<Mutex<Appender>>,
    pub(crate) extent: Extent,
}

impl SpoolSnapshot {
    /// Writes what is still in the buffer. The caller must not hold the sessions' lock.
    pub(crate) fn write(&mut self) {
        flush_spool();
        self.limit_to_written();
    }

    /// Shortens the extent to what is in the file, if a write has failed.
    fn limit_to_written(&mut self) {
        self.extent.bytes = self.extent.bytes.min(lock(&self.appender).written_bytes());
    }
}

/// A trace session that has ended. Its records are then written ([`Self::write`]), and the spool is
/// ended if no other session uses it ([`Self::end`]), both without the sessions' lock.
#[derive(Debug)]
pub(crate) struct EndedTrace {
    /// The spool, and the start of the session's last phase in it.
    snapshot: Option<(SpoolSnapshot, u64)>,
    /// The spool, if this was the last session.
    last_spool: Option<Spool>,
    /// The reason why there is no spool.
    error: Option<Error>,
}

impl EndedTrace {
    /// Writes the session's records. Returns the spool, if there is one, and the start of the last
    /// phase in it. Fails if no spool could be created.
    pub(crate) fn write(&mut self) -> Result<Option<(SpoolSnapshot, u64)>, Error> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        match (&mut self.snapshot, &mut self.last_spool) {
            (Some((snapshot, _)), Some(spool)) => {
                spool.write();
                snapshot.limit_to_written();
            }
            (Some((snapshot, _)), None) => snapshot.write(),
            (None, _) => {}
        }
        Ok(self.snapshot.clone())
    }

    /// Ends the spool if this was the last session.
    pub(crate) fn end(self) {
        if let Some(spool) = self.last_spool {
            spool.end();
        }
    }
}

impl TraceSession {
    fn new(session: &Session, is_active: bool) -> Self {
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

    fn apply(&mut self, event: SessionEvent, ticks: u64) {
        match event {
            SessionEvent::Activated => self.is_active = true,
            SessionEvent::Deactivated => self.is_active = false,
            SessionEvent::Phase(phase) => self.phase = phase,
            SessionEvent::Started | SessionEvent::Finalized => {}
        }
        self.changed_ticks = ticks;
    }
}

impl Tracer {
    /// Returns the spool with all sessions written to it. Creates it if needed. `None` if there is
    /// no session.
    fn spool(&mut self) -> Result<Option<&mut Spool>, Error> {
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
    fn spool_for(&mut self, threads: &[Arc<ThreadTree>]) -> Option<&mut Spool> {
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
    fn snapshot(&mut self, session: &Session) -> Option<(SpoolSnapshot, u64)> {
        let snapshot = self.spool.as_ref().map(Spool::snapshot);
        snapshot.zip(self.session(session.slot).and_then(|session| session.phase_start))
    }

    fn session(&mut self, slot: u32) -> Option<&mut TraceSession> {
        self.sessions.iter_mut().find(|session| session.slot == slot)
    }

    /// Removes a session. If it was the last one, returns the spool, which the caller ends without
    /// the tracer's lock.
    fn remove(&mut self, slot: u32) -> Option<Spool> {
        self.sessions.retain(|session| session.slot != slot);
        if !self.sessions.is_empty() {
            return None;
        }
        self.run_directory = None;
        self.spool.take()
    }
}

/// Whether a trace session is alive.
pub(crate) fn has_sessions() -> bool {
    CONTROL.trace.load(Ordering::Relaxed) != 0
}

/// Whether a trace session records now.
pub(crate) fn is_recording() -> bool {
    CONTROL.addressable() & CONTROL.trace.load(Ordering::Relaxed) != 0
}

/// Requests a drain because a log is half full. May be called in the middle of an event.
#[cold]
pub(crate) fn request_drain() {
    WORKER.request(DRAIN);
}

/// The time of the last drain on the recorder's clock, 0 for never. It outlives the thread: a
/// restart after a fork keeps the period, so that even a program that forks often is drained.
static LAST_DRAIN_TICKS: AtomicU64 = AtomicU64::new(0);

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
fn drain() {
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

/// Adds a session before it records. Fails if no spool can be created. The caller must then call
/// [`flush_spool`] without the sessions' lock.
pub(crate) fn begin_session(session: &Session) -> Result<(), Error> {
    let mut tracer = lock(&TRACER);
    if tracer.run_directory.is_none() {
        HAS_SAMPLES.store(false, Ordering::Relaxed);
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

/// Adds activities, whose details are ranges of `details`.
pub(crate) fn add_activities(
    threads: &Threads,
    joined: &[JoinedActivity],
    details: &[(Detail, u64)],
) {
    let mut tracer = lock(&TRACER);
    match tracer.spool() {
        Ok(Some(spool)) => {
            spool.add_activities(threads, joined, details);
            if spool.should_flush() {
                WORKER.request(DRAIN);
            }
        }
        Ok(None) => {}
        Err(_no_spool) => losses::add(LossCause::Spool, joined.len() as u64),
    }
}

/// Adds samples of counters. They reach the file with the next drain.
pub(crate) fn write_counters(samples: &[CounterSample]) {
    write_records(samples.len(), |spool| spool.write_counters(samples));
}

/// Adds samples of call stacks, whose nodes are in the tree of the calling thread. They reach the
/// file with the next drain.
pub(crate) fn write_samples(tree: &ThreadTree, samples: &[StackSample], cause: SampleCause) {
    write_records(samples.len(), |spool| {
        spool.write_samples(tree, samples, cause);
        HAS_SAMPLES.store(true, Ordering::Relaxed);
    });
}

/// Whether the spool has samples of call stacks.
pub(crate) fn has_samples() -> bool {
    HAS_SAMPLES.load(Ordering::Relaxed)
}

/// Adds samples of counters if there is a spool, and drops them otherwise. So the child of a fork
/// that records nothing itself writes no file.
pub(crate) fn write_counters_to_existing_spool(samples: &[CounterSample]) {
    if is_recording()
        && let Some(spool) = &mut lock(&TRACER).spool
    {
        spool.write_counters(samples);
    }
}

/// Adds collectives. They reach the file with the next drain.
pub(crate) fn write_collectives(collectives: Vec<Collective>) {
    write_records(collectives.len(), |spool| spool.write_collectives(collectives));
}

/// Adds the values of watched variables. They reach the file with the next drain.
pub(crate) fn write_variables(line: &LineVariables<'_>) {
    write_records(line.variables.len(), |spool| spool.write_variables(line));
}

/// Writes records to the spool while a trace session records.
fn write_records(count: usize, write: impl FnOnce(&mut Spool)) {
    if count == 0 || !is_recording() {
        return;
    }
    match lock(&TRACER).spool() {
        Ok(Some(spool)) => write(spool),
        Ok(None) => {}
        Err(_no_spool) => losses::add(LossCause::Spool, count as u64),
    }
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
    HAS_SAMPLES.store(false, Ordering::Relaxed);
    let active = CONTROL.addressable();
    tracer.sessions = sessions
        .filter(|session| session.is_trace())
        .map(|session| TraceSession::new(session, active & crate::control::bit(session.slot) != 0))
        .collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api;
    use crate::output::Format;
    use crate::session::SessionOptions;
    use marey_model::context::NodeKind;

    fn enter_and_exit(name: &str) {
        api::enter(api::intern(name), NodeKind::Scope);
        api::exit(api::intern(name));
    }

    /// Ends the sessions and exits, in the child of a fork.
    #[expect(unsafe_code, reason = "a forked child must not run the parent's exit handlers")]
    fn end_child() -> ! {
        for session in api::live_sessions() {
            drop(api::activate(session));
        }
        enter_and_exit("in the child");
        let all: Result<Vec<_>, _> =
            api::live_sessions().into_iter().map(|id| api::finalize(id, None)).collect();
        // SAFETY: a system call that takes a plain number.
        unsafe { libc::_exit(i32::from(all.is_err())) }
    }

    /// Forks, and waits until the child has ended all sessions and exited.
    #[expect(unsafe_code, reason = "std has no fork")]
    fn fork() {
        // SAFETY: the child calls only what a forked child may call, and does not return.
        let child = unsafe { libc::fork() };
        if child == 0 {
            end_child();
        }
        let mut status = 0;
        // SAFETY: `status` is writable.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }

    #[test]
    #[expect(unsafe_code, reason = "std has no alarms")]
    fn a_hanging_disk_blocks_neither_ending_threads_nor_forks() {
        // SAFETY: a system call that takes a plain number. It ends this process if something waits
        // for the disk.
        unsafe { libc::alarm(60) };
        let folder = tempfile::tempdir().unwrap();
        let options = |name: &str, format| {
            let name = folder.path().join(name).to_str().unwrap().to_owned();
            SessionOptions { format, ..SessionOptions::named(name) }
        };
        let checkpointed = api::start(&options("chrome", Format::ChromeTrace)).unwrap();
        let session = api::start(&options("trace", Format::Run)).unwrap();
        let ended = api::start(&options("ended", Format::ChromeTrace)).unwrap();
        let discarded = api::start(&options("discarded", Format::Run)).unwrap();
        let (_, appender) = lock(&TRACER).spool.as_ref().map(Spool::file_and_appender).unwrap();
        let hanging_disk = lock(&appender);
        let record = || enter_and_exit("on a thread that ends");
        std::thread::Builder::new().spawn(record).unwrap().join().unwrap();
        // Wait until a thread that writes has a reference to the appender, beside the spool's and
        // this one.
        request_drain();
        while Arc::strong_count(&appender) < 3 {
            std::thread::yield_now();
        }
        let start = |write: Box<dyn FnOnce() + Send>| {
            let references = Arc::strong_count(&appender);
            let thread = std::thread::Builder::new().spawn(write).unwrap();
            while Arc::strong_count(&appender) <= references {
                std::thread::yield_now();
            }
            thread
        };
        let pauses = start(Box::new(move || {
            api::deactivate(session).unwrap();
            api::activate(session).unwrap();
            api::advance_phase(session).unwrap();
        }));
        fork();
        let other = options("other", Format::Run);
        let starts = start(Box::new(move || {
            api::start(&other).unwrap();
        }));
        fork();
        let checkpoints = start(Box::new(api::write_checkpoints));
        fork();
        let ends = start(Box::new(move || drop(api::finalize(ended, None).unwrap())));
        fork();
        // This thread waits for the thread that ends a session.
        let discards = std::thread::Builder::new().spawn(move || api::discard(discarded).unwrap());
        api::activate(checkpointed).unwrap();
        fork();
        drop(hanging_disk);
        for thread in [pauses, starts, checkpoints, ends, discards.unwrap()] {
            thread.join().unwrap();
        }
        for name in ["chrome.chrome_trace", "ended.chrome_trace"] {
            let trace = std::fs::read_to_string(folder.path().join(name)).unwrap();
            assert!(trace.contains("on a thread that ends"), "{name}: {trace}");
        }
        let paths = api::finalize(session, None).unwrap();
        let spools = paths[0].join("spool").read_dir().unwrap();
        assert_eq!(spools.count(), 6);
    }
}
