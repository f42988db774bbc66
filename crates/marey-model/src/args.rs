//! The arguments of events: a text that many events share, and the numbers that each has for itself.
//!
//! Events of foreign traces carry JSON objects, of which most differ in a few whole numbers only.
//! [`NewArgs`] puts `#` in place of those, so the text that is left is stored once; [`fill`] puts an
//! event's object together again.
//!
//! ```
//! use marey_model::args::{NewArgs, fill};
//!
//! let mut args = NewArgs::default();
//! args.int("Ev Idx", 7);
//! args.json("Input Dims", "[[5, 128]]");
//! args.text("why", "#1");
//! assert_eq!(args.text_with_gaps(), r##"{"Ev Idx":#,"Input Dims":[[5, 128]],"why":"#1"}"##);
//!
//! let mut json = String::new();
//! fill(&args.text_with_gaps(), args.numbers(), &mut json);
//! assert_eq!(json, r##"{"Ev Idx":7,"Input Dims":[[5, 128]],"why":"#1"}"##);
//! ```

use std::fmt::Write as _;

/// Stands for a number that each event has for itself; outside of texts no JSON has it.
const GAP: char = '#';

/// The arguments of an event in the making.
#[derive(Clone, Debug, Default)]
pub struct NewArgs {
    /// The object so far, without its last brace.
    text: String,
    numbers: Vec<i64>,
}

impl NewArgs {
    /// Makes it empty.
    pub fn clear(&mut self) {
        self.text.clear();
        self.numbers.clear();
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Adds a whole number that most events have another one of.
    pub fn int(&mut self, key: &str, value: i64) {
        self.key(key);
        self.text.push(GAP);
        self.numbers.push(value);
    }

    /// Adds a text.
    pub fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        quote(value, &mut self.text);
    }

    /// Adds a value that is valid JSON already.
    pub fn json(&mut self, key: &str, value: &str) {
        if let Some(number) = whole_number(value) {
            self.int(key, number);
        } else {
            self.key(key);
            self.text.push_str(value);
        }
    }

    /// The same for a key in which nothing needs an escape.
    pub fn plain_json(&mut self, key: &str, value: &str) {
        self.text.reserve(key.len() + value.len() + ",\"\":".len());
        self.text.push_str(if self.text.is_empty() { "{\"" } else { ",\"" });
        self.text.push_str(key);
        self.text.push_str("\":");
        match whole_number(value) {
            Some(number) => {
                self.text.push(GAP);
                self.numbers.push(number);
            }
            None => self.text.push_str(value),
        }
    }

    /// Adds a real number; one that is not finite becomes a text, as JSON has none.
    pub fn real(&mut self, key: &str, value: f64) {
        self.key(key);
        let quote = if value.is_finite() { "" } else { "\"" };
        write!(self.text, "{quote}{value:?}{quote}").expect("texts take everything");
    }

    /// The object as JSON with a `#` for each number.
    pub fn text_with_gaps(&self) -> String {
        format!("{}}}", if self.is_empty() { "{" } else { &self.text })
    }

    /// Calls `use_text` with what [`Self::text_with_gaps`] gives, without making a copy.
    pub fn with_text<T>(&mut self, use_text: impl FnOnce(&str) -> T) -> T {
        self.text.push_str(if self.is_empty() { "{}" } else { "}" });
        let result = use_text(&self.text);
        self.text.truncate(self.text.len() - if self.text == "{}" { 2 } else { 1 });
        result
    }

    /// The numbers, in the order of their gaps.
    pub fn numbers(&self) -> &[i64] {
        &self.numbers
    }

    fn key(&mut self, key: &str) {
        self.text.push(if self.text.is_empty() { '{' } else { ',' });
        quote(key, &mut self.text);
        self.text.push(':');
    }
}

/// Appends a text as JSON, quotes around it.
pub fn quote(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| byte < 0x20 || matches!(byte, b'"' | b'\\')) {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            control => write!(out, "\\u{control:04x}").expect("texts take everything"),
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

/// A JSON number that is whole, fits 64 bits and is written in the one usual way: what is a gap of the
/// text.
pub fn whole_number(json: &str) -> Option<i64> {
    /// So many digits fit in any case.
    const SHORT: usize = 18;
    let (is_negative, digits) = match json.as_bytes() {
        [b'0'] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let Some(b'1'..=b'9') = digits.first() else { return None };
    let (mut size, mut is_number) = (0_i64, true);
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        is_number &= digit < 10;
        size = size.wrapping_mul(10).wrapping_add(digit.into());
    }
    if !is_number {
        return None;
    }
    if digits.len() > SHORT {
        return json.parse().ok();
    }
    Some(if is_negative { -size } else { size })
}

/// Appends the object of an event: the text with its numbers in the gaps. A gap without a number is
/// `null`.
pub fn fill(text: &str, numbers: &[i64], json: &mut String) {
    fill_known(text, numbers.iter().copied().map(Some), json);
}

/// As [`fill`], with numbers of which some are not known: their gaps are `null`, too.
pub fn fill_known(text: &str, mut numbers: impl Iterator<Item = Option<i64>>, json: &mut String) {
    let (mut copied, mut is_text, mut is_escaped) = (0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'#' if !is_text => {
                json.push_str(&text[copied..at]);
                copied = at + 1;
                match numbers.next().flatten() {
                    Some(number) => write!(json, "{number}").expect("texts take everything"),
                    None => json.push_str("null"),
                }
            }
            _ => {}
        }
    }
    json.push_str(&text[copied..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_usual_whole_numbers_are_gaps() {
        let cases = [
            ("0", true),
            ("-1", true),
            ("9223372036854775807", true),
            ("9223372036854775808", false),
            ("-0", false),
            ("01", false),
            ("1.0", false),
            ("1e3", false),
            ("\"1\"", false),
            ("[1]", false),
        ];
        for (json, is_gap) in cases {
            let mut args = NewArgs::default();
            args.json("k", json);
            assert_eq!(args.numbers().len(), usize::from(is_gap), "{json}");
            let mut filled = String::new();
            fill(&args.text_with_gaps(), args.numbers(), &mut filled);
            assert_eq!(filled, format!("{{\"k\":{json}}}"));
        }
    }

    #[test]
    fn texts_may_hold_anything() {
        let mut args = NewArgs::default();
        assert_eq!(args.with_text(str::to_owned), "{}");
        assert!(args.is_empty());
        args.text("a\"#\\", "\\\"#\n\u{1}é");
        args.int("n", i64::MIN);
        args.real("r", f64::NAN);
        let text = args.with_text(str::to_owned);
        assert_eq!(text, args.text_with_gaps());
        let mut filled = String::new();
        fill(&text, args.numbers(), &mut filled);
        let expected = r##"{"a\"#\\":"\\\"#\n\u0001é","n":-9223372036854775808,"r":"NaN"}"##;
        assert_eq!(filled, expected);
    }

    #[test]
    fn a_gap_too_many_is_null() {
        let mut filled = String::new();
        fill(r#"{"a":#,"b":#}"#, &[1], &mut filled);
        assert_eq!(filled, r#"{"a":1,"b":null}"#);
    }
}
