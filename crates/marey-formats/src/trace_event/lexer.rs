//! A JSON lexer that returns the ranges of values without parsing their content.
//!
//! Words such as `nan`, and strings with raw control characters or unknown escapes, are accepted
//! and flagged: profilers write them, and [`super::text::repaired`] turns them into JSON.

use wide::u8x16;

use crate::shared::json::code_unit;

/// Maximum nesting of values.
const MAX_DEPTH: u32 = 128;

/// Why lexing stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The text ends before the value.
    Incomplete,
    /// The text is not JSON.
    Invalid {
        /// Position of the error.
        at: u32,
        /// The error.
        cause: Cause,
    },
}

/// An error in a text. It takes a single byte, so that all results fit into registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    NoObject,
    NoList,
    NoText,
    NoValue,
    NoColon,
    NoMember,
    NoElement,
    TooDeep,
}

impl Cause {
    /// Returns the cause as a sentence without its full stop.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::NoObject => "an object was expected",
            Self::NoList => "a list was expected",
            Self::NoText => "a text was expected",
            Self::NoValue => "a value was expected",
            Self::NoColon => "`:` was expected after a key",
            Self::NoMember => "`,` or `}` was expected after a member",
            Self::NoElement => "`,` or `]` was expected after an element",
            Self::TooDeep => "values are nested more than 128 deep",
        }
    }
}

/// A range of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    start: u32,
    end: u32,
}

impl Piece {
    /// The empty piece, which stands for a missing value.
    pub(super) const NONE: Self = Self { start: 0, end: 0 };

    pub(super) fn is_none(self) -> bool {
        self == Self::NONE
    }

    pub(super) fn of(self, text: &str) -> &str {
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

    /// Moves the piece towards the start of the text; `None` if it would begin before the text.
    pub(super) fn earlier(self, bytes: usize) -> Option<Self> {
        Some(Self::new(self.start().checked_sub(bytes)?, self.end() - bytes))
    }

    /// Moves the piece towards the end of the text.
    #[inline]
    pub(super) fn later(self, bytes: usize) -> Self {
        Self::new(self.start() + bytes, self.end() + bytes)
    }

    fn of_bytes(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }
}

/// A member of an object: the key without quotes, and the value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) key: Piece,
    pub(super) value: Piece,
}

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

    pub(super) fn bytes_of(&self, piece: Piece) -> &'a [u8] {
        piece.of_bytes(self.bytes)
    }

    /// Returns the next byte that is not white space, without consuming it. All control characters
    /// count as white space, although JSON has only four.
    #[inline(always)]
    pub(super) fn peek(&mut self) -> Result<u8, Stop> {
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
    fn peek_after_space(&mut self) -> Result<u8, Stop> {
        self.position = end_of_space(self.bytes, self.position);
        while let Some(&byte) = self.bytes.get(self.position) {
            if byte > b' ' {
                return Ok(byte);
            }
            self.is_irregular = true;
            self.position = end_of_space(self.bytes, self.position + 1);
        }
        Err(Stop::Incomplete)
    }

    /// Consumes an expected byte.
    #[inline(always)]
    pub(super) fn expect(&mut self, byte: u8, cause: Cause) -> Result<(), Stop> {
        if self.bytes.get(self.position) == Some(&byte) || self.peek()? == byte {
            self.position += 1;
            Ok(())
        } else {
            Err(self.invalid(cause))
        }
    }

    /// Consumes an object. `member` gets each key and must consume its value.
    #[inline]
    pub(super) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Piece) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.object_by(|lexer| {
            let key = lexer.key()?;
            member(lexer, key)
        })
    }

    /// Consumes an object. `member` must consume each key and value.
    #[inline]
    pub(super) fn object_by(
        &mut self,
        mut member: impl FnMut(&mut Self) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.expect(b'{', Cause::NoObject)?;
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
                _ => return Err(self.invalid(Cause::NoMember)),
            }
        }
    }

    /// Consumes a key and its colon.
    #[inline]
    pub(super) fn key(&mut self) -> Result<Piece, Stop> {
        let key = self.text()?;
        self.expect(b':', Cause::NoColon)?;
        Ok(key)
    }

    /// Consumes a key if `known` recognises it by its first bytes, which is faster than a search
    /// for its end.
    #[inline]
    pub(super) fn key_at_start<T>(
        &mut self,
        known: impl Fn([u8; 8]) -> Option<(T, usize)>,
    ) -> Result<Option<(T, Piece)>, Stop> {
        if self.peek()? != b'"' {
            return Ok(None);
        }
        let start = self.position + 1;
        let first = self.bytes.get(start..).and_then(|rest| rest.first_chunk());
        let Some((key, len)) = first.and_then(|first| known(*first)) else { return Ok(None) };
        self.position = start + len + 1;
        self.expect(b':', Cause::NoColon)?;
        Ok(Some((key, self.piece(start, start + len))))
    }

    /// Consumes a list. `element` must consume each element.
    pub(super) fn list(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.expect(b'[', Cause::NoList)?;
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
                _ => return Err(self.invalid(Cause::NoElement)),
            }
        }
    }

    /// Consumes a value of any type.
    #[inline]
    pub(super) fn value(&mut self) -> Result<Piece, Stop> {
        self.value_at(0)
    }

    #[inline(always)]
    fn value_at(&mut self, depth: u32) -> Result<Piece, Stop> {
        let first = self.peek()?;
        let start = self.position;
        match first {
            b'"' => {
                self.text()?;
            }
            b'{' | b'[' => self.nested(first, depth)?,
            _ => self.word()?,
        }
        Ok(self.piece(start, self.position))
    }

    fn nested(&mut self, first: u8, depth: u32) -> Result<(), Stop> {
        if depth == MAX_DEPTH {
            return Err(self.invalid(Cause::TooDeep));
        }
        if first == b'{' {
            self.object(|lexer, _| lexer.value_at(depth + 1).map(drop))
        } else {
            self.list(|lexer| lexer.value_at(depth + 1).map(drop))
        }
    }

    /// Consumes a string and returns its range without the quotes.
    #[inline]
    pub(super) fn text(&mut self) -> Result<Piece, Stop> {
        self.expect(b'"', Cause::NoText)?;
        let start = self.position;
        self.position = end_of_plain(self.bytes, start);
        if self.bytes.get(self.position) != Some(&b'"') {
            self.finish_text()?;
        }
        self.position += 1;
        Ok(self.piece(start, self.position - 1))
    }

    /// Finds the end of a string with escapes or control characters.
    #[cold]
    fn finish_text(&mut self) -> Result<(), Stop> {
        loop {
            match self.bytes.get(self.position) {
                Some(b'"') => return Ok(()),
                Some(b'\\') => {
                    self.has_escapes = true;
                    let escaped = self.bytes.get(self.position + 1).ok_or(Stop::Incomplete)?;
                    let escape = self.escape_bytes(*escaped);
                    self.is_irregular |= escape.is_none();
                    self.position += escape.unwrap_or(2);
                }
                Some(_control) => {
                    self.is_irregular = true;
                    self.position += 1;
                }
                None => return Err(Stop::Incomplete),
            }
            self.position = end_of_plain(self.bytes, self.position);
        }
    }

    /// Returns the length of the escape at the current position, if it is valid.
    fn escape_bytes(&self, escaped: u8) -> Option<usize> {
        match escaped {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
            b'u' => match code_unit(&self.bytes[self.position..])? {
                0xd800..0xdc00 => {
                    let second = code_unit(&self.bytes[self.position + 6..])?;
                    (0xdc00..0xe000).contains(&second).then_some(12)
                }
                0xdc00..0xe000 => None,
                _ => Some(6),
            },
            _ => None,
        }
    }

    /// Consumes a number or a word.
    #[inline]
    fn word(&mut self) -> Result<(), Stop> {
        let rest = &self.bytes[self.position..];
        if let Some(end) = plain_number(rest)
            && let Some(b',' | b'}' | b']' | b'\n') = rest.get(end)
        {
            self.position += end;
            return Ok(());
        }
        self.slow_word()
    }

    #[inline(never)]
    fn slow_word(&mut self) -> Result<(), Stop> {
        let rest = &self.bytes[self.position..];
        let end = rest.iter().position(|byte| !is_word_byte(*byte)).ok_or(Stop::Incomplete)?;
        if end == 0 {
            return Err(self.invalid(Cause::NoValue));
        }
        self.is_irregular |= !is_json_word(&rest[..end]);
        self.position += end;
        Ok(())
    }

    #[cold]
    fn invalid(&self, cause: Cause) -> Stop {
        Stop::Invalid { at: self.position as u32, cause }
    }

    fn piece(&self, start: usize, end: usize) -> Piece {
        debug_assert!(end <= self.bytes.len());
        Piece::new(start, end)
    }
}

/// Returns the length of the number at the start, if it is an unsigned integer or decimal fraction.
#[inline]
pub(super) fn plain_number(bytes: &[u8]) -> Option<usize> {
    let integer = count_digits(bytes);
    match bytes.first() {
        Some(b'1'..=b'9') => {}
        Some(b'0') if integer == 1 => {}
        _ => return None,
    }
    if bytes.get(integer) != Some(&b'.') {
        return Some(integer);
    }
    let fraction = count_digits(&bytes[integer + 1..]);
    Some(if fraction > 0 { integer + 1 + fraction } else { integer })
}

fn is_word_byte(byte: u8) -> bool {
    byte > b' ' && !matches!(byte, b',' | b':' | b'"' | b'[' | b']' | b'{' | b'}')
}

/// Whether a word is a JSON value.
pub(super) fn is_json_word(word: &[u8]) -> bool {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    match digits.first() {
        Some(b'0'..=b'9') => {}
        _ => return matches!(word, b"true" | b"false" | b"null"),
    }
    let integer = count_digits(digits);
    let mut rest = &digits[integer..];
    if integer > 1 && digits[0] == b'0' {
        return false;
    }
    if let Some(fraction) = rest.strip_prefix(b".") {
        let count = count_digits(fraction);
        if count == 0 {
            return false;
        }
        rest = &fraction[count..];
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let is_signed = matches!(exponent, [b'+' | b'-', ..]);
        let digits = &exponent[usize::from(is_signed)..];
        return !digits.is_empty() && count_digits(digits) == digits.len();
    }
    rest.is_empty()
}

/// Returns the number of leading digits.
#[inline]
fn count_digits(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(next) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let next = u8x16::new(*next);
        let digits = next.max(u8x16::splat(b'0')).min(u8x16::splat(b'9')).simd_eq(next);
        let others = (!digits).to_bitmask();
        if others != 0 {
            return at + others.trailing_zeros() as usize;
        }
        at += 16;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Returns the position of the first byte that is not JSON white space, or the end.
fn end_of_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(next) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let next = u8x16::new(*next);
        let is = |byte| next.simd_eq(u8x16::splat(byte));
        let others = !(is(b' ') | is(b'\n') | is(b'\r') | is(b'\t'));
        let others = others.to_bitmask();
        if others != 0 {
            return at + others.trailing_zeros() as usize;
        }
        at += 16;
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
    at + bytes.get(at..).unwrap_or_default().iter().take_while(|byte| is_space(byte)).count()
}

/// Returns the position of the first quote, backslash or control character, or the end.
#[inline]
pub(super) fn end_of_plain(bytes: &[u8], mut at: usize) -> usize {
    while let Some(next) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let next = u8x16::new(*next);
        let is_control = next.min(u8x16::splat(0x1f)).simd_eq(next);
        let is_end =
            next.simd_eq(u8x16::splat(b'"')) | next.simd_eq(u8x16::splat(b'\\')) | is_control;
        let ends = is_end.to_bitmask();
        if ends != 0 {
            return at + ends.trailing_zeros() as usize;
        }
        at += 16;
    }
    let is_plain = |byte: &u8| !matches!(byte, b'"' | b'\\' | 0..0x20);
    at + bytes.get(at..).unwrap_or_default().iter().take_while(|byte| is_plain(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lex(text: &str) -> Result<(&str, bool), Stop> {
        let mut lexer = Lexer::new(text.as_bytes());
        let piece = lexer.value()?;
        Ok((piece.of(text), lexer.is_irregular))
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
            ("}", 0, Cause::NoValue),
            ("[1,]", 3, Cause::NoValue),
            ("[1 2]", 3, Cause::NoElement),
            (r#"{"a" 1}"#, 5, Cause::NoColon),
            (r#"{"a":1 "b"}"#, 7, Cause::NoMember),
            ("{a:1}", 1, Cause::NoText),
        ];
        for (text, at, cause) in invalid {
            let Err(Stop::Invalid { at: found, cause: why }) = lex(text) else { panic!("{text}") };
            assert_eq!((found, why), (at, cause), "{text}");
        }
        for cut in ["", " ", "\"a", "\"a\\", "12", "[1,", "{\"a\":", "{"] {
            assert_eq!(lex(cut), Err(Stop::Incomplete), "{cut}");
        }
        let deep = "[".repeat(129);
        let cause = Cause::TooDeep;
        assert_eq!(lex(&deep), Err(Stop::Invalid { at: 128, cause }));
    }

    proptest! {
        #[test]
        fn blocks_of_sixteen_bytes_give_the_same_result(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let is_end = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
            let expected = bytes.iter().position(is_end).unwrap_or(bytes.len());
            prop_assert_eq!(end_of_plain(&bytes, 0), expected);
            let digits: Vec<u8> = bytes.iter().map(|byte| b'0' + byte % 11).collect();
            let expected = digits.iter().position(|byte| *byte > b'9').unwrap_or(bytes.len());
            prop_assert_eq!(count_digits(&digits), expected);
            let spaces: Vec<u8> = bytes.iter().map(|byte| if *byte < 0xf0 { b" \t\r\n"[usize::from(byte % 4)] } else { *byte }).collect();
            let expected = spaces.iter().position(|byte| *byte >= 0xf0).unwrap_or(bytes.len());
            prop_assert_eq!(end_of_space(&spaces, 0), expected);
        }

        #[test]
        fn whatever_serde_accepts_is_one_value(text in r#"[-0-9.eE"\\,:\[\]{}a ]{0,12}"#) {
            // The white space after the text ends a number. Numbers of any size are values.
            if serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok() {
                let padded = format!("{text} ");
                prop_assert_eq!(lex(&padded), Ok((text.trim(), false)));
            } else if let Ok((value, false)) = lex(&format!("{text} ")) {
                prop_assert_ne!(value, text.trim());
            }
        }
    }
}
