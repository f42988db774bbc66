//! Escapes untrusted text before it is printed to a terminal.

use std::borrow::Cow;

/// Escapes the characters that would move the cursor, colour the terminal or reverse the direction
/// of the text after them.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| if is_control(c) { c.escape_default().to_string() } else { c.into() };
    Cow::Owned(text.chars().map(escape).collect())
}

/// Whether a character is a control character or has the Unicode property `Bidi_Control`.
fn is_control(c: char) -> bool {
    let is_bidi = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    is_bidi || c.is_control()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(printable("a\x1b[31m\n"), "a\\u{1b}[31m\\n");
        assert_eq!(printable("a\u{202e}b\u{2066}\u{2069}"), "a\\u{202e}b\\u{2066}\\u{2069}");
        assert_eq!(printable("\u{200e}\u{200f}\u{61c}"), "\\u{200e}\\u{200f}\\u{61c}");
        // Joiners of letters and emoji, and the characters beside the escaped ranges, stay as they
        // are.
        for text in ["é", "\u{200d}", "\u{2029}", "\u{202f}", "\u{2065}", "\u{206a}"] {
            assert_eq!(printable(text), text);
        }
    }
}
