//! What the path goes through, and what it is made of.

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A span on a thread.
    Host,
    /// A span on a thread in which it waits for, or loads, data.
    DataLoading,
    /// A span that only the threads of autograd have; they work for the thread with the steps.
    Backward,
    /// A call of the runtime, which may launch something: what has its `correlation`.
    Call,
    /// A call that returns only when what it launched is done.
    Copy,
    /// A call that returns when all streams are done.
    SyncDevice,
    /// A call that returns when a stream is done.
    SyncStream,
    /// A call that returns when an event has happened.
    SyncEvent,
    /// A device computes.
    Compute,
    /// A device communicates.
    Communication,
    /// A device copies or fills.
    Memory,
    /// A device copies from or to memory of the host that may be paged out, for which the call may
    /// wait.
    Pageable,
    /// A record that a stream, `lane`, was told by the call with this `correlation` to wait for
    /// what was on `on_lane` when the call with `on_correlation` recorded an event there.
    StreamWait,
    /// A record that the call with this `correlation` waited for `on_lane`; up to an event if
    /// there is an `on_correlation`.
    HostWait,
    /// A training step.
    Step,
}

impl Kind {
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

/// What happened: a span of a thread, an activity of a device, a record of a wait, a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    pub(super) kind: Kind,
    /// The thread; of devices, [`stream_lane`]. A step has its thread.
    pub(super) lane: u64,
    pub(super) start: i64,
    pub(super) end: i64,
    /// What a call and what it launched share; 0 for none.
    pub(super) correlation: u64,
    /// Of records, the [`stream_lane`] that is waited for.
    pub(super) on_lane: u64,
    /// Of records, the call that recorded the event which is waited for; 0 for none.
    pub(super) on_correlation: u64,
    /// What the caller knows it by; of a step, its number.
    pub(super) id: u64,
}

/// The number of a stream that stands for all of a device.
pub(super) const ALL_STREAMS: u32 = u32::MAX;

pub(super) const fn device_of(lane: u64) -> u64 {
    lane >> 32
}

/// What a moment of the path is bound by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Bound {
    /// A thread works.
    Cpu,
    /// A thread waits for, or loads, data.
    DataLoading,
    /// A device computes.
    GpuCompute,
    /// A device communicates.
    GpuCommunication,
    /// A device copies or fills.
    GpuMemory,
    /// What an activity waited for before it has ended, but it has not begun.
    GpuKernelKernelOverhead,
    /// An activity is being launched.
    GpuKernelLaunchOverhead,
    /// What a call waited for has ended, but the call has not returned.
    Synchronization,
    /// Nothing was recorded that says.
    Unknown,
}

impl Bound {
    /// Its name in SQL.
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

/// A part of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) bound: Bound,
    /// The thread or stream, if it is on one.
    pub(super) lane: Option<u64>,
    /// Where in the slice of events that is which works; of overheads, the activity that is late;
    /// none where a thread was in no span.
    pub(super) event: Option<usize>,
}

/// How far the clocks of host and device, or their rounding, may be apart.
pub(super) const SKEW_NANOS: i64 = 1_000;
