//! The sessions of the process: their options, their current state, and their data that has left
//! the threads.

use crate::clock::ClockReading;
use crate::device;
use crate::error::Error;
use crate::merged::{MergedTree, SessionView};
use crate::output::{Format, Outputs, Playback};
use crate::phase::ClosedPhase;
use crate::trace::{self, SpoolSnapshot};
use marey_model::context::ContextSource;
use marey_model::rank;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// The number of a session. Each process counts from 0.
pub type SessionId = u32;

/// The options of a session.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent options, off by default")]
pub struct SessionOptions {
    /// Path of the profile without its extension. Empty or `-`: standard output.
    pub name: String,
    /// The source of paths.
    pub context: ContextSource,
    /// Format of the checkpoints, and of the final files unless `finalize` names another. A session
    /// whose format is [`Format::ChromeTrace`] or [`Format::Run`] traces in addition to the tree.
    pub format: Format,
    /// Write each phase to a file of its own as soon as it is closed.
    pub flush_phases: bool,
    /// Write no file if nothing was recorded.
    pub quiet_if_empty: bool,
    /// Record only what is addressed to this session: see [`crate::Detached::in_session`].
    pub is_addressed_only: bool,
    /// Keep only the last records of a trace, up to the limits `ring.*` of the settings. Needs
    /// [`Format::Run`], and phases that are not flushed.
    pub is_ring: bool,
}

impl SessionOptions {
    /// Returns the default options with a name.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            context: ContextSource::Shadow,
            format: Format::default(),
            flush_phases: false,
            quiet_if_empty: false,
            is_addressed_only: false,
            is_ring: false,
        }
    }
}

/// A session that is alive.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) options: SessionOptions,
    /// Path without extension, see [`base_path`]. In a forked child it ends with the pid.
    pub(crate) base: String,
    /// The session's bit in the masks and its column in every thread.
    pub(crate) slot: u32,
    /// The open phase. All earlier phases are closed.
    pub(crate) phase: u32,
    /// Closed phases that were not cleared.
    pub(crate) closed_phases: BTreeMap<u32, ClosedPhase>,
    /// The data of ended threads in the open phase.
    pub(crate) ended_threads: MergedTree,
    pub(crate) start: ClockReading,
    pub(crate) outputs: Arc<Mutex<Outputs>>,
    /// The reader of the spool for Chrome traces, at the position reached so far.
    pub(crate) playback: Option<Playback>,
    /// The spool of a trace session, once it has ended.
    pub(crate) spool: Option<SpoolSnapshot>,
    /// Whether a phase with data was written and dropped.
    pub(crate) has_written_phase: bool,
}

impl Session {
    pub(crate) fn view(&self) -> SessionView {
        SessionView { slot: self.slot, context: self.options.context }
    }

    /// Whether the session traces.
    pub(crate) fn is_trace(&self) -> bool {
        self.options.format.needs_trace()
    }

    /// Fails if the session lacks the data that a format needs.
    pub(crate) fn check_format(&self, format: Format) -> Result<(), Error> {
        if format.needs_trace() && !self.is_trace() {
            return Err(Error::FormatNeedsTrace(format));
        }
        if format == Format::ChromeTrace && self.options.is_ring {
            return Err(Error::RingFormat);
        }
        if format == Format::Run && self.is_for_stdout() {
            return Err(Error::RunToStdout);
        }
        Ok(())
    }

    /// Whether the session recorded nothing and is to write no file in that case.
    pub(crate) fn is_quiet(&self) -> bool {
        self.options.quiet_if_empty
            && !(self.is_trace() && trace::has_samples())
            && !self.has_written_phase
            && self.closed_phases.values().all(|phase| phase.tree.get().is_empty())
    }

    /// Marks a closed phase as written. A session that writes each phase once drops its data.
    pub(crate) fn mark_phase_written(&mut self, phase: u32) {
        if self.options.flush_phases {
            let closed = self.closed_phases.remove(&phase);
            self.has_written_phase |= closed.is_some_and(|closed| !closed.tree.get().is_empty());
            device::drop_phase(self.slot, phase);
        } else if let Some(closed) = self.closed_phases.get_mut(&phase) {
            closed.is_written = true;
        }
    }

    /// Whether the profile is written to standard output.
    pub(crate) fn is_for_stdout(&self) -> bool {
        is_stdout_name(&self.base)
    }

    /// Returns the path of a phase's file, without extension. As in Proton, files are numbered once
    /// there is more than one phase.
    pub(crate) fn phase_base(&self, phase: u32) -> String {
        if self.phase == 0 || self.is_for_stdout() {
            return self.base.clone();
        }
        format!("{}.part_{phase}", self.base)
    }
}

/// Whether a session's name means standard output.
pub(crate) fn is_stdout_name(name: &str) -> bool {
    matches!(name, "" | "-")
}

/// Returns the path without extension for a session's name: with the rank, and absolute, since the
/// program may change its working directory before the file is written.
pub(crate) fn base_path(name: &str, rank: Option<u32>) -> String {
    if is_stdout_name(name) {
        return name.to_owned();
    }
    let path = rank::with_rank(name, rank);
    let absolute = std::path::absolute(&path).ok().map(with_canonical_folder);
    // If the working directory was removed, or the path is not UTF-8, the path stays as it is.
    absolute.and_then(|path| path.into_os_string().into_string().ok()).unwrap_or(path)
}

/// Returns the path with its folder canonicalized, if the folder exists: two spellings name one
/// file.
fn with_canonical_folder(path: PathBuf) -> PathBuf {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(file)) => folder.join(file),
        _ => path,
    }
}
