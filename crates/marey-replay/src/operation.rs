//! Operations of devices: kernels, copies, fills. Each occupies a stream for its duration and
//! leaves a record.

use crate::name::{self, Name};
use crate::output::{self, output};
use crate::record::{CopyRecord, KernelRecord, PeerRecord, SetRecord, kind};
use crate::{activity, context};

/// A kernel with its launch parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub name: Name,
    pub grid: [i32; 3],
    pub block: [i32; 3],
    pub cluster: [u32; 3],
    pub registers: u16,
    pub static_shared: i32,
    pub dynamic_shared: i32,
    pub local: u32,
}

impl Kernel {
    pub(crate) const fn with_name(name: Name) -> Self {
        Self {
            name,
            grid: [1; 3],
            block: [128, 1, 1],
            cluster: [0; 3],
            registers: 32,
            static_shared: 0,
            dynamic_shared: 0,
            local: 0,
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
    pub peer: Option<u32>,
}

pub(crate) const PINNED: u8 = 2;
pub(crate) const DEVICE: u8 = 3;

impl Copy {
    pub(crate) const fn to_device(bytes: u64, is_async: bool) -> Self {
        Self { kind: 1, source: PINNED, target: DEVICE, is_async, bytes, peer: None }
    }

    pub(crate) const fn to_host(bytes: u64, is_async: bool) -> Self {
        Self { kind: 2, source: DEVICE, target: PINNED, is_async, bytes, peer: None }
    }

    pub(crate) const fn on_device(bytes: u64, is_async: bool) -> Self {
        Self { kind: 8, source: DEVICE, target: DEVICE, is_async, bytes, peer: None }
    }
}

/// A fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Set {
    pub value: u32,
    pub bytes: u64,
}

/// Kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Kernel(Kernel),
    Copy(Copy),
    Set(Set),
}

/// Parameters of a call that copies or fills memory, for callbacks.
pub(crate) type MemoryParameters = [u64; 3];

impl Work {
    /// Whether the size is not zero.
    const fn has_effect(&self) -> bool {
        !matches!(self, Self::Copy(Copy { bytes: 0, .. }) | Self::Set(Set { bytes: 0, .. }))
    }

    /// Returns the parameters of the call, for memory at these addresses.
    pub(crate) const fn parameters(&self, to: u64, from: u64) -> MemoryParameters {
        match self {
            Self::Kernel(_) => [to, from, 0],
            Self::Copy(copy) => [to, from, copy.bytes],
            Self::Set(set) => [to, from, set.bytes],
        }
    }
}

/// Device, context and stream of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub device: u32,
    pub context: u32,
    pub stream: u32,
}

/// Graph and node of an operation, for its record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GraphIds {
    /// Id of the executable graph.
    pub graph: u32,
    pub node: u64,
    /// Ids of the original graph and node.
    pub source_graph: u32,
    pub source_node: u64,
}

/// Outcome of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fate {
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
    pub nanos: u64,
    /// Idle time of the stream before the operation.
    pub gap_nanos: u64,
    pub fate: Fate,
}

impl Operation {
    pub(crate) const fn new(work: Work, nanos: u64) -> Self {
        Self { work, nanos, gap_nanos: 0, fate: Fate::Recorded }
    }

    /// Runs the operation. Returns its start and end.
    #[inline]
    pub(crate) fn run(&self, target: Target, graph: GraphIds, correlation: u32) -> (u64, u64) {
        let mut output = output();
        let nanos = if self.work.has_effect() { self.nanos } else { 0 };
        let span = output.occupy(target.device, target.stream, self.gap_nanos, nanos);
        if !self.work.has_effect() {
            return span;
        }
        let recorded_span = match self.fate {
            Fate::Unrecorded => return span,
            Fate::Untimed => (0, 0),
            Fate::Backwards => (span.1, span.0),
            Fate::Recorded | Fate::Unfinished => span,
        };
        match &self.work {
            Work::Kernel(kernel) => {
                let Some(kind) = enabled_kernel_kind() else { return span };
                let record = kernel.record(kind, target, graph, correlation, recorded_span);
                if self.fate == Fate::Unfinished {
                    output::begin_kernel(output, record);
                } else {
                    output::send(output, record);
                }
            }
            Work::Copy(copy) => match copy.peer {
                Some(peer) if activity::is_enabled(kind::PEER_COPY) => {
                    output::send(
                        output,
                        copy.peer_record(peer, target, graph, correlation, recorded_span),
                    );
                }
                None if activity::is_enabled(kind::COPY) => {
                    output::send(output, copy.record(target, graph, correlation, recorded_span));
                }
                _ => {}
            },
            Work::Set(set) if activity::is_enabled(kind::SET) => {
                output::send(output, set.record(target, graph, correlation, recorded_span));
            }
            Work::Set(_) => {}
        }
        span
    }
}

/// Returns the enabled kernel kind, if any.
#[inline]
fn enabled_kernel_kind() -> Option<u32> {
    let kinds = [kind::CONCURRENT_KERNEL, kind::KERNEL];
    kinds.into_iter().find(|kind| activity::is_enabled(*kind))
}

impl Kernel {
    #[inline]
    fn record(
        &self,
        kind: u32,
        target: Target,
        graph: GraphIds,
        correlation: u32,
        (start, end): (u64, u64),
    ) -> KernelRecord {
        KernelRecord {
            kind,
            registers: self.registers,
            start,
            end,
            completed: end,
            device: target.device,
            context: target.context,
            stream: target.stream,
            grid: self.grid,
            block: self.block,
            static_shared: self.static_shared,
            dynamic_shared: self.dynamic_shared,
            local_per_thread: self.local,
            correlation,
            grid_id: correlation.into(),
            name: name::for_record(self.name.address()),
            shared_executed: self.static_shared.saturating_add(self.dynamic_shared).cast_unsigned(),
            graph_node: graph.node,
            graph: graph.graph,
            cluster: self.cluster,
            source_graph: graph.source_graph,
            source_node: graph.source_node,
            ..KernelRecord::default()
        }
    }
}

impl Copy {
    fn record(
        &self,
        target: Target,
        graph: GraphIds,
        correlation: u32,
        (start, end): (u64, u64),
    ) -> CopyRecord {
        CopyRecord {
            kind: kind::COPY,
            copy_kind: self.kind,
            source: self.source,
            target: self.target,
            flags: self.is_async.into(),
            bytes: self.bytes,
            start,
            end,
            device: target.device,
            context: target.context,
            stream: target.stream,
            correlation,
            graph_node: graph.node,
            graph: graph.graph,
            copies: 1,
            source_graph: graph.source_graph,
            source_node: graph.source_node,
            ..CopyRecord::default()
        }
    }

    fn peer_record(
        &self,
        peer: u32,
        target: Target,
        graph: GraphIds,
        correlation: u32,
        (start, end): (u64, u64),
    ) -> PeerRecord {
        /// `CUPTI_ACTIVITY_MEMCPY_KIND_PTOP`.
        const FROM_PEER_TO_PEER: u8 = 10;
        PeerRecord {
            kind: kind::PEER_COPY,
            copy_kind: FROM_PEER_TO_PEER,
            source: self.source,
            target: self.target,
            flags: self.is_async.into(),
            bytes: self.bytes,
            start,
            end,
            device: target.device,
            context: target.context,
            stream: target.stream,
            source_device: target.device,
            source_context: target.context,
            target_device: peer,
            target_context: context::for_device(peer).get().map_or(0, |context| context.id),
            correlation,
            graph_node: graph.node,
            graph: graph.graph,
            ..PeerRecord::default()
        }
    }
}

impl Set {
    fn record(
        &self,
        target: Target,
        graph: GraphIds,
        correlation: u32,
        (start, end): (u64, u64),
    ) -> SetRecord {
        SetRecord {
            kind: kind::SET,
            value: self.value,
            bytes: self.bytes,
            start,
            end,
            device: target.device,
            context: target.context,
            stream: target.stream,
            correlation,
            memory_kind: DEVICE.into(),
            graph_node: graph.node,
            graph: graph.graph,
            source_graph: graph.source_graph,
            source_node: graph.source_node,
            ..SetRecord::default()
        }
    }
}
