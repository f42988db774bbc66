//! Formats names and texts for people.

use std::borrow::Cow;
use std::path::Path;

pub(crate) use marey_model::printable::printable;

/// Shortens a text to a number of columns.
pub(crate) fn truncate(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return text.into();
    }
    let mut truncated: String = text.chars().take(columns.saturating_sub(1)).collect();
    truncated.push('…');
    truncated.into()
}

/// Returns the width of a text in columns.
pub(crate) fn width(text: &str) -> usize {
    text.chars().count()
}

/// Returns a path in backticks, for messages.
pub(crate) fn quote_path(file: &Path) -> String {
    format!("`{}`", printable(&file.to_string_lossy()))
}
