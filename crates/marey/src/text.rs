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
    let kept_bytes = fitting_bytes(text.chars(), columns.saturating_sub(1));
    format!("{}…", &text[..kept_bytes]).into()
}

/// Shortens a name to at most this number of columns. Of a path, such as that of a Python frame
/// (`/app/train.py:12@step`), the end remains, which tells it from others.
pub(crate) fn truncate_name(name: &str, columns: usize) -> Cow<'_, str> {
    if !name.starts_with('/') || width(name) <= columns {
        return truncate(name, columns);
    }
    let kept_bytes = fitting_bytes(name.chars().rev(), columns.saturating_sub(1));
    format!("…{}", &name[name.len() - kept_bytes..]).into()
}

/// Returns the bytes of the first letters that fit into this number of columns.
fn fitting_bytes(letters: impl Iterator<Item = char>, mut columns: usize) -> usize {
    let fits = |letter: &char| {
        let columns_left = columns.checked_sub(letter_width(*letter));
        columns = columns_left.unwrap_or(columns);
        columns_left.is_some()
    };
    letters.take_while(fits).map(char::len_utf8).sum()
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

    #[test]
    fn the_end_of_a_path_remains() {
        for columns in 2..20 {
            let shortened = truncate_name("/app/训练.py:12@step", columns);
            assert!(width(&shortened) <= columns, "{shortened} in {columns}");
            assert!(shortened.ends_with('p'), "{shortened}");
        }
        assert_eq!(truncate_name("/app/train.py:12@step", 12), "….py:12@step");
        assert_eq!(truncate_name("aten::addmm", 6), "aten:…");
    }
}
