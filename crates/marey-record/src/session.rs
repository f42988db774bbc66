//! Sessions: what one recording wants, where it stands, and what it holds beside the threads.

use crate::clock::Pair;
use crate::device;
use crate::error::Error;
use crate::merged::{MergedTree, View};
use crate::output::{Format, Outputs, Playback};
use crate::trace::Recorded;
use marey_model::context::ContextSource;
use marey_model::rank;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Number of a session; counts up from 0 in each process.
pub type SessionId = u32;

/// What a session shall be.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Path of the profile without its extension. Empty or `-`: standard output.
    pub name: String,
    /// Where paths come from.
    pub context: ContextSource,
    /// Format of the checkpoints, and of the end where `finalize` names none. A session whose format is
    /// [`Format::ChromeTrace`] or [`Format::Run`] keeps every event, beside the tree.
    pub format: Format,
    /// Write each phase to a file of its own as soon as it is closed.
    pub flush_phases: bool,
    /// Write no file if nothing was recorded.
    pub quiet_if_empty: bool,
}

impl SessionOptions {
    /// A session with the usual settings.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            context: ContextSource::Shadow,
            format: Format::default(),
            flush_phases: false,
            quiet_if_empty: false,
        }
    }
}

/// A session that is alive.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) options: SessionOptions,
    /// Path without extension, see [`base_for`]; in a forked child with the pid.
    pub(crate) base: String,
    /// Its bit in the masks and its column in every thread.
    pub(crate) slot: u32,
    /// The open phase; all before it are closed.
    pub(crate) phase: u32,
    /// Closed phases that were not cleared.
    pub(crate) closed: BTreeMap<u32, ClosedPhase>,
    /// What threads that are gone recorded in the open phase.
    pub(crate) ended_threads: MergedTree,
    pub(crate) started: Pair,
    pub(crate) outputs: Arc<Mutex<Outputs>>,
    /// Where its Chrome traces have been read up to.
    pub(crate) playback: Option<Playback>,
    /// The events of a trace session, once it is over.
    pub(crate) recorded: Option<Recorded>,
    /// Whether a phase that held something was written and let go.
    pub(crate) has_flushed: bool,
}

/// A phase that will receive nothing more.
#[derive(Clone, Debug)]
pub(crate) struct ClosedPhase {
    pub(crate) tree: Arc<MergedTree>,
    /// The bytes of the spool that hold its records.
    pub(crate) part: Range<u64>,
    pub(crate) is_written: bool,
}

impl Session {
    pub(crate) fn view(&self) -> View {
        View { slot: self.slot, context: self.options.context }
    }

    /// Whether it keeps every event.
    pub(crate) fn is_trace(&self) -> bool {
        self.options.format.needs_trace()
    }

    /// Whether the session has what a format needs.
    pub(crate) fn check_format(&self, format: Format) -> Result<(), Error> {
        if format.needs_trace() && !self.is_trace() {
            return Err(Error::FormatNeedsTrace(format));
        }
        if format == Format::Run && self.is_for_stdout() {
            return Err(Error::RunToStdout);
        }
        Ok(())
    }

    /// Whether it is over, recorded nothing, and shall then leave nothing.
    pub(crate) fn is_quiet(&self) -> bool {
        self.options.quiet_if_empty
            && !self.has_flushed
            && self.closed.values().all(|phase| phase.tree.is_empty())
    }

    /// A closed phase is in its file. A session that writes each phase once lets it go.
    pub(crate) fn phase_is_written(&mut self, phase: u32) {
        if !self.options.flush_phases {
            self.closed.entry(phase).and_modify(|closed| closed.is_written = true);
        } else if let Some(closed) = self.closed.remove(&phase) {
            self.has_flushed |= !closed.tree.is_empty();
            device::forget_phase(self.slot, phase);
        }
    }

    /// Whether the profile goes to standard output.
    pub(crate) fn is_for_stdout(&self) -> bool {
        means_stdout(&self.base)
    }

    /// The path of a phase's file, without extension. Proton's rule: parts are numbered once there
    /// is more than one phase.
    pub(crate) fn base_of(&self, phase: u32) -> String {
        if self.phase == 0 || self.is_for_stdout() {
            return self.base.clone();
        }
        format!("{}.part_{phase}", self.base)
    }
}

/// Whether a session's name stands for standard output.
pub(crate) fn means_stdout(name: &str) -> bool {
    matches!(name, "" | "-")
}

/// The path without extension for a session's name: with the rank, and absolute, since the program
/// may go to another directory before the file is written.
pub(crate) fn base_for(name: &str, rank: Option<u32>) -> String {
    if means_stdout(name) {
        return name.to_owned();
    }
    let path = rank::with_rank(name, rank);
    let absolute = std::path::absolute(&path).ok().map(real);
    // A working directory that is gone, or no UTF-8, leaves the path as it is.
    absolute.and_then(|path| path.into_os_string().into_string().ok()).unwrap_or(path)
}

/// The path with its folder spelled in one way, if the folder is there: two spellings are one file.
fn real(path: PathBuf) -> PathBuf {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(file)) => folder.join(file),
        _ => path,
    }
}
