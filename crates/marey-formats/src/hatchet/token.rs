//! The words that both formats are made of.

use super::error::{Cause, Fault, Place};

/// One word of a file. Lists and maps are announced and closed, so a reader needs no recursion.
///
/// A text is lent until the next word is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Token<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// A whole number beyond `i64`.
    Big(u64),
    Float(f64),
    Text(&'a str),
    /// Key of the map entry whose value follows.
    Key(&'a str),
    ListStart,
    ListEnd,
    MapStart,
    MapEnd,
}

impl Token<'_> {
    /// A whole number in the form that holds it.
    pub(super) fn whole(number: u64) -> Self {
        i64::try_from(number).map_or(Self::Big(number), Self::Int)
    }

    /// How error messages call it.
    pub(super) const fn describe(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Int(..0) => "a negative number",
            Self::Int(_) | Self::Big(_) => "a whole number",
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
pub(super) trait Tokens {
    /// The next word. A key is always followed by its value, and what starts also ends.
    ///
    /// Not to be called once the outermost value is complete.
    fn next(&mut self) -> Result<Token<'_>, Fault>;

    /// Where the last word starts.
    fn place(&self) -> Place;

    /// Checks that nothing follows the outermost value.
    fn finish(&mut self) -> Result<(), Fault>;

    /// What `pick` makes of the next word, or the fault that it is not what is expected.
    fn expect<V>(
        &mut self,
        expected: &'static str,
        pick: impl FnOnce(Token<'_>) -> Option<V>,
    ) -> Result<V, Fault> {
        let token = self.next()?;
        if let Some(value) = pick(token) {
            return Ok(value);
        }
        let found = token.describe();
        Err(self.fault(Cause::UnexpectedValue { expected, found }))
    }

    /// A fault at the last word.
    fn fault(&self, cause: Cause) -> Fault {
        Fault { place: self.place(), cause }
    }
}
