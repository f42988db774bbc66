//! Writes the argument texts of events, deduplicated within a memory limit.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use marey_model::table::stored::ARGS;

use crate::StoreError;
use crate::columns::{ids, texts};
use crate::parts::{LazyPart, Parts};

/// Texts beyond this size in all are written without looking for an earlier copy.
const MAX_KNOWN_BYTES: usize = 64 << 20;

/// Maximum number of texts and bytes in a batch; the offsets of an Arrow string array have 32 bits.
const BATCH_TEXTS: usize = 1 << 12;
const BATCH_BYTES: usize = 8 << 20;

/// Assigns ids to argument texts and writes them in batches.
#[derive(Debug)]
pub(crate) struct ArgTexts {
    part: LazyPart,
    next: u32,
    /// Texts of the next batch; they have the ids right below `next`.
    waiting: Vec<Box<str>>,
    waiting_bytes: usize,
    known: HashTable<(u32, Box<str>)>,
    known_bytes: usize,
    hasher: DefaultHashBuilder,
}

impl Default for ArgTexts {
    fn default() -> Self {
        Self::starting_at(0)
    }
}

impl ArgTexts {
    /// Creates a writer whose first new text gets the id `next`.
    pub(crate) fn starting_at(next: u32) -> Self {
        Self {
            part: LazyPart::new(&ARGS),
            next,
            waiting: Vec::new(),
            waiting_bytes: 0,
            known: HashTable::new(),
            known_bytes: 0,
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Returns the next free id.
    pub(crate) const fn next(&self) -> u32 {
        self.next
    }

    /// Returns the id of a text.
    pub(crate) fn id(&mut self, text: &str, parts: &mut Parts) -> Result<u32, StoreError> {
        let hash = self.hasher.hash_one(text);
        if let Some((id, _)) = self.known.find(hash, |(_, known)| **known == *text) {
            return Ok(*id);
        }
        let id = self.next;
        self.next += 1;
        if self.known_bytes < MAX_KNOWN_BYTES {
            self.known_bytes += text.len();
            let rehash = |(_, text): &(u32, Box<str>)| self.hasher.hash_one(&**text);
            self.known.insert_unique(hash, (id, text.into()), rehash);
        }
        self.waiting.push(text.into());
        self.waiting_bytes += text.len();
        if self.waiting.len() == BATCH_TEXTS || self.waiting_bytes >= BATCH_BYTES {
            self.write(parts)?;
        }
        Ok(id)
    }

    pub(crate) fn finish(mut self, parts: &mut Parts) -> Result<(), StoreError> {
        self.write(parts)?;
        self.part.finish(None, parts)
    }

    fn write(&mut self, parts: &mut Parts) -> Result<(), StoreError> {
        let first = self.next - self.waiting.len() as u32;
        let columns = vec![ids(first..self.next), texts(self.waiting.iter().map(|text| &**text))];
        self.waiting.clear();
        self.waiting_bytes = 0;
        self.part.write(columns, parts)
    }
}
