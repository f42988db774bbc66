//! Trace sessions: every scope and value, from the threads' logs to a file that outlives the process.
//!
//! While a trace session is alive a thread appends each scope that it leaves to its log
//! ([`log`]), and the background thread takes the logs over into the spool, the process's one
//! append-only file. What has reached the file survives a SIGKILL.
//!
//! Lock order: the sessions' lock, then this one's, then the registry's.

mod clock;
mod file;
mod log;
mod nodes;
mod out;
mod spool;
mod texts;
mod thread;

pub(crate) use self::file::SpoolFile;
pub(crate) use self::log::Log;

use self::spool::Spool;
use crate::checkpoint;
use crate::control::CONTROL;
use crate::error::Error;
use crate::losses;
use crate::registry::{self, lock};
use crate::session::Session;
use crate::thread::ThreadTree;
use marey_model::loss::LossCause;
use marey_model::spool::SessionEvent;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Logs are taken over at least this often.
pub(crate) const PERIOD: Duration = Duration::from_millis(200);

static TRACER: Mutex<Tracer> = Mutex::new(Tracer { sessions: Vec::new(), spool: None });

/// The trace sessions of the process, and their spool.
struct Tracer {
    /// In the order in which they started.
    sessions: Vec<Traced>,
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
    /// Whether it recorded when it started; after a fork it may not have.
    started_active: bool,
}

impl Traced {
    fn of(session: &Session, started_active: bool) -> Self {
        Self {
            slot: session.slot,
            base: session.base.clone(),
            started_ticks: session.started.ticks,
            started_active,
        }
    }
}

impl Tracer {
    /// The spool, made if there is none yet; `None` if there is no session either.
    fn spool(&mut self) -> Result<Option<&mut Spool>, Error> {
        let Some(first) = self.sessions.first() else { return Ok(None) };
        if self.spool.is_none() {
            let mut spool = Spool::create(&first.base)?;
            self.sessions.iter().for_each(|session| spool.start(session));
            self.spool = Some(spool);
        }
        Ok(self.spool.as_mut())
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
}

/// Whether a trace session is alive.
pub(crate) fn is_on() -> bool {
    CONTROL.trace.load(Ordering::Relaxed) != 0
}

/// A log is half full. Called in the middle of events.
#[cold]
pub(crate) fn ask_for_drain() {
    checkpoint::call(checkpoint::DRAIN);
}

/// Takes over what the threads have logged.
pub(crate) fn drain() {
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
    let is_there = tracer.spool.is_some();
    tracer.sessions.push(Traced::of(session, true));
    match tracer.spool() {
        Ok(Some(spool)) if is_there => spool.start(&Traced::of(session, true)),
        Ok(_) => {}
        Err(error) => {
            tracer.sessions.pop();
            return Err(error);
        }
    }
    Ok(())
}

/// Something happens to a session. What threads recorded before has reached their logs.
pub(crate) fn note(session: &Session, event: SessionEvent, ticks: u64) {
    let mut tracer = lock(&TRACER);
    let threads = registry::running();
    // Without a file there is nothing to say: a drain counts what is lost by that.
    if let Ok(Some(spool)) = tracer.spool() {
        spool.drain(&threads);
        spool.note(session.slot, event, &session.base, ticks);
    }
}

/// A session ends, which records no more. Returns the file with its records: `None` if there are none,
/// unless `must_exist`.
pub(crate) fn end(
    session: &Session,
    ticks: u64,
    must_exist: bool,
) -> Result<Option<Arc<SpoolFile>>, Error> {
    let mut tracer = lock(&TRACER);
    let threads = registry::running();
    let made = if must_exist { tracer.spool().map(drop) } else { Ok(()) };
    let file = tracer.wanted_spool(&threads).map(|spool| {
        spool.drain(&threads);
        spool.write_open(&threads, Some(session.slot));
        spool.note(session.slot, SessionEvent::Finalized, &session.base, ticks);
        spool.file()
    });
    tracer.sessions.retain(|traced| traced.slot != session.slot);
    if tracer.sessions.is_empty()
        && let Some(spool) = tracer.spool.take()
    {
        spool.end();
    }
    made.map(|()| file)
}

/// The file with all that was recorded so far.
pub(crate) fn file() -> Result<Option<Arc<SpoolFile>>, Error> {
    let mut tracer = lock(&TRACER);
    let threads = registry::running();
    Ok(tracer.spool()?.map(|spool| {
        spool.drain(&threads);
        spool.file()
    }))
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

/// Holds the lock over a fork.
pub(crate) fn hold() -> impl Sized + use<> {
    lock(&TRACER)
}

/// In the child of a fork: the sessions go on in a spool of their own.
pub(crate) fn begin_child<'a>(sessions: impl Iterator<Item = &'a Session>) {
    let mut tracer = lock(&TRACER);
    if let Some(spool) = tracer.spool.take() {
        // It is the parent's.
        spool.file().keep();
    }
    let active = CONTROL.active.load(Ordering::Relaxed);
    tracer.sessions = sessions
        .filter(|session| session.is_trace())
        .map(|session| Traced::of(session, active & crate::control::bit(session.slot) != 0))
        .collect();
}
