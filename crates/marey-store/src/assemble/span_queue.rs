//! Passes spans on in the order of their starts, although they end in another order. Nesting uses
//! it to write spans without a second sort.

use std::collections::VecDeque;
use std::mem;
use std::sync::mpsc::SyncSender;

use crate::StoreError;
use crate::row::Span;
use crate::sort::{Sorter, SpillFile};

/// Number of spans in a batch for the writing thread, few enough to stay in a CPU cache.
const BATCH_ROWS: usize = 1 << 9;

/// Maximum number of spans that are held back behind one that is still open.
const MAX_PENDING: usize = 1024;

/// A queue that passes spans on in the order of their starts. Each is passed on once it and all
/// earlier ones have ended.
pub(super) struct SpanQueue {
    /// Spans in the order of their starts, each with whether it has ended. The one at the front has
    /// not.
    pending: VecDeque<(Span, bool)>,
    /// The number of the span at the front: the number of spans that began before it.
    first_number: u64,
    /// The batch that is sent next.
    batch: Vec<Span>,
    span_sender: SyncSender<Vec<Span>>,
    /// The spans that were released before they ended, so that others could pass.
    late_spans: Sorter<Span>,
}

/// A span that has not ended yet.
#[derive(Clone, Copy)]
pub(super) struct OpenSpan {
    /// The number of spans that began before it.
    pub(super) number: u64,
    pub(super) thread: u32,
}

impl SpanQueue {
    pub(super) fn new(span_sender: SyncSender<Vec<Span>>, spill_file: &SpillFile) -> Self {
        let (pending, batch, late_spans) = (VecDeque::new(), new_batch(), Sorter::new(spill_file));
        Self { pending, first_number: 0, batch, span_sender, late_spans }
    }

    /// Appends a span that begins. Returns its number.
    pub(super) fn begin(&mut self, span: Span) -> u64 {
        let number = self.first_number + self.pending.len() as u64;
        self.pending.push_back((span, false));
        number
    }

    /// Returns the span at the front, if it holds back too many others.
    pub(super) fn blocking_span(&self) -> Option<OpenSpan> {
        let (span, _) = self.pending.front().filter(|_| self.pending.len() >= MAX_PENDING)?;
        Some(OpenSpan { number: self.first_number, thread: span.thread_id })
    }

    /// Marks the span with this number as ended.
    pub(super) fn end(&mut self, number: u64, children_nanos: i64) {
        let (span, has_ended) = &mut self.pending[(number - self.first_number) as usize];
        (span.children_nanos, *has_ended) = (children_nanos, true);
        self.send_ended();
    }

    /// Adds the final row of a span that was released early.
    pub(super) fn end_late(&mut self, span: &Span) -> Result<(), StoreError> {
        self.late_spans.push(span)
    }

    /// Releases the open span at the front, so that those behind it can pass.
    pub(super) fn release_first(&mut self) -> Option<Span> {
        let (span, _) = self.pending.pop_front()?;
        self.first_number += 1;
        self.send_ended();
        Some(span)
    }

    /// Moves ended spans from the front to the batch.
    fn send_ended(&mut self) {
        while let Some((span, _)) = self.pending.pop_front_if(|(_, has_ended)| *has_ended) {
            self.first_number += 1;
            self.batch.push(span);
            if self.batch.len() == BATCH_ROWS {
                self.send();
            }
        }
    }

    fn send(&mut self) {
        // The receiver hangs up only if it failed, and reports that itself.
        drop(self.span_sender.send(mem::replace(&mut self.batch, new_batch())));
    }

    /// Sends the last batch. All spans must have ended. Returns the spans that were released early.
    pub(super) fn finish(mut self) -> Sorter<Span> {
        self.send();
        self.late_spans
    }
}

fn new_batch() -> Vec<Span> {
    Vec::with_capacity(BATCH_ROWS)
}
