//! JSON texts: quoting, and escapes that no Unicode text can hold.

use std::borrow::Cow;

use marey_model::args::quote;

/// Length of an escape such as `\ud800`.
const ESCAPE_BYTES: usize = r"\ud800".len();

/// Returns a text as a JSON string.
pub(crate) fn json_string(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    quote(text, &mut json);
    json
}

/// Replaces each escaped lone surrogate by `\ufffd`: JSON can escape half a surrogate pair, which
/// `serde_json` refuses since no Unicode text can hold it.
pub(crate) fn replace_lone_surrogates(json: &str) -> Cow<'_, str> {
    let mut replaced = String::new();
    let (mut copied_end, mut position) = (0, 0);
    while let Some(distance) =
        json.as_bytes().get(position..).and_then(|tail| memchr::memchr(b'\\', tail))
    {
        let start = position + distance;
        let bytes = json.as_bytes();
        let (escape, following) = (&bytes[start..], bytes.get(start + ESCAPE_BYTES..));
        let is_pair = || matches!(following.and_then(escaped_code_unit), Some(0xdc00..=0xdfff));
        position = match escaped_code_unit(escape) {
            None => start + r"\n".len(),
            Some(0xd800..=0xdbff) if is_pair() => start + 2 * ESCAPE_BYTES,
            Some(0xd800..=0xdfff) => {
                replaced.push_str(&json[copied_end..start]);
                replaced.push_str(r"\ufffd");
                copied_end = start + ESCAPE_BYTES;
                copied_end
            }
            Some(_) => start + ESCAPE_BYTES,
        };
    }
    if copied_end == 0 {
        return Cow::Borrowed(json);
    }
    replaced.push_str(&json[copied_end..]);
    Cow::Owned(replaced)
}

/// Returns the UTF-16 code unit of the escape `\uXXXX` at the start.
pub(crate) fn escaped_code_unit(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.strip_prefix(b"\\u")?.first_chunk::<4>()?;
    digits.iter().try_fold(0, |number, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(number << 4 | digit as u16)
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
