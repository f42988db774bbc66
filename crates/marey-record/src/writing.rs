//! Writes the files of the sessions, at checkpoints, at the end of a phase and at the end of a
//! session.
//!
//! The data of a file is gathered while the sessions are locked ([`WriteJob`]). It is written
//! without the lock, after the spool that a Chrome trace is made from, so that a slow disk blocks
//! no other thread.

use crate::device;
use crate::error::Error;
use crate::lock::lock;
use crate::merged::MergedTree;
use crate::metadata;
use crate::output::{Contents, Format, Outputs, Playback, TraceRange, TreeDocument};
use crate::phase::ClosedPhase;
use crate::session::Session;
use crate::trace::{self, SpoolSnapshot};
use marey_model::profile::Meta;
use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};

/// The files that this process has written and may overwrite.
static WRITTEN: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);

/// Phases of a session to be written, with all data for their files.
#[derive(Debug)]
pub(crate) struct WriteJob {
    slot: u32,
    format: Format,
    meta: Meta,
    outputs: Arc<Mutex<Outputs>>,
    spool: Option<SpoolSnapshot>,
    /// The reader of the spool for Chrome traces, at the position reached so far.
    pub(crate) playback: Option<Playback>,
    phases: Vec<PhaseFile>,
    /// The range of the spool that contains the records of the open phase, in bytes.
    open_range: Range<u64>,
    /// Whether the session has ended: no other thread writes its files any more.
    is_last: bool,
}

/// A phase to be written.
#[derive(Debug)]
struct PhaseFile {
    number: u32,
    /// Path without extension.
    base: String,
    tree: Arc<MergedTree>,
    /// The range of the spool that contains the phase's records, in bytes.
    spool_range: Range<u64>,
    /// Whether the phase goes on: then the session's playback must not advance over it.
    is_open: bool,
}

/// The result of a [`WriteJob`].
#[derive(Debug)]
pub(crate) struct WriteOutcome {
    /// The closed phases that were written.
    pub(crate) phases: Vec<u32>,
    /// The paths of the files, without standard output.
    pub(crate) paths: Vec<PathBuf>,
    /// The first error. The other phases were written nevertheless.
    pub(crate) result: Result<(), Error>,
}

impl WriteJob {
    /// Creates a job for the unwritten closed phases of a session that writes each phase once.
    pub(crate) fn for_closed_phases(session: &mut Session) -> Result<Self, Error> {
        let mut job = Self::for_live_session(session)?;
        for (&number, phase) in session.closed_phases.iter().filter(|(_, phase)| !phase.is_written)
        {
            let mut tree = Arc::clone(phase.tree.get());
            device::add_final_to_tree(session.slot, number, &mut tree);
            job.add_phase(session, number, tree, phase.spool_range.clone());
        }
        job.playback = session.playback.take();
        Ok(job)
    }

    /// Creates a job for the current state of a session: the unwritten closed phases, and the tree
    /// of the open one.
    pub(crate) fn for_checkpoint(
        session: &mut Session,
        open: Arc<MergedTree>,
    ) -> Result<Self, Error> {
        let mut job = Self::for_live_session(session)?;
        // A session that writes each phase once writes it when the devices have finished.
        let is_due = |phase: &ClosedPhase| !phase.is_written && !session.options.flush_phases;
        for (&number, phase) in session.closed_phases.iter().filter(|(_, phase)| is_due(phase)) {
            let mut tree = Arc::clone(phase.tree.get());
            device::add_to_tree(session.slot, number, &mut tree);
            job.add_phase(session, number, tree, phase.spool_range.clone());
        }
        if !(session.options.quiet_if_empty && open.is_empty()) {
            job.add_phase(session, session.phase, open, job.open_range.clone());
            job.phases.iter_mut().rev().take(1).for_each(|phase| phase.is_open = true);
        }
        job.playback = session.playback.take();
        Ok(job)
    }

    /// Creates a job for the closed phases of a session that has ended, which no other thread uses.
    pub(crate) fn for_ended_session(session: &mut Session, format: Format) -> Self {
        let mut job = Self::new(session, format, session.spool.clone(), true);
        job.playback = session.playback.take();
        for (&number, phase) in &session.closed_phases {
            let is_quiet = session.options.quiet_if_empty && phase.tree.get().is_empty();
            if !is_quiet {
                job.add_phase(
                    session,
                    number,
                    Arc::clone(phase.tree.get()),
                    phase.spool_range.clone(),
                );
            }
        }
        job
    }

    fn for_live_session(session: &Session) -> Result<Self, Error> {
        let spool = if session.is_trace() { trace::snapshot(session)? } else { None };
        let (spool, open_start) = spool.unzip();
        let mut job = Self::new(session, session.options.format, spool, false);
        job.open_range = open_start.unwrap_or(0)..u64::MAX;
        Ok(job)
    }

    fn new(session: &Session, format: Format, spool: Option<SpoolSnapshot>, is_last: bool) -> Self {
        Self {
            slot: session.slot,
            format,
            meta: metadata::for_session(session, is_last),
            outputs: Arc::clone(&session.outputs),
            spool,
            playback: None,
            phases: Vec::new(),
            open_range: 0..u64::MAX,
            is_last,
        }
    }

    fn add_phase(
        &mut self,
        session: &Session,
        number: u32,
        tree: Arc<MergedTree>,
        spool_range: Range<u64>,
    ) {
        let base = session.phase_base(number);
        self.phases.push(PhaseFile { number, base, tree, spool_range, is_open: false });
    }

    /// Writes the files. An error does not prevent the other files from being written.
    pub(crate) fn write(&mut self) -> WriteOutcome {
        if self.is_last {
            lock(&self.outputs).is_closed = true;
        } else if let Some(spool) = &mut self.spool {
            spool.write();
        }
        let mut written = WriteOutcome { phases: Vec::new(), paths: Vec::new(), result: Ok(()) };
        for phase in std::mem::take(&mut self.phases) {
            match self.write_phase(&phase) {
                Ok(path) => {
                    written.paths.extend(path);
                    if !phase.is_open {
                        written.phases.push(phase.number);
                    }
                }
                Err(error) => {
                    // The playback is at an unknown position.
                    self.playback = None;
                    written.result = written.result.and(Err(error));
                }
            }
        }
        written
    }

    fn write_phase(&mut self, phase: &PhaseFile) -> Result<Option<PathBuf>, Error> {
        let mut outputs = lock(&self.outputs);
        if outputs.is_closed && !self.is_last {
            return Ok(None);
        }
        let document = TreeDocument { tree: &phase.tree, meta: &self.meta };
        let mut temporary_playback = None;
        let playback = if phase.is_open { &mut temporary_playback } else { &mut self.playback };
        let mut contents = match (self.format, &self.spool) {
            (Format::Hatchet, _) => Contents::Hatchet(document),
            (Format::HatchetMsgpack, _) => Contents::HatchetMsgpack(document),
            (Format::ChromeTrace, Some(spool)) => {
                let playback = match playback {
                    Some(playback) => playback,
                    None => playback.insert(open_playback(self.slot, spool)?),
                };
                let (bytes, extent) = (phase.spool_range.clone(), spool.extent);
                Contents::ChromeTrace(TraceRange { playback, bytes, extent })
            }
            (Format::ChromeTrace | Format::Run, _) => {
                return Err(Error::FormatNeedsTrace(self.format));
            }
        };
        let is_written_by_us = |path: &Path| lock(&WRITTEN).contains(path);
        let path = outputs.write(&phase.base, &mut contents, &is_written_by_us)?;
        lock(&WRITTEN).extend(path.clone());
        Ok(path)
    }
}

/// Opens the reader of the spool for a session's Chrome traces.
pub(crate) fn open_playback(slot: u32, spool: &SpoolSnapshot) -> Result<Playback, Error> {
    let path = spool.file.path();
    Playback::new(path, slot, spool.extent).map_err(|source| Error::write("read", path, source))
}

/// Takes the lock for the duration of a fork.
pub(crate) fn lock_for_fork() -> impl Sized + use<> {
    lock(&WRITTEN)
}

/// Clears the list in the child of a fork: all files are the parent's.
pub(crate) fn begin_child() {
    lock(&WRITTEN).clear();
}
