//! The causes of loss. Every event that cannot be recorded or read is counted under one of them.

/// Declares the causes: variant, number, key and description. Numbers are never reused.
macro_rules! causes {
    ($($(#[$meta:meta])+ $variant:ident $number:literal $key:literal $doc:literal,)+) => {
        /// A cause of loss.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum LossCause {
            $($(#[$meta])+ $variant = $number,)+
        }

        impl LossCause {
            /// Number of causes.
            pub const COUNT: usize = Self::ALL.len();

            /// Every cause, in the order of its number.
            pub const ALL: [Self; [$($number),+].len()] = [$(Self::$variant),+];

            /// Returns the key under which files count the cause.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $key,)+ }
            }

            /// Returns the description for the reference page.
            pub const fn doc(self) -> &'static str {
                match self { $(Self::$variant => $doc,)+ }
            }
        }
    };
}

causes! {
    /// A thread's tree reached its node limit; further contexts are counted on `<lost>`.
    Nodes 0 "nodes"
        "Events whose context did not fit into the thread's tree; they are counted on a node named `<lost>`.",
    /// The name table reached its size limit; further names became `<lost>`.
    Names 1 "names"
        "Names, and text values of metrics in a tree, that did not fit into their tables; in a trace, names and texts of more than 1 MiB. They are replaced by `<lost>`.",
    /// An exit from a scope that is not open on its thread.
    UnmatchedExit 2 "unmatched_exits"
        "Exits from a scope that was not open on its thread; they are ignored.",
    /// An enclosing scope or the thread ended while the scope was open; its duration was cut there.
    Unclosed 3 "unclosed_scopes"
        "Scopes that were still open when an enclosing scope or their thread ended; their duration is cut at that time.",
    /// An event from a thread whose recorder was already destroyed (in thread-local destructors).
    ThreadGone 4 "events_after_thread_end"
        "Events from destructors that ran after the thread's recorder was destroyed.",
    /// A metric value was rejected: its type or length differs from the node's value.
    MetricRefused 5 "metrics_refused"
        "Metric values whose type or length differs from the value that the node has.",
    /// A checkpoint could not be written.
    CheckpointFailed 6 "checkpoints_failed"
        "Checkpoints that could not be written; the next checkpoint is attempted as usual.",
    /// An event of a signal handler interrupted the recorder and was dropped.
    Reentrant 7 "reentrant_events"
        "Events in a signal handler that interrupted the recorder in the middle of an event.",
    /// A thread's trace ring was full; the scope or value is not in the trace.
    TraceBuffer 8 "trace_buffer_full"
        "Scopes and metric values that are missing from a trace because their thread's buffer was full.",
    /// The spool was full or could not be written; the scope or value is not in the trace.
    Spool 9 "spool_full"
        "Scopes, metric values and counters that are missing from a trace because the spool reached its maximum size or could not be written.",
    /// A part of an imported file could not be parsed.
    Unreadable 10 "unreadable_events"
        "Events of an imported file that could not be parsed; they are left out.",
    /// An imported file is truncated.
    Truncated 11 "truncated_files"
        "Imported files that are truncated; the events before that point are imported.",
    /// An event of an imported file that a run cannot represent.
    Unsupported 12 "unsupported_events"
        "Events of an imported file that a run cannot represent, and sums that overflow their column.",
    /// An activity whose launch is not in the file.
    UnmatchedActivity 13 "unmatched_activities"
        "Activities of devices whose launch is not in the imported file or was not recorded; they have no context.",
    /// A thread's launch ring was full; the activities have no context.
    LaunchBuffer 14 "launch_buffer_full"
        "Launches that did not fit into their thread's buffer; their activities are counted under `unmatched_activities`.",
    /// The vendor's library dropped records, because its buffers or marey's were full.
    DeviceRecord 15 "device_records_dropped"
        "Records of devices that the vendor's library dropped because a buffer was full, delivered incomplete, or withheld beyond the end of their phase.",
    /// Counters of a device ended early, or this process may not read them.
    CountersEnded 16 "counters_ended"
        "Devices whose counters end early because the device was lost, and kinds of counters that the process may not read; each is counted once.",
    /// More ranges were open at once than their table holds.
    Ranges 17 "ranges_table_full"
        "NVTX start/end ranges, and user scopes of PyTorch, that were not recorded because too many were open at once.",
    /// A metric value on a GPU was not fetched: too many were pending, or the GPU failed.
    MetricUnfetched 18 "metrics_unfetched"
        "Metric values on a GPU, and times of launches, that were not fetched because too many were pending or the GPU failed.",
    /// The vendor's library reported no timestamps for an activity, or an end before its start.
    DeviceTime 19 "device_times_missing"
        "Activities of devices for which the vendor's library reported no timestamps, or an end before the start; they are counted without a duration.",
    /// The table of graph nodes was full; this node's place of capture is unknown.
    GraphNodes 20 "graph_nodes_full"
        "CUDA graph nodes beyond the first million, whose place of capture is not remembered; their kernels are attributed to the launch of the graph.",
    /// A thread stayed in the middle of an event; the recorder no longer waits for it.
    StuckThread 21 "stuck_threads"
        "Threads that stayed in the middle of an event for more than a second, for example because a signal handler jumped out of it. The event, and what the thread records after a jump, is missing.",
    /// A collective of a group that cannot be distinguished from others of its name.
    AmbiguousCollective 22 "ambiguous_collectives"
        "Collectives that are in the files of more ranks than their group has: several groups have the same name and the files do not list their ranks. They are not used to align clocks.",
    /// The kernel did not count the performance events of a scope.
    PerfEvents 23 "performance_events_uncounted"
        "Scopes without the performance events that were to be counted: the kernel refused them for the thread, such as for too many open files, or has stopped counting.",
    /// A sample of a running process could not be taken in time.
    Samples 24 "samples_missed"
        "Samples of a running process that failed because the process changed while it was read or because code of the program raised an exception, or that were skipped because the previous one took too long.",
    /// The inputs of an operator were too many, or their table was full.
    OperatorInputs 25 "operator_inputs"
        "Calls of PyTorch's operators whose shapes were not recorded: they had more than some 30 tensors, or the process had used more than 32,768 different inputs.",
    /// A window of torch.profiler that was skipped, or whose trace could not be read.
    Window 26 "torch_windows"
        "Windows of `torch.profiler` that are not in the run: another profiler was running, PyTorch could not record, or the trace could not be written or read.",
    /// A training step ran without recording, to measure the cost of recording.
    BaselineSteps 27 "baseline_steps"
        "Training steps that were not recorded, because the cost of recording is measured against them (`--overhead`).",
    /// The recorder of collectives overwrote an entry before it was read.
    CollectivesOverwritten 28 "collectives_overwritten"
        "Collectives that PyTorch's flight recorder overwrote before they were read; they are missing from the view `collectives`.",
    /// A record of a ring was dropped, because the ring keeps only the last ones.
    Ring 29 "ring_dropped"
        "Records before the last ones, which are all that a ring (`data=\"ring\"`) keeps.",
    /// A watched line ran more often than its values may be recorded.
    WatchRate 30 "watched_lines_skipped"
        "Times that a watched line ran (`marey watch`) without its values being recorded, because of `watch.rate`. While a watch pauses, because its line runs very often, they are not counted.",
    /// A watched variable had no value that can be read without running code.
    WatchUnread 31 "watched_values_unread"
        "Values of watched variables that were not recorded: the name did not exist, or only code of the program could read it.",
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
