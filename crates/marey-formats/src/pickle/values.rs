//! Plain values that know each other, as a pickle or JSON has them.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use thiserror::Error;

/// Bytes of the longest text that is taken for a name.
const MAX_NAME_BYTES: usize = 256;

/// A value: itself, or the number of a text or an object in [`Values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    None,
    Bool(bool),
    Int(i64),
    /// The bits of a real number.
    Real(u64),
    Text(usize),
    Object(u64),
    /// An element of a list that was handed out.
    Given,
}

/// What has parts.
#[derive(Debug)]
enum Object {
    /// A list or a set.
    List(Vec<Value>),
    /// Keys and values in turn.
    Dict(Vec<Value>),
    Tuple(Rc<[Value]>),
    /// What a reader made of it.
    Known(u32),
}

/// Why a value cannot be used, or not all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Unfit {
    #[error("values are nested too deeply")]
    TooDeep,
    #[error("shared values unfold to far more than the file")]
    TooLong,
    #[error("a part of it belongs to another entry")]
    Gone,
    #[error("it is no dict, or stands twice")]
    NoDict,
    #[error("it lacks what each has")]
    NoEntry,
    #[error("its call stack has something else than frames")]
    Stack,
}

/// The texts and objects of a file.
///
/// Lists and dicts can be forgotten; texts and tuples, which never change and are shared most, stay.
#[derive(Debug, Default)]
pub(crate) struct Values {
    texts: Vec<Box<str>>,
    objects: HashMap<u64, Object>,
    next_object: u64,
    tuples: HashMap<Rc<[Value]>, u64>,
    /// Values in objects.
    parts: usize,
    unfolded_bytes: Cell<u64>,
    max_unfolded_bytes: u64,
}

impl Values {
    /// How much there is, in values of 16 bytes.
    pub(super) fn size(&self) -> usize {
        const PER_OBJECT: usize = 4;
        self.texts.len() + self.parts + PER_OBJECT * self.objects.len()
    }

    #[cfg(test)]
    pub(super) fn objects(&self) -> usize {
        self.objects.len()
    }

    /// The number that the next object gets.
    pub(super) fn next_object(&self) -> u64 {
        self.next_object
    }

    /// Bytes that [`Self::unfold`] lets through in all.
    pub(crate) fn allow_unfolded(&mut self, max_bytes: u64) {
        self.max_unfolded_bytes = max_bytes;
    }

    pub(crate) fn add_text(&mut self, text: String) -> Value {
        self.texts.push(text.into_boxed_str());
        Value::Text(self.texts.len() - 1)
    }

    pub(crate) fn add_list(&mut self, items: Vec<Value>) -> Value {
        self.parts += items.len();
        self.add(Object::List(items))
    }

    /// A dict of keys and values in turn.
    pub(crate) fn add_dict(&mut self, items: Vec<Value>) -> Value {
        self.parts += items.len();
        self.add(Object::Dict(items))
    }

    /// Tuples of the same parts are the same.
    pub(crate) fn add_tuple(&mut self, items: Vec<Value>) -> Value {
        let items: Rc<[Value]> = items.into();
        if let Some(&id) = self.tuples.get(&items) {
            return Value::Object(id);
        }
        self.parts += 2 * items.len();
        self.tuples.insert(Rc::clone(&items), self.next_object);
        self.add(Object::Tuple(items))
    }

    fn add(&mut self, object: Object) -> Value {
        self.next_object += 1;
        self.objects.insert(self.next_object - 1, object);
        Value::Object(self.next_object - 1)
    }

    /// Makes a list or set longer; `false` if it is none.
    pub(super) fn extend_list(&mut self, list: Value, items: &[Value]) -> bool {
        let Some(Object::List(list)) = self.object_mut(list) else { return false };
        list.extend_from_slice(items);
        self.parts += items.len();
        true
    }

    /// Puts keys and values in turn into a dict; `false` if it is none.
    pub(super) fn extend_dict(&mut self, dict: Value, items: &[Value]) -> bool {
        let Some(Object::Dict(dict)) = self.object_mut(dict) else { return false };
        dict.extend_from_slice(items);
        self.parts += items.len();
        true
    }

    /// Forgets the lists and dicts that were made from this one on.
    pub(super) fn forget_from(&mut self, first: u64) {
        for id in first..self.next_object {
            if let Some(Object::List(items) | Object::Dict(items)) = self.objects.get(&id) {
                self.parts -= items.len();
                self.objects.remove(&id);
            }
        }
    }

    /// What a reader made of a value.
    pub(super) fn known(&self, value: Value) -> Option<u32> {
        if let Object::Known(id) = self.object(value)? { Some(*id) } else { None }
    }

    /// Puts what a reader made of a list or dict in its place.
    pub(super) fn set_known(&mut self, value: Value, id: u32) {
        let Some(object) = self.object_mut(value) else { return };
        let before = std::mem::replace(object, Object::Known(id));
        if let Object::List(items) | Object::Dict(items) = before {
            self.parts -= items.len();
        }
    }

    fn object(&self, value: Value) -> Option<&Object> {
        if let Value::Object(id) = value { self.objects.get(&id) } else { None }
    }

    fn object_mut(&mut self, value: Value) -> Option<&mut Object> {
        if let Value::Object(id) = value { self.objects.get_mut(&id) } else { None }
    }

    /// A text of any length.
    pub(crate) fn text(&self, value: Value) -> Option<&str> {
        if let Value::Text(text) = value { self.texts.get(text).map(|text| &**text) } else { None }
    }

    /// A text that is short enough to stand in every row.
    pub(crate) fn name(&self, value: Value) -> Option<&str> {
        self.text(value).filter(|text| text.len() <= MAX_NAME_BYTES)
    }

    /// The elements of a list, a set or a tuple.
    pub(crate) fn items(&self, value: Value) -> Option<&[Value]> {
        match self.object(value)? {
            Object::List(items) => Some(items),
            Object::Tuple(items) => Some(items),
            Object::Dict(_) | Object::Known(_) => None,
        }
    }

    /// The keys and values of a dict.
    pub(crate) fn pairs(&self, value: Value) -> Option<impl Iterator<Item = (Value, Value)>> {
        let Object::Dict(items) = self.object(value)? else { return None };
        Some(items.chunks_exact(2).map(|pair| (pair[0], pair[1])))
    }

    /// Takes note that a value, which others may share, is gone through or written out. So a small
    /// file with a long value that each entry shares makes no large run and takes no long time.
    pub(crate) fn unfold(&self, bytes: usize) -> Result<(), Unfit> {
        let unfolded = self.unfolded_bytes.get() + bytes as u64;
        if unfolded > self.max_unfolded_bytes {
            return Err(Unfit::TooLong);
        }
        self.unfolded_bytes.set(unfolded);
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
