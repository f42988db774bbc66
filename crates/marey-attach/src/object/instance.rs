//! Reads the attributes that an object itself has. By version and class they are in a dictionary,
//! before the object or after it.

use super::class::{Class, ClassFlag};
use super::dictionary::DictTable;
use super::layout::AttributeStorage;
use super::{Address, LENGTH, Objects, ReadError, Result};

/// The distances before an object at which it has the addresses of its dictionary and values.
const MANAGED_DICTIONARY_BYTES: u64 = 24;
const MANAGED_VALUES_BYTES: u64 = 32;
/// Offset of the byte in inline values that says whether they are in use.
const IS_VALID: u64 = 3;

impl Objects<'_> {
    /// Returns an attribute that an object itself has, `None` if it is missing or cannot be read.
    pub(crate) fn instance_attribute(&self, object: Address, name: &str) -> Option<Address> {
        let table = self.attribute_table(object, &self.class_of(object).ok()?).ok()??;
        self.find_text(&table, name).ok()?
    }

    /// Returns the attributes that an object itself has, `None` if it has none.
    pub(crate) fn attribute_table(
        &self,
        object: Address,
        class: &Class,
    ) -> Result<Option<DictTable>> {
        if !class.has_flag(ClassFlag::ManagedDictionary) {
            return match self.dictionary_offset(object, class)? {
                0 => Ok(None),
                offset => self.dictionary_at(self.word(object, offset)?),
            };
        }
        let address_before = |bytes| {
            let address: Address = object;
            address.checked_sub(bytes).ok_or(ReadError::Changed)
        };
        let dictionary = self.word(address_before(MANAGED_DICTIONARY_BYTES)?, 0)?;
        let values = match self.layout.attribute_storage {
            AttributeStorage::ValuesOrDictionary => {
                self.word(address_before(MANAGED_VALUES_BYTES)?, 0)?
            }
            AttributeStorage::Tagged if dictionary & 1 == 1 => dictionary.wrapping_add(1),
            AttributeStorage::Inline
                if dictionary == 0 && class.has_flag(ClassFlag::InlineValues) =>
            {
                let values = object.wrapping_add(class.basic_bytes);
                let [is_valid] = self.bytes(values, IS_VALID)?;
                if is_valid == 0 { 0 } else { values.wrapping_add(self.layout.shared_values) }
            }
            AttributeStorage::Dictionary | AttributeStorage::Tagged | AttributeStorage::Inline => 0,
        };
        if values == 0 {
            return self.dictionary_at(dictionary);
        }
        let keys = self.word(class.address, self.layout.cached_keys)?;
        self.table(keys, Some(values)).map(Some)
    }

    fn dictionary_at(&self, dictionary: Address) -> Result<Option<DictTable>> {
        if dictionary == 0 { Ok(None) } else { self.dictionary(dictionary).map(Some) }
    }

    /// Returns the offset in an object at which it has the address of its dictionary, 0 if it has
    /// none.
    fn dictionary_offset(&self, object: Address, class: &Class) -> Result<u64> {
        if class.dictionary_offset >= 0 {
            return Ok(class.dictionary_offset.cast_unsigned());
        }
        // A negative offset is counted from the end of the object.
        let length = self.word(object, LENGTH)?.cast_signed().unsigned_abs();
        let bytes = length.checked_mul(class.item_bytes).ok_or(ReadError::Changed)?;
        let end = bytes.checked_add(class.basic_bytes).and_then(|end| end.checked_add(7));
        let end = end.ok_or(ReadError::Changed)? & !7;
        end.checked_add_signed(class.dictionary_offset).ok_or(ReadError::Changed)
    }
}
