//! The metadata of a profile: process, overhead, losses, notes.

use marey_model::loss::LossCause;
use marey_model::profile::Overhead;

/// The version of marey's own part of the document.
pub(crate) const VERSION: u64 = 1;

/// The metadata of a profile.
#[derive(Clone, Debug)]
pub(crate) struct Meta {
    pub(crate) process: Process,
    pub(crate) overhead: Overhead,
    pub(crate) losses: Vec<(LossCause, u64)>,
    /// Notes about the recording, by key.
    pub(crate) notes: Vec<(&'static str, String)>,
}

/// The profiled process.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) rank: Option<u32>,
    pub(crate) host: String,
    pub(crate) start_unix_nanos: u64,
    pub(crate) duration_nanos: u64,
    /// Whether the session had ended when the file was written.
    pub(crate) complete: bool,
}
