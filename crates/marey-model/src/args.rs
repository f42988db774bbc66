//! Splits the arguments of events into a template that many events share and the numbers of each
//! event.
//!
//! Events of imported traces carry JSON objects, most of which differ only in a few integers.
//! [`NewArgs`] replaces integers by the placeholder `#`, so each template is stored once; [`fill`]
//! restores the object.
//!
//! ```
//! use marey_model::args::{NewArgs, fill};
//!
//! let mut args = NewArgs::default();
//! args.int("Ev Idx", 7);
//! args.json("Input Dims", "[[5, 128]]");
//! args.text("why", "#1");
//! assert_eq!(args.template(), r##"{"Ev Idx":#,"Input Dims":[[5, 128]],"why":"#1"}"##);
//!
//! let mut json = String::new();
//! fill(&args.template(), args.numbers(), &mut json);
//! assert_eq!(json, r##"{"Ev Idx":7,"Input Dims":[[5, 128]],"why":"#1"}"##);
//! ```

use std::fmt::Write as _;

use crate::json::quote;

/// The placeholder of an integer. Outside of strings, `#` does not occur in JSON.
const PLACEHOLDER: char = '#';

/// A builder of the arguments of an event.
#[derive(Clone, Debug, Default)]
pub struct NewArgs {
    /// The template so far, without its closing brace.
    text: String,
    numbers: Vec<i64>,
}

impl NewArgs {
    /// Removes all arguments.
    pub fn clear(&mut self) {
        self.text.clear();
        self.numbers.clear();
    }

    /// Whether there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Adds an integer, as a placeholder.
    pub fn int(&mut self, key: &str, value: i64) {
        self.push_key(key);
        self.text.push(PLACEHOLDER);
        self.numbers.push(value);
    }

    /// Adds a string.
    pub fn text(&mut self, key: &str, value: &str) {
        self.push_key(key);
        quote(value, &mut self.text);
    }

    /// Adds a value that is already valid JSON.
    pub fn json(&mut self, key: &str, value: &str) {
        if let Some(number) = canonical_integer(value) {
            self.int(key, number);
        } else {
            self.push_key(key);
            self.text.push_str(value);
        }
    }

    /// Like [`Self::json`], for a key that needs no escaping.
    pub fn plain_json(&mut self, key: &str, value: &str) {
        self.text.reserve(key.len() + value.len() + ",\"\":".len());
        self.text.push_str(if self.text.is_empty() { "{\"" } else { ",\"" });
        self.text.push_str(key);
        self.text.push_str("\":");
        match canonical_integer(value) {
            Some(number) => {
                self.text.push(PLACEHOLDER);
                self.numbers.push(number);
            }
            None => self.text.push_str(value),
        }
    }

    /// Adds a floating-point number. Values that are not finite become strings, because JSON cannot
    /// represent them.
    pub fn real(&mut self, key: &str, value: f64) {
        self.push_key(key);
        let quote = if value.is_finite() { "" } else { "\"" };
        write!(self.text, "{quote}{value:?}{quote}").expect("writing to a string cannot fail");
    }

    /// Returns the template: the object as JSON with a `#` for each integer.
    pub fn template(&self) -> String {
        format!("{}}}", if self.is_empty() { "{" } else { &self.text })
    }

    /// Calls `use_template` with the template, without copying it.
    pub fn with_template<T>(&mut self, use_template: impl FnOnce(&str) -> T) -> T {
        self.text.push_str(if self.is_empty() { "{}" } else { "}" });
        let result = use_template(&self.text);
        self.text.truncate(self.text.len() - if self.text == "{}" { 2 } else { 1 });
        result
    }

    /// Returns the integers, in the order of their placeholders.
    pub fn numbers(&self) -> &[i64] {
        &self.numbers
    }

    fn push_key(&mut self, key: &str) {
        self.text.push(if self.text.is_empty() { '{' } else { ',' });
        quote(key, &mut self.text);
        self.text.push(':');
    }
}

/// Parses an integer that a placeholder can replace: one that fits into 64 bits and is written in
/// canonical form.
pub fn canonical_integer(json: &str) -> Option<i64> {
    /// Integers with this many digits always fit.
    const MAX_SAFE_DIGITS: usize = 18;
    let (is_negative, digits) = match json.as_bytes() {
        [b'0'] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let Some(b'1'..=b'9') = digits.first() else { return None };
    let (mut magnitude, mut is_number) = (0_i64, true);
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        is_number &= digit < 10;
        magnitude = magnitude.wrapping_mul(10).wrapping_add(digit.into());
    }
    if !is_number {
        return None;
    }
    if digits.len() > MAX_SAFE_DIGITS {
        return json.parse().ok();
    }
    Some(if is_negative { -magnitude } else { magnitude })
}

/// Appends the arguments of an event: the template with its integers. A placeholder without a
/// number becomes `null`.
pub fn fill(template: &str, numbers: &[i64], json: &mut String) {
    fill_with_unknown(template, numbers.iter().copied().map(Some), json);
}

/// Appends the arguments of an event like [`fill`]. A number that is unknown becomes `null`.
pub fn fill_with_unknown(
    template: &str,
    mut numbers: impl Iterator<Item = Option<i64>>,
    json: &mut String,
) {
    let (mut copied_end, mut is_in_string, mut is_escaped) = (0, false, false);
    for (position, byte) in template.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_in_string => is_escaped = true,
            b'"' => is_in_string = !is_in_string,
            b'#' if !is_in_string => {
                json.push_str(&template[copied_end..position]);
                copied_end = position + 1;
                match numbers.next().flatten() {
                    Some(number) => {
                        write!(json, "{number}").expect("writing to a string cannot fail");
                    }
                    None => json.push_str("null"),
                }
            }
            _ => {}
        }
    }
    json.push_str(&template[copied_end..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_integers_become_placeholders() {
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
        for (json, is_placeholder) in cases {
            let mut args = NewArgs::default();
            args.json("k", json);
            assert_eq!(args.numbers().len(), usize::from(is_placeholder), "{json}");
            let mut filled = String::new();
            fill(&args.template(), args.numbers(), &mut filled);
            assert_eq!(filled, format!("{{\"k\":{json}}}"));
        }
    }

    #[test]
    fn any_string_survives_a_round_trip() {
        let mut args = NewArgs::default();
        assert_eq!(args.with_template(str::to_owned), "{}");
        assert!(args.is_empty());
        args.text("a\"#\\", "\\\"#\n\u{1}é");
        args.int("n", i64::MIN);
        args.real("r", f64::NAN);
        let text = args.with_template(str::to_owned);
        assert_eq!(text, args.template());
        let mut filled = String::new();
        fill(&text, args.numbers(), &mut filled);
        let expected = r##"{"a\"#\\":"\\\"#\n\u0001é","n":-9223372036854775808,"r":"NaN"}"##;
        assert_eq!(filled, expected);
    }

    #[test]
    fn a_placeholder_without_a_number_is_null() {
        let mut filled = String::new();
        fill(r#"{"a":#,"b":#}"#, &[1], &mut filled);
        assert_eq!(filled, r#"{"a":1,"b":null}"#);
    }

    #[test]
    fn plain_keys_give_the_same_arguments_as_quoted_ones() {
        let (mut plain, mut quoted) = (NewArgs::default(), NewArgs::default());
        for (key, value) in [("a", "7"), ("b", "[1, 2]"), ("c", "\"x\"")] {
            plain.plain_json(key, value);
            quoted.json(key, value);
            assert_eq!(plain.template(), quoted.template());
        }
        assert_eq!(
            (plain.template().as_str(), plain.numbers()),
            (r#"{"a":#,"b":[1, 2],"c":"x"}"#, &[7][..])
        );
        plain.clear();
        assert!(plain.is_empty() && plain.numbers().is_empty());
    }

    #[test]
    fn a_space_is_not_escaped() {
        let mut out = String::new();
        quote("a b\u{1f}", &mut out);
        assert_eq!(out, r#""a b\u001f""#);
    }

    #[test]
    fn the_character_after_nine_is_not_a_digit() {
        assert_eq!(canonical_integer("1:"), None);
        assert_eq!(canonical_integer("19"), Some(19));
    }
}
