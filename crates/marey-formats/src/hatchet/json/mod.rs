//! Splits JSON into tokens. Accepts `NaN`, `Infinity` and `-Infinity` too, which Python's `json`
//! module writes.

mod number;
mod text;

use super::error::{Cause, Fault, Position};
use super::source::Source;
use super::token::{Token, Tokens};

pub(super) struct JsonTokens<'a> {
    source: Source<'a>,
    /// Byte offset of the last token.
    start: u64,
    line: Line,
    containers: Vec<Container>,
    expect: Expect,
    /// The last text with escapes, unescaped.
    unescaped: String,
}

/// The current line.
#[derive(Clone, Copy)]
struct Line {
    /// Counted from 1.
    number: u64,
    /// Byte offset of its first byte.
    start: u64,
}

impl Line {
    const fn position(self, byte: u64) -> Position {
        Position { byte, line_and_column: Some((self.number, byte - self.start + 1)) }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Container {
    List,
    Map,
}

/// The tokens that the grammar allows next.
#[derive(Clone, Copy)]
enum Expect {
    Value,
    ItemOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
}

impl Expect {
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
    fn next(&mut self) -> Result<Token<'_>, Fault> {
        let byte = self.skip_separator()?;
        let container = self.containers.last().copied();
        match (self.expect, byte) {
            (Expect::Key | Expect::KeyOrEnd, b'"') => {
                self.expect = Expect::Colon;
                self.read_text().map(Token::Key)
            }
            (Expect::Value | Expect::ItemOrEnd, b'"') => {
                self.expect = Expect::CommaOrEnd;
                self.read_text().map(Token::Text)
            }
            (Expect::CommaOrEnd | Expect::KeyOrEnd, b'}') if container == Some(Container::Map) => {
                Ok(self.close_container(Token::MapEnd))
            }
            (Expect::CommaOrEnd | Expect::ItemOrEnd, b']')
                if container == Some(Container::List) =>
            {
                Ok(self.close_container(Token::ListEnd))
            }
            (Expect::Value | Expect::ItemOrEnd, b'{') => Ok(self.open_container(Container::Map)),
            (Expect::Value | Expect::ItemOrEnd, b'[') => Ok(self.open_container(Container::List)),
            (Expect::Value | Expect::ItemOrEnd, _) => {
                let expected = self.expect.describe();
                self.expect = Expect::CommaOrEnd;
                self.read_scalar(byte, expected)
            }
            (expect, _) => Err(self.unexpected_byte(expect.describe(), byte)),
        }
    }

    fn position(&self) -> Position {
        self.line.position(self.start)
    }

    fn finish(&mut self) -> Result<(), Fault> {
        match self.skip_blanks() {
            Some(_) => Err(self.fault(Cause::TrailingBytes)),
            None => Ok(()),
        }
    }
}

impl<'a> JsonTokens<'a> {
    /// Starts at the first byte that is not blank. Fails if it cannot begin a profile or a trace.
    pub(super) fn new(source: Source<'a>) -> Result<Self, Fault> {
        let mut tokens = Self {
            source,
            start: 0,
            line: Line { number: 1, start: 0 },
            containers: Vec::new(),
            expect: Expect::Value,
            unescaped: String::new(),
        };
        let cause = match tokens.skip_blanks() {
            Some(b'[' | b'{') => return Ok(tokens),
            Some(_) => Cause::NotAProfile,
            None => Cause::Empty,
        };
        Err(Fault { position: Position { byte: tokens.start, line_and_column: None }, cause })
    }

    /// Skips blanks and an expected colon or comma. Returns the first byte of the next token.
    fn skip_separator(&mut self) -> Result<u8, Fault> {
        loop {
            let byte = self.skip_blanks().ok_or_else(|| self.fault(Cause::UnexpectedEnd))?;
            self.expect = match (self.expect, byte) {
                (Expect::Colon, b':') => Expect::Value,
                (Expect::CommaOrEnd, b',') => match self.containers.last() {
                    Some(Container::Map) => Expect::Key,
                    _ => Expect::Value,
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
                        self.line =
                            Line { number: self.line.number + 1, start: offset + position as u64 };
                    }
                    b'\r' | b'\t' => position += 1,
                    _ => {
                        self.source.consume(position);
                        self.start = offset + position as u64;
                        return Some(byte);
                    }
                }
            }
            self.source.consume(position);
            self.start = offset + position as u64;
            if !self.source.read_more() {
                return None;
            }
        }
    }

    fn open_container(&mut self, container: Container) -> Token<'static> {
        self.source.consume(1);
        self.containers.push(container);
        let (token, expect) = match container {
            Container::List => (Token::ListStart, Expect::ItemOrEnd),
            Container::Map => (Token::MapStart, Expect::KeyOrEnd),
        };
        self.expect = expect;
        token
    }

    fn close_container(&mut self, token: Token<'static>) -> Token<'static> {
        self.source.consume(1);
        self.containers.pop();
        self.expect = Expect::CommaOrEnd;
        token
    }

    fn read_scalar(&mut self, byte: u8, expected: &'static str) -> Result<Token<'static>, Fault> {
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
    ) -> Result<Token<'static>, Fault> {
        let literal = quoted.trim_matches('`');
        for (ahead, expected) in literal.bytes().enumerate() {
            match self.source.peek(ahead) {
                Some(found) if found == expected => {}
                Some(found) => {
                    let cause = Cause::UnexpectedByte { expected: quoted, found };
                    return Err(self.fault_at(self.start + ahead as u64, cause));
                }
                None => return Err(self.unexpected_end()),
            }
        }
        self.source.consume(literal.len());
        Ok(token)
    }

    fn read_number(&mut self) -> Result<Token<'static>, Fault> {
        let is_part = |byte: u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let length = self.source.find_end(1, is_part);
        number::parse(self.source.take(length)).map_err(|cause| self.fault(cause))
    }

    fn read_text(&mut self) -> Result<&str, Fault> {
        self.source.consume(1);
        let (length, has_escape) = self.text_length()?;
        let (line, start) = (self.line, self.start + 1);
        let raw = &self.source.take(length + 1)[..length];
        let (position, cause) = match std::str::from_utf8(raw) {
            Err(error) => (error.valid_up_to(), Cause::NotUtf8),
            Ok(text) if !has_escape => return Ok(text),
            Ok(text) => match text::unescape(text, &mut self.unescaped) {
                Ok(()) => return Ok(&self.unescaped),
                Err(fault) => fault,
            },
        };
        Err(Fault { position: line.position(start + position as u64), cause })
    }

    /// Returns the bytes before the closing quote, and whether they contain an escape.
    fn text_length(&mut self) -> Result<(usize, bool), Fault> {
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
                    return Err(self.fault_at(offset, Cause::ControlCharacter { found }));
                }
            }
        }
    }

    fn unexpected_byte(&self, expected: &'static str, found: u8) -> Fault {
        self.fault(Cause::UnexpectedByte { expected, found })
    }

    fn unexpected_end(&self) -> Fault {
        self.fault_at(self.source.end_offset(), Cause::UnexpectedEnd)
    }

    /// Returns an error on the current line.
    fn fault_at(&self, offset: u64, cause: Cause) -> Fault {
        Fault { position: self.line.position(offset), cause }
    }
}
