//! Scales decimal numbers exactly to integers. Readers need it because a double has too few digits
//! for nanoseconds since 1970.

/// Returns a JSON number times 10 to a power, rounded to the nearest integer. `None` if it exceeds
/// 64 bits or the text is not a number.
pub(crate) fn parse_scaled(number: &str, power: i32) -> Option<i64> {
    let (sign, number) = number.strip_prefix('-').map_or((1, number), |rest| (-1, rest));
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if integer.is_empty() || !is_number(integer) || !is_number(fraction) {
        return None;
    }
    let exponent: i64 = exponent.parse().ok()?;
    let digits = || integer.bytes().chain(fraction.bytes());
    let zero_count = digits().take_while(|&digit| digit == b'0').count();
    if zero_count == integer.len() + fraction.len() {
        return Some(0);
    }
    // The position of the decimal point among the digits after the leading zeros.
    let point_position = exponent
        .checked_add(power.into())?
        .checked_add_unsigned(integer.len() as u64)?
        .checked_sub_unsigned(zero_count as u64)?;
    if point_position > 19 {
        return None;
    }
    if point_position < 0 {
        return Some(0);
    }
    let mut significant = digits().skip(zero_count).chain(std::iter::repeat(b'0'));
    let mut value = 0_i128;
    for digit in significant.by_ref().take(point_position as usize) {
        value = value * 10 + i128::from(digit - b'0');
    }
    if significant.next().is_some_and(|digit| digit >= b'5') {
        value += 1;
    }
    i64::try_from(sign * value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn scaling_is_exact_to_the_last_digit() {
        let cases = [
            ("0", 9, Some(0)),
            ("-0.0e5", 9, Some(0)),
            ("1700000000.123456789", 9, Some(1_700_000_000_123_456_789)),
            ("1700000000123456.789", 3, Some(1_700_000_000_123_456_789)),
            ("-1.5e-9", 9, Some(-2)),
            ("0.4999", 0, Some(0)),
            ("0.5", 0, Some(1)),
            ("0.05", 0, Some(0)),
            ("9223372036854775807", 0, Some(i64::MAX)),
            ("-9223372036854775808", 0, Some(i64::MIN)),
            ("9223372036854775808", 0, None),
            ("1e10", 9, None),
            ("1E+2", 3, Some(100_000)),
            ("1e-400", 9, Some(0)),
            ("1e400", 0, None),
            ("1e99999999999999999999", 0, None),
            ("\"1\"", 0, None),
            ("null", 0, None),
            ("", 0, None),
            (".5", 0, None),
        ];
        for (number, power, expected) in cases {
            assert_eq!(parse_scaled(number, power), expected, "{number}");
        }
    }

    proptest! {
        #[test]
        fn every_integer_survives_a_round_trip(value: i64, shift in 0_i32..10) {
            prop_assert_eq!(parse_scaled(&value.to_string(), 0), Some(value));
            prop_assert_eq!(parse_scaled(&format!("{value}e-{shift}"), shift), Some(value));
        }
    }
}
