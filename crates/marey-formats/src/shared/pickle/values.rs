//! The values of a pickle or JSON document. Values refer to texts and objects by index, so that
//! they can be shared and freed.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use thiserror::Error;

/// The maximum length of a text that is used as a name.
const MAX_NAME_BYTES: usize = 256;

/// A value. It is inline, or the index of a text or an object in [`Values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    None,
    Bool(bool),
    Int(i64),
    /// The bits of a real number.
    Real(u64),
    Text(usize),
    Object(u64),
    /// An element of a row list that was yielded.
    Yielded,
}

/// A value with elements.
#[derive(Debug)]
enum Object {
    /// A list or a set.
    List(Vec<Value>),
    /// Keys and values alternate.
    Dict(Vec<Value>),
    Tuple(Rc<[Value]>),
    /// The id that a reader converted it to.
    Converted(u32),
}

/// Why a value, or part of it, cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum ValueError {
    #[error("values are nested too deeply")]
    TooDeep,
    #[error("shared values expand to far more than the file")]
    TooLarge,
    #[error("a part of it belongs to another entry")]
    Freed,
    #[error("it is not a dict, or it was used before")]
    NotADict,
    #[error("a required field is missing")]
    MissingField,
    #[error("its call stack contains something other than frames")]
    NotAFrame,
}

/// The texts and objects of a file.
///
/// Lists and dicts can be freed. Texts and tuples are kept, because they are immutable and shared
/// most.
#[derive(Debug, Default)]
pub(crate) struct Values {
    texts: Vec<Box<str>>,
    objects: HashMap<u64, Object>,
    next_object_id: u64,
    tuples: HashMap<Rc<[Value]>, u64>,
    /// Number of values in objects.
    element_count: usize,
    expanded_bytes: Cell<u64>,
    max_expanded_bytes: u64,
}

impl Values {
    /// Returns the memory in use, in units of a value (16 bytes).
    pub(super) fn size(&self) -> usize {
        const VALUES_PER_OBJECT: usize = 4;
        self.texts.len() + self.element_count + VALUES_PER_OBJECT * self.objects.len()
    }

    #[cfg(test)]
    pub(super) fn object_count(&self) -> usize {
        self.objects.len()
    }

    /// Returns the index of the next object.
    pub(super) fn next_object_id(&self) -> u64 {
        self.next_object_id
    }

    /// Sets the total number of bytes that [`Self::count_expansion`] allows.
    pub(crate) fn set_max_expanded_bytes(&mut self, max_bytes: u64) {
        self.max_expanded_bytes = max_bytes;
    }

    pub(crate) fn add_text(&mut self, text: String) -> Value {
        self.texts.push(text.into_boxed_str());
        Value::Text(self.texts.len() - 1)
    }

    pub(crate) fn add_list(&mut self, items: Vec<Value>) -> Value {
        self.element_count += items.len();
        self.add(Object::List(items))
    }

    /// Adds a dict from alternating keys and values.
    pub(crate) fn add_dict(&mut self, items: Vec<Value>) -> Value {
        self.element_count += items.len();
        self.add(Object::Dict(items))
    }

    /// Adds a tuple, or returns an equal one that exists.
    pub(crate) fn add_tuple(&mut self, items: Vec<Value>) -> Value {
        let items: Rc<[Value]> = items.into();
        if let Some(&id) = self.tuples.get(&items) {
            return Value::Object(id);
        }
        self.element_count += 2 * items.len();
        self.tuples.insert(Rc::clone(&items), self.next_object_id);
        self.add(Object::Tuple(items))
    }

    fn add(&mut self, object: Object) -> Value {
        self.next_object_id += 1;
        self.objects.insert(self.next_object_id - 1, object);
        Value::Object(self.next_object_id - 1)
    }

    /// Extends a list or set. Returns `false` if the value is neither.
    pub(super) fn extend_list(&mut self, list: Value, items: &[Value]) -> bool {
        let Some(Object::List(list)) = self.object_mut(list) else { return false };
        list.extend_from_slice(items);
        self.element_count += items.len();
        true
    }

    /// Adds alternating keys and values to a dict. Returns `false` if the value is not a dict.
    pub(super) fn extend_dict(&mut self, dict: Value, items: &[Value]) -> bool {
        let Some(Object::Dict(dict)) = self.object_mut(dict) else { return false };
        dict.extend_from_slice(items);
        self.element_count += items.len();
        true
    }

    /// Frees the lists and dicts from index `first_id` on.
    pub(super) fn free_from(&mut self, first_id: u64) {
        for id in first_id..self.next_object_id {
            if let Some(Object::List(items) | Object::Dict(items)) = self.objects.get(&id) {
                self.element_count -= items.len();
                self.objects.remove(&id);
            }
        }
    }

    /// Returns the id that a reader converted a value to.
    pub(super) fn converted(&self, value: Value) -> Option<u32> {
        if let Object::Converted(id) = self.object(value)? { Some(*id) } else { None }
    }

    /// Replaces a list or dict by the id that a reader converted it to.
    pub(super) fn set_converted(&mut self, value: Value, id: u32) {
        let Some(object) = self.object_mut(value) else { return };
        let replaced = std::mem::replace(object, Object::Converted(id));
        if let Object::List(items) | Object::Dict(items) = replaced {
            self.element_count -= items.len();
        }
    }

    fn object(&self, value: Value) -> Option<&Object> {
        if let Value::Object(id) = value { self.objects.get(&id) } else { None }
    }

    fn object_mut(&mut self, value: Value) -> Option<&mut Object> {
        if let Value::Object(id) = value { self.objects.get_mut(&id) } else { None }
    }

    /// Returns a text of any length.
    pub(crate) fn text(&self, value: Value) -> Option<&str> {
        if let Value::Text(text) = value { self.texts.get(text).map(|text| &**text) } else { None }
    }

    /// Returns a text that is short enough to repeat in every row.
    pub(crate) fn name(&self, value: Value) -> Option<&str> {
        self.text(value).filter(|text| text.len() <= MAX_NAME_BYTES)
    }

    /// Returns the elements of a list, set or tuple.
    pub(crate) fn items(&self, value: Value) -> Option<&[Value]> {
        match self.object(value)? {
            Object::List(items) => Some(items),
            Object::Tuple(items) => Some(items),
            Object::Dict(_) | Object::Converted(_) => None,
        }
    }

    /// Returns the keys and values of a dict.
    pub(crate) fn pairs(&self, value: Value) -> Option<impl Iterator<Item = (Value, Value)>> {
        let Object::Dict(items) = self.object(value)? else { return None };
        Some(items.chunks_exact(2).map(|pair| (pair[0], pair[1])))
    }

    /// Counts the bytes of a value each time that it is traversed or written out. Fails beyond a
    /// limit, so that a small file, in which each entry refers to one long value, does not become a
    /// large run.
    pub(crate) fn count_expansion(&self, bytes: usize) -> Result<(), ValueError> {
        let expanded_bytes = self.expanded_bytes.get() + bytes as u64;
        if expanded_bytes > self.max_expanded_bytes {
            return Err(ValueError::TooLarge);
        }
        self.expanded_bytes.set(expanded_bytes);
        Ok(())
    }
}

impl Value {
    pub(crate) fn real(value: f64) -> Self {
        Self::Real(value.to_bits())
    }

    pub(crate) fn as_int(self) -> Option<i64> {
        if let Self::Int(value) = self { Some(value) } else { None }
    }

    pub(crate) fn as_bool(self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(value) } else { None }
    }

    pub(crate) fn as_f64(self) -> Option<f64> {
        match self {
            Self::Real(bits) => Some(f64::from_bits(bits)),
            Self::Int(value) => Some(value as f64),
            _ => None,
        }
    }
}
