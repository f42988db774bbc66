//! A JSON lexer that returns the ranges of values and does not parse their content.
//!
//! It accepts words such as `nan`, and strings with raw control characters or unknown escapes, and
//! flags them. Profilers write them, and [`super::text::repair_json`] turns them into JSON.

use super::bytes::{end_of_plain_text, end_of_space, is_json_word, plain_number_len};
use crate::shared::json::parse_escape;

/// The maximum nesting of values.
const MAX_DEPTH: u32 = 128;

/// A lexer at a position of a text.
#[derive(Debug)]
pub(super) struct Lexer<'a> {
    bytes: &'a [u8],
    position: usize,
    /// Whether a string so far contains an escape.
    pub(super) has_escapes: bool,
    /// Whether the text so far is not strictly JSON.
    pub(super) is_irregular: bool,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self::starting_at(bytes, 0)
    }

    /// Starts at a position of the text.
    pub(super) fn starting_at(bytes: &'a [u8], position: usize) -> Self {
        Self { bytes, position, has_escapes: false, is_irregular: false }
    }

    /// Returns the current position.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    pub(super) fn bytes_of(&self, range: TextRange) -> &'a [u8] {
        range.slice_bytes(self.bytes)
    }

    /// Returns the next byte that is not white space, without consuming it. All control characters
    /// count as white space, although JSON has only four.
    #[inline(always)]
    pub(super) fn peek(&mut self) -> Result<u8, LexError> {
        if self.bytes.get(self.position) == Some(&b' ') {
            self.position += 1;
        }
        match self.bytes.get(self.position) {
            Some(&byte) if byte > b' ' => Ok(byte),
            _ => self.peek_after_space(),
        }
    }

    /// The slow path of [`peek`](Self::peek), mostly at the end of a line.
    #[inline(never)]
    fn peek_after_space(&mut self) -> Result<u8, LexError> {
        self.position = end_of_space(self.bytes, self.position);
        while let Some(&byte) = self.bytes.get(self.position) {
            if byte > b' ' {
                return Ok(byte);
            }
            self.is_irregular = true;
            self.position = end_of_space(self.bytes, self.position + 1);
        }
        Err(LexError::Incomplete)
    }

    /// Consumes an expected byte.
    #[inline(always)]
    pub(super) fn expect(&mut self, byte: u8, cause: LexCause) -> Result<(), LexError> {
        if self.bytes.get(self.position) == Some(&byte) || self.peek()? == byte {
            self.position += 1;
            Ok(())
        } else {
            Err(self.invalid(cause))
        }
    }

    /// Consumes an object. `member` gets each key and must consume its value.
    #[inline]
    pub(super) fn read_object(
        &mut self,
        mut member: impl FnMut(&mut Self, TextRange) -> Result<(), LexError>,
    ) -> Result<(), LexError> {
        self.read_object_with(|lexer| {
            let key = lexer.read_key()?;
            member(lexer, key)
        })
    }

    /// Consumes an object. `member` must consume each key and value.
    #[inline]
    pub(super) fn read_object_with(
        &mut self,
        mut member: impl FnMut(&mut Self) -> Result<(), LexError>,
    ) -> Result<(), LexError> {
        self.expect(b'{', LexCause::ExpectedObject)?;
        if self.peek()? == b'}' {
            self.position += 1;
            return Ok(());
        }
        loop {
            member(self)?;
            match self.peek()? {
                b',' => self.position += 1,
                b'}' => {
                    self.position += 1;
                    return Ok(());
                }
                _ => return Err(self.invalid(LexCause::ExpectedMemberEnd)),
            }
        }
    }

    /// Consumes a key and its colon.
    #[inline]
    pub(super) fn read_key(&mut self) -> Result<TextRange, LexError> {
        let key = self.read_string()?;
        self.expect(b':', LexCause::ExpectedColon)?;
        Ok(key)
    }

    /// Consumes a key if `match_prefix` recognises its first bytes, which is faster than a search
    /// for its end.
    #[inline]
    pub(super) fn try_read_key<T>(
        &mut self,
        match_prefix: impl Fn([u8; 8]) -> Option<(T, usize)>,
    ) -> Result<Option<(T, TextRange)>, LexError> {
        if self.peek()? != b'"' {
            return Ok(None);
        }
        let start = self.position + 1;
        let first = self.bytes.get(start..).and_then(|rest| rest.first_chunk());
        let Some((key, len)) = first.and_then(|first| match_prefix(*first)) else {
            return Ok(None);
        };
        self.position = start + len + 1;
        self.expect(b':', LexCause::ExpectedColon)?;
        Ok(Some((key, self.range(start, start + len))))
    }

    /// Consumes a list. `element` must consume each element.
    pub(super) fn read_list(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), LexError>,
    ) -> Result<(), LexError> {
        self.expect(b'[', LexCause::ExpectedList)?;
        if self.peek()? == b']' {
            self.position += 1;
            return Ok(());
        }
        loop {
            element(self)?;
            match self.peek()? {
                b',' => self.position += 1,
                b']' => {
                    self.position += 1;
                    return Ok(());
                }
                _ => return Err(self.invalid(LexCause::ExpectedElementEnd)),
            }
        }
    }

    /// Consumes a value of any type.
    #[inline]
    pub(super) fn read_value(&mut self) -> Result<TextRange, LexError> {
        self.read_value_at_depth(0)
    }

    #[inline(always)]
    fn read_value_at_depth(&mut self, depth: u32) -> Result<TextRange, LexError> {
        let first = self.peek()?;
        let start = self.position;
        match first {
            b'"' => {
                self.read_string()?;
            }
            b'{' | b'[' => self.read_nested(first, depth)?,
            _ => self.read_word()?,
        }
        Ok(self.range(start, self.position))
    }

    fn read_nested(&mut self, first: u8, depth: u32) -> Result<(), LexError> {
        if depth == MAX_DEPTH {
            return Err(self.invalid(LexCause::TooDeep));
        }
        if first == b'{' {
            self.read_object(|lexer, _| lexer.read_value_at_depth(depth + 1).map(drop))
        } else {
            self.read_list(|lexer| lexer.read_value_at_depth(depth + 1).map(drop))
        }
    }

    /// Consumes a string and returns its range without the quotes.
    #[inline]
    pub(super) fn read_string(&mut self) -> Result<TextRange, LexError> {
        self.expect(b'"', LexCause::ExpectedString)?;
        let start = self.position;
        self.position = end_of_plain_text(self.bytes, start);
        if self.bytes.get(self.position) != Some(&b'"') {
            self.finish_string()?;
        }
        self.position += 1;
        Ok(self.range(start, self.position - 1))
    }

    /// Finds the end of a string with escapes or control characters.
    #[cold]
    fn finish_string(&mut self) -> Result<(), LexError> {
        loop {
            match self.bytes.get(self.position) {
                Some(b'"') => return Ok(()),
                Some(b'\\') => {
                    self.has_escapes = true;
                    self.bytes.get(self.position + 1).ok_or(LexError::Incomplete)?;
                    let escape = parse_escape(&self.bytes[self.position..]);
                    self.is_irregular |= escape.is_err();
                    self.position += escape.map_or(r"\n".len(), |(_, len)| len);
                }
                Some(_control) => {
                    self.is_irregular = true;
                    self.position += 1;
                }
                None => return Err(LexError::Incomplete),
            }
            self.position = end_of_plain_text(self.bytes, self.position);
        }
    }

    /// Consumes a number or a word.
    #[inline]
    fn read_word(&mut self) -> Result<(), LexError> {
        let rest = &self.bytes[self.position..];
        if let Some(end) = plain_number_len(rest)
            && let Some(b',' | b'}' | b']' | b'\n') = rest.get(end)
        {
            self.position += end;
            return Ok(());
        }
        self.read_word_slow()
    }

    #[inline(never)]
    fn read_word_slow(&mut self) -> Result<(), LexError> {
        let rest = &self.bytes[self.position..];
        let end = rest.iter().position(|byte| !is_word_byte(*byte)).ok_or(LexError::Incomplete)?;
        if end == 0 {
            return Err(self.invalid(LexCause::ExpectedValue));
        }
        self.is_irregular |= !is_json_word(&rest[..end]);
        self.position += end;
        Ok(())
    }

    #[cold]
    fn invalid(&self, cause: LexCause) -> LexError {
        LexError::Invalid { position: self.position as u32, cause }
    }

    fn range(&self, start: usize, end: usize) -> TextRange {
        debug_assert!(end <= self.bytes.len());
        TextRange::new(start, end)
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte > b' ' && !matches!(byte, b',' | b':' | b'"' | b'[' | b']' | b'{' | b'}')
}

/// A range of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TextRange {
    start: u32,
    end: u32,
}

impl TextRange {
    /// The empty range, which denotes a missing value.
    pub(super) const NONE: Self = Self { start: 0, end: 0 };

    pub(super) fn is_none(self) -> bool {
        self == Self::NONE
    }

    pub(super) fn slice(self, text: &str) -> &str {
        &text[self.start as usize..self.end as usize]
    }

    #[inline]
    pub(super) fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    pub(super) fn start(self) -> usize {
        self.start as usize
    }

    pub(super) fn end(self) -> usize {
        self.end as usize
    }

    /// Moves the range towards the start of the text. Returns `None` if it would begin before the
    /// text.
    pub(super) fn shift_back(self, bytes: usize) -> Option<Self> {
        Some(Self::new(self.start().checked_sub(bytes)?, self.end() - bytes))
    }

    /// Moves the range towards the end of the text.
    #[inline]
    pub(super) fn shift_forward(self, bytes: usize) -> Self {
        Self::new(self.start() + bytes, self.end() + bytes)
    }

    fn slice_bytes(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }
}

/// A member of an object: the key without quotes, and the value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) key: TextRange,
    pub(super) value: TextRange,
}

/// Why the lexer stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LexError {
    /// The text ends before the end of the value.
    Incomplete,
    /// The text is not JSON.
    Invalid {
        /// Position of the error.
        position: u32,
        /// The error.
        cause: LexCause,
    },
}

/// The cause of an error. It takes a single byte, so that all results fit into registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LexCause {
    ExpectedObject,
    ExpectedList,
    ExpectedString,
    ExpectedValue,
    ExpectedColon,
    ExpectedMemberEnd,
    ExpectedElementEnd,
    TooDeep,
}

impl LexCause {
    /// Returns the cause as a sentence without its full stop.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::ExpectedObject => "an object was expected",
            Self::ExpectedList => "a list was expected",
            Self::ExpectedString => "a text was expected",
            Self::ExpectedValue => "a value was expected",
            Self::ExpectedColon => "`:` was expected after a key",
            Self::ExpectedMemberEnd => "`,` or `}` was expected after a member",
            Self::ExpectedElementEnd => "`,` or `]` was expected after an element",
            Self::TooDeep => "values are nested more than 128 deep",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lex(text: &str) -> Result<(&str, bool), LexError> {
        let mut lexer = Lexer::new(text.as_bytes());
        let range = lexer.read_value()?;
        Ok((range.slice(text), lexer.is_irregular))
    }

    #[test]
    fn the_end_of_a_value_is_found() {
        let cases = [
            (r#" "a\"b" ,"#, r#""a\"b""#, false),
            ("12, ", "12", false),
            ("-1.5e+3]", "-1.5e+3", false),
            (r#"{"a": [1, {"b": "}"}], "c": {}} ,"#, r#"{"a": [1, {"b": "}"}], "c": {}}"#, false),
            ("[]x", "[]", false),
            ("true}", "true", false),
            ("nan,", "nan", true),
            ("[-Infinity]", "[-Infinity]", true),
            ("01 ", "01", true),
            ("1. ", "1.", true),
            ("\"a\nb\"", "\"a\nb\"", true),
            (r#""C:\Users""#, r#""C:\Users""#, true),
            (r#""\ud8zz""#, r#""\ud8zz""#, true),
            (r#""\ud83d\ude00\u00e9" "#, r#""\ud83d\ude00\u00e9""#, false),
            (r#""\ud83d" "#, r#""\ud83d""#, true),
            (r#""\ud83d\u0041""#, r#""\ud83d\u0041""#, true),
            (r#""\ude00\ud83d""#, r#""\ude00\ud83d""#, true),
            ("[1,\n\t\r 2]", "[1,\n\t\r 2]", false),
            ("[1,\u{1}2\0]", "[1,\u{1}2\0]", true),
        ];
        for (text, value, is_irregular) in cases {
            assert_eq!(lex(text), Ok((value, is_irregular)), "{text}");
        }
    }

    #[test]
    fn invalid_values_are_reported() {
        let invalid = [
            ("}", 0, LexCause::ExpectedValue),
            ("[1,]", 3, LexCause::ExpectedValue),
            ("[1 2]", 3, LexCause::ExpectedElementEnd),
            (r#"{"a" 1}"#, 5, LexCause::ExpectedColon),
            (r#"{"a":1 "b"}"#, 7, LexCause::ExpectedMemberEnd),
            ("{a:1}", 1, LexCause::ExpectedString),
        ];
        for (text, position, cause) in invalid {
            let Err(LexError::Invalid { position: found, cause: found_cause }) = lex(text) else {
                panic!("{text}")
            };
            assert_eq!((found, found_cause), (position, cause), "{text}");
        }
        for cut in ["", " ", "\"a", "\"a\\", "12", "[1,", "{\"a\":", "{"] {
            assert_eq!(lex(cut), Err(LexError::Incomplete), "{cut}");
        }
        let deep = "[".repeat(129);
        let cause = LexCause::TooDeep;
        assert_eq!(lex(&deep), Err(LexError::Invalid { position: 128, cause }));
    }

    proptest! {
        #[test]
        fn valid_json_is_lexed_as_one_value(text in r#"[-0-9.eE"\\,:\[\]{}a ]{0,12}"#) {
            // The white space after the text ends a number. A number of any size is a value.
            if serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok() {
                let padded = format!("{text} ");
                prop_assert_eq!(lex(&padded), Ok((text.trim(), false)));
            } else if let Ok((value, false)) = lex(&format!("{text} ")) {
                prop_assert_ne!(value, text.trim());
            }
        }
    }
}
