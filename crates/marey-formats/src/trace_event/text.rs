//! Unescapes JSON strings, and repairs nearly valid JSON.

use std::borrow::Cow;

use marey_model::json::quote;

use super::bytes::is_json_word;
use crate::shared::json::{EscapeError, UNICODE_ESCAPE_BYTES, end_of_string, parse_escape};

/// Returns the content of a string without quotes. Invalid escapes are kept, and lone surrogates
/// become U+FFFD.
pub(super) fn unescape(raw: &str) -> Cow<'_, str> {
    let Some(first) = raw.find('\\') else { return Cow::Borrowed(raw) };
    let mut text = raw[..first].to_owned();
    let mut remaining = &raw[first..];
    while let Some(position) = remaining.find('\\') {
        text.push_str(&remaining[..position]);
        remaining = push_escape(&remaining[position..], &mut text);
    }
    text.push_str(remaining);
    Cow::Owned(text)
}

/// Appends the character of the escape at the start and returns the text after the escape.
fn push_escape<'a>(escape: &'a str, text: &mut String) -> &'a str {
    let (character, len) = match parse_escape(escape.as_bytes()) {
        Ok(parsed) => parsed,
        Err(EscapeError::LoneSurrogate) => (char::REPLACEMENT_CHARACTER, UNICODE_ESCAPE_BYTES),
        Err(EscapeError::Invalid) => ('\\', 1),
    };
    text.push(character);
    &escape[len..]
}

/// Repairs a value. Words that JSON does not have become strings, and missing escapes are added.
pub(super) fn repair_json(value: &str) -> String {
    let mut json = String::with_capacity(value.len() + 2);
    let mut remaining = value;
    while let Some(first) = remaining.bytes().next() {
        let len = match first {
            b'"' => string_bytes(remaining),
            b',' | b':' | b'[' | b']' | b'{' | b'}' | 0..=b' ' => 1,
            _ => remaining.find(is_end_of_word).unwrap_or(remaining.len()),
        };
        let token = &remaining[..len];
        match first {
            b'"' => repair_text(token, &mut json),
            b',' | b':' | b'[' | b']' | b'{' | b'}' => json.push_str(token),
            0..=b' ' => json.push(' '),
            _ if is_json_word(token.as_bytes()) => json.push_str(token),
            _ => quote(token, &mut json),
        }
        remaining = &remaining[len..];
    }
    json
}

fn is_end_of_word(character: char) -> bool {
    matches!(character, ',' | ':' | ']' | '}' | '\0'..=' ')
}

/// Returns the length of the string at the start, including its quotes.
fn string_bytes(text: &str) -> usize {
    end_of_string(&text.as_bytes()[1..]).map_or(text.len(), |end| end + 2)
}

/// Repairs a string. Lone surrogates, which are no characters, become U+FFFD.
fn repair_text(text: &str, json: &mut String) {
    let raw = &text[1..text.len().max(2) - 1];
    json.push('"');
    let mut remaining = raw;
    while let Some(character) = remaining.chars().next() {
        let mut len = character.len_utf8();
        match character {
            '\\' => match parse_escape(remaining.as_bytes()) {
                Ok((_, escape_len)) => {
                    len = escape_len;
                    json.push_str(&remaining[..len]);
                }
                Err(EscapeError::LoneSurrogate) => {
                    len = UNICODE_ESCAPE_BYTES;
                    json.push_str("\\ufffd");
                }
                Err(EscapeError::Invalid) => json.push_str("\\\\"),
            },
            '\0'..' ' => {
                let mut quoted = String::new();
                quote(&remaining[..len], &mut quoted);
                json.push_str(quoted.trim_matches('"'));
            }
            _ => json.push(character),
        }
        remaining = &remaining[len..];
    }
    json.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn strings_are_unescaped() {
        let cases = [
            ("plain é", "plain é"),
            (r#"a\"b\\c\/d\n\t\r\b\f"#, "a\"b\\c/d\n\t\r\u{8}\u{c}"),
            (r"\u00e9\ud83d\ude00", "é😀"),
            (r"\ud800x", "\u{fffd}x"),
            (r"\ud800\u0041", "\u{fffd}A"),
            (r"\udc00\udc00", "\u{fffd}\u{fffd}"),
            (r"C:\Users\u12", r"C:\Users\u12"),
            ("end\\", "end\\"),
            ("\\é", "\\é"),
        ];
        for (raw, text) in cases {
            assert_eq!(unescape(raw), text, "{raw}");
        }
    }

    #[test]
    fn nearly_valid_json_is_repaired() {
        let cases = [
            ("nan", r#""nan""#),
            ("[1, -inf,01]", r#"[1, "-inf","01"]"#),
            ("{\"a\n\": \"\\x\\u12\\n\"}", r#"{"a\n": "\\x\\u12\n"}"#),
            (
                r#"["\ud800", "\ud83d\ude00\ude00\u0041"]"#,
                r#"["\ufffd", "\ud83d\ude00\ufffd\u0041"]"#,
            ),
            ("[1\u{1}, true\0,\u{c}2]", "[1 , true , 2]"),
        ];
        for (value, json) in cases {
            assert_eq!(repair_json(value), json);
        }
    }

    proptest! {
        #[test]
        fn valid_json_is_unchanged(text in ".*", number in any::<f64>()) {
            let value = serde_json::json!({ &*text: [&*text, number, null, true], "o": {} });
            let json = value.to_string();
            prop_assert_eq!(repair_json(&json), json.clone());
            let quoted = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(unescape(&quoted[1..quoted.len() - 1]), text);
        }
    }
}
