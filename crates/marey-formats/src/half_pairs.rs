//! Halves of surrogate pairs: JSON can escape one alone, and no text of Unicode can hold it.

use std::borrow::Cow;

const ESCAPE_BYTES: usize = r"\ud800".len();

/// JSON where each escape of half a pair is that of U+FFFD.
pub(crate) fn replaced(json: &str) -> Cow<'_, str> {
    let mut whole = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(next) = json.as_bytes().get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        let start = at + next;
        let (escape, behind) = (&json[start..], json.get(start + ESCAPE_BYTES..));
        let is_pair = || matches!(behind.and_then(unit), Some(0xdc00..=0xdfff));
        at = match unit(escape) {
            None => start + r"\n".len(),
            Some(0xd800..=0xdbff) if is_pair() => start + 2 * ESCAPE_BYTES,
            Some(0xd800..=0xdfff) => {
                whole.push_str(&json[copied..start]);
                whole.push_str(r"\ufffd");
                copied = start + ESCAPE_BYTES;
                copied
            }
            Some(_) => start + ESCAPE_BYTES,
        };
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    whole.push_str(&json[copied..]);
    Cow::Owned(whole)
}

/// The number of an escape that a text begins with.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix(r"\u")?.get(..4)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_stay_and_halves_do_not() {
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
            assert_eq!(replaced(json), expected, "{json}");
        }
    }
}
