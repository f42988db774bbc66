//! What a profile says about itself: the process, what recording cost, and what was lost.

use marey_model::loss::LossCause;

/// Version of marey's own part of the document.
pub(crate) const VERSION: u64 = 1;

/// What a profile says about itself.
#[derive(Clone, Debug)]
pub(crate) struct Meta {
    pub(crate) process: Process,
    pub(crate) overhead: Overhead,
    pub(crate) losses: Vec<(LossCause, u64)>,
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

/// What recording cost, as the recorder measured it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overhead {
    /// Events of all threads since recording began.
    pub(crate) events: u64,
    /// Cost of entering and leaving one scope in this process, measured when the session began.
    pub(crate) scope_nanos: f64,
    /// Estimate of all recording: half of `scope_nanos` an event.
    pub(crate) recording_nanos: u64,
    /// Merging trees and writing files so far, on whichever thread it ran.
    pub(crate) flushing_nanos: u64,
}
