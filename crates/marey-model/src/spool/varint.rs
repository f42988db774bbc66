//! Encodes the fields of payloads: LEB128 varints, and strings and floats built on them.

use super::error::Malformed;

/// Maximum size of a varint.
const MAX_VARINT_BYTES: usize = 10;

/// Appends a varint.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, number: u64) {
    if number < 0x80 {
        out.push(number as u8);
        return;
    }
    put_long_varint(out, number);
}

/// Appends a varint of two bytes or more.
fn put_long_varint(out: &mut Vec<u8>, mut number: u64) {
    const CONTINUATION_BITS: u64 = 0x8080_8080_8080_8080;
    let len = (number.ilog2() / 7 + 1) as usize;
    if len <= size_of::<u64>() {
        // Write all bytes at once. Groups of seven bits are spread over the bytes, and all bytes
        // but the last one get the continuation bit.
        let word = spread(number) | CONTINUATION_BITS >> (64 - 8 * (len - 1));
        let end = out.len() + len;
        out.extend_from_slice(&word.to_le_bytes());
        out.truncate(end);
        return;
    }
    for _ in 1..len {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Spreads the low 56 bits of a number over eight bytes, seven bits each.
#[inline(always)]
const fn spread(number: u64) -> u64 {
    let halves = number & 0x0fff_ffff | (number & 0x00ff_ffff_f000_0000) << 4;
    let quarters = halves & 0x0000_3fff_0000_3fff | (halves & 0x0fff_c000_0fff_c000) << 2;
    quarters & 0x007f_007f_007f_007f | (quarters & 0x3f80_3f80_3f80_3f80) << 1
}

/// Appends a signed number as a zigzag-encoded varint.
#[inline]
pub(crate) fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_varint(out, zigzag(number));
}

/// Appends a byte that says whether there is a number, and the number.
pub(super) fn put_optional(out: &mut Vec<u8>, number: Option<u64>) {
    out.push(u8::from(number.is_some()));
    if let Some(number) = number {
        put_varint(out, number);
    }
}

/// Appends a string with its length.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Appends the number of records, then the records. Each follows the difference between its time
/// and the previous record's.
pub(super) fn put_by_time<T>(
    out: &mut Vec<u8>,
    records: &[T],
    time_nanos: impl Fn(&T) -> i64,
    put: impl Fn(&mut Vec<u8>, &T),
) {
    put_varint(out, records.len() as u64);
    let mut previous_nanos = 0_i64;
    for record in records {
        put_signed(out, time_nanos(record).wrapping_sub(previous_nanos));
        put(out, record);
        previous_nanos = time_nanos(record);
    }
}

/// Reads records that [`put_by_time`] wrote, each of at least `min_bytes`. `read` gets the time of
/// its record.
pub(super) fn read_by_time<T>(
    fields: &mut Fields<'_>,
    min_bytes: usize,
    read: impl Fn(&mut Fields<'_>, i64) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let count = fields.read_count(min_bytes)?;
    let mut time_nanos = 0_i64;
    let next = |_| {
        time_nanos = time_nanos.wrapping_add(fields.read_signed()?);
        read(fields, time_nanos)
    };
    (0..count).map(next).collect()
}

/// Maps small signed numbers to small unsigned ones.
#[inline]
pub const fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

/// Returns the number that [`zigzag`] encoded.
#[inline]
pub const fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// The unread fields of a payload.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn read_byte(&mut self) -> Result<u8, Malformed> {
        let (&byte, unread) = self.0.split_first().ok_or(Malformed::UnexpectedEnd)?;
        self.0 = unread;
        Ok(byte)
    }

    pub(crate) fn read_bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, unread) = self.0.split_at_checked(len).ok_or(Malformed::UnexpectedEnd)?;
        self.0 = unread;
        Ok(bytes)
    }

    #[inline]
    pub(crate) fn read_varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for (index, &byte) in self.0.iter().take(MAX_VARINT_BYTES).enumerate() {
            if index == MAX_VARINT_BYTES - 1 && byte > 1 {
                return Err(Malformed::TooLarge);
            }
            number |= u64::from(byte & 0x7F) << (7 * index);
            if byte < 0x80 {
                self.0 = &self.0[index + 1..];
                return Ok(number);
            }
        }
        Err(Malformed::UnexpectedEnd)
    }

    #[inline]
    pub(crate) fn read_signed(&mut self) -> Result<i64, Malformed> {
        self.read_varint().map(unzigzag)
    }

    pub(super) fn read_flag(&mut self) -> Result<bool, Malformed> {
        self.read_variant(&[false, true], "flag")
    }

    pub(super) fn read_optional(&mut self) -> Result<Option<u64>, Malformed> {
        if self.read_flag()? { self.read_varint().map(Some) } else { Ok(None) }
    }

    /// Reads a byte, and returns the variant with this number.
    pub(super) fn read_variant<T: Copy>(
        &mut self,
        all: &[T],
        field: &'static str,
    ) -> Result<T, Malformed> {
        variant_with_number(all, field, self.read_byte()?)
    }

    pub(crate) fn read_u32(&mut self) -> Result<u32, Malformed> {
        to_u32(self.read_varint()?)
    }

    /// Reads the number of items that follow, and rejects it if the payload is too short for items
    /// of `min_item_bytes` each, before the caller allocates memory for them.
    pub(crate) fn read_count(&mut self, min_item_bytes: usize) -> Result<usize, Malformed> {
        let count = self.read_varint()?;
        let max_count = self.0.len() / min_item_bytes;
        if count > max_count as u64 {
            return Err(Malformed::UnexpectedEnd);
        }
        Ok(count as usize)
    }

    pub(crate) fn read_text(&mut self) -> Result<&'a str, Malformed> {
        let len = self.read_count(1)?;
        str::from_utf8(self.read_bytes(len)?).or(Err(Malformed::NotUtf8))
    }

    pub(crate) fn read_float(&mut self) -> Result<f64, Malformed> {
        let bytes = self.0.first_chunk().ok_or(Malformed::UnexpectedEnd)?;
        self.0 = &self.0[bytes.len()..];
        Ok(f64::from_bits(u64::from_le_bytes(*bytes)))
    }
}

/// Returns the id at this difference from a previous one.
#[inline]
pub(super) fn add_delta(previous_id: u32, step: i64) -> Result<u32, Malformed> {
    let id = i64::from(previous_id).checked_add(step).ok_or(Malformed::TooLarge)?;
    u32::try_from(id).or(Err(Malformed::TooLarge))
}

/// Returns the variant at this position of the list of all.
pub(super) fn variant_with_number<T: Copy>(
    all: &[T],
    field: &'static str,
    number: u8,
) -> Result<T, Malformed> {
    let variant = all.get(usize::from(number)).copied();
    variant.ok_or(Malformed::InvalidValue { field, number: number.into() })
}

/// Converts a number to 32 bits.
pub(crate) fn to_u32(number: u64) -> Result<u32, Malformed> {
    u32::try_from(number).or(Err(Malformed::TooLarge))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_survive_a_round_trip() {
        for bits in 0..64 {
            for number in [1 << bits, (1 << bits) - 1, u64::MAX >> bits] {
                let mut out = Vec::new();
                put_varint(&mut out, number);
                assert_eq!(out.len(), (64 - number.leading_zeros()).max(1).div_ceil(7) as usize);
                let mut fields = Fields(&out);
                assert_eq!(fields.read_varint(), Ok(number));
                assert!(fields.0.is_empty());
                let signed = number.cast_signed();
                assert_eq!(unzigzag(zigzag(signed)), signed);
            }
        }
    }

    #[test]
    fn small_numbers_of_either_sign_take_one_byte() {
        for (number, zigzagged) in [(0, 0), (-1, 1), (1, 2), (-64, 127), (i64::MIN, u64::MAX)] {
            assert_eq!(zigzag(number), zigzagged);
        }
    }

    #[test]
    fn a_varint_beyond_64_bits_is_rejected() {
        let number = |bytes: &[u8]| Fields(bytes).read_varint();
        assert_eq!(number(&[0x80; 9]), Err(Malformed::UnexpectedEnd));
        assert_eq!(number(&[]), Err(Malformed::UnexpectedEnd));
        assert_eq!(number(&[0xFF; 10]), Err(Malformed::TooLarge));
        assert_eq!(
            number(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2]),
            Err(Malformed::TooLarge)
        );
    }

    #[test]
    fn a_count_of_more_items_than_fit_is_rejected() {
        assert_eq!(Fields(&[2, 0, 0, 0, 0]).read_count(2), Ok(2));
        assert_eq!(Fields(&[2, 0, 0, 0]).read_count(2), Err(Malformed::UnexpectedEnd));
    }
}
