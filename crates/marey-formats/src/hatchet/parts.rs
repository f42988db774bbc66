//! The parts of which every value of the schema is made.

use super::error::Cause;
use super::reader::{Reader, Result};
use super::token::{Token, Tokens};

impl<'a, T: Tokens<'a>> Reader<T> {
    /// Reads a map and hands each key to `entry`, which reads the value.
    pub(super) fn map(
        &mut self,
        expected: &'static str,
        entry: impl FnMut(&mut Self, &str) -> Result<()>,
    ) -> Result<()> {
        self.start_map(expected)?;
        self.entries(entry)
    }

    /// The same for a map whose start has been read.
    pub(super) fn entries(
        &mut self,
        mut entry: impl FnMut(&mut Self, &str) -> Result<()>,
    ) -> Result<()> {
        while let Token::Key(key) = self.tokens.next()? {
            entry(self, &key)?;
        }
        Ok(())
    }

    pub(super) fn start_map(&mut self, expected: &'static str) -> Result<()> {
        match self.tokens.next()? {
            Token::MapStart => Ok(()),
            other => Err(self.tokens.unexpected(expected, &other)),
        }
    }

    pub(super) fn start_list(&mut self, expected: &'static str) -> Result<()> {
        match self.tokens.next()? {
            Token::ListStart => Ok(()),
            other => Err(self.tokens.unexpected(expected, &other)),
        }
    }

    pub(super) fn end_list(&mut self, expected: &'static str) -> Result<()> {
        match self.tokens.next()? {
            Token::ListEnd => Ok(()),
            other => Err(self.tokens.unexpected(expected, &other)),
        }
    }

    /// Starts the next item of a list of lists, or says that there is none.
    pub(super) fn has_item(&mut self, expected: &'static str) -> Result<bool> {
        match self.tokens.next()? {
            Token::ListStart => Ok(true),
            Token::ListEnd => Ok(false),
            other => Err(self.tokens.unexpected(expected, &other)),
        }
    }

    pub(super) fn whole(&mut self) -> Result<i64> {
        match self.tokens.next()? {
            Token::Int(value) => Ok(value),
            other => Err(self.tokens.unexpected("a whole number", &other)),
        }
    }

    pub(super) fn count(&mut self) -> Result<u64> {
        let token = self.tokens.next()?;
        self.count_from(&token)
    }

    pub(super) fn count_or_null(&mut self) -> Result<Option<u64>> {
        match self.tokens.next()? {
            Token::Null => Ok(None),
            token => self.count_from(&token).map(Some),
        }
    }

    fn count_from(&self, token: &Token<'_>) -> Result<u64> {
        if let Token::Int(value) = token
            && let Ok(count) = u64::try_from(*value)
        {
            return Ok(count);
        }
        let found =
            if matches!(token, Token::Int(_)) { "a negative one" } else { token.describe() };
        Err(self.tokens.fault(Cause::UnexpectedValue { expected: "a whole number from 0", found }))
    }

    pub(super) fn real(&mut self) -> Result<f64> {
        match self.tokens.next()? {
            Token::Int(value) => Ok(value as f64),
            Token::Float(value) => Ok(value),
            Token::Null => Ok(f64::NAN),
            other => Err(self.tokens.unexpected("a number", &other)),
        }
    }

    pub(super) fn truth(&mut self) -> Result<bool> {
        match self.tokens.next()? {
            Token::Bool(value) => Ok(value),
            other => Err(self.tokens.unexpected("true or false", &other)),
        }
    }

    pub(super) fn text(&mut self) -> Result<String> {
        match self.tokens.next()? {
            Token::Text(text) => Ok(text.into_owned()),
            other => Err(self.tokens.unexpected("a text", &other)),
        }
    }

    pub(super) fn texts(&mut self) -> Result<Vec<String>> {
        self.start_list("a list of texts")?;
        let mut texts = Vec::new();
        loop {
            match self.tokens.next()? {
                Token::Text(text) => texts.push(text.into_owned()),
                Token::ListEnd => return Ok(texts),
                other => return Err(self.tokens.unexpected("a text", &other)),
            }
        }
    }

    /// Skips one value, however deep.
    pub(super) fn skip(&mut self) -> Result<()> {
        let mut depth = 0_usize;
        loop {
            match self.tokens.next()? {
                Token::ListStart | Token::MapStart => depth += 1,
                Token::ListEnd | Token::MapEnd => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }
}
