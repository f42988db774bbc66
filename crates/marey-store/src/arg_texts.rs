//! Writes the argument texts of events to the table `args`. Equal texts share an id as long as a
//! memory limit allows.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use marey_model::table::stored::ARGS;

use crate::StoreError;
use crate::columns::{ids, texts};
use crate::parts::{LazyPart, Parts};

/// Maximum size of the texts that are kept to recognise copies. Later texts are written again for
/// each event.
const MAX_DEDUPLICATED_BYTES: usize = 64 << 20;

/// Maximum number of texts and bytes in a batch. The offsets of an Arrow string array have 32 bits.
const BATCH_TEXTS: usize = 1 << 12;
const BATCH_BYTES: usize = 8 << 20;

/// Assigns ids to argument texts and writes them in batches.
#[derive(Debug)]
pub(crate) struct ArgTexts {
    part: LazyPart,
    next_id: u32,
    /// The texts of the next batch. They have the ids right below `next_id`.
    pending: Vec<Box<str>>,
    pending_bytes: usize,
    /// The texts that are kept to recognise copies, with their ids.
    deduplicated: HashTable<(u32, Box<str>)>,
    deduplicated_bytes: usize,
    hasher: DefaultHashBuilder,
}

impl Default for ArgTexts {
    fn default() -> Self {
        Self::with_first_id(0)
    }
}

impl ArgTexts {
    /// Creates a writer whose first new text gets the id `next_id`.
    pub(crate) fn with_first_id(next_id: u32) -> Self {
        Self {
            part: LazyPart::new(&ARGS),
            next_id,
            pending: Vec::new(),
            pending_bytes: 0,
            deduplicated: HashTable::new(),
            deduplicated_bytes: 0,
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Returns the next free id.
    pub(crate) const fn next_id(&self) -> u32 {
        self.next_id
    }

    /// Returns the id of a text.
    pub(crate) fn id(&mut self, text: &str, parts: &mut Parts) -> Result<u32, StoreError> {
        let hash = self.hasher.hash_one(text);
        if let Some((id, _)) = self.deduplicated.find(hash, |(_, known_text)| **known_text == *text)
        {
            return Ok(*id);
        }
        let id = self.next_id;
        self.next_id += 1;
        if self.deduplicated_bytes < MAX_DEDUPLICATED_BYTES {
            self.deduplicated_bytes += text.len();
            let rehash = |(_, text): &(u32, Box<str>)| self.hasher.hash_one(&**text);
            self.deduplicated.insert_unique(hash, (id, text.into()), rehash);
        }
        self.pending.push(text.into());
        self.pending_bytes += text.len();
        if self.pending.len() == BATCH_TEXTS || self.pending_bytes >= BATCH_BYTES {
            self.write_pending(parts)?;
        }
        Ok(id)
    }

    pub(crate) fn finish(mut self, parts: &mut Parts) -> Result<(), StoreError> {
        self.write_pending(parts)?;
        self.part.finish(None, parts)
    }

    fn write_pending(&mut self, parts: &mut Parts) -> Result<(), StoreError> {
        let first = self.next_id - self.pending.len() as u32;
        let columns =
            vec![ids(first..self.next_id), texts(self.pending.iter().map(|text| &**text))];
        self.pending.clear();
        self.pending_bytes = 0;
        self.part.write(columns, parts)
    }
}
