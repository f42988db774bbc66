//! Batches of events, which the scanning thread fills and the main thread converts to rows.

use std::mem;

use super::event::{Event, EventRanges, Members};
use super::lexer::LexError;
use super::shape::Shapes;

/// A part of the bytes of a file, with the events and keys that were found in it.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    /// File offset of the end of the bytes.
    pub(super) end_offset: u64,
    pub(super) items: Vec<BatchItem>,
    pub(super) members: Members,
}

/// A part of a trace that the scanning thread has found.
#[derive(Debug)]
pub(super) enum BatchItem {
    /// An event that can be parsed.
    Event(FoundEvent),
    /// A key next to the list of events, and its value as JSON.
    Member(String, String),
    /// An event that cannot be parsed, and the cause.
    Malformed { offset: u64, cause: &'static str },
}

/// An event whose ranges were found.
#[derive(Debug)]
pub(super) struct FoundEvent {
    pub(super) start: usize,
    pub(super) len: usize,
    pub(super) ranges: EventRanges,
}

impl Batch {
    /// Empties the batch and returns its bytes for reuse.
    pub(super) fn clear(&mut self) -> Vec<u8> {
        self.items.clear();
        self.members.truncate(Members::default().counts());
        mem::take(&mut self.bytes)
    }

    /// Adds the event at the start of `bytes`, which is at `start` in the buffer. Returns its
    /// length.
    pub(super) fn find_event(
        &mut self,
        bytes: &[u8],
        start: usize,
        shapes: &mut Shapes,
    ) -> Result<usize, LexError> {
        // Constructed in place, because it is too large to be moved cheaply.
        let item = BatchItem::Event(FoundEvent { start, len: 0, ranges: EventRanges::default() });
        let BatchItem::Event(found) = self.items.push_mut(item) else {
            unreachable!("it is an event")
        };
        let end = found.ranges.parse(bytes, &mut self.members, shapes);
        match end {
            Ok(len) => found.len = len,
            Err(_) => drop(self.items.pop()),
        }
        end
    }

    /// Returns the bytes from the first event on as text, and their start. Validates them all at
    /// once, which is faster than event by event.
    pub(super) fn event_text(&self) -> (&str, usize) {
        let event_start = |item: &BatchItem| {
            if let BatchItem::Event(found) = item { Some(found.start) } else { None }
        };
        let start = self.items.iter().find_map(event_start).unwrap_or(self.bytes.len());
        let bytes = &self.bytes[start..];
        // The end of the batch may cut a character, which then lies after the last event.
        let text = std::str::from_utf8(bytes)
            .or_else(|error| std::str::from_utf8(&bytes[..error.valid_up_to()]));
        (text.unwrap_or_default(), start)
    }

    /// Returns the bytes of an event.
    pub(super) fn bytes_of(&self, found: &FoundEvent) -> &[u8] {
        &self.bytes[found.start..found.start + found.len]
    }

    /// Returns an event with its text.
    pub(super) fn event<'a>(&'a self, found: &'a FoundEvent, text: &'a str) -> Event<'a> {
        found.ranges.event(text, &self.members, self.offset_of(found))
    }

    /// Returns the file offset of an event.
    pub(super) fn offset_of(&self, found: &FoundEvent) -> u64 {
        self.end_offset - (self.bytes.len() - found.start) as u64
    }
}
