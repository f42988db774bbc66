//! Writes trace-event JSON, which Chrome and Perfetto read, with one line for each event.

use std::io;

use crate::json::{Object, object, push_quoted};

/// The size at which the buffer is written to the output.
const BUFFER_BYTES: usize = 1 << 16;

/// A file of trace events: an object whose members include the list of events.
pub struct Document<'o> {
    out: &'o mut dyn io::Write,
    text: Vec<u8>,
    spacing: &'static Spacing,
    /// The separator before the next member or event.
    separator: &'static str,
}

/// The white space and separators around the members of the outermost object.
struct Spacing {
    before_first: &'static str,
    between: &'static str,
    after_key: &'static str,
    end: &'static str,
}

const LINES: Spacing =
    Spacing { before_first: "\n", between: ",\n", after_key: ": ", end: "\n}\n" };
const COMPACT: Spacing = Spacing { before_first: "", between: ",", after_key: ":", end: "}\n" };

impl<'o> Document<'o> {
    /// Opens the outermost object, with each member on a line of its own.
    pub fn new(out: &'o mut dyn io::Write) -> Self {
        Self::with_spacing(out, &LINES)
    }

    /// Opens the outermost object, with no white space around its members.
    pub fn compact(out: &'o mut dyn io::Write) -> Self {
        Self::with_spacing(out, &COMPACT)
    }

    fn with_spacing(out: &'o mut dyn io::Write, spacing: &'static Spacing) -> Self {
        Self { out, text: b"{".to_vec(), spacing, separator: spacing.before_first }
    }

    /// Adds a member with a JSON value.
    pub fn member(&mut self, key: &str, json: impl AsRef<[u8]>) {
        self.text.extend_from_slice(self.separator.as_bytes());
        push_quoted(key, &mut self.text);
        self.text.extend_from_slice(self.spacing.after_key.as_bytes());
        self.text.extend_from_slice(json.as_ref());
        self.separator = self.spacing.between;
    }

    /// Adds a member that is an object, whose members `fill` adds.
    pub fn object(&mut self, key: &str, fill: impl FnOnce(&mut Object)) {
        self.member(key, "");
        object(&mut self.text, fill);
    }

    /// Opens the list of events.
    pub fn begin_events(&mut self) {
        self.member("traceEvents", "[");
        self.separator = "\n";
    }

    /// Adds an event, whose members `fill` adds.
    ///
    /// # Errors
    ///
    /// Errors of the output.
    pub fn event(&mut self, fill: impl FnOnce(&mut Object)) -> io::Result<()> {
        self.text.extend_from_slice(self.separator.as_bytes());
        self.separator = ",\n";
        object(&mut self.text, fill);
        if self.text.len() < BUFFER_BYTES { Ok(()) } else { self.flush() }
    }

    /// Closes the list of events.
    pub fn end_events(&mut self) {
        self.text.extend_from_slice(b"\n]");
        self.separator = self.spacing.between;
    }

    /// Closes the outermost object and writes the rest of the text.
    ///
    /// # Errors
    ///
    /// Errors of the output.
    pub fn finish(mut self) -> io::Result<()> {
        self.text.extend_from_slice(self.spacing.end.as_bytes());
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.text)?;
        self.text.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_document_may_be_empty() {
        let written = |begin: fn(&mut dyn io::Write) -> Document, fill: fn(&mut Document)| {
            let mut out = Vec::new();
            let mut document = begin(&mut out);
            fill(&mut document);
            document.finish().unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(|out| Document::new(out), |_| ()), "{\n}\n");
        assert_eq!(written(|out| Document::compact(out), |_| ()), "{}\n");
        let events = |document: &mut Document| {
            document.begin_events();
            document.end_events();
        };
        assert_eq!(written(|out| Document::new(out), events), "{\n\"traceEvents\": [\n]\n}\n");
        assert_eq!(written(|out| Document::compact(out), events), "{\"traceEvents\":[\n]}\n");
        let both = |document: &mut Document| {
            document.member("a \"b\"", "1");
            document.begin_events();
            document.event(|event| event.text("name", "\u{2028}\u{1}\\")).unwrap();
            document.event(|_| ()).unwrap();
            document.end_events();
            document.object("y", |object| object.value("z", 1));
            document.member("z", "[]");
        };
        assert_eq!(
            written(|out| Document::new(out), both),
            "{\n\"a \\\"b\\\"\": 1,\n\"traceEvents\": [\n{\"name\":\"\u{2028}\\u0001\\\\\"},\n{}\n],\n\
             \"y\": {\"z\":1},\n\"z\": []\n}\n"
        );
        assert_eq!(
            written(|out| Document::compact(out), both),
            "{\"a \\\"b\\\"\":1,\"traceEvents\":[\n{\"name\":\"\u{2028}\\u0001\\\\\"},\n{}\n],\
             \"y\":{\"z\":1},\"z\":[]}\n"
        );
    }
}
