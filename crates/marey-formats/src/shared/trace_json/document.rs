//! JSON text that is valid by construction, one line for each event.

use std::collections::HashMap;
use std::fmt::{Display, Write as _};
use std::io;

use marey_model::args::quote;
use serde_json::value::RawValue;

/// Size at which the buffer is written out.
const BUFFER_BYTES: usize = 1 << 16;

/// A file of trace events: an object whose members include the list of events.
pub(crate) struct Document<'o> {
    out: &'o mut dyn io::Write,
    text: String,
    /// Separator before the next member or event.
    separator: &'static str,
}

impl<'o> Document<'o> {
    /// Opens the outermost object.
    pub(crate) fn new(out: &'o mut dyn io::Write) -> Self {
        Self { out, text: "{".to_owned(), separator: "\n" }
    }

    /// Adds a member with a JSON value.
    pub(crate) fn member(&mut self, key: &str, json: &str) {
        self.text.push_str(self.separator);
        quote(key, &mut self.text);
        self.text.push_str(": ");
        self.text.push_str(json);
        self.separator = ",\n";
    }

    /// Opens the list of events.
    pub(crate) fn begin_events(&mut self) {
        self.member("traceEvents", "[");
        self.separator = "\n";
    }

    /// Adds an event; `fill` adds its members except the phase.
    pub(crate) fn event(&mut self, phase: &str, fill: impl FnOnce(&mut Object)) -> io::Result<()> {
        self.text.push_str(self.separator);
        self.separator = ",\n";
        object(&mut self.text, |event| {
            event.text("ph", phase);
            fill(event);
        });
        if self.text.len() < BUFFER_BYTES { Ok(()) } else { self.flush() }
    }

    /// Closes the list of events.
    pub(crate) fn end_events(&mut self) {
        self.text.push_str("\n]");
        self.separator = ",\n";
    }

    /// Closes the outermost object and writes the rest.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.text.push_str("\n}\n");
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(self.text.as_bytes())?;
        self.text.clear();
        Ok(())
    }
}

/// An object that is being written.
pub(crate) struct Object<'t> {
    text: &'t mut String,
    is_empty: bool,
    /// A complete JSON object. Its members replace added members with the same keys.
    overrides: &'t str,
}

/// Appends an object whose members `fill` adds.
pub(crate) fn object(text: &mut String, fill: impl FnOnce(&mut Object)) {
    text.push('{');
    fill(&mut Object { text, is_empty: true, overrides: "{}" });
    text.push('}');
}

impl Object<'_> {
    /// Adds a string.
    pub(crate) fn text(&mut self, key: &str, value: &str) {
        if let Some(text) = self.key(key) {
            quote(value, text);
        }
    }

    /// Adds an integer, or another value that is displayed as JSON.
    pub(crate) fn value(&mut self, key: &str, value: impl Display) {
        if let Some(text) = self.key(key) {
            write!(text, "{value}").expect("writing to a `String` cannot fail");
        }
    }

    /// Adds a floating-point number. One that is not finite becomes a string, as JSON has no form
    /// for it.
    pub(crate) fn float(&mut self, key: &str, value: f64) {
        let quote = if value.is_finite() { "" } else { "\"" };
        self.value(key, format_args!("{quote}{value:?}{quote}"));
    }

    /// Adds a time or duration in microseconds, exact to the digit: a double would round it.
    pub(crate) fn micros(&mut self, key: &str, nanos: i128) {
        let sign = if nanos < 0 { "-" } else { "" };
        let nanos = nanos.unsigned_abs();
        // 128-bit numbers are slow to print and rare.
        match u64::try_from(nanos) {
            Ok(nanos) => {
                self.value(key, format_args!("{sign}{}.{:03}", nanos / 1000, nanos % 1000));
            }
            Err(_) => self.value(key, format_args!("{sign}{}.{:03}", nanos / 1000, nanos % 1000)),
        }
    }

    /// Adds an object whose members `fill` adds.
    pub(crate) fn object(&mut self, key: &str, fill: impl FnOnce(&mut Object)) {
        self.object_with(key, "{}", fill);
    }

    /// Adds an object with the members of the JSON object `overrides`, and those that `fill` adds
    /// unless `overrides` has them.
    pub(crate) fn object_with(
        &mut self,
        key: &str,
        overrides: &str,
        fill: impl FnOnce(&mut Object),
    ) {
        if let Some(text) = self.key(key) {
            text.push('{');
            let mut object = Object { text, is_empty: true, overrides };
            fill(&mut object);
            object.members(overrides);
            text.push('}');
        }
    }

    /// Adds a list whose elements `fill` writes.
    pub(crate) fn list(&mut self, key: &str, fill: impl FnOnce(&mut String)) {
        if let Some(text) = self.key(key) {
            text.push('[');
            fill(text);
            text.push(']');
        }
    }

    /// Adds a list of strings.
    pub(crate) fn texts<'t>(&mut self, key: &str, texts: impl Iterator<Item = &'t str>) {
        self.list(key, |list| {
            for (at, text) in texts.enumerate() {
                list.push_str(if at == 0 { "" } else { "," });
                quote(text, list);
            }
        });
    }

    /// Adds the members of a JSON object.
    pub(crate) fn members(&mut self, object: &str) {
        let inside = object.trim_ascii().strip_prefix('{').and_then(|text| text.strip_suffix('}'));
        let Some(members) = inside.map(str::trim_ascii).filter(|text| !text.is_empty()) else {
            return;
        };
        self.separate();
        self.text.push_str(members);
    }

    /// Starts a member, unless the overrides have it.
    fn key(&mut self, key: &str) -> Option<&mut String> {
        if has_member(self.overrides, key) {
            return None;
        }
        self.separate();
        quote(key, self.text);
        self.text.push(':');
        Some(self.text)
    }

    fn separate(&mut self) {
        if !std::mem::take(&mut self.is_empty) {
            self.text.push(',');
        }
    }
}

/// Whether a JSON object has a member.
fn has_member(object: &str, key: &str) -> bool {
    let is_quoted = |(at, _): (usize, &str)| {
        object[..at].ends_with('"') && object[at + key.len()..].starts_with('"')
    };
    // Objects are parsed only if they contain the quoted key, which few do.
    object.match_indices(key).any(is_quoted)
        && serde_json::from_str::<HashMap<String, &RawValue>>(object)
            .is_ok_and(|members| members.contains_key(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_are_exact() {
        for (nanos, expected) in [
            (0, "0.000"),
            (7, "0.007"),
            (1_000, "1.000"),
            (-1, "-0.001"),
            (-1_234_567, "-1234.567"),
            (9_007_199_254_740_993_001, "9007199254740993.001"),
            (i128::from(i64::MAX) - i128::from(i64::MIN), "18446744073709551.615"),
        ] {
            let mut text = String::new();
            object(&mut text, |object| object.micros("ts", nanos));
            assert_eq!(text, format!("{{\"ts\":{expected}}}"));
        }
    }

    #[test]
    fn members_of_json_objects_are_added() {
        let mut text = String::new();
        object(&mut text, |object| {
            object.members("{}");
            object.value("a", 1);
            object.members(" { \"b\": 2 } ");
            object.members("{ }");
            object.object("c", |inner| inner.members("{\"d\":[{}]}"));
            object.float("e", f64::NEG_INFINITY);
        });
        assert_eq!(text, r#"{"a":1,"b": 2,"c":{"d":[{}]},"e":"-inf"}"#);
    }

    #[test]
    fn overrides_replace_members() {
        let mut text = String::new();
        object(&mut text, |object| {
            let overrides = r#"{"b":"device","stream":[{"c":1}]}"#;
            object.object_with("args", overrides, |args| {
                args.value("device", 1);
                args.value("stream", 2);
                args.value("c", 3);
                args.texts("b", ["4"].into_iter());
            });
            object.value("b", 5);
        });
        let expected = r#"{"args":{"device":1,"c":3,"b":"device","stream":[{"c":1}]},"b":5}"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn every_part_of_a_document_may_be_empty() {
        let written = |fill: fn(&mut Document)| {
            let mut out = Vec::new();
            let mut document = Document::new(&mut out);
            fill(&mut document);
            document.finish().unwrap();
            serde_json::from_slice::<serde_json::Value>(&out).unwrap().to_string()
        };
        assert_eq!(written(|_| ()), "{}");
        let events = |document: &mut Document| {
            document.begin_events();
            document.end_events();
        };
        assert_eq!(written(events), r#"{"traceEvents":[]}"#);
        let both = |document: &mut Document| {
            document.member("a \"b\"", "1");
            document.begin_events();
            document.event("X", |event| event.text("name", "\u{2028}\u{1}\\")).unwrap();
            document.event("i", |_| ()).unwrap();
            document.end_events();
            document.member("z", "[]");
        };
        let expected = "{\"a \\\"b\\\"\":1,\"traceEvents\":[{\"name\":\"\u{2028}\\u0001\\\\\",\"ph\":\"X\"},{\"ph\":\"i\"}],\"z\":[]}";
        assert_eq!(written(both), expected);
    }
}
