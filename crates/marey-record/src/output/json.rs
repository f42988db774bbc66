//! JSON strings and numbers, written straight to a stream.

use std::io::{self, Write};

/// Writes a string with its quotes.
pub(super) fn string(out: &mut impl Write, text: &str) -> io::Result<()> {
    out.write_all(b"\"")?;
    let mut remaining = text.as_bytes();
    while let Some(index) =
        remaining.iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\')
    {
        let (plain, special) = remaining.split_at(index);
        out.write_all(plain)?;
        match special.first() {
            Some(b'"') => out.write_all(b"\\\"")?,
            Some(b'\\') => out.write_all(b"\\\\")?,
            Some(b'\n') => out.write_all(b"\\n")?,
            Some(b'\r') => out.write_all(b"\\r")?,
            Some(b'\t') => out.write_all(b"\\t")?,
            Some(0x08) => out.write_all(b"\\b")?,
            Some(0x0c) => out.write_all(b"\\f")?,
            Some(byte) => write!(out, "\\u{byte:04x}")?,
            None => {}
        }
        remaining = special.get(1..).unwrap_or_default();
    }
    out.write_all(remaining)?;
    out.write_all(b"\"")
}

/// Writes a number, `null` for infinities and NaN, which JSON lacks.
pub(super) fn float(out: &mut impl Write, value: f64) -> io::Result<()> {
    if value.is_finite() { write!(out, "{value:?}") } else { out.write_all(b"null") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_special_characters_are_escaped() {
        let mut out = Vec::new();
        string(&mut out, "a\"b\\c\n\u{1}é").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), r#""a\"b\\c\n\u0001é""#);
    }

    #[test]
    fn whole_floats_keep_a_decimal_point() {
        let text = |value| {
            let mut out = Vec::new();
            float(&mut out, value).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(1_000_000.0), "1000000.0");
        assert_eq!(text(0.1), "0.1");
        assert_eq!(text(f64::NAN), "null");
    }
}
