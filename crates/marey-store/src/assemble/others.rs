//! Rows that nobody nests or links.

use super::write;
use crate::StoreError;
use crate::parts::Parts;
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
        write(self.collectives, shift, parts)?;
        write(self.memory_events, shift, parts)?;
        write(self.memory_blocks, shift, parts)?;
        write(self.devices, shift, parts)?;
        write(self.metadata, shift, parts)
    }
}
