//! Keeps the slices that have begun and not ended, and makes rows of them at their ends.

use marey_model::args::NewArgs;
use marey_model::loss::LossCause;
use marey_store::row::{AsyncSpan, GpuActivity};
use marey_store::{Slice, StoreError};

use super::EventConverter;

/// The key of a stack of open slices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StackKey {
    /// A thread of the run.
    Thread(u32),
    /// A track without a thread.
    Track(u64),
    /// Asynchronous slices by process (for local ids), category, id scope and id.
    Async(Option<u32>, Option<u32>, String, u64),
}

/// A slice that has begun.
#[derive(Debug)]
pub(super) struct OpenSlice {
    pub(super) row: PartialRow,
    pub(super) args: NewArgs,
}

/// The row of a slice, complete except for duration and arguments.
#[derive(Debug)]
pub(super) enum PartialRow {
    Span(Slice),
    AsyncSpan(AsyncSpan),
    Activity(Box<GpuActivity>),
}

impl PartialRow {
    fn start_nanos(&self) -> i64 {
        match self {
            Self::Span(row) => row.start_nanos,
            Self::AsyncSpan(row) => row.start_nanos,
            Self::Activity(row) => row.start_nanos,
        }
    }
}

impl EventConverter<'_> {
    /// Ends a slice. Leaves it out if it ends before it begins.
    pub(super) fn finish_slice(
        &mut self,
        open_slice: OpenSlice,
        end_nanos: i64,
    ) -> Result<(), StoreError> {
        let Some(duration_nanos) = end_nanos.checked_sub(open_slice.row.start_nanos()) else {
            self.lose(LossCause::Unreadable, "a slice of more than 292 years");
            return Ok(());
        };
        if duration_nanos < 0 {
            self.lose(LossCause::Unreadable, "a slice that ends before it begins");
            return Ok(());
        }
        let OpenSlice { row, mut args } = open_slice;
        let run = &mut self.import.run;
        let args = run.args(&mut args)?;
        match row {
            PartialRow::Span(row) => run.add_slice(&Slice { duration_nanos, args, ..row }),
            PartialRow::AsyncSpan(row) => {
                run.add_async_span(&AsyncSpan { duration_nanos, args, ..row })
            }
            PartialRow::Activity(row) => {
                run.add_gpu_activity(&GpuActivity { duration_nanos, args, ..*row })
            }
        }
    }

    /// Ends the open slices at the end of their processes.
    pub(super) fn finish_all_slices(&mut self) -> Result<(), StoreError> {
        let open_slices = std::mem::take(&mut self.open_slices);
        // A process lasts at least until the start of its last open slice.
        for open_slice in open_slices.values().flatten() {
            if let Some(process_id) = self.process_of_slice(open_slice) {
                self.import.run.extend(process_id, open_slice.row.start_nanos(), 0);
            }
        }
        for mut open_slice in open_slices.into_values().flatten() {
            let process_id = self.process_of_slice(&open_slice);
            match &mut open_slice.row {
                PartialRow::Span(row) => row.is_open = true,
                PartialRow::AsyncSpan(row) => row.is_open = true,
                PartialRow::Activity(_) => {}
            }
            let extent = process_id.and_then(|process_id| self.import.run.extent_nanos(process_id));
            let last_nanos = extent.map_or(open_slice.row.start_nanos(), |(_, last)| last);
            self.finish_slice(open_slice, last_nanos)?;
        }
        Ok(())
    }

    fn process_of_slice(&self, open_slice: &OpenSlice) -> Option<u32> {
        match &open_slice.row {
            PartialRow::Span(row) => self.tracks.process_of_thread(row.thread_id),
            PartialRow::AsyncSpan(row) => Some(row.process_id),
            PartialRow::Activity(row) => Some(row.process_id),
        }
    }
}
