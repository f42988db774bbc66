//! Makes the debug annotations of events: their arguments, and extras for columns that the format
//! has no field for.

use std::collections::HashMap;
use std::fmt;

use marey_store::row::Args;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::perfetto::EXTRAS_NAME;
use crate::perfetto::message::{
    DebugAnnotation, InternedName, NESTED_ARRAY, NESTED_DICT, NestedValue,
};
use crate::shared::json::replace_lone_surrogates;

use super::packets::Packets;

/// The maximum depth of values. Deeper values are written as JSON, because protobuf readers limit
/// nesting to 100 messages.
const MAX_DEPTH: usize = 32;

/// The maximum number of interned names. Further names are written in full, which bounds memory.
const MAX_INTERNED_NAMES: usize = 1 << 16;

/// Interned names of annotations.
#[derive(Debug, Default)]
pub(super) struct InternedKeys {
    iids: HashMap<Box<str>, u64>,
    new_names: Vec<InternedName>,
}

impl InternedKeys {
    /// Returns the names that no packet has interned yet.
    pub(super) fn take_new_names(&mut self) -> Vec<InternedName> {
        std::mem::take(&mut self.new_names)
    }

    /// Names an annotation.
    fn set_name(&mut self, name: &str, mut annotation: DebugAnnotation) -> DebugAnnotation {
        annotation.name_iid = self.iids.get(name).copied();
        if annotation.name_iid.is_none() && self.iids.len() < MAX_INTERNED_NAMES {
            let iid = self.iids.len() as u64 + 1;
            self.iids.insert(name.into(), iid);
            self.new_names.push(InternedName { iid: Some(iid), name: Some(name.to_owned()) });
            annotation.name_iid = Some(iid);
        }
        if annotation.name_iid.is_none() {
            annotation.name = Some(name.to_owned());
        }
        annotation
    }
}

/// The columns of an event that the format has no field for.
#[derive(Debug, Default)]
pub(super) struct Extras(Vec<(&'static str, DebugAnnotation)>);

impl Extras {
    pub(super) fn uint(&mut self, name: &'static str, value: impl Into<Option<u64>>) -> &mut Self {
        self.add(name, value.into().map(uint))
    }

    pub(super) fn int(&mut self, name: &'static str, value: impl Into<Option<i64>>) -> &mut Self {
        self.add(name, value.into().map(int))
    }

    pub(super) fn text(&mut self, name: &'static str, value: &str) -> &mut Self {
        self.add(name, Some(text(value.to_owned())))
    }

    pub(super) fn flag(&mut self, name: &'static str, is_set: bool) -> &mut Self {
        self.add(name, is_set.then(|| flag(true)))
    }

    /// Adds three integers, for x, y and z.
    pub(super) fn dimensions(&mut self, name: &'static str, value: Option<[u32; 3]>) -> &mut Self {
        let list = |axes: [u32; 3]| array(axes.map(|n| uint(n.into())).to_vec());
        self.add(name, value.map(list))
    }

    pub(super) fn float(&mut self, name: &'static str, value: f64) -> &mut Self {
        self.add(name, Some(float(value)))
    }

    fn add(&mut self, name: &'static str, value: Option<DebugAnnotation>) -> &mut Self {
        self.0.extend(value.map(|value| (name, value)));
        self
    }
}

impl Packets<'_> {
    /// Returns the annotations of an event.
    pub(super) fn annotations(&mut self, extras: Extras, args: &Args) -> Vec<DebugAnnotation> {
        let mut json = String::new();
        self.reader.args(args, &mut json);
        let object = self.keys.annotate(&replace_lone_surrogates(&json), 0);
        // Runs store valid JSON. Arguments that are damaged nevertheless are written as text.
        let mut annotations = match object {
            Ok(object) => object.dict_entries,
            Err(_) => vec![self.keys.set_name("args", text(json))],
        };
        // Readers must not mistake an argument of this name for the extras, so empty extras precede
        // it.
        let iid = self.keys.iids.get(EXTRAS_NAME).copied();
        let has_ambiguous_arg = annotations.iter().any(|annotation| {
            annotation.name.as_deref() == Some(EXTRAS_NAME)
                || (iid.is_some() && annotation.name_iid == iid)
        });
        if has_ambiguous_arg || !extras.0.is_empty() {
            let entries = extras.0.into_iter().map(|(name, value)| self.keys.set_name(name, value));
            let extras = dict(entries.collect());
            annotations.insert(0, self.keys.set_name(EXTRAS_NAME, extras));
        }
        annotations
    }
}

impl InternedKeys {
    /// Converts a value to an annotation without a name.
    fn annotate(&mut self, json: &str, depth: usize) -> Result<DebugAnnotation, serde_json::Error> {
        Ok(match json.as_bytes().first() {
            Some(b'{' | b'[') if depth >= MAX_DEPTH => json_text(json),
            Some(b'{') => {
                let entries = serde_json::from_str::<ObjectMembers>(json)?.0.into_iter();
                let entries = entries.map(|(key, value)| {
                    let value = self.annotate(value.get(), depth + 1)?;
                    Ok(self.set_name(&key, value))
                });
                dict(entries.collect::<Result<_, serde_json::Error>>()?)
            }
            Some(b'[') => {
                let values = serde_json::from_str::<Vec<&RawValue>>(json)?.into_iter();
                let values = values.map(|value| self.annotate(value.get(), depth + 1));
                array(values.collect::<Result<_, _>>()?)
            }
            Some(b'"') => text(serde_json::from_str(json)?),
            Some(b't') => flag(true),
            Some(b'f') => flag(false),
            Some(b'n') => json_text(json),
            // `parse` is exact to the last digit, which `serde_json` does not guarantee.
            _ => match (json.parse(), json.parse(), json.parse()) {
                (Ok(value), ..) => int(value),
                (_, Ok(value), _) => uint(value),
                (.., Ok(value)) => float(value),
                _ => json_text(json),
            },
        })
    }
}

/// The members of an object in their order, duplicates included.
struct ObjectMembers<'j>(Vec<(String, &'j RawValue)>);

impl<'de> Deserialize<'de> for ObjectMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;

        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = ObjectMembers<'de>;

            fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<ObjectMembers<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(ObjectMembers(entries))
            }
        }

        json.deserialize_map(ObjectVisitor)
    }
}

fn uint(value: u64) -> DebugAnnotation {
    DebugAnnotation { uint_value: Some(value), ..DebugAnnotation::default() }
}

fn int(value: i64) -> DebugAnnotation {
    DebugAnnotation { int_value: Some(value), ..DebugAnnotation::default() }
}

fn float(value: f64) -> DebugAnnotation {
    DebugAnnotation { double_value: Some(value), ..DebugAnnotation::default() }
}

fn flag(value: bool) -> DebugAnnotation {
    DebugAnnotation { bool_value: Some(value), ..DebugAnnotation::default() }
}

fn text(value: String) -> DebugAnnotation {
    DebugAnnotation { string_value: Some(value), ..DebugAnnotation::default() }
}

/// Returns a value as JSON text.
fn json_text(json: &str) -> DebugAnnotation {
    DebugAnnotation { legacy_json_value: Some(json.to_owned()), ..DebugAnnotation::default() }
}

fn dict(entries: Vec<DebugAnnotation>) -> DebugAnnotation {
    let nested_value = entries.is_empty().then(|| empty_nested(NESTED_DICT));
    DebugAnnotation { dict_entries: entries, nested_value, ..DebugAnnotation::default() }
}

fn array(values: Vec<DebugAnnotation>) -> DebugAnnotation {
    let nested_value = values.is_empty().then(|| empty_nested(NESTED_ARRAY));
    DebugAnnotation { array_values: values, nested_value, ..DebugAnnotation::default() }
}

/// Returns a value with only a nested type, which tells an empty list or object from a missing
/// value.
fn empty_nested(nested_type: i32) -> NestedValue {
    NestedValue { nested_type: Some(nested_type), ..NestedValue::default() }
}
