//! The errors of the recorder's calls outside of the event path.

use crate::output::Format;
use marey_model::metric::MetricError;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A failed call. Each message names the object; where Proton documents a message, it is that one.
#[derive(Debug, Error)]
pub enum Error {
    /// The session does not exist, or has ended.
    #[error("Session has not been initialized: {0}")]
    UnknownSession(u32),
    /// The phase was cleared, or has not begun.
    #[error("Phase {0} has no data.")]
    PhaseWithoutData(u32),
    /// The maximum number of sessions is alive.
    #[error("{0} sessions are alive, which is the maximum for one process; finalize one first")]
    TooManySessions(u32),
    /// The context source is unknown.
    #[error("Unknown context source: {0}")]
    UnknownContext(String),
    /// The output format is unknown.
    #[error("Unknown output format: {0}")]
    UnknownFormat(String),
    /// The format needs single events, which the session does not record.
    #[error(
        "output format \"{}\" needs data=\"trace\", and this session has data=\"tree\"",
        .0.as_str()
    )]
    FormatNeedsTrace(Format),
    /// A run is a directory and cannot be written to standard output.
    #[error("output format \"marey\" is a directory and cannot be written to standard output")]
    RunToStdout,
    /// A ring is a run, and has neither another format nor files of phases.
    #[error("data=\"ring\" writes a run alone: no phases, and no format but \"marey\"")]
    RingFormat,
    /// All trace sessions of a process share one spool, which is a ring or is not.
    #[error(
        "a session with data=\"ring\" and one with data=\"trace\" cannot record at the same time; \
         finalize the other one first"
    )]
    RingBesideTrace,
    /// The call needs a session with `data="tree"`, and the session traces.
    #[error("only the data of a session with data=\"tree\" can be read while it is alive")]
    DataNeedsTree,
    /// A value of a user metric was refused.
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// A file could not be written.
    #[error("cannot {action} {path}: {source}")]
    Write {
        /// The failed action, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl Error {
    /// Creates the error of an action on a file.
    pub(crate) fn write(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Write { action, path: path.to_owned(), source }
    }
}
