//! The rows of an assembly that need neither nesting nor a launch. They are only sorted and
//! written.

use hashbrown::HashMap;

use super::finish::write_sorted;
use super::points::LocatedPoints;
use crate::StoreError;
use crate::parts::{Parts, RowPart};
use crate::row::{
    AsyncSpan, Collective, Device, Flow, Instant, MemoryBlock, MemoryEvent, Metadata, Metric,
    Sample,
};
use crate::sort::{Sorter, SpillFile};

/// Rows that are only sorted and written.
#[derive(Debug)]
pub(super) struct PlainRows {
    pub(super) async_spans: Sorter<AsyncSpan>,
    pub(super) instants: Sorter<Instant>,
    pub(super) flows: Sorter<Flow>,
    pub(super) metrics: Sorter<Metric>,
    pub(super) samples: Sorter<Sample>,
    pub(super) collectives: Sorter<Collective>,
    pub(super) memory_events: Sorter<MemoryEvent>,
    pub(super) memory_blocks: Sorter<MemoryBlock>,
    pub(super) devices: Sorter<Device>,
    pub(super) metadata: Sorter<Metadata>,
    /// Properties of process groups, by the ids of their names.
    pub(super) groups: HashMap<u32, ProcessGroup>,
}

/// Properties of a process group. `None` stands for a property that the file lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessGroup {
    /// Number of ranks.
    pub size: Option<u32>,
    /// The ranks, as the id of a text such as `0-3,8`.
    pub ranks_id: Option<u32>,
}

impl PlainRows {
    pub(super) fn new(spill_file: &SpillFile) -> Self {
        Self {
            async_spans: Sorter::new(spill_file),
            instants: Sorter::new(spill_file),
            flows: Sorter::new(spill_file),
            metrics: Sorter::new(spill_file),
            samples: Sorter::new(spill_file),
            collectives: Sorter::new(spill_file),
            memory_events: Sorter::new(spill_file),
            memory_blocks: Sorter::new(spill_file),
            devices: Sorter::new(spill_file),
            metadata: Sorter::new(spill_file),
            groups: HashMap::new(),
        }
    }

    pub(super) fn event_count(&self) -> u64 {
        self.async_spans.row_count()
            + self.instants.row_count()
            + self.flows.row_count()
            + self.metrics.row_count()
            + self.samples.row_count()
            + self.collectives.row_count()
            + self.memory_events.row_count()
            + self.memory_blocks.row_count()
    }

    /// Spills all rows to temporary files.
    pub(super) fn spill(&mut self) -> Result<(), StoreError> {
        self.async_spans.spill()?;
        self.instants.spill()?;
        self.flows.spill()?;
        self.metrics.spill()?;
        self.samples.spill()?;
        self.collectives.spill()?;
        self.memory_events.spill()?;
        self.memory_blocks.spill()?;
        self.devices.spill()?;
        self.metadata.spill()
    }

    pub(super) fn write(
        self,
        shift_nanos: i64,
        memory_points: LocatedPoints,
        parts: &mut Parts,
    ) -> Result<(), StoreError> {
        write_sorted(self.async_spans, shift_nanos, parts)?;
        write_sorted(self.instants, shift_nanos, parts)?;
        write_sorted(self.flows, shift_nanos, parts)?;
        write_sorted(self.metrics, shift_nanos, parts)?;
        write_sorted(self.samples, shift_nanos, parts)?;
        write_collectives(self.collectives, &self.groups, shift_nanos, parts)?;
        write_memory_events(self.memory_events, memory_points, shift_nanos, parts)?;
        write_sorted(self.memory_blocks, shift_nanos, parts)?;
        write_sorted(self.devices, shift_nanos, parts)?;
        write_sorted(self.metadata, shift_nanos, parts)
    }
}

/// Writes memory events. Those with a thread and without a context node get the nodes of `points`.
fn write_memory_events(
    events: Sorter<MemoryEvent>,
    points: LocatedPoints,
    shift_nanos: i64,
    parts: &mut Parts,
) -> Result<(), StoreError> {
    let mut part = RowPart::new(shift_nanos);
    let mut contexts = points.into_contexts();
    events.for_each(|mut row| {
        if row.thread_id.is_some() && row.context_id.is_none() {
            row.context_id = contexts.next().flatten();
        }
        part.push(&row, parts)
    })?;
    part.finish(parts)
}

/// Writes collectives, completed with the properties of their groups.
fn write_collectives(
    collectives: Sorter<Collective>,
    groups: &HashMap<u32, ProcessGroup>,
    shift_nanos: i64,
    parts: &mut Parts,
) -> Result<(), StoreError> {
    let mut part = RowPart::new(shift_nanos);
    collectives.for_each(|row| {
        let group = groups.get(&row.group_id).copied().unwrap_or_default();
        let row = Collective {
            group_size: row.group_size.or(group.size),
            group_ranks_id: row.group_ranks_id.or(group.ranks_id),
            ..row
        };
        part.push(&row, parts)
    })?;
    part.finish(parts)
}
