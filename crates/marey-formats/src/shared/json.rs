//! Parses the escapes in JSON texts, and replaces those that denote no character.

use std::borrow::Cow;

/// Length of an escape such as `\ud800`.
pub(crate) const UNICODE_ESCAPE_BYTES: usize = r"\ud800".len();

/// Why an escape denotes no character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EscapeError {
    /// JSON does not define the escape.
    Invalid,
    /// Half of a surrogate pair without the other half.
    LoneSurrogate,
}

/// Replaces each escaped lone surrogate by `\ufffd`. JSON can escape half a surrogate pair, which
/// `serde_json` refuses, because no Unicode text can hold it.
pub(crate) fn replace_lone_surrogates(json: &str) -> Cow<'_, str> {
    let mut replaced = String::new();
    let (mut copied_end, mut position) = (0, 0);
    let bytes = json.as_bytes();
    while let Some(distance) = bytes.get(position..).and_then(|tail| memchr::memchr(b'\\', tail)) {
        let start = position + distance;
        position = match parse_escape(&bytes[start..]) {
            Ok((_, len)) => start + len,
            Err(EscapeError::Invalid) => start + r"\n".len(),
            Err(EscapeError::LoneSurrogate) => {
                replaced.push_str(&json[copied_end..start]);
                replaced.push_str(r"\ufffd");
                copied_end = start + UNICODE_ESCAPE_BYTES;
                copied_end
            }
        };
    }
    if copied_end == 0 {
        return Cow::Borrowed(json);
    }
    replaced.push_str(&json[copied_end..]);
    Cow::Owned(replaced)
}

/// Returns the character of the escape at the start of `bytes`, which begins with a backslash, and
/// the length of the escape in bytes.
pub(crate) fn parse_escape(bytes: &[u8]) -> Result<(char, usize), EscapeError> {
    let character = match bytes.get(1) {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return parse_unicode_escape(bytes),
        _ => return Err(EscapeError::Invalid),
    };
    Ok((character, r"\n".len()))
}

/// Parses an escape `\uXXXX`, or two of them that form a surrogate pair.
fn parse_unicode_escape(bytes: &[u8]) -> Result<(char, usize), EscapeError> {
    let first = parse_code_unit(bytes).ok_or(EscapeError::Invalid)?;
    if let Some(character) = char::from_u32(first.into()) {
        return Ok((character, UNICODE_ESCAPE_BYTES));
    }
    let second = bytes.get(UNICODE_ESCAPE_BYTES..).and_then(parse_code_unit);
    match second.and_then(|second| char::decode_utf16([first, second]).next()?.ok()) {
        Some(character) => Ok((character, 2 * UNICODE_ESCAPE_BYTES)),
        None => Err(EscapeError::LoneSurrogate),
    }
}

/// Returns the UTF-16 code unit of the escape `\uXXXX` at the start.
fn parse_code_unit(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.strip_prefix(b"\\u")?.first_chunk::<4>()?;
    digits.iter().try_fold(0, |number, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(number << 4 | digit as u16)
    })
}

/// Returns the position of the quote that ends a string, whose content starts with `bytes`.
pub(crate) fn end_of_string(bytes: &[u8]) -> Option<usize> {
    let mut is_escaped = false;
    bytes.iter().position(|byte| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surrogate_pairs_are_kept_and_lone_ones_replaced() {
        let cases = [
            (r#"{"a":"\n"}"#, r#"{"a":"\n"}"#),
            (r#""\ud83d\uDE00é""#, r#""\ud83d\uDE00é""#),
            (r#""a\ud800é\uDFFF""#, r#""a\ufffdé\ufffd""#),
            (r#""\ud800\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\\ud800""#, r#""\\ud800""#),
            (r"\ud800", r"\ufffd"),
            (r"\ud80", r"\ud80"),
            ("\\é\\", "\\é\\"),
        ];
        for (json, expected) in cases {
            assert_eq!(replace_lone_surrogates(json), expected, "{json}");
        }
    }
}
