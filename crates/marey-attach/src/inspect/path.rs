//! Steps from an object to another one: attributes, and indexes of built-in containers.

use super::attribute::AttributeLookup;
use super::expression::{Expression, PathStep};
use super::{InspectError, Result};
use crate::object::{Class, ClassFlag, Objects};

/// Classes of PyTorch whose items are their submodules, in order.
const TORCH_SEQUENCE_CLASSES: [&str; 2] =
    ["torch.nn.modules.container.Sequential", "torch.nn.modules.container.ModuleList"];
/// The class of PyTorch whose items are its submodules, by name.
const TORCH_DICT_CLASS: [&str; 1] = ["torch.nn.modules.container.ModuleDict"];

impl Objects<'_> {
    /// Follows the steps of an expression from the one at `first_step` on; returns the last object.
    pub(super) fn follow(
        &self,
        mut object: u64,
        expression: &Expression,
        first_step: usize,
    ) -> Result<u64> {
        for (step_index, step) in expression.steps().enumerate().skip(first_step) {
            let path = expression.prefix(step_index);
            object = match step {
                PathStep::Attribute(name) => self.attribute_of(object, name, path)?,
                PathStep::Index(index) => self.item_of(object, *index, path)?,
                PathStep::Key(key) => self.entry_of(object, key, path)?,
            };
        }
        Ok(object)
    }

    fn attribute_of(&self, object: u64, name: &str, path: &str) -> Result<u64> {
        match self.attribute(object, name)? {
            AttributeLookup::Value(value) => Ok(value),
            AttributeLookup::Computed(descriptor) => Err(InspectError::Computed {
                path: path.to_owned(),
                name: name.to_owned(),
                descriptor,
            }),
            AttributeLookup::Missing => {
                let class = self.class_of(object)?;
                let is_computed = !class.has_flag(ClassFlag::Class)
                    && self.class_attribute(&class, "__getattr__")?.is_some();
                Err(InspectError::NoAttribute {
                    path: path.to_owned(),
                    class: self.class_name(&class)?,
                    name: name.to_owned(),
                    is_computed,
                    names: self.attribute_names(object)?,
                })
            }
        }
    }

    /// Returns the item of a sequence, or the value of an integer in a dictionary.
    fn item_of(&self, object: u64, index: i64, path: &str) -> Result<u64> {
        let class = self.class_of(object)?;
        if class.has_flag(ClassFlag::Dictionary) {
            self.refuse_own_getitem(&class, path)?;
            let found = self.find_integer(&self.dictionary(object)?, index)?;
            return found.ok_or_else(|| no_key(path, index.to_string(), Vec::new()));
        }
        if let Some(items) = self.items(object, &class)? {
            let position = position(index, items.length, path)?;
            self.refuse_own_getitem(&class, path)?;
            return Ok(self.item(&items, position)?);
        }
        let Some(modules) = self.torch_modules(object, &class, &TORCH_SEQUENCE_CLASSES)? else {
            return Err(self.not_indexable(&class, path)?);
        };
        let position = position(index, self.dictionary_length(modules)?, path)?;
        let table = self.dictionary(modules)?;
        let found = self.entries(&table, usize::try_from(position + 1).unwrap_or(0))?;
        found.last().map(|(_, value)| *value).ok_or(InspectError::Changed)
    }

    /// Returns the value of a text in a dictionary.
    fn entry_of(&self, object: u64, key: &str, path: &str) -> Result<u64> {
        let class = self.class_of(object)?;
        let dictionary = if class.has_flag(ClassFlag::Dictionary) {
            self.refuse_own_getitem(&class, path)?;
            object
        } else {
            match self.torch_modules(object, &class, &TORCH_DICT_CLASS)? {
                Some(modules) => modules,
                None => return Err(self.not_indexable(&class, path)?),
            }
        };
        let table = self.dictionary(dictionary)?;
        if let Some(value) = self.find_text(&table, key)? {
            return Ok(value);
        }
        Err(no_key(path, super::text::quoted(key), self.candidate_names(&table)?))
    }

    /// Returns the dictionary of the submodules of a PyTorch module of one of some classes.
    fn torch_modules(&self, object: u64, class: &Class, names: &[&str]) -> Result<Option<u64>> {
        if !class.has_flag(ClassFlag::Heap) || !self.has_base(class, names)? {
            return Ok(None);
        }
        match self.attribute_table(object, class)? {
            Some(table) => Ok(self.find_text(&table, "_modules")?),
            None => Ok(None),
        }
    }

    /// Fails if a class of the program has a method of its own for indexes.
    fn refuse_own_getitem(&self, class: &Class, path: &str) -> Result<()> {
        for base in self.mro(class)?.iter().take_while(|base| base.has_flag(ClassFlag::Heap)) {
            let table = self.dictionary(base.dictionary)?;
            if self.find_text(&table, "__getitem__")?.is_some() {
                return Err(self.not_indexable(class, path)?);
            }
        }
        Ok(())
    }

    fn not_indexable(&self, class: &Class, path: &str) -> Result<InspectError> {
        let class = self.class_name(class)?;
        Ok(InspectError::NotIndexable { path: path.to_owned(), class })
    }
}

/// Returns the position of an index, which counts from the end if it is negative.
fn position(index: i64, length: u64, path: &str) -> Result<u64> {
    let from_start = if index < 0 { length } else { 0 };
    let position = from_start.checked_add_signed(index);
    let position = position.filter(|position| *position < length);
    position.ok_or_else(|| InspectError::OutOfRange { path: path.to_owned(), index, length })
}

fn no_key(path: &str, key: String, names: Vec<String>) -> InspectError {
    InspectError::NoKey { path: path.to_owned(), key, names }
}
