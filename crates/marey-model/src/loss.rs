//! What can be lost, by cause. Nothing is lost in silence: each cause is a counter in every report.

/// A cause of loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LossCause {
    /// A thread's tree reached its limit of nodes; further contexts went to `<lost>`.
    Nodes = 0,
    /// The table of names reached its limit of bytes; further names became `<lost>`.
    Names = 1,
    /// An exit came for a scope that is not open on its thread.
    UnmatchedExit = 2,
    /// A scope around it, or its thread, ended while the scope was open; its time was cut there.
    Unclosed = 3,
    /// An event came from a thread whose recorder was gone already (thread-local destructors).
    ThreadGone = 4,
    /// A metric's value was refused (another type or length than the node holds).
    MetricRefused = 5,
    /// A checkpoint could not be written.
    CheckpointFailed = 6,
    /// A signal handler's event interrupted the recorder and was dropped.
    Reentrant = 7,
    /// A thread's log was full; the scope or value is in no trace.
    TraceBuffer = 8,
    /// The spool took no more; the scope or value is in no trace.
    Spool = 9,
    /// A part of a foreign file could not be understood.
    Unreadable = 10,
    /// A foreign file ends before its end.
    Truncated = 11,
    /// An event of a foreign file that a run has no place for.
    Unsupported = 12,
    /// A device's activity whose launch is not in the file.
    UnmatchedActivity = 13,
    /// A thread's log of launches was full; what was launched has no context.
    LaunchBuffer = 14,
    /// The device's library dropped records, because its buffers or ours were full.
    DeviceRecord = 15,
    /// Counters of a device that ended early, or that this process may not read.
    CountersEnded = 16,
    /// More ranges were open at once, between a start and an end, than their table holds.
    Ranges = 17,
    /// A metric's value on a GPU was not fetched: too many waited, or the GPU failed.
    MetricUnfetched = 18,
    /// The device's library did not tell when an activity ran, or told that it ended before it began.
    DeviceTime = 19,
    /// Too many nodes of CUDA graphs exist for the place of this one's capture to be remembered.
    GraphNodes = 20,
    /// A thread stayed in the middle of an event; nobody waits for it any more.
    StuckThread = 21,
    /// A collective of a group that nothing tells from others of its name.
    AmbiguousCollective = 22,
}

impl LossCause {
    /// How many causes there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Every cause, in the order of its number.
    pub const ALL: [Self; 23] = [
        Self::Nodes,
        Self::Names,
        Self::UnmatchedExit,
        Self::Unclosed,
        Self::ThreadGone,
        Self::MetricRefused,
        Self::CheckpointFailed,
        Self::Reentrant,
        Self::TraceBuffer,
        Self::Spool,
        Self::Unreadable,
        Self::Truncated,
        Self::Unsupported,
        Self::UnmatchedActivity,
        Self::LaunchBuffer,
        Self::DeviceRecord,
        Self::CountersEnded,
        Self::Ranges,
        Self::MetricUnfetched,
        Self::DeviceTime,
        Self::GraphNodes,
        Self::StuckThread,
        Self::AmbiguousCollective,
    ];

    /// The key under which files count it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Names => "names",
            Self::UnmatchedExit => "unmatched_exits",
            Self::Unclosed => "unclosed_scopes",
            Self::ThreadGone => "events_after_thread_end",
            Self::MetricRefused => "metrics_refused",
            Self::CheckpointFailed => "checkpoints_failed",
            Self::Reentrant => "reentrant_events",
            Self::TraceBuffer => "trace_buffer_full",
            Self::Spool => "spool_full",
            Self::Unreadable => "unreadable_events",
            Self::Truncated => "truncated_files",
            Self::Unsupported => "unsupported_events",
            Self::UnmatchedActivity => "unmatched_activities",
            Self::LaunchBuffer => "launch_buffer_full",
            Self::DeviceRecord => "device_records_dropped",
            Self::CountersEnded => "counters_ended",
            Self::Ranges => "ranges_table_full",
            Self::MetricUnfetched => "metrics_unfetched",
            Self::DeviceTime => "device_times_missing",
            Self::GraphNodes => "graph_nodes_full",
            Self::StuckThread => "stuck_threads",
            Self::AmbiguousCollective => "ambiguous_collectives",
        }
    }

    /// One sentence for the reference page.
    pub const fn doc(self) -> &'static str {
        match self {
            Self::Nodes => {
                "Events whose context did not fit into the thread's tree any more; they are counted on a node named `<lost>`."
            }
            Self::Names => {
                "Names, and texts of metrics in a tree, that did not fit into their tables any more, and, in a trace, names and texts of more than 1 MiB; they read `<lost>`."
            }
            Self::UnmatchedExit => {
                "Exits for a scope that was not open on its thread; they change nothing."
            }
            Self::Unclosed => {
                "Scopes that were still open when a scope around them, or their thread, ended; their time is cut at that moment."
            }
            Self::ThreadGone => {
                "Events from destructors that ran after the thread's recorder was gone."
            }
            Self::MetricRefused => "Metric values of another type or length than the node held.",
            Self::CheckpointFailed => {
                "Checkpoints that could not be written; the next one tries again."
            }
            Self::Reentrant => {
                "Events of a signal handler that interrupted the recorder in the middle of an event."
            }
            Self::TraceBuffer => {
                "Scopes and metric values that are in no trace because their thread's buffer was full."
            }
            Self::Spool => {
                "Scopes, metric values and counters that are in no trace because the spool was as long as it may be, or could not be written."
            }
            Self::Unreadable => {
                "Events of an imported file that could not be understood; they are left out."
            }
            Self::Truncated => "Imported files that end early; what comes before is there.",
            Self::Unsupported => {
                "Events of an imported file that runs have no place for, and sums that are more than their column holds."
            }
            Self::UnmatchedActivity => {
                "Activities of devices whose launch is not in the imported file, or was not recorded; they have no context."
            }
            Self::LaunchBuffer => {
                "Launches that their thread's buffer had no room for; what they launched is counted among the activities without a launch."
            }
            Self::DeviceRecord => {
                "Records of devices that the vendor's library dropped because a buffer was full, delivered unfinished, or held back beyond the end of their phase."
            }
            Self::CountersEnded => {
                "Devices whose counters end early because the device was lost, and kinds of counters that the process may not read; each is counted once."
            }
            Self::Ranges => {
                "Ranges with a start and an end, as NVTX has them, that found no room among those that were open."
            }
            Self::StuckThread => {
                "Threads that stayed in the middle of an event for more than a second, as where a signal handler jumped out of it; what they were at, and what they record after a jump, is in no profile."
            }
            Self::MetricUnfetched => {
                "Metric values on a GPU, and times of launches, that were not fetched because too many waited, or the GPU failed."
            }
            Self::DeviceTime => {
                "Activities of devices whose times the vendor's library did not tell, or told with the end before the start; they are counted, with no time."
            }
            Self::GraphNodes => {
                "Nodes of CUDA graphs beyond the million whose place of capture is remembered; their kernels lie below the launch of the graph."
            }
            Self::AmbiguousCollective => {
                "Collectives that are in the files of more ranks than their group has: several groups share a name, and the files do not say their ranks; they align no clocks."
            }
        }
    }
}
