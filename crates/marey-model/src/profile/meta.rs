//! The metadata of a recording: its devices, losses, overhead and process.

/// Metadata that marey writes on the root in addition to Proton's keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meta {
    /// Version of marey's schema extension.
    pub version: Option<u64>,
    /// Overhead of the recorder.
    pub overhead: Option<Overhead>,
    /// Lost events by cause, in the order of the file.
    pub losses: Vec<(String, u64)>,
    /// Notes about the recording, by key. The recorder writes them, and readers skip them.
    pub notes: Vec<(String, String)>,
    /// The profiled process.
    pub process: Option<Process>,
}

/// A device and its properties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Platform, such as `CUDA` or `HIP`.
    pub family: String,
    /// Device number within the platform, as a string.
    pub id: String,
    /// Architecture, such as `90` or `gfx942`.
    pub arch: Option<String>,
    /// Width of the memory bus.
    pub bus_width_bits: Option<u64>,
    /// Clock rate of the processor.
    pub clock_rate_khz: Option<u64>,
    /// Clock rate of the memory.
    pub memory_clock_rate_khz: Option<u64>,
    /// Number of multiprocessors.
    pub num_sms: Option<u64>,
}

/// Overhead of recording in a process, as measured by its recorder.
///
/// When a session starts, the recorder measures the cost of entering and leaving a few thousand
/// unrecorded scopes. A scope counts as two events, a metric value as one. The total is estimated
/// at half the cost of a scope per event.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overhead {
    /// Events of all threads since recording began, including lost ones.
    pub events: u64,
    /// Cost of entering and leaving one scope.
    pub scope_nanos: f64,
    /// Estimated cost of all events.
    pub recording_nanos: u64,
    /// Time spent writing recorded data, on any thread.
    pub flushing_nanos: u64,
}

/// The profiled process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: u64,
    /// Rank in a distributed job.
    pub rank: Option<u64>,
    /// Host name.
    pub host: String,
    /// Command line.
    pub argv: Vec<String>,
    /// Start of the session, in nanoseconds since 1970.
    pub start_unix_nanos: u64,
    /// Duration of the session so far.
    pub duration_nanos: u64,
    /// Whether the session had ended; `false` in a checkpoint.
    pub is_complete: bool,
}
