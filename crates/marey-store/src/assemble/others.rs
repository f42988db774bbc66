//! Rows that nobody nests or links.

use std::path::Path;

use super::write;
use crate::StoreError;
use crate::parts::Parts;
use crate::row::{
    AsyncSpan, Collective, Device, Flow, Instant, MemoryBlock, MemoryEvent, Metadata, Metric,
    Sample,
};
use crate::sort::Sorter;

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
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            async_spans: Sorter::new(folder),
            instants: Sorter::new(folder),
            flows: Sorter::new(folder),
            metrics: Sorter::new(folder),
            samples: Sorter::new(folder),
            collectives: Sorter::new(folder),
            memory_events: Sorter::new(folder),
            memory_blocks: Sorter::new(folder),
            devices: Sorter::new(folder),
            metadata: Sorter::new(folder),
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
