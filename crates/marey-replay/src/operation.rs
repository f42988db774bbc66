//! Operations of devices: kernels, copies, fills. Each occupies a stream for its duration and
//! leaves a record.

use crate::name::{self, Name};
use crate::output::{self, output};
use crate::record::{CopyRecord, FillRecord, KernelRecord, PeerRecord, kind};
use crate::{activity, context};

/// A kernel with its launch parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub name: Name,
    pub grid: [i32; 3],
    pub block: [i32; 3],
    pub cluster: [u32; 3],
    pub registers: u16,
    pub static_shared_bytes: i32,
    pub dynamic_shared_bytes: i32,
    pub local_bytes: u32,
}

impl Kernel {
    pub(crate) const fn with_name(name: Name) -> Self {
        Self {
            name,
            grid: [1; 3],
            block: [128, 1, 1],
            cluster: [0; 3],
            registers: 32,
            static_shared_bytes: 0,
            dynamic_shared_bytes: 0,
            local_bytes: 0,
        }
    }
}

/// A copy, with its `CUpti_ActivityMemcpyKind` and the `CUpti_ActivityMemoryKind` of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub kind: u8,
    pub source: u8,
    pub target: u8,
    pub is_async: bool,
    pub bytes: u64,
    /// Destination device, if it differs.
    pub peer_device_id: Option<u32>,
}

pub(crate) const PINNED: u8 = 2;
pub(crate) const DEVICE: u8 = 3;

impl Copy {
    pub(crate) const fn to_device(bytes: u64, is_async: bool) -> Self {
        Self { kind: 1, source: PINNED, target: DEVICE, is_async, bytes, peer_device_id: None }
    }

    pub(crate) const fn to_host(bytes: u64, is_async: bool) -> Self {
        Self { kind: 2, source: DEVICE, target: PINNED, is_async, bytes, peer_device_id: None }
    }

    pub(crate) const fn on_device(bytes: u64, is_async: bool) -> Self {
        Self { kind: 8, source: DEVICE, target: DEVICE, is_async, bytes, peer_device_id: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fill {
    pub value: u32,
    pub bytes: u64,
}

/// Kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Kernel(Kernel),
    Copy(Copy),
    Fill(Fill),
}

/// Parameters of a call that copies or fills memory, for callbacks.
pub(crate) type MemoryParameters = [u64; 3];

impl Work {
    /// Whether the size is not zero.
    const fn has_effect(&self) -> bool {
        !matches!(self, Self::Copy(Copy { bytes: 0, .. }) | Self::Fill(Fill { bytes: 0, .. }))
    }

    /// Returns the parameters of the call, for memory at these addresses.
    pub(crate) const fn parameters(&self, to: u64, from: u64) -> MemoryParameters {
        match self {
            Self::Kernel(_) => [to, from, 0],
            Self::Copy(copy) => [to, from, copy.bytes],
            Self::Fill(fill) => [to, from, fill.bytes],
        }
    }
}

/// Ids of the device, context and stream of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TargetIds {
    pub device: u32,
    pub context: u32,
    pub stream: u32,
}

/// Ids of the graph and node of an operation, for its record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GraphIds {
    /// The executable graph.
    pub graph: u32,
    pub node: u64,
    /// The original graph and node.
    pub source_graph: u32,
    pub source_node: u64,
}

/// The fields of an operation's record beside those of its work.
#[derive(Clone, Copy)]
struct Execution {
    target: TargetIds,
    graph_ids: GraphIds,
    correlation_id: u32,
    start_nanos: u64,
    end_nanos: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Outcome {
    #[default]
    Recorded,
    /// The operation occupies its stream, but leaves no record.
    Unrecorded,
    /// The kernel begins and does not end.
    Unfinished,
    /// The record has no timestamps: both are 0.
    Untimed,
    /// The record's end precedes its start.
    Backwards,
}

/// An operation with its duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub work: Work,
    pub duration_nanos: u64,
    /// Idle time of the stream before the operation.
    pub gap_nanos: u64,
    pub outcome: Outcome,
}

impl Operation {
    pub(crate) const fn new(work: Work, duration_nanos: u64) -> Self {
        Self { work, duration_nanos, gap_nanos: 0, outcome: Outcome::Recorded }
    }

    /// Runs the operation. Returns its start and end.
    #[inline]
    pub(crate) fn run(
        &self,
        target: TargetIds,
        graph_ids: GraphIds,
        correlation_id: u32,
    ) -> (u64, u64) {
        let mut output = output();
        let duration_nanos = if self.work.has_effect() { self.duration_nanos } else { 0 };
        let span = output.occupy(target.device, target.stream, self.gap_nanos, duration_nanos);
        if !self.work.has_effect() {
            return span;
        }
        let (start_nanos, end_nanos) = match self.outcome {
            Outcome::Unrecorded => return span,
            Outcome::Untimed => (0, 0),
            Outcome::Backwards => (span.1, span.0),
            Outcome::Recorded | Outcome::Unfinished => span,
        };
        let execution = Execution { target, graph_ids, correlation_id, start_nanos, end_nanos };
        match &self.work {
            Work::Kernel(kernel) => {
                let Some(kind) = enabled_kernel_kind() else { return span };
                let record = kernel.record(kind, execution);
                if self.outcome == Outcome::Unfinished {
                    output::begin_kernel(output, record);
                } else {
                    output::send(output, record);
                }
            }
            Work::Copy(copy) => match copy.peer_device_id {
                Some(peer_device_id) if activity::is_enabled(kind::PEER_COPY) => {
                    output::send(output, copy.peer_record(peer_device_id, execution));
                }
                None if activity::is_enabled(kind::COPY) => {
                    output::send(output, copy.record(execution));
                }
                _ => {}
            },
            Work::Fill(fill) if activity::is_enabled(kind::FILL) => {
                output::send(output, fill.record(execution));
            }
            Work::Fill(_) => {}
        }
        span
    }
}

#[inline]
fn enabled_kernel_kind() -> Option<u32> {
    let kinds = [kind::CONCURRENT_KERNEL, kind::KERNEL];
    kinds.into_iter().find(|kind| activity::is_enabled(*kind))
}

impl Kernel {
    #[inline]
    fn record(&self, kind: u32, execution: Execution) -> KernelRecord {
        let Execution { target, graph_ids, correlation_id, start_nanos, end_nanos } = execution;
        KernelRecord {
            kind,
            registers: self.registers,
            start_nanos,
            end_nanos,
            completed_nanos: end_nanos,
            device_id: target.device,
            context_id: target.context,
            stream_id: target.stream,
            grid: self.grid,
            block: self.block,
            static_shared_bytes: self.static_shared_bytes,
            dynamic_shared_bytes: self.dynamic_shared_bytes,
            local_bytes_per_thread: self.local_bytes,
            correlation_id,
            grid_id: correlation_id.into(),
            name: name::for_record(self.name.address()),
            shared_bytes_executed: self
                .static_shared_bytes
                .saturating_add(self.dynamic_shared_bytes)
                .cast_unsigned(),
            graph_node_id: graph_ids.node,
            graph_id: graph_ids.graph,
            cluster: self.cluster,
            source_graph_id: graph_ids.source_graph,
            source_node_id: graph_ids.source_node,
            ..KernelRecord::default()
        }
    }
}

impl Copy {
    fn record(&self, execution: Execution) -> CopyRecord {
        let Execution { target, graph_ids, correlation_id, start_nanos, end_nanos } = execution;
        CopyRecord {
            kind: kind::COPY,
            copy_kind: self.kind,
            source: self.source,
            target: self.target,
            flags: self.is_async.into(),
            bytes: self.bytes,
            start_nanos,
            end_nanos,
            device_id: target.device,
            context_id: target.context,
            stream_id: target.stream,
            correlation_id,
            graph_node_id: graph_ids.node,
            graph_id: graph_ids.graph,
            copies: 1,
            source_graph_id: graph_ids.source_graph,
            source_node_id: graph_ids.source_node,
            ..CopyRecord::default()
        }
    }

    fn peer_record(&self, peer_device_id: u32, execution: Execution) -> PeerRecord {
        /// `CUPTI_ACTIVITY_MEMCPY_KIND_PTOP`.
        const FROM_PEER_TO_PEER: u8 = 10;
        let Execution { target, graph_ids, correlation_id, start_nanos, end_nanos } = execution;
        PeerRecord {
            kind: kind::PEER_COPY,
            copy_kind: FROM_PEER_TO_PEER,
            source: self.source,
            target: self.target,
            flags: self.is_async.into(),
            bytes: self.bytes,
            start_nanos,
            end_nanos,
            device_id: target.device,
            context_id: target.context,
            stream_id: target.stream,
            source_device_id: target.device,
            source_context_id: target.context,
            target_device_id: peer_device_id,
            target_context_id: context::for_device(peer_device_id)
                .get()
                .map_or(0, |context| context.id),
            correlation_id,
            graph_node_id: graph_ids.node,
            graph_id: graph_ids.graph,
            ..PeerRecord::default()
        }
    }
}

impl Fill {
    fn record(&self, execution: Execution) -> FillRecord {
        let Execution { target, graph_ids, correlation_id, start_nanos, end_nanos } = execution;
        FillRecord {
            kind: kind::FILL,
            value: self.value,
            bytes: self.bytes,
            start_nanos,
            end_nanos,
            device_id: target.device,
            context_id: target.context,
            stream_id: target.stream,
            correlation_id,
            memory_kind: DEVICE.into(),
            graph_node_id: graph_ids.node,
            graph_id: graph_ids.graph,
            source_graph_id: graph_ids.source_graph,
            source_node_id: graph_ids.source_node,
            ..FillRecord::default()
        }
    }
}
