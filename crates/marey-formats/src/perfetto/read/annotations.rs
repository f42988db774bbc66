//! Reads debug annotations: the arguments of events, and the extras in files that marey wrote.

use std::fmt::Write as _;

use marey_model::args::NewArgs;
use marey_model::json::quote;
use serde::de::IgnoredAny;

use super::sequence::Sequence;
use crate::perfetto::EXTRAS_NAME;
use crate::perfetto::message::{
    DebugAnnotation, NESTED_ARRAY, NESTED_DICT, NestedValue, TrackEvent,
};

/// The columns of an event that the format has no field for, in a file that marey wrote.
#[derive(Debug, Default)]
pub(super) struct Extras<'e>(Vec<(&'e str, &'e DebugAnnotation)>);

impl<'e> Extras<'e> {
    /// Splits the annotations of an event into the extras, which come first, and the arguments.
    pub(super) fn split_from(
        event: &'e TrackEvent,
        sequence: &'e Sequence,
    ) -> (Self, &'e [DebugAnnotation]) {
        let annotations = event.debug_annotations.as_slice();
        match annotations.split_first() {
            Some((first, arguments)) if name(first, sequence) == EXTRAS_NAME && is_dict(first) => {
                let entries = first.dict_entries.iter();
                (Self(entries.map(|entry| (name(entry, sequence), entry)).collect()), arguments)
            }
            _ => (Self::default(), annotations),
        }
    }

    pub(super) fn uint(&self, name: &str) -> Option<u64> {
        self.get(name)?.uint_value
    }

    /// Returns a number below 2³².
    pub(super) fn uint32(&self, name: &str) -> Option<u32> {
        self.uint(name)?.try_into().ok()
    }

    pub(super) fn int(&self, name: &str) -> Option<i64> {
        self.get(name)?.int_value
    }

    pub(super) fn float(&self, name: &str) -> Option<f64> {
        self.get(name)?.double_value
    }

    pub(super) fn text(&self, name: &str) -> Option<&'e str> {
        self.get(name)?.string_value.as_deref()
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(|annotation| annotation.bool_value) == Some(true)
    }

    /// Returns three integers, for x, y and z.
    pub(super) fn dimensions(&self, name: &str) -> Option<[u32; 3]> {
        let axes = self.get(name)?.array_values.iter();
        let axes = axes.map(|value| value.uint_value?.try_into().ok());
        axes.collect::<Option<Vec<u32>>>()?.try_into().ok()
    }

    fn get(&self, name: &str) -> Option<&'e DebugAnnotation> {
        self.0.iter().find(|(entry_name, _)| *entry_name == name).map(|(_, annotation)| *annotation)
    }
}

/// Adds annotations to arguments. Returns `false` if one was left out because it is a protobuf
/// message.
pub(super) fn add_to_args(
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
                write_value(annotation, sequence, &mut json);
                args.json(name, &json);
            }
        }
    }
    annotations.iter().all(|annotation| annotation.proto_value.is_none())
}

/// Returns the name of an annotation.
pub(super) fn name<'e>(annotation: &'e DebugAnnotation, sequence: &'e Sequence) -> &'e str {
    let interned =
        || sequence.interned().annotation_names.get(&annotation.name_iid?).map(|name| &**name);
    annotation.name.as_deref().or_else(interned).unwrap_or_default()
}

fn is_dict(annotation: &DebugAnnotation) -> bool {
    let nested_type = annotation.nested_value.as_ref().and_then(|nested| nested.nested_type);
    !annotation.dict_entries.is_empty() || nested_type == Some(NESTED_DICT)
}

/// Appends a value as JSON. The decoder bounds the recursion.
fn write_value(annotation: &DebugAnnotation, sequence: &Sequence, json: &mut String) {
    let interned = |iid| sequence.interned().annotation_strings.get(&iid).map_or("", |text| text);
    match annotation {
        DebugAnnotation { bool_value: Some(value), .. } => write_display(value, json),
        DebugAnnotation { uint_value: Some(value), .. } => write_display(value, json),
        DebugAnnotation { int_value: Some(value), .. } => write_display(value, json),
        DebugAnnotation { double_value: Some(value), .. } => write_float(*value, json),
        DebugAnnotation { string_value: Some(value), .. } => quote(value, json),
        DebugAnnotation { string_value_iid: Some(iid), .. } => quote(interned(*iid), json),
        DebugAnnotation { pointer_value: Some(value), .. } => quote(&format!("{value:#x}"), json),
        DebugAnnotation { legacy_json_value: Some(value), .. } => {
            match serde_json::from_str::<IgnoredAny>(value) {
                Ok(_) => json.push_str(value),
                Err(_) => quote(value, json),
            }
        }
        DebugAnnotation { nested_value: Some(value), .. } => write_nested(value, json),
        _ if !annotation.dict_entries.is_empty() => {
            write_list(json, ['{', '}'], &annotation.dict_entries, |entry, json| {
                quote(name(entry, sequence), json);
                json.push(':');
                write_value(entry, sequence, json);
            });
        }
        _ if !annotation.array_values.is_empty() => {
            write_list(json, ['[', ']'], &annotation.array_values, |value, json| {
                write_value(value, sequence, json);
            });
        }
        _ => json.push_str("null"),
    }
}

/// Appends a value in the older encoding.
fn write_nested(value: &NestedValue, json: &mut String) {
    match value {
        NestedValue { nested_type: Some(NESTED_DICT), dict_keys, dict_values, .. } => {
            let entries: Vec<_> = dict_keys.iter().zip(dict_values).collect();
            write_list(json, ['{', '}'], &entries, |(key, value), json| {
                quote(key, json);
                json.push(':');
                write_nested(value, json);
            });
        }
        NestedValue { nested_type: Some(NESTED_ARRAY), array_values, .. } => {
            write_list(json, ['[', ']'], array_values, write_nested);
        }
        NestedValue { int_value: Some(value), .. } => write_display(value, json),
        NestedValue { double_value: Some(value), .. } => write_float(*value, json),
        NestedValue { bool_value: Some(value), .. } => write_display(value, json),
        NestedValue { string_value: Some(value), .. } => quote(value, json),
        _ => json.push_str("null"),
    }
}

fn write_list<T>(
    json: &mut String,
    brackets: [char; 2],
    items: &[T],
    write_value: impl Fn(&T, &mut String),
) {
    json.push(brackets[0]);
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            json.push(',');
        }
        write_value(item, json);
    }
    json.push(brackets[1]);
}

fn write_display(value: impl std::fmt::Display, json: &mut String) {
    write!(json, "{value}").expect("writing to a `String` cannot fail");
}

/// Appends a floating-point number. One that is not finite becomes a string, because JSON has no
/// number for it.
fn write_float(value: f64, json: &mut String) {
    if value.is_finite() {
        write_display(format_args!("{value:?}"), json);
    } else {
        quote(&format!("{value:?}"), json);
    }
}
