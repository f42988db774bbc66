//! Splits `MessagePack` into tokens.

use super::error::{Position, SyntaxCause, SyntaxFault};
use super::source::Source;
use super::token::{Token, Tokens};

/// Whether a list can begin with this byte. Every profile begins with a list.
pub(super) const fn can_begin_profile(byte: u8) -> bool {
    matches!(byte, 0x90..=0x9f | 0xdc | 0xdd)
}

pub(super) struct MsgpackTokens<'a> {
    source: Source<'a>,
    /// Byte offset of the last token.
    token_offset: u64,
    containers: Vec<OpenContainer>,
}

/// An open list or map. The items of a map are its keys and values in turn.
struct OpenContainer {
    is_map: bool,
    items_left: u64,
}

impl Tokens for MsgpackTokens<'_> {
    fn next(&mut self) -> Result<Token<'_>, SyntaxFault> {
        self.token_offset = self.source.offset();
        let Some(container) = self.containers.last_mut() else { return self.read_value() };
        if container.items_left == 0 {
            let token = if container.is_map { Token::MapEnd } else { Token::ListEnd };
            self.containers.pop();
            return Ok(token);
        }
        let is_key = container.is_map && container.items_left.is_multiple_of(2);
        container.items_left -= 1;
        if is_key { self.read_key() } else { self.read_value() }
    }

    fn position(&self) -> Position {
        byte_position(self.token_offset)
    }

    fn finish(&mut self) -> Result<(), SyntaxFault> {
        self.token_offset = self.source.offset();
        match self.source.peek(0) {
            Some(_) => Err(self.fault(SyntaxCause::TrailingBytes)),
            None => Ok(()),
        }
    }
}

impl<'a> MsgpackTokens<'a> {
    pub(super) const fn new(source: Source<'a>) -> Self {
        Self { source, token_offset: 0, containers: Vec::new() }
    }

    fn read_key(&mut self) -> Result<Token<'_>, SyntaxFault> {
        let position = self.position();
        match self.read_value()? {
            Token::Text(key) => Ok(Token::Key(key)),
            other => {
                let (expected, found) = ("a text as key", other.describe());
                Err(SyntaxFault {
                    position,
                    cause: SyntaxCause::UnexpectedValue { expected, found },
                })
            }
        }
    }

    fn read_value(&mut self) -> Result<Token<'_>, SyntaxFault> {
        let [tag] = self.read_array()?;
        Ok(match tag {
            0x00..=0x7f => Token::Int(tag.into()),
            0x80..=0x8f => self.open_container(true, (tag & 0x0f).into()),
            0x90..=0x9f => self.open_container(false, (tag & 0x0f).into()),
            0xa0..=0xbf => Token::Text(self.read_text((tag & 0x1f).into())?),
            0xc0 => Token::Null,
            0xc2 | 0xc3 => Token::Bool(tag == 0xc3),
            0xca => Token::Float(f32::from_be_bytes(self.read_array()?).into()),
            0xcb => Token::Float(f64::from_be_bytes(self.read_array()?)),
            0xcc => Token::Int(u8::from_be_bytes(self.read_array()?).into()),
            0xcd => Token::Int(u16::from_be_bytes(self.read_array()?).into()),
            0xce => Token::Int(u32::from_be_bytes(self.read_array()?).into()),
            0xcf => Token::int(u64::from_be_bytes(self.read_array()?)),
            0xd0 => Token::Int(i8::from_be_bytes(self.read_array()?).into()),
            0xd1 => Token::Int(i16::from_be_bytes(self.read_array()?).into()),
            0xd2 => Token::Int(i32::from_be_bytes(self.read_array()?).into()),
            0xd3 => Token::Int(i64::from_be_bytes(self.read_array()?)),
            0xd9 => {
                let length = u8::from_be_bytes(self.read_array()?);
                Token::Text(self.read_text(length.into())?)
            }
            0xda => {
                let length = u16::from_be_bytes(self.read_array()?);
                Token::Text(self.read_text(length.into())?)
            }
            0xdb => {
                let length = u32::from_be_bytes(self.read_array()?);
                Token::Text(self.read_text(length as usize)?)
            }
            0xdc | 0xde => {
                let length = u16::from_be_bytes(self.read_array()?);
                self.open_container(tag == 0xde, length.into())
            }
            0xdd | 0xdf => {
                let length = u32::from_be_bytes(self.read_array()?);
                self.open_container(tag == 0xdf, length)
            }
            0xe0..=0xff => Token::Int(tag.cast_signed().into()),
            // A reserved byte, binary data or an extension.
            0xc1 | 0xc4..=0xc9 | 0xd4..=0xd8 => {
                let expected = "a value that JSON has too";
                return Err(self.fault(SyntaxCause::UnexpectedByte { expected, found: tag }));
            }
        })
    }

    fn open_container(&mut self, is_map: bool, length: u32) -> Token<'static> {
        let items_left = u64::from(length) * if is_map { 2 } else { 1 };
        self.containers.push(OpenContainer { is_map, items_left });
        if is_map { Token::MapStart } else { Token::ListStart }
    }

    fn read_text(&mut self, length: usize) -> Result<&str, SyntaxFault> {
        if !self.source.ensure_buffered(length) {
            return Err(self.unexpected_end());
        }
        let start = self.source.offset();
        std::str::from_utf8(self.source.take(length)).map_err(|error| SyntaxFault {
            position: byte_position(start + error.valid_up_to() as u64),
            cause: SyntaxCause::NotUtf8,
        })
    }

    fn read_array<const N: usize>(&mut self) -> Result<[u8; N], SyntaxFault> {
        self.source.ensure_buffered(N);
        match self.source.buffered().first_chunk() {
            Some(&bytes) => {
                self.source.consume(N);
                Ok(bytes)
            }
            None => Err(self.unexpected_end()),
        }
    }

    fn unexpected_end(&self) -> SyntaxFault {
        SyntaxFault {
            position: byte_position(self.source.end_offset()),
            cause: SyntaxCause::UnexpectedEnd,
        }
    }
}

const fn byte_position(byte_offset: u64) -> Position {
    Position { byte_offset, line_and_column: None }
}
