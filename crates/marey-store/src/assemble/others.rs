//! Rows that nobody nests or links.

use hashbrown::HashMap;

use super::write;
use crate::StoreError;
use crate::parts::{Parts, RowPart};
use crate::row::{
    AsyncSpan, Collective, Device, Flow, Instant, MemoryBlock, MemoryEvent, Metadata, Metric,
    Sample,
};
use crate::sort::{Room, Sorter};

/// Rows that are written as they came.
#[derive(Debug)]
pub(super) struct Others {
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
    /// What the file says of process groups, by the id of their name.
    pub(super) groups: HashMap<u32, ProcessGroup>,
}

/// What a file says of a process group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessGroup {
    /// How many ranks it has.
    pub size: Option<u32>,
    /// Which ranks, as the id of a text such as `0-3,8`.
    pub ranks_id: Option<u32>,
}

impl Others {
    pub(super) fn new(room: &Room) -> Self {
        Self {
            async_spans: Sorter::new(room),
            instants: Sorter::new(room),
            flows: Sorter::new(room),
            metrics: Sorter::new(room),
            samples: Sorter::new(room),
            collectives: Sorter::new(room),
            memory_events: Sorter::new(room),
            memory_blocks: Sorter::new(room),
            devices: Sorter::new(room),
            metadata: Sorter::new(room),
            groups: HashMap::new(),
        }
    }

    pub(super) fn events(&self) -> u64 {
        self.async_spans.rows()
            + self.instants.rows()
            + self.flows.rows()
            + self.metrics.rows()
            + self.samples.rows()
            + self.collectives.rows()
            + self.memory_events.rows()
            + self.memory_blocks.rows()
    }

    /// Has all rows in files.
    pub(super) fn rest(&mut self) -> Result<(), StoreError> {
        self.async_spans.rest()?;
        self.instants.rest()?;
        self.flows.rest()?;
        self.metrics.rest()?;
        self.samples.rest()?;
        self.collectives.rest()?;
        self.memory_events.rest()?;
        self.memory_blocks.rest()?;
        self.devices.rest()?;
        self.metadata.rest()
    }

    pub(super) fn write(self, shift: i64, parts: &mut Parts) -> Result<(), StoreError> {
        write(self.async_spans, shift, parts)?;
        write(self.instants, shift, parts)?;
        write(self.flows, shift, parts)?;
        write(self.metrics, shift, parts)?;
        write(self.samples, shift, parts)?;
        write_collectives(self.collectives, &self.groups, shift, parts)?;
        write(self.memory_events, shift, parts)?;
        write(self.memory_blocks, shift, parts)?;
        write(self.devices, shift, parts)?;
        write(self.metadata, shift, parts)
    }
}

/// Writes collectives, each with what is known of its group.
fn write_collectives(
    collectives: Sorter<Collective>,
    groups: &HashMap<u32, ProcessGroup>,
    shift: i64,
    parts: &mut Parts,
) -> Result<(), StoreError> {
    let mut part = RowPart::new(shift);
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
