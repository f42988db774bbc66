//! `MessagePack` as a row of words.

use std::borrow::Cow;

use super::error::{Cause, Fault};
use super::token::{Token, Tokens};

/// Whether a list, with which every profile starts, starts with this byte.
pub(super) const fn may_start_with(byte: u8) -> bool {
    matches!(byte, 0x90..=0x9f | 0xdc | 0xdd)
}

pub(super) struct MsgpackTokens<'a> {
    bytes: &'a [u8],
    at: usize,
    token_start: usize,
    open: Vec<Open>,
}

/// A list or map whose items are being read. A map's items are its keys and values in turn.
struct Open {
    is_map: bool,
    items_left: u64,
}

impl<'a> Tokens<'a> for MsgpackTokens<'a> {
    fn next(&mut self) -> Result<Token<'a>, Fault> {
        self.token_start = self.at;
        let mut is_key = false;
        if let Some(inside) = self.open.last_mut() {
            if inside.items_left == 0 {
                let token = if inside.is_map { Token::MapEnd } else { Token::ListEnd };
                self.open.pop();
                return Ok(token);
            }
            is_key = inside.is_map && inside.items_left.is_multiple_of(2);
            inside.items_left -= 1;
        }
        match (is_key, self.value()?) {
            (true, Token::Text(key)) => Ok(Token::Key(key)),
            (true, other) => Err(self.unexpected("a text as key", &other)),
            (false, token) => Ok(token),
        }
    }

    fn offset(&self) -> usize {
        self.token_start
    }

    fn finish(&mut self) -> Result<(), Fault> {
        if self.at < self.bytes.len() {
            self.token_start = self.at;
            return Err(self.fault(Cause::TrailingBytes));
        }
        Ok(())
    }
}

impl<'a> MsgpackTokens<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, token_start: 0, open: Vec::new() }
    }

    fn value(&mut self) -> Result<Token<'a>, Fault> {
        let [tag] = self.take()?;
        Ok(match tag {
            0x00..=0x7f => Token::Int(tag.into()),
            0x80..=0x8f => self.open(true, (tag & 0x0f).into()),
            0x90..=0x9f => self.open(false, (tag & 0x0f).into()),
            0xa0..=0xbf => self.text((tag & 0x1f).into())?,
            0xc0 => Token::Null,
            0xc2 | 0xc3 => Token::Bool(tag == 0xc3),
            0xca => Token::Float(f32::from_be_bytes(self.take()?).into()),
            0xcb => Token::Float(f64::from_be_bytes(self.take()?)),
            0xcc => Token::Int(u8::from_be_bytes(self.take()?).into()),
            0xcd => Token::Int(u16::from_be_bytes(self.take()?).into()),
            0xce => Token::Int(u32::from_be_bytes(self.take()?).into()),
            0xcf => whole(u64::from_be_bytes(self.take()?)),
            0xd0 => Token::Int(i8::from_be_bytes(self.take()?).into()),
            0xd1 => Token::Int(i16::from_be_bytes(self.take()?).into()),
            0xd2 => Token::Int(i32::from_be_bytes(self.take()?).into()),
            0xd3 => Token::Int(i64::from_be_bytes(self.take()?)),
            0xd9 => self.text8()?,
            0xda => self.text16()?,
            0xdb => self.text32()?,
            0xdc => {
                let length = u16::from_be_bytes(self.take()?);
                self.open(false, length.into())
            }
            0xdd => {
                let length = u32::from_be_bytes(self.take()?);
                self.open(false, length)
            }
            0xde => {
                let length = u16::from_be_bytes(self.take()?);
                self.open(true, length.into())
            }
            0xdf => {
                let length = u32::from_be_bytes(self.take()?);
                self.open(true, length)
            }
            0xe0..=0xff => Token::Int(tag.cast_signed().into()),
            // Reserved, binary data and extensions.
            0xc1 | 0xc4..=0xc9 | 0xd4..=0xd8 => {
                let expected = "a value that JSON has too";
                return Err(self.fault(Cause::UnexpectedByte { expected, found: tag }));
            }
        })
    }

    fn open(&mut self, is_map: bool, length: u32) -> Token<'a> {
        let items_left = u64::from(length) * if is_map { 2 } else { 1 };
        self.open.push(Open { is_map, items_left });
        if is_map { Token::MapStart } else { Token::ListStart }
    }

    fn text8(&mut self) -> Result<Token<'a>, Fault> {
        let length = u8::from_be_bytes(self.take()?);
        self.text(length.into())
    }

    fn text16(&mut self) -> Result<Token<'a>, Fault> {
        let length = u16::from_be_bytes(self.take()?);
        self.text(length.into())
    }

    fn text32(&mut self) -> Result<Token<'a>, Fault> {
        let length = u32::from_be_bytes(self.take()?);
        self.text(length as usize)
    }

    fn text(&mut self, length: usize) -> Result<Token<'a>, Fault> {
        let Some(bytes) = self.bytes[self.at..].get(..length) else {
            return Err(self.ends_early());
        };
        self.at += length;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Token::Text(Cow::Borrowed(text))),
            Err(_) => Err(self.fault(Cause::BadText)),
        }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let Some(&bytes) = self.bytes[self.at..].first_chunk() else {
            return Err(self.ends_early());
        };
        self.at += N;
        Ok(bytes)
    }

    fn ends_early(&self) -> Fault {
        Fault { offset: self.bytes.len(), cause: Cause::UnexpectedEnd }
    }
}

fn whole(number: u64) -> Token<'static> {
    i64::try_from(number).map_or(Token::Float(number as f64), Token::Int)
}
