//! Trace sessions: every scope and value, from the threads' logs to a file that outlives the process.
//!
//! While a trace session is alive a thread appends each scope that it leaves to its log
//! ([`log`]), and a background thread takes the logs over into the spool, the process's one
//! append-only file. What has reached the file survives a SIGKILL.
//!
//! Lock order: the sessions' lock, then that of the spool's end, then this one's, then the registry's.

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
use crate::account;
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

    /// Lets a session go, and with the last one the spool, which the caller ends without the lock.
    fn remove(&mut self, slot: u32) -> Option<Spool> {
        self.sessions.retain(|session| session.slot != slot);
        if !self.sessions.is_empty() {
            return None;
        }
        self.run = None;
        self.spool.take()
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

/// Takes over what the threads have logged, and writes it.
fn drain() {
    if !is_on() {
        return;
    }
    let threads = registry::running();
    for thread in &threads {
        let mut tracer = lock(&TRACER);
        let Some(spool) = tracer.wanted_spool(std::slice::from_ref(thread)) else { continue };
        spool.drain_thread(thread);
        let has_enough = spool.has_enough();
        drop(tracer);
        if has_enough {
            write_out();
        }
    }
    if let Some(spool) = lock(&TRACER).wanted_spool(&threads) {
        spool.write_state(&threads);
    }
    write_out();
}

/// Hands what the spool has collected to the system, without the tracer's lock: a slow disk keeps neither
/// threads that end nor forks waiting.
fn write_out() {
    let Some((file, appender)) = lock(&TRACER).spool.as_ref().map(Spool::file) else { return };
    let with_spool = |act: &mut dyn FnMut(&mut Spool)| {
        // Its last session may have ended meanwhile.
        if let Some(spool) = lock(&TRACER).spool.as_mut().filter(|spool| spool.is_in(&file)) {
            act(spool);
        }
    };
    let mut appender = lock(&appender);
    let began = crate::clock::ticks();
    file.run().hold();
    let has_space = appender.is_time_to_look().then(|| out::has_space(file.path()));
    let mut chunk = None;
    with_spool(&mut |spool| chunk = Some(spool.take_chunk()));
    let Some(chunk) = chunk else { return };
    let mut written = Some((chunk.append_to(&mut appender), chunk));
    let nanos = account::elapsed_nanos(began);
    with_spool(&mut |spool| {
        if let Some((written, chunk)) = written.take() {
            spool.chunk_was(written, chunk, &appender);
            spool.add_writing(nanos, has_space);
        }
    });
}

/// A session begins, which does not record yet. Fails if there can be no spool.
pub(crate) fn begin(session: &Session) -> Result<(), Error> {
    let mut tracer = lock(&TRACER);
    if tracer.run.is_none() {
        tracer.run = Some(Arc::new(RunDirectory::open(&session.options.name)?));
    }
    tracer.sessions.push(Traced::of(session, true));
    let made = tracer.spool().map(drop);
    let unwanted = if made.is_err() { tracer.remove(session.slot) } else { None };
    drop(tracer);
    unwanted.map_or_else(write_out, Spool::end);
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
    let part = changed(&mut tracer, session, event, ticks, told);
    drop(tracer);
    write_out();
    part
}

/// Takes note of an event that the spool was told of, if there is one, in these bytes. Returns those of the
/// phase up to here.
fn changed(
    tracer: &mut Tracer,
    session: &Session,
    event: SessionEvent,
    ticks: u64,
    told: Option<Range<u64>>,
) -> Range<u64> {
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
    if let Some(spool) = tracer.wanted_spool(&threads) {
        spool.drain(&threads);
        spool.write_open(&threads, Some(session.slot));
        spool.note(session.slot, SessionEvent::Finalized, &session.base, ticks);
        spool.write_overhead_and_clock();
    }
    drop(tracer);
    made.map(|()| written(session))
}

/// Writes what the spool has collected. Returns the file with it, if there is one, and where the session's open
/// phase starts there.
fn written(session: &Session) -> Option<(Recorded, u64)> {
    write_out();
    let mut tracer = lock(&TRACER);
    let recorded = tracer.spool.as_ref().map(Spool::recorded);
    let part_start = tracer.session(session.slot).and_then(|own| own.part_start);
    recorded.zip(part_start)
}

/// Lets a session go that has ended; with the last one the spool is complete.
pub(crate) fn forget(session: &Session) {
    let spool = lock(&TRACER).remove(session.slot);
    if let Some(spool) = spool {
        spool.end();
    }
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
    if let Some(spool) = tracer.spool()? {
        spool.drain(&threads);
        spool.write_overhead_and_clock();
    }
    drop(tracer);
    Ok(written(session))
}

/// Takes over what devices did, and the details of all that.
pub(crate) fn add_activities(threads: &Threads, joined: &[Joined], details: &[(Detail, u64)]) {
    let mut tracer = lock(&TRACER);
    match tracer.spool() {
        Ok(Some(spool)) => {
            spool.add_activities(threads, joined, details);
            if spool.has_enough() {
                WORKER.call(DRAIN);
            }
        }
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

    /// Ends the sessions and the process, in the child of a fork.
    #[expect(unsafe_code, reason = "a child of a fork ends so")]
    fn end_child() -> ! {
        enter_and_exit("in the child");
        let all: Result<Vec<_>, _> =
            api::alive().into_iter().map(|id| api::finalize(id, None)).collect();
        // SAFETY: a plain number.
        unsafe { libc::_exit(i32::from(all.is_err())) }
    }

    #[test]
    #[expect(unsafe_code, reason = "std has no fork")]
    fn a_spool_that_cannot_be_written_yet_keeps_no_thread_and_no_fork_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("trace").to_str().unwrap().to_owned();
        let options = SessionOptions { format: Format::Run, ..SessionOptions::named(name) };
        let session = api::start(&options).unwrap();
        let (_, appender) = lock(&TRACER).spool.as_ref().map(Spool::file).unwrap();
        let disk_hangs = lock(&appender);
        let record = || enter_and_exit("on a thread that ends");
        std::thread::Builder::new().spawn(record).unwrap().join().unwrap();
        ask_for_drain();
        // SAFETY: the child calls what a forked child may, and does not return.
        let child = unsafe { libc::fork() };
        if child == 0 {
            end_child();
        }
        let mut status = 0;
        // SAFETY: the status can be written.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        drop(disk_hangs);
        let paths = api::finalize(session, None).unwrap();
        let spools = paths[0].join("spool").read_dir().unwrap();
        assert_eq!(spools.count(), 2);
    }
}
