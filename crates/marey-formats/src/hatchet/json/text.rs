//! Unescapes the strings of JSON. Unlike the reader of traces, it refuses invalid escapes.

use super::super::error::SyntaxCause;
use crate::shared::json::{EscapeError, parse_escape};

/// Writes the unescaped text to `unescaped`. An error has its byte index and its cause.
pub(super) fn unescape(escaped: &str, unescaped: &mut String) -> Result<(), (usize, SyntaxCause)> {
    unescaped.clear();
    let mut remaining = escaped;
    while let Some(index) = remaining.find('\\') {
        unescaped.push_str(&remaining[..index]);
        let (character, length) =
            parse_escape(&remaining.as_bytes()[index..]).map_err(|error| {
                let cause = match error {
                    EscapeError::Invalid => SyntaxCause::BadEscape,
                    EscapeError::LoneSurrogate => SyntaxCause::LoneSurrogate,
                };
                (escaped.len() - remaining.len() + index, cause)
            })?;
        unescaped.push(character);
        remaining = &remaining[index + length..];
    }
    unescaped.push_str(remaining);
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
            (r"ab\q", 2, SyntaxCause::BadEscape),
            (r"\u12", 0, SyntaxCause::BadEscape),
            (r"\u+123", 0, SyntaxCause::BadEscape),
            (r"x\ud800", 1, SyntaxCause::LoneSurrogate),
            (r"\ud800\n", 0, SyntaxCause::LoneSurrogate),
            (r"\ud800\u0041", 0, SyntaxCause::LoneSurrogate),
            (r"\udc00\ud800", 0, SyntaxCause::LoneSurrogate),
            (r"\ud800\uzzzz", 0, SyntaxCause::LoneSurrogate),
        ] {
            assert_eq!(result(text), Err((index, cause)), "{text}");
        }
    }
}
