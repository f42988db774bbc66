//! Slices that began and did not end yet.

use marey_model::args::NewArgs;
use marey_model::loss::LossCause;
use marey_store::row::{AsyncSpan, GpuActivity};
use marey_store::{Slice, StoreError};

use super::Events;

/// What slices are on top of each other on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stack {
    /// A thread of the run.
    Thread(u32),
    /// A track that is no thread's own.
    Track(u64),
    /// What a process, if it is of one, knows by a category and an id in a scope.
    Async(Option<u32>, Option<u32>, String, u64),
}

/// A slice that began.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) row: Beginning,
    pub(super) args: NewArgs,
}

/// What a slice becomes. The row has all but its duration and arguments.
#[derive(Debug)]
pub(super) enum Beginning {
    Span(Slice),
    AsyncSpan(AsyncSpan),
    Activity(Box<GpuActivity>),
}

impl Beginning {
    fn start_nanos(&self) -> i64 {
        match self {
            Self::Span(row) => row.start_nanos,
            Self::AsyncSpan(row) => row.start_nanos,
            Self::Activity(row) => row.start_nanos,
        }
    }
}

impl Events<'_> {
    /// Ends a slice. One that ends before it began is left out.
    pub(super) fn end(&mut self, open: Open, end_nanos: i64) -> Result<(), StoreError> {
        let Some(duration_nanos) = end_nanos.checked_sub(open.row.start_nanos()) else {
            self.lose(LossCause::Unreadable, "a slice of more than 292 years");
            return Ok(());
        };
        if duration_nanos < 0 {
            self.lose(LossCause::Unreadable, "a slice that ends before it begins");
            return Ok(());
        }
        let Open { row, mut args } = open;
        let run = &mut self.import.run;
        let args = run.args(&mut args)?;
        match row {
            Beginning::Span(row) => run.add_slice(&Slice { duration_nanos, args, ..row }),
            Beginning::AsyncSpan(row) => {
                run.add_async_span(&AsyncSpan { duration_nanos, args, ..row })
            }
            Beginning::Activity(row) => {
                run.add_gpu_activity(&GpuActivity { duration_nanos, args, ..*row })
            }
        }
    }

    /// Ends what is open at the last moment that there is of its process.
    pub(super) fn end_all(&mut self) -> Result<(), StoreError> {
        let all = std::mem::take(&mut self.open);
        // What is open goes on at least until the last of it began.
        for open in all.values().flatten() {
            if let Some(process) = self.process_of(open) {
                self.import.run.extend(process, open.row.start_nanos(), 0);
            }
        }
        for mut open in all.into_values().flatten() {
            let process = self.process_of(&open);
            match &mut open.row {
                Beginning::Span(row) => row.is_open = true,
                Beginning::AsyncSpan(row) => row.is_open = true,
                Beginning::Activity(_) => {}
            }
            let extent = process.and_then(|process| self.import.run.extent_nanos(process));
            let last_nanos = extent.map_or(open.row.start_nanos(), |(_, last)| last);
            self.end(open, last_nanos)?;
        }
        Ok(())
    }

    fn process_of(&self, open: &Open) -> Option<u32> {
        match &open.row {
            Beginning::Span(row) => self.tracks.process_of(row.thread_id),
            Beginning::AsyncSpan(row) => Some(row.process_id),
            Beginning::Activity(row) => Some(row.process_id),
        }
    }
}
