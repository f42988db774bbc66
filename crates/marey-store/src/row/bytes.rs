//! The byte encoding of rows that are being sorted. It is private to a process, which reads its own
//! temporary files.
//!
//! A number below [`MIN_MULTIBYTE`] is one byte. A larger one is a byte with the count of the bytes
//! that follow, lowest first. Most numbers are small, and neither form needs a loop.

use std::io;

use marey_model::spool::{unzigzag, zigzag};

/// A cursor over encoded rows.
#[derive(Debug)]
pub struct RowBytes<'a>(pub &'a [u8]);

/// The error that bytes are not a row that this process encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedRow;

impl From<DamagedRow> for io::Error {
    fn from(_: DamagedRow) -> Self {
        Self::new(io::ErrorKind::InvalidData, "the temporary file of sorted rows is damaged")
    }
}

/// The smallest number that takes more than one byte.
const MIN_MULTIBYTE: u64 = 0xff - MAX_TAIL_BYTES + 1;

/// Maximum number of bytes after the first.
const MAX_TAIL_BYTES: u64 = size_of::<u64>() as u64;

/// Appends a number.
#[inline]
pub(super) fn encode_number(out: &mut Vec<u8>, number: u64) {
    if number < MIN_MULTIBYTE {
        out.push(number as u8);
        return;
    }
    let len = MAX_TAIL_BYTES - u64::from(number.leading_zeros() / u8::BITS);
    out.push((MIN_MULTIBYTE + len - 1) as u8);
    // All eight bytes are appended, because a copy of constant length compiles to one store.
    let end = out.len() + len as usize;
    out.extend_from_slice(&number.to_le_bytes());
    out.truncate(end);
}

/// Appends a number that may be negative.
#[inline]
pub(super) fn encode_signed(out: &mut Vec<u8>, number: i64) {
    encode_number(out, zigzag(number));
}

impl<'a> RowBytes<'a> {
    /// Reads a byte.
    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, DamagedRow> {
        let (&byte, unread) = self.0.split_first().ok_or(DamagedRow)?;
        self.0 = unread;
        Ok(byte)
    }

    /// Reads `len` bytes.
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], DamagedRow> {
        let (bytes, unread) = self.0.split_at_checked(len).ok_or(DamagedRow)?;
        self.0 = unread;
        Ok(bytes)
    }

    /// Reads a number that [`encode_number`] appended.
    #[inline]
    pub(super) fn number(&mut self) -> Result<u64, DamagedRow> {
        let first_byte = u64::from(self.byte()?);
        if first_byte < MIN_MULTIBYTE {
            return Ok(first_byte);
        }
        let len = (first_byte - MIN_MULTIBYTE + 1) as usize;
        if let Some(word) = self.0.first_chunk() {
            self.0 = &self.0[len..];
            return Ok(u64::from_le_bytes(*word) & (u64::MAX >> (u64::BITS - 8 * len as u32)));
        }
        let mut word = [0; MAX_TAIL_BYTES as usize];
        word[..len].copy_from_slice(self.bytes(len)?);
        Ok(u64::from_le_bytes(word))
    }

    /// Reads a number that [`encode_signed`] appended.
    #[inline]
    pub(super) fn signed(&mut self) -> Result<i64, DamagedRow> {
        self.number().map(unzigzag)
    }

    /// Reads a count of items, each of which takes at least a byte. Fails if fewer bytes are left.
    pub(super) fn count(&mut self) -> Result<usize, DamagedRow> {
        let count = usize::try_from(self.number()?).or(Err(DamagedRow))?;
        if count > self.0.len() { Err(DamagedRow) } else { Ok(count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_survive_encoding() {
        for bits in 0..64 {
            for number in [1 << bits, (1 << bits) - 1, u64::MAX >> bits] {
                for trailing_bytes in [0, 9] {
                    let mut out = Vec::new();
                    encode_number(&mut out, number);
                    encode_signed(&mut out, number.cast_signed());
                    let len = out.len();
                    out.resize(len + trailing_bytes, 0xff);
                    let mut bytes = RowBytes(&out);
                    assert_eq!(bytes.number(), Ok(number));
                    assert_eq!(bytes.signed(), Ok(number.cast_signed()));
                    assert_eq!(bytes.0.len(), trailing_bytes);
                    assert_eq!(
                        RowBytes(&out[..len - 1]).number().and(RowBytes(&[]).number()),
                        Err(DamagedRow)
                    );
                }
            }
        }
        for (number, len) in
            [(0, 1), (MIN_MULTIBYTE - 1, 1), (MIN_MULTIBYTE, 2), (255, 2), (256, 3), (u64::MAX, 9)]
        {
            let mut out = Vec::new();
            encode_number(&mut out, number);
            assert_eq!(out.len(), len, "{number}");
        }
    }

    #[test]
    fn a_count_beyond_the_input_is_rejected() {
        assert_eq!(RowBytes(&[2, 0, 0]).count(), Ok(2));
        assert_eq!(RowBytes(&[3, 0, 0]).count(), Err(DamagedRow));
    }
}
