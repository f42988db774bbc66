//! Dicts, and the attributes of objects, which are in dicts or beside the names of their class.

use super::{Address, Objects, TYPE, TYPE_BASIC_SIZE, TYPE_DICT_OFFSET, TYPE_FLAGS};

/// Bytes of the largest table of keys that is read.
const MAX_TABLE_BYTES: u64 = 4 << 20;

/// Positions of the keys and of the values in a dict.
const KEYS: u64 = 32;
const VALUES: u64 = 40;

/// Flags of a type: instances have a dict before their head, and values behind it.
const HAS_MANAGED_DICT: u64 = 1 << 4;
const HAS_INLINE_VALUES: u64 = 1 << 2;

/// Positions of the dict and of the values before the head of an instance.
const MANAGED_DICT: u64 = 24;
const MANAGED_VALUES: u64 = 32;

/// The keys of a dict with their values, or with the place of the values in another table.
struct Keys {
    /// Pairs of a key and its value.
    entries: Vec<(Address, Address)>,
}

impl Objects<'_> {
    /// Returns the value of a text in a dict.
    pub(crate) fn get(&self, dict: Address, key: &str) -> Option<Address> {
        let keys = self.keys(self.reference(dict, KEYS)?)?;
        let index = self.position(&keys, key)?;
        let value = match self.reference(dict, VALUES) {
            Some(values) => self.value(values, index)?,
            None => keys.entries[index].1,
        };
        (value != 0).then_some(value)
    }

    /// Returns the keys of a dict with their values.
    pub(crate) fn items(&self, dict: Address) -> Option<Vec<(Address, Address)>> {
        let entries = self.keys(self.reference(dict, KEYS)?)?.entries;
        let values = self.reference(dict, VALUES);
        let items = entries.into_iter().enumerate().filter_map(|(index, (key, value))| {
            let value = values.map_or(Some(value), |values| self.value(values, index))?;
            (key != 0 && value != 0).then_some((key, value))
        });
        Some(items.collect())
    }

    /// Returns an attribute of an instance of a Python class.
    pub(crate) fn attribute(&self, object: Address, name: &str) -> Option<Address> {
        let class = self.reference(object, TYPE)?;
        let flags = self.word(class, TYPE_FLAGS)?;
        if flags & HAS_MANAGED_DICT == 0 {
            let offset = self.word(class, TYPE_DICT_OFFSET)?;
            return self.get(self.reference(object, offset)?, name);
        }
        let dict = self.word(object.checked_sub(MANAGED_DICT)?, 0)?;
        let values = match self.layout.minor {
            11 => self.reference(object.checked_sub(MANAGED_VALUES)?, 0),
            12 => (dict & 1 == 1).then_some(dict.wrapping_add(1)),
            _ => (flags & HAS_INLINE_VALUES != 0 && dict == 0)
                .then(|| object.checked_add(self.word(class, TYPE_BASIC_SIZE)?))
                .flatten(),
        };
        let Some(values) = values else { return self.get(dict, name) };
        let keys = self.keys(self.reference(class, self.layout.cached_keys)?)?;
        self.value(values, self.position(&keys, name)?).filter(|&value| value != 0)
    }

    fn position(&self, keys: &Keys, name: &str) -> Option<usize> {
        keys.entries
            .iter()
            .position(|&(key, _)| key != 0 && self.text(key).is_some_and(|text| text == name))
    }

    /// Reads a value of an instance.
    fn value(&self, values: Address, index: usize) -> Option<Address> {
        /// Size of the head of the values.
        const HEAD_BYTES: u64 = 8;
        let head = if self.layout.minor < 13 { 0 } else { HEAD_BYTES };
        self.word(values, head + 8 * index as u64)
    }

    /// Reads a table of keys.
    fn keys(&self, keys: Address) -> Option<Keys> {
        let (table, entries, has_hashes) = if self.layout.minor == 10 {
            const SIZE: u64 = 8;
            const ENTRIES: u64 = 32;
            const INDEXES: u64 = 40;
            let size = self.word(keys, SIZE)?;
            let index_bytes = match size {
                0..=0xff => 1,
                0x100..=0xffff => 2,
                0x1_0000..=0xffff_ffff => 4,
                _ => return None,
            };
            (keys.checked_add(INDEXES + size * index_bytes)?, self.word(keys, ENTRIES)?, true)
        } else {
            const LOG2_INDEX_BYTES: u64 = 9;
            const ENTRIES: u64 = 24;
            const INDEXES: u64 = 32;
            let [log2_index_bytes, kind] = self.bytes(keys, LOG2_INDEX_BYTES)?;
            let index_bytes = 1_u64.checked_shl(log2_index_bytes.into())?;
            let table = keys.checked_add(INDEXES)?.checked_add(index_bytes)?;
            (table, self.word(keys, ENTRIES)?, kind == 0)
        };
        let words = if has_hashes { 3 } else { 2 };
        let length = entries.checked_mul(8 * words).filter(|&bytes| bytes <= MAX_TABLE_BYTES)?;
        let table = self.many_bytes(table, length)?;
        let words: Vec<u64> =
            table.as_chunks::<8>().0.iter().map(|&word| u64::from_ne_bytes(word)).collect();
        let entries = if has_hashes {
            words.as_chunks::<3>().0.iter().map(|&[_, key, value]| (key, value)).collect()
        } else {
            words.as_chunks::<2>().0.iter().map(|&[key, value]| (key, value)).collect()
        };
        Some(Keys { entries })
    }
}
