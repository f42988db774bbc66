//! Causes of loss. Every event that cannot be recorded or read is counted under one of them.

/// A cause of loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LossCause {
    /// A thread's tree reached its node limit; further contexts are counted on `<lost>`.
    Nodes = 0,
    /// The name table reached its size limit; further names became `<lost>`.
    Names = 1,
    /// An exit from a scope that is not open on its thread.
    UnmatchedExit = 2,
    /// An enclosing scope or the thread ended while the scope was open; its duration was cut there.
    Unclosed = 3,
    /// An event from a thread whose recorder was already destroyed (in thread-local destructors).
    ThreadGone = 4,
    /// A metric value was rejected: its type or length differs from the node's value.
    MetricRefused = 5,
    /// A checkpoint could not be written.
    CheckpointFailed = 6,
    /// An event of a signal handler interrupted the recorder and was dropped.
    Reentrant = 7,
    /// A thread's trace ring was full; the scope or value is not in the trace.
    TraceBuffer = 8,
    /// The spool was full or could not be written; the scope or value is not in the trace.
    Spool = 9,
    /// A part of an imported file could not be parsed.
    Unreadable = 10,
    /// An imported file is truncated.
    Truncated = 11,
    /// An event of an imported file that a run cannot represent.
    Unsupported = 12,
    /// An activity whose launch is not in the file.
    UnmatchedActivity = 13,
    /// A thread's launch ring was full; the activities have no context.
    LaunchBuffer = 14,
    /// The vendor's library dropped records, because its buffers or ours were full.
    DeviceRecord = 15,
    /// Counters of a device ended early, or this process may not read them.
    CountersEnded = 16,
    /// More start/end ranges were open at once than their table holds.
    Ranges = 17,
    /// A metric value on a GPU was not fetched: too many were pending, or the GPU failed.
    MetricUnfetched = 18,
    /// The vendor's library reported no timestamps for an activity, or an end before its start.
    DeviceTime = 19,
    /// The table of graph nodes was full; this node's place of capture is unknown.
    GraphNodes = 20,
    /// A thread stayed in the middle of an event; the recorder no longer waits for it.
    StuckThread = 21,
    /// A collective of a group that cannot be distinguished from others of its name.
    AmbiguousCollective = 22,
    /// The kernel did not count the performance events of a scope.
    PerfEvents = 23,
    /// A sample of a running process could not be taken in time.
    Samples = 24,
    /// The inputs of an operator were too many, or their table was full.
    OperatorInputs = 25,
    /// A window of torch.profiler that was skipped, or whose trace could not be read.
    Window = 26,
    /// A training step ran without recording, to measure the cost of recording.
    BaselineSteps = 27,
    /// The recorder of collectives overwrote an entry before it was read.
    CollectivesOverwritten = 28,
    /// A record of a ring was dropped, because the ring keeps only the last ones.
    Ring = 29,
    /// A watched line ran more often than its values may be recorded.
    WatchRate = 30,
    /// A watched variable had no value that can be read without running code.
    WatchUnread = 31,
}

impl LossCause {
    /// Number of causes.
    pub const COUNT: usize = Self::ALL.len();

    /// Every cause, in the order of its number.
    pub const ALL: [Self; 32] = [
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
        Self::PerfEvents,
        Self::Samples,
        Self::OperatorInputs,
        Self::Window,
        Self::BaselineSteps,
        Self::CollectivesOverwritten,
        Self::Ring,
        Self::WatchRate,
        Self::WatchUnread,
    ];

    /// Returns the key under which files count the cause.
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
            Self::PerfEvents => "performance_events_uncounted",
            Self::Samples => "samples_missed",
            Self::OperatorInputs => "operator_inputs",
            Self::Window => "torch_windows",
            Self::BaselineSteps => "baseline_steps",
            Self::CollectivesOverwritten => "collectives_overwritten",
            Self::Ring => "ring_dropped",
            Self::WatchRate => "watched_lines_skipped",
            Self::WatchUnread => "watched_values_unread",
        }
    }

    /// Returns the description for the reference page.
    pub const fn doc(self) -> &'static str {
        match self {
            Self::Nodes => {
                "Events whose context did not fit into the thread's tree; they are counted on a node named `<lost>`."
            }
            Self::Names => {
                "Names, and text values of metrics in a tree, that did not fit into their tables; in a trace, names and texts of more than 1 MiB. They are replaced by `<lost>`."
            }
            Self::UnmatchedExit => {
                "Exits from a scope that was not open on its thread; they are ignored."
            }
            Self::Unclosed => {
                "Scopes that were still open when an enclosing scope or their thread ended; their duration is cut at that time."
            }
            Self::ThreadGone => {
                "Events from destructors that ran after the thread's recorder was destroyed."
            }
            Self::MetricRefused => {
                "Metric values whose type or length differs from the value that the node has."
            }
            Self::CheckpointFailed => {
                "Checkpoints that could not be written; the next checkpoint is attempted as usual."
            }
            Self::Reentrant => {
                "Events in a signal handler that interrupted the recorder in the middle of an event."
            }
            Self::TraceBuffer => {
                "Scopes and metric values that are missing from a trace because their thread's buffer was full."
            }
            Self::Spool => {
                "Scopes, metric values and counters that are missing from a trace because the spool reached its maximum size or could not be written."
            }
            Self::Unreadable => {
                "Events of an imported file that could not be parsed; they are left out."
            }
            Self::Truncated => {
                "Imported files that are truncated; the events before that point are imported."
            }
            Self::Unsupported => {
                "Events of an imported file that a run cannot represent, and sums that overflow their column."
            }
            Self::UnmatchedActivity => {
                "Activities of devices whose launch is not in the imported file or was not recorded; they have no context."
            }
            Self::LaunchBuffer => {
                "Launches that did not fit into their thread's buffer; their activities are counted under `unmatched_activities`."
            }
            Self::DeviceRecord => {
                "Records of devices that the vendor's library dropped because a buffer was full, delivered incomplete, or withheld beyond the end of their phase."
            }
            Self::CountersEnded => {
                "Devices whose counters end early because the device was lost, and kinds of counters that the process may not read; each is counted once."
            }
            Self::Ranges => {
                "NVTX start/end ranges that were not recorded because too many were open at once."
            }
            Self::StuckThread => {
                "Threads that stayed in the middle of an event for more than a second, for example because a signal handler jumped out of it. The event, and what the thread records after a jump, is missing."
            }
            Self::MetricUnfetched => {
                "Metric values on a GPU, and times of launches, that were not fetched because too many were pending or the GPU failed."
            }
            Self::DeviceTime => {
                "Activities of devices for which the vendor's library reported no timestamps, or an end before the start; they are counted without a duration."
            }
            Self::GraphNodes => {
                "CUDA graph nodes beyond the first million, whose place of capture is not remembered; their kernels are attributed to the launch of the graph."
            }
            Self::AmbiguousCollective => {
                "Collectives that are in the files of more ranks than their group has: several groups have the same name and the files do not list their ranks. They are not used to align clocks."
            }
            Self::PerfEvents => {
                "Scopes without the performance events that were to be counted: the kernel refused them for the thread, such as for too many open files, or has stopped counting."
            }
            Self::Samples => {
                "Samples of a running process that failed because the process changed while it was read or because code of the program raised an exception, or that were skipped because the previous one took too long."
            }
            Self::OperatorInputs => {
                "Calls of PyTorch's operators whose shapes were not recorded: they had more than some 30 tensors, or the process had used more than 32,768 different inputs."
            }
            Self::Window => {
                "Windows of `torch.profiler` that are not in the run: another profiler was running, PyTorch could not record, or the trace could not be written or read."
            }
            Self::BaselineSteps => {
                "Training steps that were not recorded, because the cost of recording is measured against them (`--overhead`)."
            }
            Self::CollectivesOverwritten => {
                "Collectives that PyTorch's flight recorder overwrote before they were read; they are missing from the view `collectives`."
            }
            Self::WatchRate => {
                "Times that a watched line ran (`marey watch`) without its values being recorded, because of `watch.rate`. While a watch pauses, because its line runs very often, they are not counted."
            }
            Self::WatchUnread => {
                "Values of watched variables that were not recorded: the name did not exist, or only code of the program could read it."
            }
            Self::Ring => {
                "Records before the last ones, which are all that a ring (`data=\"ring\"`) keeps."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_listed_by_number_and_have_distinct_keys() {
        for (number, cause) in LossCause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, number);
        }
        let keys: std::collections::HashSet<_> =
            LossCause::ALL.into_iter().map(LossCause::as_str).collect();
        assert_eq!(keys.len(), LossCause::COUNT);
        assert!(keys.contains("unmatched_exits"));
    }
}
