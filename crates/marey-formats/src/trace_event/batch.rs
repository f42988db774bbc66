//! Part of a file with the pieces in it that were made out, on its way from who finds them to who
//! makes rows of them.

use std::mem;

use super::event::{Event, Members, Pieces};

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
