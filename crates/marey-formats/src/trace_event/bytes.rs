//! Finds the ends of numbers, white space and texts in JSON, sixteen bytes at a time.

use wide::u8x16;

/// The number of bytes that are compared at once.
const BLOCK_BYTES: usize = 16;

/// Returns the position of the first quote, backslash or control character, or the end.
#[inline]
pub(super) fn end_of_plain_text(bytes: &[u8], position: usize) -> usize {
    let is_special = |block: u8x16| {
        let is_control = block.min(u8x16::splat(0x1f)).simd_eq(block);
        block.simd_eq(u8x16::splat(b'"')) | block.simd_eq(u8x16::splat(b'\\')) | is_control
    };
    find_byte(bytes, position, is_special, |byte| matches!(byte, b'"' | b'\\' | 0..0x20))
}

/// Returns the position of the first byte that is not JSON white space, or the end.
pub(super) fn end_of_space(bytes: &[u8], position: usize) -> usize {
    let is_no_space = |block: u8x16| {
        let equals = |byte| block.simd_eq(u8x16::splat(byte));
        !(equals(b' ') | equals(b'\n') | equals(b'\r') | equals(b'\t'))
    };
    find_byte(bytes, position, is_no_space, |byte| !matches!(byte, b' ' | b'\n' | b'\r' | b'\t'))
}

/// Returns the length of the number at the start, if it is an unsigned integer or decimal fraction.
#[inline]
pub(super) fn plain_number_len(bytes: &[u8]) -> Option<usize> {
    let integer_len = count_digits(bytes);
    match bytes.first() {
        Some(b'1'..=b'9') => {}
        Some(b'0') if integer_len == 1 => {}
        _ => return None,
    }
    if bytes.get(integer_len) != Some(&b'.') {
        return Some(integer_len);
    }
    let fraction = count_digits(&bytes[integer_len + 1..]);
    Some(if fraction > 0 { integer_len + 1 + fraction } else { integer_len })
}

/// Whether a word is a JSON value.
pub(super) fn is_json_word(word: &[u8]) -> bool {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    match digits.first() {
        Some(b'0'..=b'9') => {}
        _ => return matches!(word, b"true" | b"false" | b"null"),
    }
    let integer_len = count_digits(digits);
    let mut rest = &digits[integer_len..];
    if integer_len > 1 && digits[0] == b'0' {
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
    let is_no_digit = |block: u8x16| {
        let clamped = block.max(u8x16::splat(b'0')).min(u8x16::splat(b'9'));
        !clamped.simd_eq(block)
    };
    find_byte(bytes, 0, is_no_digit, |byte| !byte.is_ascii_digit())
}

/// Returns the position of the first byte from `position` on that matches, or the end. The two
/// conditions are the same: one tests all bytes of a block at once, the other one byte of the rest.
#[inline(always)]
fn find_byte(
    bytes: &[u8],
    mut position: usize,
    matches_block: impl Fn(u8x16) -> u8x16,
    matches_byte: impl Fn(u8) -> bool,
) -> usize {
    while let Some(block) = bytes.get(position..).and_then(|rest| rest.first_chunk()) {
        let matches = matches_block(u8x16::new(*block)).to_bitmask();
        if matches != 0 {
            return position + matches.trailing_zeros() as usize;
        }
        position += BLOCK_BYTES;
    }
    let rest = bytes.get(position..).unwrap_or_default();
    position + rest.iter().take_while(|byte| !matches_byte(**byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_of_sixteen_bytes_give_the_same_result(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let is_end = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
            let expected = bytes.iter().position(is_end).unwrap_or(bytes.len());
            prop_assert_eq!(end_of_plain_text(&bytes, 0), expected);
            let digits: Vec<u8> = bytes.iter().map(|byte| b'0' + byte % 11).collect();
            let expected = digits.iter().position(|byte| *byte > b'9').unwrap_or(bytes.len());
            prop_assert_eq!(count_digits(&digits), expected);
            let spaces: Vec<u8> = bytes.iter().map(|byte| if *byte < 0xf0 { b" \t\r\n"[usize::from(byte % 4)] } else { *byte }).collect();
            let expected = spaces.iter().position(|byte| *byte >= 0xf0).unwrap_or(bytes.len());
            prop_assert_eq!(end_of_space(&spaces, 0), expected);
        }
    }
}
