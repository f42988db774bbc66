//! Shortens and quotes names and texts for display on a terminal.

use std::borrow::Cow;
use std::path::Path;

use unicode_width::UnicodeWidthChar as _;

pub(crate) use marey_model::printable::printable;

/// Shortens a text to at most this number of columns of a terminal.
pub(crate) fn truncate(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return text.into();
    }
    let mut remaining = columns.saturating_sub(1);
    let fits = |letter: &char| {
        let left = remaining.checked_sub(letter_width(*letter));
        remaining = left.unwrap_or(remaining);
        left.is_some()
    };
    let mut truncated: String = text.chars().take_while(fits).collect();
    truncated.push('…');
    truncated.into()
}

/// Returns the width of a text in columns of a terminal.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(letter_width).sum()
}

/// Returns the width of a letter in columns: 2 for most letters of East Asia, 0 for an accent on
/// the previous letter.
fn letter_width(letter: char) -> usize {
    letter.width().unwrap_or(0)
}

/// Returns a path in backticks, for messages.
pub(crate) fn quote_path(file: &Path) -> String {
    format!("`{}`", printable(&file.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_columns_of_a_terminal() {
        for (text, columns) in
            [("", 0), ("train", 5), ("训练", 4), ("e\u{301}tape", 5), ("\u{200b}", 0)]
        {
            assert_eq!(width(text), columns, "{text}");
        }
    }

    #[test]
    fn a_truncated_text_is_never_wider_than_its_columns() {
        for text in ["训练循环", "e\u{301}tape", "aé训b", "plain"] {
            for columns in 1..9 {
                let truncated = truncate(text, columns);
                assert!(width(&truncated) <= columns, "{truncated} in {columns}");
                assert_eq!(truncated == text, width(text) <= columns);
            }
        }
        assert_eq!(truncate("训练循环", 6), "训练…");
    }
}
