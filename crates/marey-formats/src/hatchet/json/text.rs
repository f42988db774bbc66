//! Unescapes the strings of JSON. Unlike the reader of traces, it refuses invalid escapes.

use super::super::error::Cause;
use crate::shared::json::{EscapeError, parse_escape};

/// Writes the unescaped text to `unescaped`. An error has its byte index and its cause.
pub(super) fn unescape(escaped: &str, unescaped: &mut String) -> Result<(), (usize, Cause)> {
    unescaped.clear();
    let mut rest = escaped;
    while let Some(index) = rest.find('\\') {
        unescaped.push_str(&rest[..index]);
        let (character, length) = parse_escape(&rest.as_bytes()[index..]).map_err(|error| {
            let cause = match error {
                EscapeError::Invalid => Cause::BadEscape,
                EscapeError::LoneSurrogate => Cause::LoneSurrogate,
            };
            (escaped.len() - rest.len() + index, cause)
        })?;
        unescaped.push(character);
        rest = &rest[index + length..];
    }
    unescaped.push_str(rest);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_characters_or_errors_with_positions() {
        let result = |text: &str| {
            let mut unescaped = String::from("old");
            unescape(text, &mut unescaped).map(|()| unescaped)
        };
        assert_eq!(result(r#"\"\\\/\b\f\n\r\tx"#).unwrap(), "\"\\/\u{8}\u{c}\n\r\tx");
        assert_eq!(result(r"é\u00e9\u0000\uD83D\uDE00!").unwrap(), "éé\0😀!");
        for (text, index, cause) in [
            (r"ab\q", 2, Cause::BadEscape),
            (r"\u12", 0, Cause::BadEscape),
            (r"\u+123", 0, Cause::BadEscape),
            (r"x\ud800", 1, Cause::LoneSurrogate),
            (r"\ud800\n", 0, Cause::LoneSurrogate),
            (r"\ud800\u0041", 0, Cause::LoneSurrogate),
            (r"\udc00\ud800", 0, Cause::LoneSurrogate),
            (r"\ud800\uzzzz", 0, Cause::LoneSurrogate),
        ] {
            assert_eq!(result(text), Err((index, cause)), "{text}");
        }
    }
}
