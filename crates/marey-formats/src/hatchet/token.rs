//! The words that both formats are made of.

use std::borrow::Cow;

use super::error::{Cause, Fault};

/// One word of a file. Lists and maps are announced and closed, so a reader needs no recursion.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// A real number, or a whole one beyond `i64`.
    Float(f64),
    Text(Cow<'a, str>),
    /// Key of the map entry whose value follows.
    Key(Cow<'a, str>),
    ListStart,
    ListEnd,
    MapStart,
    MapEnd,
}

impl Token<'_> {
    /// How error messages call it.
    pub(super) const fn describe(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Int(_) => "a whole number",
            Self::Float(_) => "a real number",
            Self::Text(_) => "a text",
            Self::Key(_) => "a key",
            Self::ListStart => "a list",
            Self::ListEnd => "the end of a list",
            Self::MapStart => "a map",
            Self::MapEnd => "the end of a map",
        }
    }
}

/// A file as a row of words.
pub(super) trait Tokens<'a> {
    /// The next word. A key is always followed by its value, and what starts also ends.
    ///
    /// Not to be called once the outermost value is complete.
    fn next(&mut self) -> Result<Token<'a>, Fault>;

    /// Where the last word starts.
    fn offset(&self) -> usize;

    /// Checks that nothing follows the outermost value.
    fn finish(&mut self) -> Result<(), Fault>;

    /// The fault that the last word is not what the schema has there.
    fn unexpected(&self, expected: &'static str, found: &Token<'_>) -> Fault {
        self.fault(Cause::UnexpectedValue { expected, found: found.describe() })
    }

    /// A fault at the last word.
    fn fault(&self, cause: Cause) -> Fault {
        Fault { offset: self.offset(), cause }
    }
}
