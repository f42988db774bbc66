//! The result of the second pass over a spool: its events, sorted by time, and the sums of its
//! spans.

use crate::collect::autograd::Autograd;
use crate::collect::rows::{SpanRow, Stamp, ValueRow};
use crate::collect::windows::SpanDetail;
use crate::rollup::{Rollup, Totals};
use crate::row::{self, GpuActivity, MemoryEvent};
use crate::sort::{Sorter, SpillFile};

/// The events of a spool, and their sums.
#[derive(Debug)]
pub(in crate::collect) struct SpoolRows {
    pub(in crate::collect) stamps: Vec<Stamp>,
    /// The sums of each node.
    pub(in crate::collect) totals: Vec<Totals>,
    pub(in crate::collect) rollup: Rollup,
    pub(in crate::collect) sorted: SortedRows,
    /// Points of flows from windows. Their threads are positions.
    pub(in crate::collect) flows: Vec<row::Flow>,
    /// Memory events of windows. Their threads are positions.
    pub(in crate::collect) memory_events: Vec<row::MemoryEvent>,
    /// Columns that only some spans have.
    pub(in crate::collect) details: Vec<SpanDetail>,
    /// Argument texts, to which rows refer by position.
    pub(in crate::collect) arg_texts: Vec<String>,
}

/// The events of a spool that are sorted by time. Their threads are positions among the threads of
/// the spool.
#[derive(Debug)]
pub(in crate::collect) struct SortedRows {
    pub(in crate::collect) spans: Sorter<SpanRow>,
    /// Marks, as spans of duration 0.
    pub(in crate::collect) marks: Sorter<SpanRow>,
    pub(in crate::collect) values: Sorter<ValueRow>,
    pub(in crate::collect) activities: Sorter<GpuActivity>,
    pub(in crate::collect) autograd: Autograd,
    pub(in crate::collect) counters: Sorter<row::Counter>,
    pub(in crate::collect) collectives: Sorter<row::Collective>,
    pub(in crate::collect) variables: Sorter<row::Variable>,
    pub(in crate::collect) samples: Sorter<row::Sample>,
    /// Readings of memory.
    pub(in crate::collect) readings: Sorter<MemoryEvent>,
}

impl SortedRows {
    pub(super) fn new(spill_file: &SpillFile) -> Self {
        Self {
            spans: Sorter::new(spill_file),
            marks: Sorter::new(spill_file),
            values: Sorter::new(spill_file),
            activities: Sorter::new(spill_file),
            autograd: Autograd::new(spill_file),
            counters: Sorter::new(spill_file),
            collectives: Sorter::new(spill_file),
            variables: Sorter::new(spill_file),
            samples: Sorter::new(spill_file),
            readings: Sorter::new(spill_file),
        }
    }

    /// Returns the number of events.
    pub(in crate::collect) fn count(&self) -> u64 {
        let Self { spans, marks, values, activities, autograd, .. } = self;
        let Self { counters, collectives, variables, samples, readings, .. } = self;
        [
            spans.row_count(),
            marks.row_count(),
            values.row_count(),
            activities.row_count(),
            autograd.row_count(),
            counters.row_count(),
            collectives.row_count(),
            variables.row_count(),
            samples.row_count(),
            readings.row_count(),
        ]
        .into_iter()
        .sum()
    }
}
