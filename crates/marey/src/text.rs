//! Names and texts as people read them.

use std::borrow::Cow;
use std::path::Path;

pub(crate) use marey_model::printable::printable;

/// The text, or as much of it as fits into so many columns.
pub(crate) fn cut(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return text.into();
    }
    let mut cut: String = text.chars().take(columns.saturating_sub(1)).collect();
    cut.push('…');
    cut.into()
}

/// Columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.chars().count()
}

/// The file's name for a sentence.
pub(crate) fn quoted(file: &Path) -> String {
    format!("`{}`", printable(&file.to_string_lossy()))
}
