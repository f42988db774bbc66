//! Reads the items of lists, tuples and sets.

use super::class::{Class, ClassFlag};
use super::{Address, LENGTH, Objects, ReadError, Result, word_in};

/// The maximum number of entries in the table of a set that is read.
const MAX_SET_ENTRIES: u64 = 1 << 20;

/// The items of a list or tuple.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Items {
    pub(crate) length: u64,
    address: Address,
    offset: u64,
}

impl Objects<'_> {
    /// Returns the items of a list or tuple, `None` for any other object.
    pub(crate) fn items(&self, object: Address, class: &Class) -> Result<Option<Items>> {
        if class.has_flag(ClassFlag::Tuple) {
            let offset = self.layout.tuple_items;
            return Ok(Some(Items { length: self.length(object)?, address: object, offset }));
        }
        if !class.has_flag(ClassFlag::List) {
            return Ok(None);
        }
        // The address of the items follows the length. Both are read at once, because the items
        // move when the length changes.
        let head: [u8; 16] = self.bytes(object, LENGTH)?;
        let length = word_in(&head, 0);
        let address = word_in(&head, 8);
        Ok(Some(Items { length, address, offset: 0 }))
    }

    /// Returns the item at a position.
    pub(crate) fn item(&self, items: &Items, position: u64) -> Result<Address> {
        let offset = position.checked_mul(8).and_then(|bytes| bytes.checked_add(items.offset));
        match self.word(items.address, offset.ok_or(ReadError::Changed)?)? {
            0 => Err(ReadError::Changed),
            item => Ok(item),
        }
    }

    /// Returns the number of items of a list.
    pub(crate) fn list_length(&self, list: Address) -> Option<u64> {
        self.class_of(list).ok().filter(|class| class.has_flag(ClassFlag::List))?;
        self.length(list).ok()
    }

    /// Returns the first items of a list, at most `limit`.
    pub(crate) fn list_items(&self, list: Address, limit: u64) -> Option<Vec<Address>> {
        let class = self.class_of(list).ok().filter(|class| class.has_flag(ClassFlag::List))?;
        let items = self.items(list, &class).ok()??;
        (0..items.length.min(limit)).map(|position| self.item(&items, position).ok()).collect()
    }

    /// Returns the elements of a set, at most `limit`.
    pub(crate) fn set_elements(&self, object: Address, limit: usize) -> Option<Vec<Address>> {
        const MASK: u64 = 32;
        const TABLE: u64 = 40;
        const ENTRY_BYTES: u64 = 16;
        let entries = self.word(object, MASK).ok()?.checked_add(1)?;
        (entries <= MAX_SET_ENTRIES).then_some(())?;
        let table = self.reference(object, TABLE)?;
        let table = self.block(table, 0, entries * ENTRY_BYTES).ok()?;
        let entries = table.as_chunks::<8>().0.as_chunks::<2>().0.iter();
        let keys = entries.filter_map(|&[key, hash]| {
            let (key, hash) = (u64::from_ne_bytes(key), u64::from_ne_bytes(hash));
            // A removed element has the hash -1, which no element has.
            (key != 0 && hash != u64::MAX).then_some(key)
        });
        Some(keys.take(limit).collect())
    }
}
