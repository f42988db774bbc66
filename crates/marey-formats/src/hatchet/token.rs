//! The tokens of both formats, and the trait of the tokenizers.

use super::error::{Position, SyntaxCause, SyntaxFault};

/// A token of a file. Lists and maps have start and end tokens, so a reader needs no recursion.
///
/// A text is borrowed until the next token is read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Token<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer beyond `i64`.
    BigInt(u64),
    Float(f64),
    Text(&'a str),
    /// The key of an entry of a map. Its value follows.
    Key(&'a str),
    ListStart,
    ListEnd,
    MapStart,
    MapEnd,
}

impl Token<'_> {
    /// Returns an integer token in the smaller of the two types.
    pub(super) fn int(number: u64) -> Self {
        i64::try_from(number).map_or(Self::BigInt(number), Self::Int)
    }

    /// Returns the name of the type in error messages.
    pub(super) const fn describe(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Int(..0) => "a negative number",
            Self::Int(_) | Self::BigInt(_) => "a whole number",
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

/// A file as a sequence of tokens.
pub(super) trait Tokens {
    /// Returns the next token. A key is always followed by its value, and every start by its end.
    ///
    /// Must not be called after the outermost value is complete.
    fn next(&mut self) -> Result<Token<'_>, SyntaxFault>;

    /// Returns the start of the last token.
    fn position(&self) -> Position;

    /// Checks that nothing follows the outermost value.
    fn finish(&mut self) -> Result<(), SyntaxFault>;

    /// Returns the result of `pick` for the next token, or an error if it is `None`.
    fn expect<V>(
        &mut self,
        expected: &'static str,
        pick: impl FnOnce(Token<'_>) -> Option<V>,
    ) -> Result<V, SyntaxFault> {
        let token = self.next()?;
        if let Some(value) = pick(token) {
            return Ok(value);
        }
        let found = token.describe();
        Err(self.fault(SyntaxCause::UnexpectedValue { expected, found }))
    }

    /// Returns an error at the last token.
    fn fault(&self, cause: SyntaxCause) -> SyntaxFault {
        SyntaxFault { position: self.position(), cause }
    }
}
