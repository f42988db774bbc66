//! Part of a file with the pieces in it that were made out, on its way from who finds them to who
//! makes rows of them.

use std::mem;

use super::event::{Event, Members, Pieces};
use super::lexer::Stop;
use super::shape::Shapes;

/// Bytes of a file, and what they are.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    /// Where they end in the file.
    pub(super) end: u64,
    pub(super) items: Vec<Item>,
    pub(super) members: Members,
}

/// What stands somewhere.
#[derive(Debug)]
pub(super) enum Item {
    /// An event.
    Event(Found),
    /// A key beside the events, and its value as JSON.
    Key(String, String),
    /// An event that cannot be read, and why.
    Bad { offset: u64, cause: &'static str },
}

/// An event whose pieces are known.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) start: usize,
    pub(super) len: usize,
    pub(super) pieces: Pieces,
}

impl Batch {
    /// Makes it empty, and gives its bytes back.
    pub(super) fn clear(&mut self) -> Vec<u8> {
        self.items.clear();
        self.members.truncate(Members::default().lens());
        mem::take(&mut self.bytes)
    }

    /// Adds the event that begins here, so far into the bytes; its length.
    pub(super) fn find_event(
        &mut self,
        bytes: &[u8],
        start: usize,
        shapes: &mut Shapes,
    ) -> Result<usize, Stop> {
        // In its place from the start: it is too large to be moved about.
        let item = Item::Event(Found { start, len: 0, pieces: Pieces::default() });
        let Item::Event(found) = self.items.push_mut(item) else { unreachable!("it is an event") };
        let end = found.pieces.find(bytes, &mut self.members, shapes);
        match end {
            Ok(len) => found.len = len,
            Err(_) => drop(self.items.pop()),
        }
        end
    }

    /// What is text from the first event on, and where that begins: looked at once, not event by event.
    pub(super) fn text(&self) -> (&str, usize) {
        let is_event =
            |item: &Item| if let Item::Event(found) = item { Some(found.start) } else { None };
        let start = self.items.iter().find_map(is_event).unwrap_or(self.bytes.len());
        let bytes = &self.bytes[start..];
        // A character may be cut at the end, behind the last event.
        let text = std::str::from_utf8(bytes)
            .or_else(|error| std::str::from_utf8(&bytes[..error.valid_up_to()]));
        (text.unwrap_or_default(), start)
    }

    /// The bytes of an event.
    pub(super) fn bytes_of(&self, found: &Found) -> &[u8] {
        &self.bytes[found.start..found.start + found.len]
    }

    /// An event in its text.
    pub(super) fn event<'a>(&'a self, found: &'a Found, text: &'a str) -> Event<'a> {
        found.pieces.event(text, &self.members, self.offset_of(found))
    }

    /// Where an event begins in the file.
    pub(super) fn offset_of(&self, found: &Found) -> u64 {
        self.end - (self.bytes.len() - found.start) as u64
    }
}
