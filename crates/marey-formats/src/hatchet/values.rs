//! Reads the types of values that the schema consists of: maps, texts, numbers and lists.

use std::collections::HashSet;
use std::rc::Rc;

use super::error::{SyntaxCause, SyntaxFault};
use super::reader::{Reader, Result};
use super::token::{Token, Tokens};
use crate::shared::MAX_DEPTH;

/// A key of a map, and the function that reads its value into a `V`.
pub(super) type Field<T, V> = (&'static str, fn(&mut Reader<T>, &mut V) -> Result<()>);

impl<T: Tokens> Reader<T> {
    /// Reads a map with a fixed set of keys and skips all other keys.
    pub(super) fn read_fields<V>(
        &mut self,
        expected: &'static str,
        value: &mut V,
        fields: &[Field<T, V>],
    ) -> Result<()> {
        self.start_map(expected)?;
        self.read_remaining_fields(value, fields)
    }

    /// Like [`read_fields`](Self::read_fields), for a map whose start has been read.
    pub(super) fn read_remaining_fields<V>(
        &mut self,
        value: &mut V,
        fields: &[Field<T, V>],
    ) -> Result<()> {
        let mut seen_fields = 0_u32;
        while let Token::Key(key) = self.tokens.next()? {
            let Some(index) = fields.iter().position(|(name, _)| *name == key) else {
                self.skip()?;
                continue;
            };
            let (name, read) = fields[index];
            if seen_fields & (1 << index) != 0 {
                return Err(self.duplicate_key_fault(name));
            }
            seen_fields |= 1 << index;
            read(self, value)?;
        }
        Ok(())
    }

    /// Reads a map with arbitrary keys. `read_entry` reads the value of each.
    pub(super) fn read_entries(
        &mut self,
        expected: &'static str,
        read_entry: impl FnMut(&mut Self, &str) -> Result<()>,
    ) -> Result<()> {
        self.start_map(expected)?;
        self.read_remaining_entries(read_entry)
    }

    /// Like [`read_entries`](Self::read_entries), for a map whose start has been read.
    pub(super) fn read_remaining_entries(
        &mut self,
        mut read_entry: impl FnMut(&mut Self, &str) -> Result<()>,
    ) -> Result<()> {
        let mut seen_keys = HashSet::new();
        while let Token::Key(key) = self.tokens.next()? {
            let key: Rc<str> = key.into();
            if !seen_keys.insert(Rc::clone(&key)) {
                return Err(self.duplicate_key_fault(&key));
            }
            read_entry(self, &key)?;
        }
        Ok(())
    }

    /// Returns the error for a key that its map already has.
    pub(super) fn duplicate_key_fault(&self, key: &str) -> SyntaxFault {
        self.tokens.fault(SyntaxCause::Duplicate { key: key.into() })
    }

    pub(super) fn start_map(&mut self, expected: &'static str) -> Result<()> {
        self.tokens.expect(expected, |token| matches!(token, Token::MapStart).then_some(()))
    }

    pub(super) fn start_list(&mut self, expected: &'static str) -> Result<()> {
        self.tokens.expect(expected, |token| matches!(token, Token::ListStart).then_some(()))
    }

    pub(super) fn end_list(&mut self, expected: &'static str) -> Result<()> {
        self.tokens.expect(expected, |token| matches!(token, Token::ListEnd).then_some(()))
    }

    pub(super) fn read_int(&mut self) -> Result<i64> {
        self.tokens.expect("a whole number below 2^63", |token| match token {
            Token::Int(value) => Some(value),
            _ => None,
        })
    }

    pub(super) fn read_count(&mut self) -> Result<u64> {
        self.tokens.expect("a whole number from 0", token_count)
    }

    pub(super) fn read_count_or_null(&mut self) -> Result<Option<u64>> {
        self.tokens.expect("a whole number from 0 or null", |token| match token {
            Token::Null => Some(None),
            token => token_count(token).map(Some),
        })
    }

    pub(super) fn read_float(&mut self) -> Result<f64> {
        self.tokens.expect("a number", |token| match token {
            Token::Int(value) => Some(value as f64),
            Token::BigInt(value) => Some(value as f64),
            Token::Float(value) => Some(value),
            Token::Null => Some(f64::NAN),
            _ => None,
        })
    }

    pub(super) fn read_bool(&mut self) -> Result<bool> {
        self.tokens.expect("true or false", |token| match token {
            Token::Bool(value) => Some(value),
            _ => None,
        })
    }

    pub(super) fn read_text(&mut self) -> Result<String> {
        self.read_text_as(str::to_owned)
    }

    /// Reads a text and converts it.
    pub(super) fn read_text_as<V>(&mut self, convert: impl FnOnce(&str) -> V) -> Result<V> {
        self.tokens.expect("a text", |token| match token {
            Token::Text(text) => Some(convert(text)),
            _ => None,
        })
    }

    pub(super) fn read_texts(&mut self) -> Result<Vec<String>> {
        self.start_list("a list of texts")?;
        let mut texts = Vec::new();
        let text_or_end = |token: Token<'_>| match token {
            Token::Text(text) => Some(Some(text.to_owned())),
            Token::ListEnd => Some(None),
            _ => None,
        };
        while let Some(text) = self.tokens.expect("a text", text_or_end)? {
            texts.push(text);
        }
        Ok(texts)
    }

    /// Skips one value.
    pub(super) fn skip(&mut self) -> Result<()> {
        let mut depth = 0_usize;
        loop {
            match self.tokens.next()? {
                Token::ListStart | Token::MapStart if depth == MAX_DEPTH => {
                    return Err(self.tokens.fault(SyntaxCause::TooDeep { limit: MAX_DEPTH }));
                }
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

fn token_count(token: Token<'_>) -> Option<u64> {
    match token {
        Token::Int(value) => u64::try_from(value).ok(),
        Token::BigInt(value) => Some(value),
        _ => None,
    }
}
