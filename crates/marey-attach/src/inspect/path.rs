//! Steps from an object to another one: attributes, and indexes of built-in containers.

use super::InspectError;
use super::attribute::Attribute;
use super::expression::{Expression, Step};
use super::objects::{Class, Flag, LENGTH, Objects, Result, word_in};

/// Names that are looked through for similar ones.
const MAX_NAMES: usize = 10_000;

/// Classes of PyTorch whose items are their submodules, in order.
const TORCH_SEQUENCES: [&str; 2] =
    ["torch.nn.modules.container.Sequential", "torch.nn.modules.container.ModuleList"];
/// The class of PyTorch whose items are its submodules, by name.
const TORCH_DICTIONARY: [&str; 1] = ["torch.nn.modules.container.ModuleDict"];

/// The items of a list or tuple.
#[derive(Clone, Copy, Debug)]
pub(super) struct Items {
    pub(super) length: u64,
    address: u64,
    offset: u64,
}

impl Objects<'_> {
    /// Follows the steps of an expression from the one at `first` on; returns the last object.
    pub(super) fn follow(
        &self,
        mut object: u64,
        expression: &Expression,
        first: usize,
    ) -> Result<u64> {
        for (position, step) in expression.steps().enumerate().skip(first) {
            let path = expression.prefix(position);
            object = match step {
                Step::Attribute(name) => self.attribute_of(object, name, path)?,
                Step::Index(index) => self.item_of(object, *index, path)?,
                Step::Key(key) => self.entry_of(object, key, path)?,
            };
        }
        Ok(object)
    }

    fn attribute_of(&self, object: u64, name: &str, path: &str) -> Result<u64> {
        match self.attribute(object, name)? {
            Attribute::Value(value) => Ok(value),
            Attribute::Computed(descriptor) => Err(InspectError::Computed {
                path: path.to_owned(),
                name: name.to_owned(),
                descriptor,
            }),
            Attribute::Missing => {
                let class = self.class_of(object)?;
                let is_computed = !class.is(Flag::Class)
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
        if class.is(Flag::Dictionary) {
            self.check_own_index(&class, path)?;
            let found = self.find_integer(&self.dictionary(object)?, index)?;
            return found.ok_or_else(|| no_key(path, index.to_string(), Vec::new()));
        }
        let (items, is_torch) = match self.items(object, &class)? {
            Some(items) => (items, false),
            None => match self.torch_modules(object, &class, &TORCH_SEQUENCES)? {
                Some(modules) => {
                    let length = self.dictionary_length(modules)?;
                    (Items { length, address: modules, offset: 0 }, true)
                }
                None => return Err(self.not_indexable(&class, path)?),
            },
        };
        let from_start = if index < 0 { items.length } else { 0 };
        let position = from_start.checked_add_signed(index);
        let position = position.filter(|position| *position < items.length);
        let out_of_range =
            InspectError::OutOfRange { path: path.to_owned(), index, length: items.length };
        let position = position.ok_or(out_of_range)?;
        if is_torch {
            let table = self.dictionary(items.address)?;
            let found = self.entries(&table, usize::try_from(position + 1).unwrap_or(0))?;
            return found.last().map(|(_, value)| *value).ok_or(InspectError::Changed);
        }
        self.check_own_index(&class, path)?;
        self.item(&items, position)
    }

    /// Returns the value of a text in a dictionary.
    fn entry_of(&self, object: u64, key: &str, path: &str) -> Result<u64> {
        let class = self.class_of(object)?;
        let dictionary = if class.is(Flag::Dictionary) {
            self.check_own_index(&class, path)?;
            object
        } else {
            match self.torch_modules(object, &class, &TORCH_DICTIONARY)? {
                Some(modules) => modules,
                None => return Err(self.not_indexable(&class, path)?),
            }
        };
        let table = self.dictionary(dictionary)?;
        if let Some(value) = self.find_text(&table, key)? {
            return Ok(value);
        }
        let names = self.named_entries(&table, MAX_NAMES)?;
        let names = names.into_iter().map(|(name, _)| name).collect();
        Err(no_key(path, super::text::quoted(key), names))
    }

    /// Returns the items of a list or tuple.
    pub(super) fn items(&self, object: u64, class: &Class) -> Result<Option<Items>> {
        if class.is(Flag::Tuple) {
            let offset = self.layout.tuple_items;
            return Ok(Some(Items { length: self.length(object)?, address: object, offset }));
        }
        if !class.is(Flag::List) {
            return Ok(None);
        }
        // The address of the items follows the length. Both are read at once, because the items move
        // when their number changes.
        let head: [u8; 16] = self.bytes(object, LENGTH)?;
        let length = word_in(&head, 0);
        let address = word_in(&head, 8);
        Ok(Some(Items { length, address, offset: 0 }))
    }

    /// Returns an item.
    pub(super) fn item(&self, items: &Items, position: u64) -> Result<u64> {
        let offset = position.checked_mul(8).and_then(|bytes| bytes.checked_add(items.offset));
        match self.word(items.address, offset.ok_or(InspectError::Changed)?)? {
            0 => Err(InspectError::Changed),
            item => Ok(item),
        }
    }

    /// Returns the dictionary of the submodules of a PyTorch module of one of some classes.
    fn torch_modules(&self, object: u64, class: &Class, names: &[&str]) -> Result<Option<u64>> {
        if !class.is(Flag::Heap) || !self.has_base(class, names)? {
            return Ok(None);
        }
        match self.instance(object, class)? {
            Some(table) => self.find_text(&table, "_modules"),
            None => Ok(None),
        }
    }

    /// Fails if a class of the program has a method of its own for indexes.
    fn check_own_index(&self, class: &Class, path: &str) -> Result<()> {
        for base in self.bases(class)?.iter().take_while(|base| base.is(Flag::Heap)) {
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

fn no_key(path: &str, key: String, names: Vec<String>) -> InspectError {
    InspectError::NoKey { path: path.to_owned(), key, names }
}
