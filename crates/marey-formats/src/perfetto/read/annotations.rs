//! Debug annotations as arguments, and the marks of our own files.

use std::fmt::Write as _;

use marey_model::args::{NewArgs, quote};
use serde::de::IgnoredAny;

use super::sequence::Sequence;
use crate::perfetto::MARKS;
use crate::perfetto::message::{ARRAY, DICT, DebugAnnotation, NestedValue, TrackEvent};

/// What an event of our own files has beyond the fields of the format.
#[derive(Debug, Default)]
pub(super) struct Marks<'e>(Vec<(&'e str, &'e DebugAnnotation)>);

impl<'e> Marks<'e> {
    /// Those of an event, which come before all other annotations, and these.
    pub(super) fn of(
        event: &'e TrackEvent,
        sequence: &'e Sequence,
    ) -> (Self, &'e [DebugAnnotation]) {
        let annotations = event.debug_annotations.as_slice();
        match annotations.split_first() {
            Some((first, others)) if name(first, sequence) == MARKS && is_dict(first) => {
                let entries = first.dict_entries.iter();
                (Self(entries.map(|entry| (name(entry, sequence), entry)).collect()), others)
            }
            _ => (Self::default(), annotations),
        }
    }

    pub(super) fn uint(&self, name: &str) -> Option<u64> {
        self.get(name)?.uint_value
    }

    /// A number below 2³².
    pub(super) fn id(&self, name: &str) -> Option<u32> {
        self.uint(name)?.try_into().ok()
    }

    pub(super) fn int(&self, name: &str) -> Option<i64> {
        self.get(name)?.int_value
    }

    pub(super) fn real(&self, name: &str) -> Option<f64> {
        self.get(name)?.double_value
    }

    pub(super) fn text(&self, name: &str) -> Option<&'e str> {
        self.get(name)?.string_value.as_deref()
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(|mark| mark.bool_value) == Some(true)
    }

    /// Whole numbers along x, y and z.
    pub(super) fn extents(&self, name: &str) -> Option<[u32; 3]> {
        let along = self.get(name)?.array_values.iter();
        let along = along.map(|value| value.uint_value?.try_into().ok());
        along.collect::<Option<Vec<u32>>>()?.try_into().ok()
    }

    fn get(&self, name: &str) -> Option<&'e DebugAnnotation> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, mark)| *mark)
    }
}

/// Adds annotations to arguments. Whether all could be: one that is a message of protobuf is left
/// out.
pub(super) fn add(
    annotations: &[DebugAnnotation],
    sequence: &Sequence,
    args: &mut NewArgs,
) -> bool {
    let mut json = String::new();
    for annotation in annotations {
        let name = name(annotation, sequence);
        json.clear();
        match annotation {
            DebugAnnotation { int_value: Some(value), .. } => args.int(name, *value),
            DebugAnnotation { string_value: Some(value), .. } => args.text(name, value),
            DebugAnnotation { double_value: Some(value), .. } => args.real(name, *value),
            DebugAnnotation { proto_value: Some(_), .. } => {}
            _ => {
                put(annotation, sequence, &mut json);
                args.json(name, &json);
            }
        }
    }
    annotations.iter().all(|annotation| annotation.proto_value.is_none())
}

/// What an annotation is called.
pub(super) fn name<'e>(annotation: &'e DebugAnnotation, sequence: &'e Sequence) -> &'e str {
    let interned = || sequence.interned().keys.get(&annotation.name_iid?).map(|name| &**name);
    annotation.name.as_deref().or_else(interned).unwrap_or_default()
}

fn is_dict(annotation: &DebugAnnotation) -> bool {
    let nested_type = annotation.nested_value.as_ref().and_then(|nested| nested.nested_type);
    !annotation.dict_entries.is_empty() || nested_type == Some(DICT)
}

/// Appends a value as JSON. Messages are no deeper than the decoder allows.
fn put(annotation: &DebugAnnotation, sequence: &Sequence, json: &mut String) {
    let interned = |iid| sequence.interned().strings.get(&iid).map_or("", |text| text);
    match annotation {
        DebugAnnotation { bool_value: Some(value), .. } => put_shown(value, json),
        DebugAnnotation { uint_value: Some(value), .. } => put_shown(value, json),
        DebugAnnotation { int_value: Some(value), .. } => put_shown(value, json),
        DebugAnnotation { double_value: Some(value), .. } => put_real(*value, json),
        DebugAnnotation { string_value: Some(value), .. } => quote(value, json),
        DebugAnnotation { string_value_iid: Some(iid), .. } => quote(interned(*iid), json),
        DebugAnnotation { pointer_value: Some(value), .. } => quote(&format!("{value:#x}"), json),
        DebugAnnotation { legacy_json_value: Some(value), .. } => {
            match serde_json::from_str::<IgnoredAny>(value) {
                Ok(_) => json.push_str(value),
                Err(_) => quote(value, json),
            }
        }
        DebugAnnotation { nested_value: Some(value), .. } => put_nested(value, json),
        _ if !annotation.dict_entries.is_empty() => {
            list(json, ['{', '}'], &annotation.dict_entries, |entry, json| {
                quote(name(entry, sequence), json);
                json.push(':');
                put(entry, sequence, json);
            });
        }
        _ if !annotation.array_values.is_empty() => {
            list(json, ['[', ']'], &annotation.array_values, |value, json| {
                put(value, sequence, json);
            });
        }
        _ => json.push_str("null"),
    }
}

/// Appends a value of the older form.
fn put_nested(value: &NestedValue, json: &mut String) {
    match value {
        NestedValue { nested_type: Some(DICT), dict_keys, dict_values, .. } => {
            let entries: Vec<_> = dict_keys.iter().zip(dict_values).collect();
            list(json, ['{', '}'], &entries, |(key, value), json| {
                quote(key, json);
                json.push(':');
                put_nested(value, json);
            });
        }
        NestedValue { nested_type: Some(ARRAY), array_values, .. } => {
            list(json, ['[', ']'], array_values, put_nested);
        }
        NestedValue { int_value: Some(value), .. } => put_shown(value, json),
        NestedValue { double_value: Some(value), .. } => put_real(*value, json),
        NestedValue { bool_value: Some(value), .. } => put_shown(value, json),
        NestedValue { string_value: Some(value), .. } => quote(value, json),
        _ => json.push_str("null"),
    }
}

fn list<T>(json: &mut String, ends: [char; 2], items: &[T], put: impl Fn(&T, &mut String)) {
    json.push(ends[0]);
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            json.push(',');
        }
        put(item, json);
    }
    json.push(ends[1]);
}

fn put_shown(value: impl std::fmt::Display, json: &mut String) {
    write!(json, "{value}").expect("writing to a `String` cannot fail");
}

/// Appends a real number; one that is not finite becomes a text, as JSON has none.
fn put_real(value: f64, json: &mut String) {
    if value.is_finite() {
        put_shown(format_args!("{value:?}"), json);
    } else {
        quote(&format!("{value:?}"), json);
    }
}
