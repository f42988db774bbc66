//! Parses the numbers in events exactly, because doubles would lose nanoseconds.

use crate::shared::decimal::parse_scaled;

/// Converts microseconds, integer or fractional, to nanoseconds. Also accepts a string with a
/// number.
pub(super) fn micros_to_nanos(json: &str) -> Option<i64> {
    plain_micros_to_nanos(json).or_else(|| parse_scaled(trim_quotes(json), 3))
}

/// The fast path for microseconds as profilers write them: digits, with up to three after the
/// point.
fn plain_micros_to_nanos(json: &str) -> Option<i64> {
    /// The maximum number of digits before the point, so that the result fits into 64 bits.
    const MAX_DIGITS: usize = 16;
    let bytes = json.as_bytes();
    // The point, if there is one, is among the last four bytes.
    let last_bytes = &bytes[bytes.len().saturating_sub(4)..];
    let fraction_len = last_bytes.iter().rev().position(|byte| *byte == b'.');
    let (integer, fraction) = match fraction_len {
        Some(len) => (&bytes[..bytes.len() - len - 1], &bytes[bytes.len() - len..]),
        None => (bytes, &[][..]),
    };
    if integer.is_empty() || integer.len() > MAX_DIGITS {
        return None;
    }
    let mut nanos = parse_digits(integer)?;
    for index in 0..3 {
        let digit = fraction.get(index).map_or(Some(0), |byte| parse_digit(*byte))?;
        nanos = nanos.checked_mul(10)?.checked_add(digit)?;
    }
    nanos.try_into().ok()
}

fn parse_digit(byte: u8) -> Option<u64> {
    byte.is_ascii_digit().then(|| (byte - b'0').into())
}

/// Parses at most 16 digits, eight at a time.
fn parse_digits(mut bytes: &[u8]) -> Option<u64> {
    let mut value = 0;
    while let Some((eight, rest)) = bytes.split_first_chunk() {
        value = value * 100_000_000 + parse_eight_digits(u64::from_le_bytes(*eight))?;
        bytes = rest;
    }
    for byte in bytes {
        value = value * 10 + parse_digit(*byte)?;
    }
    Some(value)
}

/// Parses eight digits, of which the first is in the lowest byte. Combines neighbours, then pairs,
/// then groups of four.
fn parse_eight_digits(digits: u64) -> Option<u64> {
    let is_digits = digits & 0xf0f0_f0f0_f0f0_f0f0 == 0x3030_3030_3030_3030
        && digits.wrapping_add(0x0606_0606_0606_0606) & 0xf0f0_f0f0_f0f0_f0f0
            == 0x3030_3030_3030_3030;
    let ones = digits & 0x0f0f_0f0f_0f0f_0f0f;
    let twos = (ones.wrapping_mul(10).wrapping_add(ones >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (twos.wrapping_mul(100).wrapping_add(twos >> 16)) & 0x0000_ffff_0000_ffff;
    let all = (fours.wrapping_mul(10_000).wrapping_add(fours >> 32)) & 0xffff_ffff;
    is_digits.then_some(all)
}

/// Parses an integer, which may have a zero fraction or be a string.
pub(super) fn parse_integer(json: &str) -> Option<i64> {
    json.parse().ok().or_else(|| {
        let number = trim_quotes(json);
        let real: f64 = number.parse().ok()?;
        if real.fract() == 0.0 { parse_scaled(number, 0) } else { None }
    })
}

/// Returns the content of a JSON string, `None` for other values.
pub(super) fn string_content(json: &str) -> Option<&str> {
    match json.as_bytes() {
        [b'"', .., b'"'] => Some(&json[1..json.len() - 1]),
        _ => None,
    }
}

/// Returns a value without quotes.
pub(super) fn trim_quotes(json: &str) -> &str {
    string_content(json).unwrap_or(json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn microseconds_are_exact_to_the_nanosecond() {
        let cases = [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("1669783687464181", Some(1_669_783_687_464_181_000)),
            ("1712195495876224.8", Some(1_712_195_495_876_224_800)),
            ("4458676522690.655", Some(4_458_676_522_690_655)),
            ("1.25", Some(1250)),
            ("-0.001", Some(-1)),
            ("0.0005", Some(1)),
            ("0.00049", Some(0)),
            ("1e3", Some(1_000_000)),
            ("1.669783687464181e15", Some(1_669_783_687_464_181_000)),
            ("25e-4", Some(3)),
            ("1e-400", Some(0)),
            ("0e400", Some(0)),
            ("\"12.5\"", Some(12_500)),
            ("9223372036854775.807", Some(i64::MAX)),
            ("9223372036854775.808", None),
            ("1e400", None),
            ("9999999999999999999999999999999999999999999", None),
            ("0.99999999999999999999999999999999999999999999", Some(1000)),
            ("\"NaN\"", None),
            ("null", None),
            ("", None),
            (".", None),
            ("5.", Some(5000)),
            ("99999999999999999999", None),
            ("1e", None),
            ("1.2.3", None),
        ];
        for (json, expected) in cases {
            assert_eq!(micros_to_nanos(json), expected, "{json}");
        }
    }

    #[test]
    fn integers_may_be_fractions_or_strings() {
        let cases = [
            ("7", Some(7)),
            ("-7.0", Some(-7)),
            ("\"25738\"", Some(25738)),
            ("7.5", None),
            ("\"stream 7\"", None),
            ("\"\"", None),
            ("9223372036854775807", Some(i64::MAX)),
            ("1e300", None),
        ];
        for (json, expected) in cases {
            assert_eq!(parse_integer(json), expected, "{json}");
        }
    }

    proptest! {
        #[test]
        fn every_nanosecond_survives_a_round_trip(expected in any::<i64>()) {
            let sign = if expected < 0 { "-" } else { "" };
            let size = expected.unsigned_abs();
            let micros = format!("{sign}{}.{:03}", size / 1000, size % 1000);
            // The smallest number has no positive counterpart.
            prop_assert_eq!(micros_to_nanos(&micros), Some(expected));
        }
    }
}
