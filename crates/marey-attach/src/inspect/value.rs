//! Values, read to a bounded depth and size.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{InspectError, Result, text};
use crate::object::{Class, ClassFlag, Objects, PyInteger};

/// Characters of a text, and bytes of an object of bytes, that are read.
const MAX_CHARACTERS: u64 = 1000;
/// Objects that are read for one value.
const MAX_OBJECTS: usize = 20_000;
/// In a set: the number of its items.
const SET_LENGTH_OFFSET: u64 = 24;

/// The extent to which a value is read.
#[derive(Clone, Copy, Debug)]
pub struct ValueLimits {
    /// Levels of containers within each other.
    pub depth: u32,
    /// Items of each container, and attributes.
    pub items: usize,
}

/// An object as it was at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Class with its module, such as `torch.Tensor`; without for classes of Python itself.
    pub class: String,
    /// Address in the process.
    pub address: u64,
    /// Number of items of the whole container, characters of the whole text, or bytes.
    pub length: Option<u64>,
    /// Content, of which parts may be left out.
    pub content: Content,
}

/// The content of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// `None`
    None,
    /// A truth value.
    Bool(bool),
    /// The decimal digits of an integer.
    Integer(String),
    /// An integer that is too large to be read.
    Large {
        /// Number of bits that its digits have.
        bits: u64,
    },
    /// A number with a decimal point.
    Float(f64),
    /// A complex number.
    Complex(f64, f64),
    /// The first characters of a text.
    Text(String),
    /// The first bytes of an object of bytes.
    Bytes(Vec<u8>),
    /// The first items of a list.
    List(Vec<Value>),
    /// The first items of a tuple.
    Tuple(Vec<Value>),
    /// The first keys of a dictionary, with their values.
    Dictionary(Vec<(Value, Value)>),
    /// The name of a class, if the value is one.
    Class(String),
    /// The name of a module, if the value is one.
    Module(String),
    /// Any other object.
    Object,
}

/// Writes an object with the class as `type`, the address, and the fields of the content.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", &self.class)?;
        map.serialize_entry("address", &format!("{:#x}", self.address))?;
        if let Some(length) = self.length {
            map.serialize_entry("length", &length)?;
        }
        match &self.content {
            Content::None => map.serialize_entry("value", &())?,
            Content::Bool(value) => map.serialize_entry("value", value)?,
            // Larger integers are digits in a text, because readers of JSON would round them.
            Content::Integer(digits) => match digits.parse::<i64>() {
                Ok(value) => map.serialize_entry("value", &value)?,
                Err(_) => map.serialize_entry("value", digits)?,
            },
            // JSON has no infinities.
            Content::Float(value) if value.is_finite() => map.serialize_entry("value", value)?,
            Content::Float(value) => map.serialize_entry("value", &text::float(*value))?,
            Content::Text(text) => map.serialize_entry("value", text)?,
            Content::Complex(..) | Content::Bytes(_) => {
                map.serialize_entry("value", &self.to_string())?;
            }
            Content::List(items) | Content::Tuple(items) => map.serialize_entry("items", items)?,
            Content::Dictionary(entries) => map.serialize_entry("entries", entries)?,
            Content::Class(name) | Content::Module(name) => map.serialize_entry("name", name)?,
            Content::Large { .. } | Content::Object => {}
        }
        map.end()
    }
}

/// Objects that may still be read.
struct Budget {
    objects: usize,
    items: usize,
}

impl Objects<'_> {
    /// Reads an object, and the items of containers to a depth.
    pub(super) fn value(&self, object: u64, limits: ValueLimits) -> Result<Value> {
        let mut budget = Budget { objects: MAX_OBJECTS, items: limits.items };
        self.value_within(object, limits.depth, &mut budget)
    }

    /// Reads the attributes that an object itself stores.
    pub(super) fn attribute_values(
        &self,
        object: u64,
        limits: ValueLimits,
    ) -> Result<Vec<(String, Value)>> {
        let mut budget = Budget { objects: MAX_OBJECTS, items: limits.items };
        let attributes = self.attributes(object, limits.items)?.into_iter();
        let read = |(name, value)| {
            Ok((name, self.value_within(value, limits.depth.saturating_sub(1), &mut budget)?))
        };
        attributes.map(read).collect()
    }

    fn value_within(&self, object: u64, depth: u32, budget: &mut Budget) -> Result<Value> {
        budget.objects = budget.objects.checked_sub(1).ok_or(InspectError::TooLarge)?;
        let class = self.class_of(object)?;
        let (content, length) = self.content(object, &class, depth, budget)?;
        Ok(Value { class: self.class_name(&class)?, address: object, length, content })
    }

    fn content(
        &self,
        object: u64,
        class: &Class,
        depth: u32,
        budget: &mut Budget,
    ) -> Result<(Content, Option<u64>)> {
        let max_items = if depth == 0 { 0 } else { budget.items };
        if class.has_flag(ClassFlag::Integer) {
            return Ok((self.integer_content(object, class)?, None));
        }
        if class.has_flag(ClassFlag::Text) {
            let text = self.text(object, MAX_CHARACTERS)?;
            return Ok((Content::Text(text.content), Some(text.length)));
        }
        if class.has_flag(ClassFlag::Bytes) {
            let bytes = self.byte_string(object, MAX_CHARACTERS)?;
            return Ok((Content::Bytes(bytes.content), Some(bytes.length)));
        }
        if let Some(items) = self.items(object, class)? {
            let mut values = Vec::new();
            for position in 0..items.length.min(max_items as u64) {
                let item = self.item(&items, position)?;
                values.push(self.value_within(item, depth.saturating_sub(1), budget)?);
            }
            let content =
                if class.has_flag(ClassFlag::List) { Content::List } else { Content::Tuple };
            return Ok((content(values), Some(items.length)));
        }
        if class.has_flag(ClassFlag::Dictionary) {
            let length = self.dictionary_length(object)?;
            let mut entries = Vec::new();
            for (key, value) in self.entries(&self.dictionary(object)?, max_items)? {
                let key = self.value_within(key, depth.saturating_sub(1), budget)?;
                entries.push((key, self.value_within(value, depth.saturating_sub(1), budget)?));
            }
            return Ok((Content::Dictionary(entries), Some(length)));
        }
        if class.has_flag(ClassFlag::Class) {
            return Ok((Content::Class(self.class_name(&self.class(object)?)?), None));
        }
        self.content_by_name(object, class)
    }

    fn integer_content(&self, object: u64, class: &Class) -> Result<Content> {
        let number = self.integer(object)?;
        if self.is_c_class(class, "bool")? {
            return Ok(Content::Bool(number.as_i64() != Some(0)));
        }
        Ok(match (number.decimal(), number) {
            (None, PyInteger::Large { bits }) => Content::Large { bits },
            (digits, _) => Content::Integer(digits.unwrap_or_default()),
        })
    }

    /// Reads an object of a class that no flag tells.
    fn content_by_name(&self, object: u64, class: &Class) -> Result<(Content, Option<u64>)> {
        for base in self.mro(class)? {
            if base.has_flag(ClassFlag::Heap) {
                continue;
            }
            let content = match self.c_name(&base)?.as_str() {
                "NoneType" => Content::None,
                "float" => Content::Float(self.float(object)?),
                "complex" => {
                    let (real, imaginary) = self.complex(object)?;
                    Content::Complex(real, imaginary)
                }
                "set" | "frozenset" => {
                    return Ok((Content::Object, Some(self.word(object, SET_LENGTH_OFFSET)?)));
                }
                "module" => self.module_name(object, class)?,
                _ => continue,
            };
            return Ok((content, None));
        }
        Ok((Content::Object, None))
    }

    fn module_name(&self, object: u64, class: &Class) -> Result<Content> {
        if let Some(table) = self.attribute_table(object, class)?
            && let Some(name) = self.find_text(&table, "__name__")?
            && self.class_of(name)?.has_flag(ClassFlag::Text)
        {
            return Ok(Content::Module(self.text(name, MAX_CHARACTERS)?.content));
        }
        Ok(Content::Object)
    }
}
