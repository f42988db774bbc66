//! JSON as a row of words. Texts and numbers are `serde_json`'s business; the structure is read
//! here, because `serde_json` walks it on the thread's stack.

use std::borrow::Cow;

use super::error::{Cause, Fault};
use super::token::{Token, Tokens};

/// Whether JSON that could be a profile, or be taken for one, starts with this byte.
pub(super) const fn may_start_with(byte: u8) -> bool {
    matches!(byte, b'[' | b'{')
}

pub(super) struct JsonTokens<'a> {
    bytes: &'a [u8],
    at: usize,
    token_start: usize,
    open: Vec<Container>,
    expect: Expect,
}

#[derive(Clone, Copy, PartialEq)]
enum Container {
    List,
    Map,
}

/// What the grammar allows next.
#[derive(Clone, Copy)]
enum Expect {
    Value,
    ItemOrEnd,
    Key,
    KeyOrEnd,
    CommaOrEnd,
}

impl Expect {
    const fn describe(self) -> &'static str {
        match self {
            Self::Value => "a value",
            Self::ItemOrEnd => "a value or `]`",
            Self::Key => "a key",
            Self::KeyOrEnd => "a key or `}`",
            Self::CommaOrEnd => "`,` or the end of the list or map",
        }
    }
}

impl<'a> Tokens<'a> for JsonTokens<'a> {
    fn next(&mut self) -> Result<Token<'a>, Fault> {
        loop {
            let byte = self.peek()?;
            let inside = self.open.last().copied();
            match (self.expect, byte) {
                (Expect::CommaOrEnd, b',') => {
                    self.at += 1;
                    self.expect = match inside {
                        Some(Container::Map) => Expect::Key,
                        _ => Expect::Value,
                    };
                }
                (Expect::CommaOrEnd | Expect::KeyOrEnd, b'}') if inside == Some(Container::Map) => {
                    return Ok(self.close(Token::MapEnd));
                }
                (Expect::CommaOrEnd | Expect::ItemOrEnd, b']')
                    if inside == Some(Container::List) =>
                {
                    return Ok(self.close(Token::ListEnd));
                }
                (Expect::Key | Expect::KeyOrEnd, b'"') => return self.key(),
                (Expect::Value | Expect::ItemOrEnd, _) => return self.value(byte),
                _ => return Err(self.unexpected_byte(self.expect.describe(), byte)),
            }
        }
    }

    fn offset(&self) -> usize {
        self.token_start
    }

    fn finish(&mut self) -> Result<(), Fault> {
        match self.peek() {
            Ok(_) => Err(self.fault(Cause::TrailingBytes)),
            Err(_) => Ok(()),
        }
    }
}

impl<'a> JsonTokens<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, token_start: 0, open: Vec::new(), expect: Expect::Value }
    }

    /// The next byte that is not white space; a word starts here.
    fn peek(&mut self) -> Result<u8, Fault> {
        while self.bytes.get(self.at).is_some_and(|b| matches!(b, b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
        self.token_start = self.at;
        self.bytes.get(self.at).copied().ok_or_else(|| self.fault(Cause::UnexpectedEnd))
    }

    fn value(&mut self, byte: u8) -> Result<Token<'a>, Fault> {
        match byte {
            b'{' => return Ok(self.open(Container::Map)),
            b'[' => return Ok(self.open(Container::List)),
            _ => self.expect = Expect::CommaOrEnd,
        }
        match byte {
            b'"' => self.text().map(Token::Text),
            b'-' | b'0'..=b'9' => self.number(),
            b'n' => self.word(b"null", Token::Null),
            b't' => self.word(b"true", Token::Bool(true)),
            b'f' => self.word(b"false", Token::Bool(false)),
            _ => Err(self.unexpected_byte("a value", byte)),
        }
    }

    fn open(&mut self, container: Container) -> Token<'a> {
        self.at += 1;
        self.open.push(container);
        let (token, expect) = match container {
            Container::List => (Token::ListStart, Expect::ItemOrEnd),
            Container::Map => (Token::MapStart, Expect::KeyOrEnd),
        };
        self.expect = expect;
        token
    }

    fn close(&mut self, token: Token<'a>) -> Token<'a> {
        self.at += 1;
        self.open.pop();
        self.expect = Expect::CommaOrEnd;
        token
    }

    fn key(&mut self) -> Result<Token<'a>, Fault> {
        let key_start = self.at;
        let key = self.text()?;
        let byte = self.peek()?;
        if byte != b':' {
            return Err(self.unexpected_byte("`:`", byte));
        }
        self.at += 1;
        self.token_start = key_start;
        self.expect = Expect::Value;
        Ok(Token::Key(key))
    }

    fn text(&mut self) -> Result<Cow<'a, str>, Fault> {
        let mut has_escape = false;
        let mut end = self.at + 1;
        loop {
            match self.bytes.get(end) {
                None => {
                    return Err(Fault { offset: self.bytes.len(), cause: Cause::UnexpectedEnd });
                }
                Some(b'"') => break,
                Some(b'\\') => {
                    has_escape = true;
                    end += 2;
                }
                Some(_) => end += 1,
            }
        }
        let quoted = &self.bytes[self.at..=end];
        self.at = end + 1;
        let text = if has_escape {
            serde_json::from_slice(quoted).map(Cow::Owned)
        } else {
            serde_json::from_slice(quoted).map(Cow::Borrowed)
        };
        text.map_err(|_bad| self.fault(Cause::BadText))
    }

    fn number(&mut self) -> Result<Token<'a>, Fault> {
        let rest = &self.bytes[self.at..];
        let length = rest
            .iter()
            .position(|b| !matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
            .unwrap_or(rest.len());
        self.at += length;
        let number: serde_json::Number =
            serde_json::from_slice(&rest[..length]).map_err(|_bad| self.fault(Cause::BadNumber))?;
        let real = || number.as_f64().map(Token::Float);
        number.as_i64().map(Token::Int).or_else(real).ok_or_else(|| self.fault(Cause::BadNumber))
    }

    fn word(&mut self, word: &[u8], token: Token<'a>) -> Result<Token<'a>, Fault> {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(word) {
            self.at += word.len();
            return Ok(token);
        }
        let same = rest.iter().zip(word).take_while(|(a, b)| a == b).count();
        self.token_start += same;
        match rest.get(same) {
            Some(&byte) => Err(self.unexpected_byte("`null`, `true` or `false`", byte)),
            None => Err(self.fault(Cause::UnexpectedEnd)),
        }
    }

    fn unexpected_byte(&self, expected: &'static str, found: u8) -> Fault {
        self.fault(Cause::UnexpectedByte { expected, found })
    }
}
