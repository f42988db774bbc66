//! Spans that leave the nesting: by their start, though they are over in another order.

use std::collections::VecDeque;
use std::mem;
use std::sync::mpsc::SyncSender;

use super::BATCH_ROWS;
use crate::StoreError;
use crate::row::Span;
use crate::sort::{Room, Sorter};

/// Spans that wait for one that began before them and is not over.
const MAX_PENDING: usize = 1024;

/// Spans on their way to who writes them.
pub(super) struct Leaving {
    /// By their start, each with whether it is over; the first is not.
    pending: VecDeque<(Span, bool)>,
    /// How many began before the first of those.
    first: u64,
    /// Those that have left, next by their start.
    left: Vec<Span>,
    out: SyncSender<Vec<Span>>,
    /// Those that the others did not wait for.
    late: Sorter<Span>,
}

/// A span that is not known to be over.
#[derive(Clone, Copy)]
pub(super) struct Begun {
    /// How many began before it.
    pub(super) number: u64,
    pub(super) thread: u32,
}

impl Leaving {
    pub(super) fn new(out: SyncSender<Vec<Span>>, room: &Room) -> Self {
        let (pending, left, late) = (VecDeque::new(), empty(), Sorter::new(room));
        Self { pending, first: 0, left, out, late }
    }

    /// One began; its number.
    pub(super) fn begin(&mut self, span: Span) -> u64 {
        let number = self.first + self.pending.len() as u64;
        self.pending.push_back((span, false));
        number
    }

    /// The first one, if too many wait for it.
    pub(super) fn held_up(&self) -> Option<Begun> {
        let (span, _) = self.pending.front().filter(|_| self.pending.len() >= MAX_PENDING)?;
        Some(Begun { number: self.first, thread: span.thread_id })
    }

    /// The one with this number is over.
    pub(super) fn end(&mut self, number: u64, children_nanos: i64) {
        let (span, is_over) = &mut self.pending[(number - self.first) as usize];
        (span.children_nanos, *is_over) = (children_nanos, true);
        self.send_those_over();
    }

    /// One is over that the others did not wait for.
    pub(super) fn end_late(&mut self, span: &Span) -> Result<(), StoreError> {
        self.late.push(span)
    }

    /// Takes the first one, for which the others wait no more.
    pub(super) fn take_first(&mut self) -> Option<Span> {
        let (span, _) = self.pending.pop_front()?;
        self.first += 1;
        self.send_those_over();
        Some(span)
    }

    /// Sends those in front that are over.
    fn send_those_over(&mut self) {
        while let Some((span, _)) = self.pending.pop_front_if(|(_, is_over)| *is_over) {
            self.first += 1;
            self.left.push(span);
            if self.left.len() == BATCH_ROWS {
                self.send();
            }
        }
    }

    fn send(&mut self) {
        // Who takes them may have failed, and says why.
        drop(self.out.send(mem::replace(&mut self.left, empty())));
    }

    /// Sends the last ones, of which all are over; those that the others did not wait for.
    pub(super) fn finish(mut self) -> Sorter<Span> {
        self.send();
        self.late
    }
}

fn empty() -> Vec<Span> {
    Vec::with_capacity(BATCH_ROWS)
}
