//! Trace sessions: every scope and value, from the threads' logs to a file that outlives the process.
//!
//! While a trace session is alive a thread appends each scope that it leaves to its log
//! ([`log`]), and a background thread takes the logs over into the spool, the process's one
//! append-only file. What has reached the file survives a SIGKILL.
//!
//! Lock order: the sessions' lock, then this one's, then the registry's.

mod activities;
mod clock;
mod file;
mod log;
mod nodes;
mod out;
mod run;
mod spool;
mod texts;
mod thread;

pub(crate) use self::file::SpoolFile;
pub(crate) use self::log::Log;

use self::run::RunDirectory;
use self::spool::Spool;
use crate::api::Counter;
use crate::control::CONTROL;
use crate::device::{Joined, Threads};
use crate::error::Error;
use crate::lock::lock;
use crate::losses;
use crate::output::Extent;
use crate::registry;
use crate::session::Session;
use crate::thread::ThreadTree;
use crate::worker::{STOP, Worker};
use marey_model::loss::LossCause;
use marey_model::spool::{Detail, SessionEvent};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The thread that takes the logs over. Nothing else keeps it from that.
pub(crate) static WORKER: Worker = Worker::new("marey-spool", run);

/// The call to take over the logs, and to look again when that is due next.
const DRAIN: u32 = 2;

/// Logs are taken over at least this often.
const PERIOD: Duration = Duration::from_millis(200);

static TRACER: Mutex<Tracer> = Mutex::new(Tracer { sessions: Vec::new(), run: None, spool: None });

/// The trace sessions of the process, and their spool.
struct Tracer {
    /// In the order in which they started.
    sessions: Vec<Traced>,
    /// The directory of the first one; there as long as sessions are.
    run: Option<Arc<RunDirectory>>,
    /// Made when the first session starts; after a fork, when there is something to write.
    spool: Option<Spool>,
}

/// A trace session that is alive.
#[derive(Clone, Debug)]
struct Traced {
    slot: u32,
    /// Path of the profile, without its extension.
    base: String,
    started_ticks: u64,
    /// What happened before there was a spool to write it to; nothing was recorded meanwhile.
    phase: u32,
    is_active: bool,
    changed_ticks: u64,
    /// Where the records of its phase start in the spool; `None` while that does not know the session.
    part_start: Option<u64>,
}

/// What is in the spool so far.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) file: Arc<SpoolFile>,
    pub(crate) extent: Extent,
}

impl Traced {
    fn of(session: &Session, is_active: bool) -> Self {
        Self {
            slot: session.slot,
            base: session.base.clone(),
            started_ticks: session.started.ticks,
            phase: session.phase,
            is_active,
            changed_ticks: session.started.ticks,
            part_start: None,
        }
    }

    fn change(&mut self, event: SessionEvent, ticks: u64) {
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
    /// The spool, which knows all of the sessions, made if there is none yet; `None` if there is no session
    /// either.
    fn spool(&mut self) -> Result<Option<&mut Spool>, Error> {
        let Self { sessions, run, spool } = self;
        let Some(run) = run else { return Ok(None) };
        let spool = match spool {
            Some(spool) => spool,
            None => spool.insert(Spool::create(run)?),
        };
        sessions
            .iter_mut()
            .filter(|session| session.part_start.is_none())
            .for_each(|session| spool.start(session));
        Ok(Some(spool))
    }

    /// The spool, if it is there or there is something to write.
    fn wanted_spool(&mut self, threads: &[Arc<ThreadTree>]) -> Option<&mut Spool> {
        let has_entries = |tree: &Arc<ThreadTree>| tree.log().is_some_and(|log| !log.is_empty());
        if self.spool.is_none() && !threads.iter().any(has_entries) {
            return None;
        }
        match self.spool() {
            Ok(spool) => spool,
            Err(_cannot_be_made) => {
                let lost = threads.iter().filter_map(|tree| tree.log()).map(Log::discard).sum();
                losses::add(LossCause::Spool, lost);
                None
            }
        }
    }

    fn session(&mut self, slot: u32) -> Option<&mut Traced> {
        self.sessions.iter_mut().find(|session| session.slot == slot)
    }

    /// Lets a session go, and with the last one the spool.
    fn remove(&mut self, slot: u32) {
        self.sessions.retain(|session| session.slot != slot);
        if self.sessions.is_empty() {
            if let Some(spool) = self.spool.take() {
                spool.end();
            }
            self.run = None;
        }
    }
}

/// Whether a trace session is alive.
pub(crate) fn is_on() -> bool {
    CONTROL.trace.load(Ordering::Relaxed) != 0
}

/// Whether a trace session records now.
pub(crate) fn is_recording() -> bool {
    CONTROL.active.load(Ordering::Relaxed) & CONTROL.trace.load(Ordering::Relaxed) != 0
}

/// A log is half full. Called in the middle of events.
#[cold]
pub(crate) fn ask_for_drain() {
    WORKER.call(DRAIN);
}

fn run() {
    while WORKER.wait(is_on().then_some(PERIOD)) & STOP == 0 {
        drain();
    }
}

/// Takes over what the threads have logged.
fn drain() {
    if !is_on() {
        return;
    }
    let mut tracer = lock(&TRACER);
    let threads = registry::running();
    if let Some(spool) = tracer.wanted_spool(&threads) {
        spool.drain(&threads);
    }
}

/// A session begins, which does not record yet. Fails if there can be no spool.
pub(crate) fn begin(session: &Session) -> Result<(), Error> {
    let mut tracer = lock(&TRACER);
    if tracer.run.is_none() {
        tracer.run = Some(Arc::new(RunDirectory::open(&session.options.name)?));
    }
    tracer.sessions.push(Traced::of(session, true));
    let made = tracer.spool().map(drop);
    if made.is_err() {
        tracer.remove(session.slot);
    }
    made
}

/// Something happens to a session. What threads recorded before has reached their logs. Returns the
/// bytes of the spool that hold the phase up to here.
pub(crate) fn note(session: &Session, event: SessionEvent, ticks: u64) -> Range<u64> {
    let mut tracer = lock(&TRACER);
    let threads = registry::running();
    // Without a spool there is nothing yet that this could be told of.
    let told = tracer.wanted_spool(&threads).map(|spool| {
        spool.drain(&threads);
        spool.note(session.slot, event, &session.base, ticks)
    });
    let Some(own) = tracer.session(session.slot) else { return 0..0 };
    own.change(event, ticks);
    let (Some(start), Some(told)) = (own.part_start, told) else { return 0..0 };
    if let SessionEvent::Phase(_) = event {
        own.part_start = Some(told.end);
    }
    start..told.start
}

/// A session ends, which records no more; [`forget`] follows. Returns the file with its records, if
/// there are any, and where those of the last phase start there; fails if there can be none.
pub(crate) fn end(session: &Session, ticks: u64) -> Result<Option<(Recorded, u64)>, Error> {
    let mut tracer = lock(&TRACER);
    let threads = registry::running();
    let made = if session.is_quiet() { Ok(()) } else { tracer.spool().map(drop) };
    let recorded = tracer.wanted_spool(&threads).map(|spool| {
        spool.drain(&threads);
        spool.write_open(&threads, Some(session.slot));
        spool.note(session.slot, SessionEvent::Finalized, &session.base, ticks);
        spool.recorded()
    });
    let part_start = tracer.session(session.slot).and_then(|own| own.part_start);
    made.map(|()| recorded.zip(part_start))
}

/// Lets a session go that has ended; with the last one the spool is complete.
pub(crate) fn forget(session: &Session) {
    lock(&TRACER).remove(session.slot);
}

/// Frees the logs of these threads, which no session wants them to write to: events that saw one are over,
/// but for those of threads that are stuck in theirs.
pub(crate) fn free_logs(threads: &[Arc<ThreadTree>]) {
    let _tracer = lock(&TRACER);
    for tree in threads.iter().filter(|tree| !tree.is_stuck()) {
        drop(tree.take_log());
    }
}

/// The run directory of the trace sessions, if there are any.
pub(crate) fn run_dir() -> Option<PathBuf> {
    lock(&TRACER).run.as_ref().map(|run| run.path().to_owned())
}

/// The file with all that was recorded so far, and where a session's open phase starts there.
pub(crate) fn recorded(session: &Session) -> Result<Option<(Recorded, u64)>, Error> {
    let mut tracer = lock(&TRACER);
    let threads = registry::running();
    let recorded = tracer.spool()?.map(|spool| {
        spool.drain(&threads);
        spool.recorded()
    });
    let part_start = tracer.session(session.slot).and_then(|own| own.part_start);
    Ok(recorded.zip(part_start))
}

/// Takes over what devices did, and the details of all that.
pub(crate) fn add_activities(threads: &Threads, joined: &[Joined], details: &[(Detail, u64)]) {
    let mut tracer = lock(&TRACER);
    match tracer.spool() {
        Ok(Some(spool)) => spool.add_activities(threads, joined, details),
        Ok(None) => {}
        Err(_cannot_be_made) => losses::add(LossCause::Spool, joined.len() as u64),
    }
}

/// Counters of the machine have been read. They reach the file with the next logs.
pub(crate) fn counters(counters: &[Counter]) {
    if counters.is_empty() || !is_recording() {
        return;
    }
    match lock(&TRACER).spool() {
        Ok(Some(spool)) => spool.write_counters(counters),
        Ok(None) => {}
        Err(_cannot_be_made) => losses::add(LossCause::Spool, counters.len() as u64),
    }
}

/// The calling thread is over: its log is taken over and freed.
pub(crate) fn thread_ended(tree: &Arc<ThreadTree>) {
    if tree.log().is_none() {
        return;
    }
    let mut tracer = lock(&TRACER);
    if is_on()
        && let Some(spool) = tracer.wanted_spool(std::slice::from_ref(tree))
    {
        spool.end_thread(tree);
    }
    // Others look at logs under the lock only.
    drop(tree.take_log());
}

/// Nothing will be told any more of the threads with these trees.
pub(crate) fn forget_threads(generations: impl Iterator<Item = u64>) {
    let mut tracer = lock(&TRACER);
    if let Some(spool) = &mut tracer.spool {
        generations.for_each(|generation| spool.forget_thread(generation));
    }
}

/// Holds the lock over a fork.
pub(crate) fn hold() -> impl Sized + use<> {
    lock(&TRACER)
}

/// In the child of a fork: the sessions go on in a spool of their own.
pub(crate) fn begin_child<'a>(sessions: impl Iterator<Item = &'a Session>) {
    let mut tracer = lock(&TRACER);
    if let Some(spool) = tracer.spool.take() {
        // It is the parent's.
        spool.leave();
    }
    let active = CONTROL.active.load(Ordering::Relaxed);
    tracer.sessions = sessions
        .filter(|session| session.is_trace())
        .map(|session| Traced::of(session, active & crate::control::bit(session.slot) != 0))
        .collect();
}
