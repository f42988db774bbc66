//! The files of the sessions, and which of them are this process's to write again.
//!
//! What a file takes is gathered while the sessions are locked ([`Work`]), and written when they are not:
//! a slow disk keeps nobody else waiting.

use crate::account;
use crate::device;
use crate::error::Error;
use crate::lock::lock;
use crate::merged::MergedTree;
use crate::output::{Contents, Document, Format, Meta, Outputs, Playback, TracePart};
use crate::session::{ClosedPhase, Session};
use crate::trace::{self, Recorded};
use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};

/// Files that this process wrote and may write again.
static WRITTEN: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);

/// Phases of a session that are to be written, with everything that their files take.
#[derive(Debug)]
pub(crate) struct Work {
    slot: u32,
    format: Format,
    meta: Meta,
    outputs: Arc<Mutex<Outputs>>,
    recorded: Option<Recorded>,
    /// Where the session's Chrome traces have been read up to.
    pub(crate) playback: Option<Playback>,
    phases: Vec<PhaseFile>,
    /// The bytes of the spool that hold the records of the open phase.
    open_part: Range<u64>,
    /// The session is over: nobody else writes its files any more.
    is_last: bool,
}

/// A phase that is to be written.
#[derive(Debug)]
struct PhaseFile {
    number: u32,
    /// Path without extension.
    base: String,
    tree: Arc<MergedTree>,
    /// The bytes of the spool that hold its records.
    part: Range<u64>,
    /// The phase goes on: the session's playback must not pass it by.
    is_open: bool,
}

/// What came of a [`Work`].
#[derive(Debug)]
pub(crate) struct Written {
    /// The closed phases that are in files now.
    pub(crate) phases: Vec<u32>,
    /// All files, but for standard output.
    pub(crate) paths: Vec<PathBuf>,
    /// The first error; other phases were written all the same.
    pub(crate) result: Result<(), Error>,
}

impl Work {
    /// The closed phases of a session that writes each once, and that are in no file yet.
    pub(crate) fn of_closed_phases(session: &mut Session) -> Result<Self, Error> {
        let mut work = Self::of_living(session)?;
        for (&number, phase) in session.closed.iter().filter(|(_, phase)| !phase.is_written) {
            let mut tree = Arc::clone(&phase.tree);
            device::fold_for_good(session.slot, number, &mut tree);
            work.add(session, number, tree, phase.part.clone());
        }
        work.playback = session.playback.take();
        Ok(work)
    }

    /// A session as it stands: the closed phases that are in no file yet, and the tree of the open one.
    pub(crate) fn of_checkpoint(
        session: &mut Session,
        open: Arc<MergedTree>,
    ) -> Result<Self, Error> {
        let mut work = Self::of_living(session)?;
        // Those of a session that writes each once wait for the devices.
        let is_due = |phase: &ClosedPhase| !phase.is_written && !session.options.flush_phases;
        for (&number, phase) in session.closed.iter().filter(|(_, phase)| is_due(phase)) {
            let mut tree = Arc::clone(&phase.tree);
            device::fold_into(session.slot, number, &mut tree);
            work.add(session, number, tree, phase.part.clone());
        }
        if !(session.options.quiet_if_empty && open.is_empty()) {
            work.add(session, session.phase, open, work.open_part.clone());
            work.phases.iter_mut().rev().take(1).for_each(|phase| phase.is_open = true);
        }
        work.playback = session.playback.take();
        Ok(work)
    }

    /// The closed phases of a session that is over, and that nobody else has.
    pub(crate) fn of_ended(session: &mut Session, format: Format) -> Self {
        let mut work = Self::of(session, format, session.recorded.clone(), true);
        work.playback = session.playback.take();
        let flushes = session.options.flush_phases;
        for (&number, phase) in &session.closed {
            let is_quiet = session.options.quiet_if_empty && phase.tree.is_empty();
            if !(is_quiet || flushes && phase.is_written) {
                work.add(session, number, Arc::clone(&phase.tree), phase.part.clone());
            }
        }
        work
    }

    fn of_living(session: &Session) -> Result<Self, Error> {
        let recorded = if session.is_trace() { trace::recorded(session)? } else { None };
        let (recorded, open_start) = recorded.unzip();
        let mut work = Self::of(session, session.options.format, recorded, false);
        work.open_part = open_start.unwrap_or(0)..u64::MAX;
        Ok(work)
    }

    fn of(session: &Session, format: Format, recorded: Option<Recorded>, is_last: bool) -> Self {
        Self {
            slot: session.slot,
            format,
            meta: account::meta(session, is_last),
            outputs: Arc::clone(&session.outputs),
            recorded,
            playback: None,
            phases: Vec::new(),
            open_part: 0..u64::MAX,
            is_last,
        }
    }

    fn add(&mut self, session: &Session, number: u32, tree: Arc<MergedTree>, part: Range<u64>) {
        let base = session.base_of(number);
        self.phases.push(PhaseFile { number, base, tree, part, is_open: false });
    }

    /// Writes the files. One that fails does not keep the others from being written.
    pub(crate) fn write(&mut self) -> Written {
        if self.is_last {
            lock(&self.outputs).closed = true;
        }
        let mut written = Written { phases: Vec::new(), paths: Vec::new(), result: Ok(()) };
        for phase in std::mem::take(&mut self.phases) {
            match self.write_phase(&phase) {
                Ok(path) => {
                    written.paths.extend(path);
                    if !phase.is_open {
                        written.phases.push(phase.number);
                    }
                }
                Err(error) => {
                    // It is not where it should be.
                    self.playback = None;
                    written.result = written.result.and(Err(error));
                }
            }
        }
        written
    }

    fn write_phase(&mut self, phase: &PhaseFile) -> Result<Option<PathBuf>, Error> {
        let mut outputs = lock(&self.outputs);
        if outputs.closed && !self.is_last {
            return Ok(None);
        }
        let document = Document { tree: &phase.tree, meta: &self.meta };
        let mut of_open_phase = None;
        let playback = if phase.is_open { &mut of_open_phase } else { &mut self.playback };
        let mut contents = match (self.format, &self.recorded) {
            (Format::Hatchet, _) => Contents::Hatchet(document),
            (Format::HatchetMsgpack, _) => Contents::HatchetMsgpack(document),
            (Format::ChromeTrace, Some(recorded)) => {
                let playback = match playback {
                    Some(playback) => playback,
                    None => playback.insert(self::playback(self.slot, recorded)?),
                };
                let (bytes, extent) = (phase.part.clone(), recorded.extent);
                Contents::ChromeTrace(TracePart { playback, bytes, extent })
            }
            (Format::ChromeTrace | Format::Run, _) => {
                return Err(Error::FormatNeedsTrace(self.format));
            }
        };
        let is_ours = |path: &Path| lock(&WRITTEN).contains(path);
        let path = outputs.write(&phase.base, &mut contents, &is_ours)?;
        lock(&WRITTEN).extend(path.clone());
        Ok(path)
    }
}

/// What a session's Chrome traces are read with.
pub(crate) fn playback(slot: u32, recorded: &Recorded) -> Result<Playback, Error> {
    let path = recorded.file.path();
    let failed = |source| Error::Write { action: "read", path: path.to_owned(), source };
    Playback::new(path, slot, recorded.extent).map_err(failed)
}

/// Holds the lock over a fork.
pub(crate) fn hold() -> impl Sized + use<> {
    lock(&WRITTEN)
}

/// In the child of a fork, where all files are the parent's.
pub(crate) fn begin_child() {
    lock(&WRITTEN).clear();
}
