//! Rows as bytes, in this program's own form, while they wait to be sorted.
//!
//! A number below [`SMALL`] is a byte; a larger one is a byte that says how many follow, and these,
//! the lowest first. Most numbers of a row are small, and none takes a loop.

use std::io;

use marey_model::spool::{unzigzag, zigzag};

/// Bytes of rows that are not read yet.
#[derive(Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

/// Bytes are no row: what wrote them was not this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl From<Damaged> for io::Error {
    fn from(_: Damaged) -> Self {
        Self::new(io::ErrorKind::InvalidData, "rows that were put aside came back damaged")
    }
}

/// The least number that takes more than a byte.
const SMALL: u64 = 0xff - MAX_BYTES + 1;

/// Bytes of the largest numbers.
const MAX_BYTES: u64 = size_of::<u64>() as u64;

/// Appends a number.
#[inline]
pub(super) fn put(out: &mut Vec<u8>, number: u64) {
    if number < SMALL {
        out.push(number as u8);
        return;
    }
    let len = MAX_BYTES - u64::from(number.leading_zeros() / u8::BITS);
    out.push((SMALL + len - 1) as u8);
    // All of them, since a copy of a known length takes no call.
    let end = out.len() + len as usize;
    out.extend_from_slice(&number.to_le_bytes());
    out.truncate(end);
}

/// Appends a number that may be negative.
#[inline]
pub(super) fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, zigzag(number));
}

impl<'a> Bytes<'a> {
    /// The next byte.
    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, Damaged> {
        let (&first, rest) = self.0.split_first().ok_or(Damaged)?;
        self.0 = rest;
        Ok(first)
    }

    /// So many bytes.
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Damaged> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Damaged)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// What [`put`] was given.
    #[inline]
    pub(super) fn number(&mut self) -> Result<u64, Damaged> {
        let first = u64::from(self.byte()?);
        if first < SMALL {
            return Ok(first);
        }
        let len = (first - SMALL + 1) as usize;
        if let Some(eight) = self.0.first_chunk() {
            self.0 = &self.0[len..];
            return Ok(u64::from_le_bytes(*eight) & (u64::MAX >> (u64::BITS - 8 * len as u32)));
        }
        let mut eight = [0; MAX_BYTES as usize];
        eight[..len].copy_from_slice(self.bytes(len)?);
        Ok(u64::from_le_bytes(eight))
    }

    /// What [`put_signed`] was given.
    #[inline]
    pub(super) fn signed(&mut self) -> Result<i64, Damaged> {
        self.number().map(unzigzag)
    }

    /// How many items follow, of a byte each at least: never more than there can be.
    pub(super) fn count(&mut self) -> Result<usize, Damaged> {
        let count = usize::try_from(self.number()?).or(Err(Damaged))?;
        if count > self.0.len() { Err(Damaged) } else { Ok(count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_come_back() {
        for bits in 0..64 {
            for number in [1 << bits, (1 << bits) - 1, u64::MAX >> bits] {
                for behind in [0, 9] {
                    let mut out = Vec::new();
                    put(&mut out, number);
                    put_signed(&mut out, number.cast_signed());
                    let len = out.len();
                    out.resize(len + behind, 0xff);
                    let mut bytes = Bytes(&out);
                    assert_eq!(bytes.number(), Ok(number));
                    assert_eq!(bytes.signed(), Ok(number.cast_signed()));
                    assert_eq!(bytes.0.len(), behind);
                    assert_eq!(
                        Bytes(&out[..len - 1]).number().and(Bytes(&[]).number()),
                        Err(Damaged)
                    );
                }
            }
        }
        for (number, len) in [(0, 1), (SMALL - 1, 1), (SMALL, 2), (255, 2), (256, 3), (u64::MAX, 9)]
        {
            let mut out = Vec::new();
            put(&mut out, number);
            assert_eq!(out.len(), len, "{number}");
        }
    }

    #[test]
    fn more_items_than_bytes_are_refused() {
        assert_eq!(Bytes(&[2, 0, 0]).count(), Ok(2));
        assert_eq!(Bytes(&[3, 0, 0]).count(), Err(Damaged));
    }
}
