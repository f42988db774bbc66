//! The input and the output of the search for a critical path: events, and the segments of the
//! path.

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EventKind {
    /// A span on a thread.
    Host,
    /// A span in which a thread waits for data or loads it.
    DataLoading,
    /// A span that only autograd threads have. These threads work for the thread that has the
    /// steps.
    Backward,
    /// A runtime call such as `cudaLaunchKernel`, which may launch the activities with its
    /// `correlation_id`.
    Call,
    /// A call that returns only when the activities that it launched are done.
    Copy,
    /// A call that returns when all streams are done.
    SyncDevice,
    /// A call that returns when a stream is done.
    SyncStream,
    /// A call that returns when a CUDA event has completed.
    SyncEvent,
    /// A device computes.
    Compute,
    /// A device communicates.
    Communication,
    /// A device copies or fills memory.
    Memory,
    /// A device copies to or from pageable host memory. The call that launched the copy may wait
    /// for it.
    Pageable,
    /// A stream waits for a CUDA event of another stream. The call with `correlation_id` made
    /// `lane` wait for the work on `on_lane` that precedes the event. The call with
    /// `on_correlation_id` recorded the event.
    StreamWait,
    /// The host waits for a stream. The call with `correlation_id` waited for all work on
    /// `on_lane`, or only for the work that precedes a CUDA event. In the second case,
    /// `on_correlation_id` is the call that recorded the event. In the first, it is 0.
    HostWait,
    /// A training step.
    Step,
}

impl EventKind {
    pub(super) const fn is_device(self) -> bool {
        matches!(self, Self::Compute | Self::Communication | Self::Memory | Self::Pageable)
    }

    pub(super) const fn is_call(self) -> bool {
        matches!(
            self,
            Self::Call | Self::Copy | Self::SyncDevice | Self::SyncStream | Self::SyncEvent
        )
    }

    pub(super) const fn is_host(self) -> bool {
        self.is_call() || matches!(self, Self::Host | Self::DataLoading | Self::Backward)
    }
}

/// An event: a span of a thread, an activity of a device, a record of a wait, or a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    pub(super) kind: EventKind,
    /// The thread of a span or step. For device events, the stream as `device << 32 | stream`.
    pub(super) lane: u64,
    pub(super) start_nanos: i64,
    pub(super) end_nanos: i64,
    /// The correlation id that a call shares with its activities, or 0 if it has none.
    pub(super) correlation_id: u64,
    /// For wait records, the stream lane that is waited for.
    pub(super) on_lane: u64,
    /// For wait records, the call that recorded the awaited event, or 0 if there is none.
    pub(super) on_correlation_id: u64,
    /// The caller's id for the event. For a step, its number.
    pub(super) id: u64,
}

/// The stream number that represents all streams of a device.
pub(super) const ALL_STREAMS: u32 = u32::MAX;

pub(super) const fn device_of(lane: u64) -> u64 {
    lane >> 32
}

/// The resource or overhead on which the path spends its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Bound {
    /// A thread works.
    Cpu,
    /// A thread waits for data or loads it.
    DataLoading,
    /// A device computes.
    GpuCompute,
    /// A device communicates.
    GpuCommunication,
    /// A device copies or fills memory.
    GpuMemory,
    /// The previous work has ended, but the activity that waited for it has not begun.
    GpuKernelKernelOverhead,
    /// An activity is being launched.
    GpuKernelLaunchOverhead,
    /// The work has ended, but the call that waited for it has not returned.
    Synchronization,
    /// No event explains the time.
    Unknown,
}

impl Bound {
    /// The name in SQL.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu_bound",
            Self::DataLoading => "data_loading",
            Self::GpuCompute => "gpu_compute_bound",
            Self::GpuCommunication => "gpu_communication_bound",
            Self::GpuMemory => "gpu_memory_bound",
            Self::GpuKernelKernelOverhead => "gpu_kernel_kernel_overhead",
            Self::GpuKernelLaunchOverhead => "gpu_kernel_launch_overhead",
            Self::Synchronization => "synchronization",
            Self::Unknown => "unknown",
        }
    }
}

/// A segment of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) start_nanos: i64,
    pub(super) end_nanos: i64,
    pub(super) bound: Bound,
    /// The thread or stream, if the segment is on one.
    pub(super) lane: Option<u64>,
    /// Index of the event that is at work. For overheads, index of the activity that is delayed.
    /// `None` where a thread was in no span.
    pub(super) event_index: Option<usize>,
}

/// Greatest difference between host and device timestamps from clock skew and rounding.
pub(super) const SKEW_NANOS: i64 = 1_000;
