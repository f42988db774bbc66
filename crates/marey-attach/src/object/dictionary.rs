//! Reads dictionaries and their entries. The attributes of an object are a dictionary too, whose
//! keys may be shared with other objects of the class.

use std::ops::ControlFlow;

use super::class::ClassFlag;
use super::layout::DictKeysFormat;
use super::{Address, FIRST_FIELD, Objects, ReadError, Result, word_in};

/// The maximum number of entries of a dictionary.
const MAX_ENTRIES: u64 = 1 << 22;
/// The number of entries that are read at once.
const CHUNK_ENTRIES: u64 = 1024;

// These offsets are the same in all versions.
/// Offset of the number of items in a dictionary.
const MA_USED: u64 = 16;
/// Offset of the address of the keys in a dictionary. The address of the values follows, if the
/// keys are shared.
const MA_KEYS: u64 = 32;

/// The entries of a dictionary, or the attributes of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DictTable {
    /// The dictionary, and its words with the addresses of keys and values. They change when the
    /// dictionary gets other keys.
    dictionary: Option<(u64, [u8; 16])>,
    /// Address of the first entry.
    first_entry: u64,
    /// Number of entries. Some may be unused.
    entry_count: u64,
    /// Whether each entry begins with a hash.
    has_hashes: bool,
    /// Address of the first value, if the keys are shared.
    first_value: Option<u64>,
}

impl Objects<'_> {
    /// Returns the number of items of a dictionary.
    pub(crate) fn dictionary_length(&self, dictionary: Address) -> Result<u64> {
        let used = self.word(dictionary, MA_USED)?;
        if used > MAX_ENTRIES { Err(ReadError::Changed) } else { Ok(used) }
    }

    /// Returns the table of a dictionary. Fails if the object is none.
    pub(crate) fn dictionary(&self, dictionary: Address) -> Result<DictTable> {
        if !self.class_of(dictionary)?.has_flag(ClassFlag::Dictionary) {
            return Err(ReadError::Changed);
        }
        let addresses: [u8; 16] = self.bytes(dictionary, MA_KEYS)?;
        let first_value = match word_in(&addresses, 8) {
            0 => None,
            first_value => Some(first_value.wrapping_add(self.layout.shared_values)),
        };
        let table = self.table(word_in(&addresses, 0), first_value)?;
        Ok(DictTable { dictionary: Some((dictionary, addresses)), ..table })
    }

    /// Returns the table at the address of some keys. `first_value` is the address of the first
    /// value if the keys are shared.
    pub(crate) fn table(&self, keys: Address, first_value: Option<u64>) -> Result<DictTable> {
        let head: [u8; 40] = self.bytes(keys, 0)?;
        let (entry_count, index_bytes, head_bytes, has_hashes) = match self.layout.dict_keys_format
        {
            DictKeysFormat::Size => {
                let size = word_in(&head, 8);
                let index_width = match size {
                    0..=0xff => 1,
                    0x100..=0xffff => 2,
                    _ => 4,
                };
                (word_in(&head, 32), size.saturating_mul(index_width), 40, true)
            }
            DictKeysFormat::Logarithms => {
                let [_, index_bytes, kind, ..] = word_in(&head, 8).to_ne_bytes();
                if index_bytes > 32 || kind > 2 {
                    return Err(ReadError::Changed);
                }
                (word_in(&head, 24), 1 << index_bytes, 32, kind == 0)
            }
        };
        // Each entry has an index of at least one byte.
        if entry_count > MAX_ENTRIES || entry_count > index_bytes {
            return Err(ReadError::Changed);
        }
        let first_entry = keys.checked_add(head_bytes + index_bytes).ok_or(ReadError::Changed)?;
        Ok(DictTable { dictionary: None, first_entry, entry_count, has_hashes, first_value })
    }

    /// Returns the value of the key `name`.
    pub(crate) fn find_text(&self, table: &DictTable, name: &str) -> Result<Option<u64>> {
        let length = name.chars().count() as u64;
        let is_key = |key| {
            let is_text = !table.has_hashes || self.class_of(key)?.has_flag(ClassFlag::Text);
            Ok(is_text && self.is_text(key, name, length)?)
        };
        self.find(table, is_key)
    }

    /// Returns the value of the key `number`.
    pub(crate) fn find_integer(&self, table: &DictTable, number: i64) -> Result<Option<u64>> {
        let is_key = |key| {
            let is_integer = table.has_hashes && self.class_of(key)?.has_flag(ClassFlag::Integer);
            Ok(is_integer && self.integer(key)?.as_i64() == Some(number))
        };
        self.find(table, is_key)
    }

    /// Returns the value of the key `key`, `None` if it is missing or cannot be read.
    pub(crate) fn dictionary_value(&self, dictionary: Address, key: &str) -> Option<Address> {
        self.find_text(&self.dictionary(dictionary).ok()?, key).ok()?
    }

    /// Returns the dictionary of an imported module (`__dict__`).
    pub(crate) fn namespace(&self, interpreter: Address, module: &str) -> Option<Address> {
        let modules = self.reference(interpreter, self.layout.modules)?;
        self.reference(self.dictionary_value(modules, module)?, FIRST_FIELD)
    }

    /// Returns the value of the first key for which `is_key` holds.
    fn find(&self, table: &DictTable, is_key: impl Fn(u64) -> Result<bool>) -> Result<Option<u64>> {
        let mut found = None;
        self.each_entry(table, |key, value| {
            if is_key(key)? {
                found = Some(value);
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    /// Returns those of the first `max` entries whose keys are texts.
    pub(crate) fn named_entries(
        &self,
        table: &DictTable,
        max: usize,
    ) -> Result<Vec<(String, u64)>> {
        const MAX_CHARACTERS: u64 = 256;
        let mut named = Vec::new();
        for (key, value) in self.entries(table, max)? {
            if self.class_of(key)?.has_flag(ClassFlag::Text) {
                named.push((self.text(key, MAX_CHARACTERS)?.content, value));
            }
        }
        Ok(named)
    }

    /// Returns the first `max` keys of a table, with their values.
    pub(crate) fn entries(&self, table: &DictTable, max: usize) -> Result<Vec<(u64, u64)>> {
        let mut entries = Vec::new();
        self.each_entry(table, |key, value| {
            if entries.len() == max {
                return Ok(ControlFlow::Break(()));
            }
            entries.push((key, value));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(entries)
    }

    /// Calls `visit` with each key and its value. Fails if the dictionary has got other keys
    /// meanwhile.
    fn each_entry(
        &self,
        table: &DictTable,
        mut visit: impl FnMut(u64, u64) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let entry_words = if table.has_hashes { 3 } else { 2 };
        let mut first_index = 0;
        'chunks: while first_index < table.entry_count {
            let chunk_entries = CHUNK_ENTRIES.min(table.entry_count - first_index);
            let block = self.block(
                table.first_entry,
                first_index * entry_words * 8,
                chunk_entries * entry_words * 8,
            )?;
            let shared_values = match table.first_value {
                Some(values) => Some(self.block(values, first_index * 8, chunk_entries * 8)?),
                None => None,
            };
            for (index, entry) in block.chunks_exact(entry_words as usize * 8).enumerate() {
                let key = word_in(entry, entry.len() - 16);
                let value = match &shared_values {
                    Some(values) => word_in(values, index * 8),
                    None => word_in(entry, entry.len() - 8),
                };
                if key != 0 && value != 0 && visit(key, value)?.is_break() {
                    break 'chunks;
                }
            }
            first_index += chunk_entries;
        }
        match table.dictionary {
            Some((dictionary, addresses)) if self.bytes(dictionary, MA_KEYS)? != addresses => {
                Err(ReadError::Changed)
            }
            _ => Ok(()),
        }
    }
}
