//! Attributes of objects as they are stored, without code of the program.

use super::Result;
use crate::object::{Class, ClassFlag, DictTable, Objects, ReadError};

/// In a descriptor of a slot: the address of its definition.
const SLOT_DEFINITION_OFFSET: u64 = 40;
/// In the definition of a slot: the type of its value, and behind it the offset in the object.
const SLOT_TYPE_OFFSET: u64 = 8;
const SLOT_OFFSET_OFFSET: u64 = 16;
/// Types of slots that have the address of an object.
const OBJECT_SLOT_TYPES: [u32; 2] = [6, 16];
/// In a field of a named tuple: the index.
const FIELD_INDEX_OFFSET: u64 = 16;
/// Names that are looked through for similar ones, and modules for a file.
pub(super) const MAX_CANDIDATE_NAMES: usize = 10_000;

/// The class of PyTorch's modules, which keep their attributes in dictionaries by kind.
const TORCH_MODULE: &str = "torch.nn.modules.module.Module";
const TORCH_ATTRIBUTE_DICTS: [&str; 3] = ["_parameters", "_buffers", "_modules"];

/// An attribute that is looked up in an object.
#[derive(Debug)]
pub(super) enum AttributeLookup {
    /// The address of its value.
    Value(u64),
    /// The value is computed by code, by a descriptor of this type.
    Computed(String),
    Missing,
}

impl Objects<'_> {
    /// Looks up an attribute as Python would, without running descriptors.
    pub(super) fn attribute(&self, object: u64, name: &str) -> Result<AttributeLookup> {
        let class = self.class_of(object)?;
        let class_value = self.class_attribute(&class, name)?;
        if let Some(descriptor) = class_value {
            let descriptor_class = self.class_of(descriptor)?;
            if descriptor_class.is_data_descriptor {
                return self.data_descriptor(object, descriptor, &descriptor_class);
            }
        }
        if class.has_flag(ClassFlag::Class) {
            let own_value = self.class_attribute(&self.class(object)?, name)?;
            return Ok(own_value
                .or(class_value)
                .map_or(AttributeLookup::Missing, AttributeLookup::Value));
        }
        let table = self.attribute_table(object, &class)?;
        let instance_value = match &table {
            Some(table) => self.find_text(table, name)?,
            None => None,
        };
        match (instance_value.or(class_value), table) {
            (Some(value), _) => Ok(AttributeLookup::Value(value)),
            (None, Some(table)) => self.torch_attribute(&class, &table, name),
            (None, None) => Ok(AttributeLookup::Missing),
        }
    }

    /// Returns the first attribute of a class and its bases.
    pub(super) fn class_attribute(&self, class: &Class, name: &str) -> Result<Option<u64>> {
        for base in self.mro(class)? {
            if base.dictionary == 0 {
                continue;
            }
            if let Some(found) = self.find_text(&self.dictionary(base.dictionary)?, name)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns the value of a slot, or what computes the value.
    fn data_descriptor(
        &self,
        object: u64,
        descriptor: u64,
        class: &Class,
    ) -> Result<AttributeLookup> {
        let name = self.class_name(class)?;
        let value = match name.as_str() {
            "member_descriptor" => match self.object_slot_offset(descriptor)? {
                Some(offset) => self.word(object, offset)?,
                None => return Ok(AttributeLookup::Computed(name)),
            },
            "collections._tuplegetter" | "_collections._tuplegetter" => {
                let index = self.word(descriptor, FIELD_INDEX_OFFSET)?;
                let items = self.items(object, &self.class_of(object)?)?;
                self.item(&items.ok_or(ReadError::Changed)?, index)?
            }
            _ => return Ok(AttributeLookup::Computed(name)),
        };
        // A slot that was not assigned is empty.
        Ok(if value == 0 { AttributeLookup::Missing } else { AttributeLookup::Value(value) })
    }

    /// Returns the offset of a slot, if it has the address of an object.
    fn object_slot_offset(&self, descriptor: u64) -> Result<Option<u64>> {
        let definition = self.word(descriptor, SLOT_DEFINITION_OFFSET)?;
        let slot_type = u32::from_ne_bytes(self.bytes(definition, SLOT_TYPE_OFFSET)?);
        let offset = self.word(definition, SLOT_OFFSET_OFFSET)?;
        Ok(OBJECT_SLOT_TYPES.contains(&slot_type).then_some(offset))
    }

    /// Looks up a parameter, buffer or submodule of a PyTorch module.
    fn torch_attribute(
        &self,
        class: &Class,
        table: &DictTable,
        name: &str,
    ) -> Result<AttributeLookup> {
        if self.has_base(class, &[TORCH_MODULE])? {
            for dict_name in TORCH_ATTRIBUTE_DICTS {
                let Some(dictionary) = self.find_text(table, dict_name)? else { continue };
                if let Some(value) = self.find_text(&self.dictionary(dictionary)?, name)? {
                    return Ok(AttributeLookup::Value(value));
                }
            }
        }
        Ok(AttributeLookup::Missing)
    }

    /// Whether a class or a base of it has one of some names.
    pub(super) fn has_base(&self, class: &Class, names: &[&str]) -> Result<bool> {
        for base in self.mro(class)? {
            if base.has_flag(ClassFlag::Heap) && names.contains(&self.class_name(&base)?.as_str()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the attributes that an object itself has, with their values: those of its dictionary,
    /// those of its slots, and the parameters, buffers and submodules of a PyTorch module.
    pub(super) fn attributes(&self, object: u64, max_count: usize) -> Result<Vec<(String, u64)>> {
        let class = self.class_of(object)?;
        let mut attributes = Vec::new();
        if class.has_flag(ClassFlag::Class) {
            let object_class = self.class(object)?;
            if object_class.dictionary != 0 {
                let table = self.dictionary(object_class.dictionary)?;
                attributes = self.named_entries(&table, max_count)?;
            }
            return Ok(attributes);
        }
        if let Some(table) = self.attribute_table(object, &class)? {
            attributes = self.named_entries(&table, max_count)?;
            if self.has_base(&class, &[TORCH_MODULE])? {
                for dict_name in TORCH_ATTRIBUTE_DICTS {
                    if let Some(dictionary) = self.find_text(&table, dict_name)? {
                        let table = self.dictionary(dictionary)?;
                        attributes.extend(self.named_entries(&table, max_count)?);
                    }
                }
            }
        }
        for base in self.mro(&class)?.iter().filter(|base| base.has_flag(ClassFlag::Heap)) {
            let table = self.dictionary(base.dictionary)?;
            for (name, descriptor) in self.named_entries(&table, MAX_CANDIDATE_NAMES)? {
                let class = self.class_of(descriptor)?;
                if class.is_data_descriptor
                    && let AttributeLookup::Value(value) =
                        self.data_descriptor(object, descriptor, &class)?
                {
                    attributes.push((name, value));
                }
            }
        }
        attributes.truncate(max_count);
        Ok(attributes)
    }

    /// Returns the names of the attributes of an object and of its classes.
    pub(super) fn attribute_names(&self, object: u64) -> Result<Vec<String>> {
        let attributes = self.attributes(object, MAX_CANDIDATE_NAMES)?;
        let mut names: Vec<_> = attributes.into_iter().map(|(name, _)| name).collect();
        let class = self.class_of(object)?;
        let class = if class.has_flag(ClassFlag::Class) { self.class(object)? } else { class };
        for base in self.mro(&class)?.iter().filter(|base| base.dictionary != 0) {
            names.extend(self.candidate_names(&self.dictionary(base.dictionary)?)?);
        }
        Ok(names)
    }

    /// Returns the names in a table, for a suggestion.
    pub(super) fn candidate_names(&self, table: &DictTable) -> Result<Vec<String>> {
        let entries = self.named_entries(table, MAX_CANDIDATE_NAMES)?;
        Ok(entries.into_iter().map(|(name, _)| name).collect())
    }
}
