//! Writes JSON text without a library: strings, numbers, and objects that are valid by
//! construction.

use std::convert::Infallible;
use std::fmt::Display;
use std::io::{self, Write};

/// Appends a string as JSON, with quotes.
pub fn quote(text: &str, out: &mut String) {
    let Ok(()) = quote_pieces(text, |piece| {
        out.push_str(piece);
        Ok::<_, Infallible>(())
    });
}

/// Returns a string as JSON, with quotes.
pub fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    quote(text, &mut json);
    json
}

/// Writes a string as JSON, with quotes.
///
/// # Errors
///
/// Errors of `out`.
pub fn write_quoted(text: &str, out: &mut impl Write) -> io::Result<()> {
    quote_pieces(text, |piece| out.write_all(piece.as_bytes()))
}

/// Appends a string as JSON, with quotes.
#[inline]
pub fn push_quoted(text: &str, out: &mut Vec<u8>) {
    let Ok(()) = quote_pieces(text, |piece| {
        out.extend_from_slice(piece.as_bytes());
        Ok::<_, Infallible>(())
    });
}

/// The hexadecimal digits of each control character.
const CONTROL_DIGITS: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// Passes the pieces of a JSON string to `write`, quotes included.
#[inline]
fn quote_pieces<E>(text: &str, mut write: impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
    write("\"")?;
    let mut remaining = text;
    while let Some(position) =
        remaining.bytes().position(|byte| byte < 0x20 || matches!(byte, b'"' | b'\\'))
    {
        write(&remaining[..position])?;
        match remaining.as_bytes()[position] {
            b'"' => write("\\\"")?,
            b'\\' => write("\\\\")?,
            b'\n' => write("\\n")?,
            b'\r' => write("\\r")?,
            b'\t' => write("\\t")?,
            0x08 => write("\\b")?,
            0x0c => write("\\f")?,
            control => {
                let digits_start = 2 * usize::from(control);
                write("\\u00")?;
                write(&CONTROL_DIGITS[digits_start..digits_start + 2])?;
            }
        }
        remaining = &remaining[position + 1..];
    }
    write(remaining)?;
    write("\"")
}

/// The maximum size of a key that is a literal.
const MAX_KEY_BYTES: usize = 60;

/// An object that is being written. Keys are literals without special characters; only
/// [`member`](Self::member) escapes its key.
pub struct Object<'t> {
    text: &'t mut Vec<u8>,
    is_empty: bool,
    /// Returns whether a member with this key is not written.
    is_excluded: Option<&'t dyn Fn(&str) -> bool>,
}

/// Appends an object whose members `fill` adds.
#[inline]
pub fn object(text: &mut Vec<u8>, fill: impl FnOnce(&mut Object)) {
    text.push(b'{');
    fill(&mut Object { text, is_empty: true, is_excluded: None });
    text.push(b'}');
}

#[expect(clippy::inline_always, reason = "a key whose text is known is copied as a constant")]
impl Object<'_> {
    /// Adds a string.
    #[inline(always)]
    pub fn text(&mut self, key: &'static str, value: &str) {
        if let Some(text) = self.key(key) {
            push_quoted(value, text);
        }
    }

    /// Adds a string without special characters, faster than [`text`](Self::text).
    #[inline(always)]
    pub fn word(&mut self, key: &'static str, word: &'static str) {
        if let Some(text) = self.key(key) {
            text.push(b'"');
            text.extend_from_slice(word.as_bytes());
            text.push(b'"');
        }
    }

    /// Adds an integer that is not negative, faster than [`value`](Self::value).
    #[inline(always)]
    pub fn number(&mut self, key: &'static str, value: u64) {
        if let Some(text) = self.key(key) {
            push_number(value, text);
        }
    }

    /// Adds a value that is displayed as JSON.
    pub fn value(&mut self, key: &'static str, value: impl Display) {
        if let Some(text) = self.key(key) {
            push_value(value, text);
        }
    }

    /// Adds a time or duration in microseconds, exact to the nanosecond: a double would round it.
    #[inline(always)]
    pub fn micros(&mut self, key: &'static str, nanos: i128) {
        if let Some(text) = self.key(key) {
            push_micros(nanos, text);
        }
    }

    /// Adds an object whose members `fill` adds.
    #[inline(always)]
    pub fn object(&mut self, key: &'static str, fill: impl FnOnce(&mut Object)) {
        if let Some(text) = self.key(key) {
            object(text, fill);
        }
    }

    /// Adds an object whose members `fill` adds, except those whose key `is_excluded`.
    pub fn object_without(
        &mut self,
        key: &'static str,
        is_excluded: &dyn Fn(&str) -> bool,
        fill: impl FnOnce(&mut Object),
    ) {
        if let Some(text) = self.key(key) {
            text.push(b'{');
            fill(&mut Object { text, is_empty: true, is_excluded: Some(is_excluded) });
            text.push(b'}');
        }
    }

    /// Adds a list whose elements `fill` writes.
    #[inline(always)]
    pub fn list(&mut self, key: &'static str, fill: impl FnOnce(&mut Vec<u8>)) {
        if let Some(text) = self.key(key) {
            text.push(b'[');
            fill(text);
            text.push(b']');
        }
    }

    /// Adds a member with any key, whose value `fill` writes.
    pub fn member(&mut self, key: &str, fill: impl FnOnce(&mut Vec<u8>)) {
        if !self.excludes(key) {
            self.separate();
            push_quoted(key, self.text);
            self.text.push(b':');
            fill(self.text);
        }
    }

    /// Adds the members of a JSON object.
    pub fn members(&mut self, object: &str) {
        let inside = object.trim_ascii().strip_prefix('{').and_then(|text| text.strip_suffix('}'));
        let Some(members) = inside.map(str::trim_ascii).filter(|text| !text.is_empty()) else {
            return;
        };
        self.separate();
        self.text.extend_from_slice(members.as_bytes());
    }

    /// Starts a member, unless its key is excluded.
    #[inline(always)]
    fn key(&mut self, key: &'static str) -> Option<&mut Vec<u8>> {
        if self.excludes(key) {
            return None;
        }
        let prefix_bytes = key.len() + 4;
        let mut prefix = [b','; MAX_KEY_BYTES + 4];
        prefix[1] = b'"';
        prefix[2..prefix_bytes - 2].copy_from_slice(key.as_bytes());
        prefix[prefix_bytes - 2..prefix_bytes].copy_from_slice(b"\":");
        let skipped_bytes = usize::from(std::mem::take(&mut self.is_empty));
        self.text.extend_from_slice(&prefix[skipped_bytes..prefix_bytes]);
        Some(self.text)
    }

    #[inline]
    fn excludes(&self, key: &str) -> bool {
        self.is_excluded.is_some_and(|is_excluded| is_excluded(key))
    }

    #[inline]
    fn separate(&mut self) {
        if !std::mem::take(&mut self.is_empty) {
            self.text.push(b',');
        }
    }
}

/// Appends a value that is displayed as JSON.
pub fn push_value(value: impl Display, out: &mut Vec<u8>) {
    write!(out, "{value}").expect("writing to a `Vec` cannot fail");
}

/// Appends a floating-point number. One that is not finite becomes a string, because JSON cannot
/// represent it.
pub fn push_float(value: f64, out: &mut Vec<u8>) {
    let quote = if value.is_finite() { "" } else { "\"" };
    push_value(format_args!("{quote}{value:?}{quote}"), out);
}

/// Maximum number of digits of an integer.
const MAX_DIGITS: usize = 20;

/// Appends an integer digit by digit: `write!` takes several times as long.
#[inline]
fn push_number(number: u64, out: &mut Vec<u8>) {
    let mut digits = [b'0'; MAX_DIGITS];
    let first_digit = add_digits(number, &mut digits).min(MAX_DIGITS - 1);
    out.extend_from_slice(&digits[first_digit..]);
}

/// Adds the digits of an integer to the last elements of an array of zero digits. Returns the
/// position of the first digit; the integer 0 has none.
#[inline]
fn add_digits(mut number: u64, zeros: &mut [u8]) -> usize {
    let mut first_digit = zeros.len();
    // Two digits in each step, because a division has to wait for the one before it.
    while number >= 10 {
        first_digit -= 2;
        let pair = (number % 100) as u8;
        zeros[first_digit] += pair / 10;
        zeros[first_digit + 1] += pair % 10;
        number /= 100;
    }
    if number > 0 {
        first_digit -= 1;
        zeros[first_digit] += number as u8;
    }
    first_digit
}

#[inline]
fn push_micros(nanos: i128, out: &mut Vec<u8>) {
    if nanos < 0 {
        out.push(b'-');
    }
    let nanos = nanos.unsigned_abs();
    // Numbers of 128 bits are slow to print, but rare.
    let Ok(nanos) = u64::try_from(nanos) else {
        return push_value(format_args!("{}.{:03}", nanos / 1000, nanos % 1000), out);
    };
    let mut text = [b'0'; MAX_DIGITS + 4];
    let first_digit = add_digits(nanos / 1000, &mut text[..MAX_DIGITS]).min(MAX_DIGITS - 1);
    text[MAX_DIGITS] = b'.';
    add_digits(nanos % 1000, &mut text[MAX_DIGITS + 1..]);
    out.extend_from_slice(&text[first_digit..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_special_characters_are_escaped() {
        let text = "a\"b\\c\n\u{1}é\u{8}\u{c}\r\t\u{7f}\u{2028}";
        let expected = "\"a\\\"b\\\\c\\n\\u0001é\\b\\f\\r\\t\u{7f}\u{2028}\"";
        assert_eq!(quoted(text), expected);
        let mut written = Vec::new();
        write_quoted(text, &mut written).unwrap();
        assert_eq!(written, expected.as_bytes());
    }

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
            (i128::MIN, "-170141183460469231731687303715884105.728"),
        ] {
            let mut text = Vec::new();
            push_micros(nanos, &mut text);
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
    }

    #[test]
    fn members_of_json_objects_are_added() {
        let mut text = Vec::new();
        object(&mut text, |object| {
            object.members("{}");
            object.value("a", 1);
            object.members(" { \"b\": 2 } ");
            object.members("{ }");
            object.object("c", |inner| inner.members("{\"d\":[{}]}"));
            object.member("\"e\"", |text| push_float(f64::NEG_INFINITY, text));
            object.number("f", u64::MAX);
            object.number("g", 0);
            object.word("h", "scope");
        });
        let expected = concat!(
            r#"{"a":1,"b": 2,"c":{"d":[{}]},"\"e\"":"-inf","#,
            r#""f":18446744073709551615,"g":0,"h":"scope"}"#
        );
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn the_longest_key_is_written() {
        let key: &'static str = "k".repeat(MAX_KEY_BYTES).leak();
        let mut text = Vec::new();
        object(&mut text, |object| {
            object.value(key, 1);
            object.value(key, 2);
        });
        assert_eq!(String::from_utf8(text).unwrap(), format!(r#"{{"{key}":1,"{key}":2}}"#));
    }

    #[test]
    fn excluded_members_are_left_out() {
        let mut text = Vec::new();
        object(&mut text, |object| {
            object.object_without("args", &|key| key == "a", |args| {
                args.value("a", 1);
                args.list("b", |list| push_value(2, list));
                args.object("c", |inner| inner.value("a", 4));
            });
            object.value("a", 5);
        });
        let expected = r#"{"args":{"b":[2],"c":{"a":4}},"a":5}"#;
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
