//! Reads numbers, texts and bytes. Long ones are read in part.

use super::class::ClassFlag;
use super::layout::IntegerFormat;
use super::{Address, LENGTH, Objects, ReadError, Result, word_in};

/// The maximum number of digits of an integer that is read.
const MAX_DIGITS: u64 = 40;
/// The maximum number of characters that are read of a string.
const MAX_STRING_CHARACTERS: u64 = 4096;
const DIGIT_BITS: u32 = 30;
/// Offset of the digits in an integer.
const DIGITS_OFFSET: u64 = 24;
/// Offset of the value in a `float`, and of the real part in a `complex`.
const FLOAT_OFFSET: u64 = 16;
/// Offset of the first byte in a `bytes` object.
const BYTES_OFFSET: u64 = 32;
/// Offset of the word in a text that says how its characters are stored.
const TEXT_STATE_OFFSET: usize = 32;
/// The fields of a text in front of its characters.
type TextHead = [u8; TEXT_STATE_OFFSET + 8];

/// An integer of any size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PyInteger {
    /// Sign, and digits of 30 bits, the lowest first.
    Digits { is_negative: bool, digits: Vec<u32> },
    /// An integer with too many digits to be read.
    Large { bits: u64 },
}

/// The first characters of a text, or the first bytes of a `bytes` object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Excerpt<T> {
    pub(crate) content: T,
    /// Length of the whole text or object.
    pub(crate) length: u64,
}

impl PyInteger {
    /// Returns the value, if it fits into 64 bits.
    pub(crate) fn as_i64(&self) -> Option<i64> {
        let Self::Digits { is_negative, digits } = self else { return None };
        let mut value: i128 = 0;
        for digit in digits.iter().rev() {
            value = value.checked_mul(1 << DIGIT_BITS)?.checked_add(i128::from(*digit))?;
        }
        i64::try_from(if *is_negative { -value } else { value }).ok()
    }

    /// Returns the number in decimal digits, `None` for a [`PyInteger::Large`].
    pub(crate) fn decimal(&self) -> Option<String> {
        /// The largest power of ten that a digit can hold.
        const GROUP: u64 = 1_000_000_000;
        let Self::Digits { is_negative, digits } = self else { return None };
        let mut quotient = digits.clone();
        let mut groups = Vec::new();
        while quotient.iter().any(|digit| *digit != 0) {
            let mut remainder = 0;
            for digit in quotient.iter_mut().rev() {
                let dividend = (remainder << DIGIT_BITS) | u64::from(*digit);
                *digit = (dividend / GROUP) as u32;
                remainder = dividend % GROUP;
            }
            groups.push(remainder);
        }
        let mut text = if *is_negative { "-".to_owned() } else { String::new() };
        text.push_str(&groups.pop().unwrap_or(0).to_string());
        text.extend(groups.iter().rev().map(|group| format!("{group:09}")));
        Some(text)
    }
}

impl Objects<'_> {
    /// Returns the value of an integer.
    pub(crate) fn integer(&self, object: Address) -> Result<PyInteger> {
        let word = self.word(object, LENGTH)?;
        let (count, is_negative) = match self.layout.integer_format {
            IntegerFormat::SignedSize => {
                (word.cast_signed().unsigned_abs(), word.cast_signed() < 0)
            }
            IntegerFormat::Tag => (word >> 3, word & 3 == 2),
        };
        if count > MAX_DIGITS {
            return Ok(PyInteger::Large { bits: count.saturating_mul(DIGIT_BITS.into()) });
        }
        let block = self.block(object, DIGITS_OFFSET, 4 * count)?;
        let digits = block.as_chunks().0.iter().map(|bytes| u32::from_ne_bytes(*bytes));
        let digits: Vec<u32> = digits.collect();
        if digits.iter().any(|digit| digit >> DIGIT_BITS != 0) {
            return Err(ReadError::Changed);
        }
        Ok(PyInteger::Digits { is_negative, digits })
    }

    /// Returns an integer that is not negative and has at most 63 bits, `None` for any other
    /// object.
    pub(crate) fn unsigned_integer(&self, object: Address) -> Option<u64> {
        self.class_of(object).ok().filter(|class| class.has_flag(ClassFlag::Integer))?;
        u64::try_from(self.integer(object).ok()?.as_i64()?).ok()
    }

    /// Returns the value of a `float`.
    pub(crate) fn float(&self, object: Address) -> Result<f64> {
        self.word(object, FLOAT_OFFSET).map(f64::from_bits)
    }

    /// Returns the real and the imaginary part of a `complex`.
    pub(crate) fn complex(&self, object: Address) -> Result<(f64, f64)> {
        let parts: [u8; 16] = self.bytes(object, FLOAT_OFFSET)?;
        Ok((f64::from_bits(word_in(&parts, 0)), f64::from_bits(word_in(&parts, 8))))
    }

    /// Returns the first `max` bytes of a `bytes` object.
    pub(crate) fn byte_string(&self, object: Address, max: u64) -> Result<Excerpt<Vec<u8>>> {
        let length = self.length(object)?;
        Ok(Excerpt { content: self.block(object, BYTES_OFFSET, length.min(max))?, length })
    }

    /// Returns a text, cut at [`MAX_STRING_CHARACTERS`]. `None` for an object that is no text.
    pub(crate) fn text_of(&self, object: Address) -> Option<String> {
        self.class_of(object).ok().filter(|class| class.has_flag(ClassFlag::Text))?;
        Some(self.text(object, MAX_STRING_CHARACTERS).ok()?.content)
    }

    /// Returns the first `max` characters of a text.
    pub(crate) fn text(&self, object: Address, max: u64) -> Result<Excerpt<String>> {
        self.text_of_head(object, &self.bytes(object, 0)?, max)
    }

    /// Whether a text equals `content`, which has `length` characters.
    pub(crate) fn is_text(&self, object: Address, content: &str, length: u64) -> Result<bool> {
        let head = self.bytes(object, 0)?;
        if word_in(&head, LENGTH as usize) != length {
            return Ok(false);
        }
        Ok(self.text_of_head(object, &head, length)?.content == content)
    }

    fn text_of_head(&self, object: Address, head: &TextHead, max: u64) -> Result<Excerpt<String>> {
        let length = word_in(head, LENGTH as usize);
        if length > i64::MAX.cast_unsigned() {
            return Err(ReadError::Changed);
        }
        let state = word_in(head, TEXT_STATE_OFFSET);
        let (character_bytes, is_compact, is_ascii) =
            ((state >> 2) & 7, state >> 5 & 1 == 1, state >> 6 & 1 == 1);
        let (data_address, offset) = match (is_compact, is_ascii) {
            (true, true) => (object, self.layout.ascii_text),
            (true, false) => (object, self.layout.text),
            (false, _) => (self.word(object, self.layout.text)?, 0),
        };
        let block =
            self.block(data_address, offset, length.min(max).saturating_mul(character_bytes))?;
        let character = |code| char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        let content = match character_bytes {
            1 => block.iter().map(|byte| char::from(*byte)).collect(),
            2 => {
                let units = block.as_chunks().0.iter();
                units.map(|bytes| character(u16::from_ne_bytes(*bytes).into())).collect()
            }
            4 => {
                let units = block.as_chunks().0.iter();
                units.map(|bytes| character(u32::from_ne_bytes(*bytes))).collect()
            }
            _ => return Err(ReadError::Changed),
        };
        Ok(Excerpt { content, length })
    }
}
