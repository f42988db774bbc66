//! Parses the numbers of JSON.

use super::super::error::SyntaxCause;
use super::super::token::Token;

/// Parses a number. Integers are exact, and other numbers become the nearest float.
pub(super) fn parse(text: &[u8]) -> Result<Token<'static>, SyntaxCause> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if matches!(digits, [] | [b'0', b'0'..=b'9', ..]) {
        return Err(SyntaxCause::BadNumber);
    }
    if !digits.iter().all(u8::is_ascii_digit) {
        return parse_real(text, digits);
    }
    let magnitude = digits
        .iter()
        .try_fold(0_u64, |sum, digit| sum.checked_mul(10)?.checked_add((digit - b'0').into()))
        .ok_or(SyntaxCause::NumberOutOfRange)?;
    if !is_negative {
        return Ok(Token::int(magnitude));
    }
    0_i64.checked_sub_unsigned(magnitude).map(Token::Int).ok_or(SyntaxCause::NumberOutOfRange)
}

fn parse_real(text: &[u8], digits_and_rest: &[u8]) -> Result<Token<'static>, SyntaxCause> {
    if !is_real(digits_and_rest) {
        return Err(SyntaxCause::BadNumber);
    }
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    match number {
        Some(value) if f64::is_finite(value) => Ok(Token::Float(value)),
        Some(_) => Err(SyntaxCause::NumberOutOfRange),
        None => Err(SyntaxCause::BadNumber),
    }
}

/// Whether the text is a JSON number. The parser of the standard library accepts more.
fn is_real(digits_and_rest: &[u8]) -> bool {
    let skip_fraction = |rest: &mut &[u8]| match *rest {
        [b'.', digits @ ..] => {
            *rest = digits;
            skip_digits(rest)
        }
        _ => true,
    };
    let skip_exponent = |rest: &mut &[u8]| match *rest {
        [b'e' | b'E', b'+' | b'-', digits @ ..] | [b'e' | b'E', digits @ ..] => {
            *rest = digits;
            skip_digits(rest)
        }
        _ => true,
    };
    let mut rest = digits_and_rest;
    skip_digits(&mut rest)
        && skip_fraction(&mut rest)
        && skip_exponent(&mut rest)
        && rest.is_empty()
}

/// Skips digits. Returns `false` if there are none.
fn skip_digits(rest: &mut &[u8]) -> bool {
    let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    *rest = &rest[count..];
    count > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_or_refused() {
        let parsed = |text: &str| match parse(text.as_bytes()) {
            Ok(token) => format!("{token:?}"),
            Err(cause) => format!("{cause:?}"),
        };
        for (text, expected) in [
            ("0", "Int(0)"),
            ("-0", "Int(0)"),
            ("-0.0", "Float(-0.0)"),
            ("9223372036854775807", "Int(9223372036854775807)"),
            ("-9223372036854775808", "Int(-9223372036854775808)"),
            ("9223372036854775808", "BigInt(9223372036854775808)"),
            ("18446744073709551615", "BigInt(18446744073709551615)"),
            ("18446744073709551616", "NumberOutOfRange"),
            ("-9223372036854775809", "NumberOutOfRange"),
            ("9007199254740993.0", "Float(9007199254740992.0)"),
            ("2.2250738585072011e-308", "Float(2.225073858507201e-308)"),
            ("123456789012345678901234567890e0", "Float(1.2345678901234568e29)"),
            ("1e-999", "Float(0.0)"),
            ("1E+3", "Float(1000.0)"),
            ("1e999", "NumberOutOfRange"),
            ("-1e999", "NumberOutOfRange"),
            ("1.", "BadNumber"),
            ("-", "BadNumber"),
            ("01", "BadNumber"),
            ("-.5", "BadNumber"),
            ("1e", "BadNumber"),
            ("1e+", "BadNumber"),
            ("1-2", "BadNumber"),
            ("1.5.5", "BadNumber"),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
    }
}
