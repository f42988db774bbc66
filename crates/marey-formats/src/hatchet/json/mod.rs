//! Splits JSON into tokens. Accepts `NaN`, `Infinity` and `-Infinity` too, which Python's `json`
//! module writes.

mod number;
mod text;

use super::error::{Position, SyntaxCause, SyntaxFault};
use super::source::Source;
use super::token::{Token, Tokens};

pub(super) struct JsonTokens<'a> {
    source: Source<'a>,
    /// Byte offset of the last token.
    token_offset: u64,
    line: Line,
    containers: Vec<Container>,
    expected_token: ExpectedToken,
    /// The last text with escapes, unescaped.
    unescaped: String,
}

/// The current line.
#[derive(Clone, Copy)]
struct Line {
    /// Counted from 1.
    number: u64,
    /// Byte offset of its first byte.
    start_offset: u64,
}

impl Line {
    const fn position(self, byte_offset: u64) -> Position {
        Position {
            byte_offset,
            line_and_column: Some((self.number, byte_offset - self.start_offset + 1)),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Container {
    List,
    Map,
}

/// The tokens that the grammar allows next.
#[derive(Clone, Copy)]
enum ExpectedToken {
    Value,
    ItemOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
}

impl ExpectedToken {
    const fn describe(self) -> &'static str {
        match self {
            Self::Value => "a value",
            Self::ItemOrEnd => "a value or `]`",
            Self::Key => "a key",
            Self::KeyOrEnd => "a key or `}`",
            Self::Colon => "`:`",
            Self::CommaOrEnd => "`,` or the end of the list or map",
        }
    }
}

impl Tokens for JsonTokens<'_> {
    fn next(&mut self) -> Result<Token<'_>, SyntaxFault> {
        let byte = self.skip_separator()?;
        let container = self.containers.last().copied();
        match (self.expected_token, byte) {
            (ExpectedToken::Key | ExpectedToken::KeyOrEnd, b'"') => {
                self.expected_token = ExpectedToken::Colon;
                self.read_text().map(Token::Key)
            }
            (ExpectedToken::Value | ExpectedToken::ItemOrEnd, b'"') => {
                self.expected_token = ExpectedToken::CommaOrEnd;
                self.read_text().map(Token::Text)
            }
            (ExpectedToken::CommaOrEnd | ExpectedToken::KeyOrEnd, b'}')
                if container == Some(Container::Map) =>
            {
                Ok(self.close_container(Token::MapEnd))
            }
            (ExpectedToken::CommaOrEnd | ExpectedToken::ItemOrEnd, b']')
                if container == Some(Container::List) =>
            {
                Ok(self.close_container(Token::ListEnd))
            }
            (ExpectedToken::Value | ExpectedToken::ItemOrEnd, b'{') => {
                Ok(self.open_container(Container::Map))
            }
            (ExpectedToken::Value | ExpectedToken::ItemOrEnd, b'[') => {
                Ok(self.open_container(Container::List))
            }
            (ExpectedToken::Value | ExpectedToken::ItemOrEnd, _) => {
                let expected = self.expected_token.describe();
                self.expected_token = ExpectedToken::CommaOrEnd;
                self.read_scalar(byte, expected)
            }
            (expected_token, _) => Err(self.unexpected_byte(expected_token.describe(), byte)),
        }
    }

    fn position(&self) -> Position {
        self.line.position(self.token_offset)
    }

    fn finish(&mut self) -> Result<(), SyntaxFault> {
        match self.skip_blanks() {
            Some(_) => Err(self.fault(SyntaxCause::TrailingBytes)),
            None => Ok(()),
        }
    }
}

impl<'a> JsonTokens<'a> {
    /// Starts at the first byte that is not blank. Fails if it cannot begin a profile or a trace.
    pub(super) fn new(source: Source<'a>) -> Result<Self, SyntaxFault> {
        let mut tokens = Self {
            source,
            token_offset: 0,
            line: Line { number: 1, start_offset: 0 },
            containers: Vec::new(),
            expected_token: ExpectedToken::Value,
            unescaped: String::new(),
        };
        let cause = match tokens.skip_blanks() {
            Some(b'[' | b'{') => return Ok(tokens),
            Some(_) => SyntaxCause::NotAProfile,
            None => SyntaxCause::Empty,
        };
        Err(SyntaxFault {
            position: Position { byte_offset: tokens.token_offset, line_and_column: None },
            cause,
        })
    }

    /// Skips blanks and an expected colon or comma. Returns the first byte of the next token.
    fn skip_separator(&mut self) -> Result<u8, SyntaxFault> {
        loop {
            let byte = self.skip_blanks().ok_or_else(|| self.fault(SyntaxCause::UnexpectedEnd))?;
            self.expected_token = match (self.expected_token, byte) {
                (ExpectedToken::Colon, b':') => ExpectedToken::Value,
                (ExpectedToken::CommaOrEnd, b',') => match self.containers.last() {
                    Some(Container::Map) => ExpectedToken::Key,
                    _ => ExpectedToken::Value,
                },
                _ => return Ok(byte),
            };
            self.source.consume(1);
        }
    }

    /// Consumes blanks and counts lines. No other token contains a line break.
    fn skip_blanks(&mut self) -> Option<u8> {
        loop {
            let offset = self.source.offset();
            let buffered = self.source.buffered();
            let mut position = 0;
            while let Some(&byte) = buffered.get(position) {
                match byte {
                    b' ' => {
                        // A fast path, because half of a typical file is indentation.
                        while buffered.get(position..position + 8) == Some(b"        ") {
                            position += 8;
                        }
                        position += usize::from(buffered.get(position) == Some(&b' '));
                    }
                    b'\n' => {
                        position += 1;
                        self.line = Line {
                            number: self.line.number + 1,
                            start_offset: offset + position as u64,
                        };
                    }
                    b'\r' | b'\t' => position += 1,
                    _ => {
                        self.source.consume(position);
                        self.token_offset = offset + position as u64;
                        return Some(byte);
                    }
                }
            }
            self.source.consume(position);
            self.token_offset = offset + position as u64;
            if !self.source.read_more() {
                return None;
            }
        }
    }

    fn open_container(&mut self, container: Container) -> Token<'static> {
        self.source.consume(1);
        self.containers.push(container);
        let (token, expected_token) = match container {
            Container::List => (Token::ListStart, ExpectedToken::ItemOrEnd),
            Container::Map => (Token::MapStart, ExpectedToken::KeyOrEnd),
        };
        self.expected_token = expected_token;
        token
    }

    fn close_container(&mut self, token: Token<'static>) -> Token<'static> {
        self.source.consume(1);
        self.containers.pop();
        self.expected_token = ExpectedToken::CommaOrEnd;
        token
    }

    fn read_scalar(
        &mut self,
        byte: u8,
        expected: &'static str,
    ) -> Result<Token<'static>, SyntaxFault> {
        match byte {
            b'-' if self.source.peek(1) == Some(b'I') => {
                self.read_literal("`-Infinity`", Token::Float(f64::NEG_INFINITY))
            }
            b'-' | b'0'..=b'9' => self.read_number(),
            b'n' => self.read_literal("`null`", Token::Null),
            b't' => self.read_literal("`true`", Token::Bool(true)),
            b'f' => self.read_literal("`false`", Token::Bool(false)),
            b'N' => self.read_literal("`NaN`", Token::Float(f64::NAN)),
            b'I' => self.read_literal("`Infinity`", Token::Float(f64::INFINITY)),
            _ => Err(self.unexpected_byte(expected, byte)),
        }
    }

    fn read_literal(
        &mut self,
        quoted: &'static str,
        token: Token<'static>,
    ) -> Result<Token<'static>, SyntaxFault> {
        let literal = quoted.trim_matches('`');
        for (index, expected) in literal.bytes().enumerate() {
            match self.source.peek(index) {
                Some(found) if found == expected => {}
                Some(found) => {
                    let cause = SyntaxCause::UnexpectedByte { expected: quoted, found };
                    return Err(self.fault_at(self.token_offset + index as u64, cause));
                }
                None => return Err(self.unexpected_end()),
            }
        }
        self.source.consume(literal.len());
        Ok(token)
    }

    fn read_number(&mut self) -> Result<Token<'static>, SyntaxFault> {
        let is_part = |byte: u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let length = self.source.find_end(1, is_part);
        number::parse(self.source.take(length)).map_err(|cause| self.fault(cause))
    }

    fn read_text(&mut self) -> Result<&str, SyntaxFault> {
        self.source.consume(1);
        let (length, has_escape) = self.text_length()?;
        let (line, start) = (self.line, self.token_offset + 1);
        let raw = &self.source.take(length + 1)[..length];
        let (position, cause) = match std::str::from_utf8(raw) {
            Err(error) => (error.valid_up_to(), SyntaxCause::NotUtf8),
            Ok(text) if !has_escape => return Ok(text),
            Ok(text) => match text::unescape(text, &mut self.unescaped) {
                Ok(()) => return Ok(&self.unescaped),
                Err(fault) => fault,
            },
        };
        Err(SyntaxFault { position: line.position(start + position as u64), cause })
    }

    /// Returns the bytes before the closing quote, and whether they contain an escape.
    fn text_length(&mut self) -> Result<(usize, bool), SyntaxFault> {
        let mut has_escape = false;
        let mut length = 0;
        loop {
            length =
                self.source.find_end(length, |byte| byte >= b' ' && byte != b'"' && byte != b'\\');
            match self.source.buffered().get(length).copied() {
                Some(b'"') => return Ok((length, has_escape)),
                Some(b'\\') if self.source.ensure_buffered(length + 2) => {
                    has_escape = true;
                    length += 2;
                }
                Some(b'\\') | None => return Err(self.unexpected_end()),
                Some(found) => {
                    let offset = self.source.offset() + length as u64;
                    return Err(self.fault_at(offset, SyntaxCause::ControlCharacter { found }));
                }
            }
        }
    }

    fn unexpected_byte(&self, expected: &'static str, found: u8) -> SyntaxFault {
        self.fault(SyntaxCause::UnexpectedByte { expected, found })
    }

    fn unexpected_end(&self) -> SyntaxFault {
        self.fault_at(self.source.end_offset(), SyntaxCause::UnexpectedEnd)
    }

    /// Returns an error on the current line.
    fn fault_at(&self, offset: u64, cause: SyntaxCause) -> SyntaxFault {
        SyntaxFault { position: self.line.position(offset), cause }
    }
}
