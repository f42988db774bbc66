//! What the recorder's cold calls can fail with.

use crate::output::Format;
use marey_model::metric::MetricError;
use std::path::PathBuf;
use thiserror::Error;

/// A failed call. The texts name the thing; where Proton documents a text, it is that one.
#[derive(Debug, Error)]
pub enum Error {
    /// There is no such session, or no more.
    #[error("Session has not been initialized: {0}")]
    UnknownSession(u32),
    /// The phase was cleared, or has not begun.
    #[error("Phase {0} has no data.")]
    PhaseWithoutData(u32),
    /// As many sessions are alive as can be.
    #[error("{0} sessions are alive, which is the most that one process can have; finalize one")]
    TooManySessions(u32),
    /// The word is no context source.
    #[error("Unknown context source: {0}")]
    UnknownContext(String),
    /// The word is no output format.
    #[error("Unknown output format: {0}")]
    UnknownFormat(String),
    /// The format needs records that a tree does not keep.
    #[error(
        "output format \"{}\" needs data=\"trace\", and this session has data=\"tree\"",
        .0.as_str()
    )]
    FormatNeedsTrace(Format),
    /// A run is a directory.
    #[error("output format \"marey\" is a directory, which cannot go to standard output")]
    RunToStdout,
    /// What is asked for is a tree's, and the session has records.
    #[error("only the data of a session with data=\"tree\" can be read while it is alive")]
    DataNeedsTree,
    /// A value of a user metric was refused.
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// A profile could not be written.
    #[error("cannot {action} {path}: {source}")]
    Write {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}
