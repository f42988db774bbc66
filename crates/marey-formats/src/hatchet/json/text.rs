//! Escapes in JSON strings.

use super::super::error::Cause;

/// Writes the unescaped text, or returns the byte index of an error and its cause.
pub(super) fn unescape(escaped: &str, unescaped: &mut String) -> Result<(), (usize, Cause)> {
    unescaped.clear();
    let mut rest = escaped;
    while let Some((plain, tail)) = rest.split_once('\\') {
        unescaped.push_str(plain);
        let at = escaped.len() - tail.len() - 1;
        let (character, length) = escape(tail.as_bytes()).map_err(|cause| (at, cause))?;
        unescaped.push(character);
        rest = &tail[length..];
    }
    unescaped.push_str(rest);
    Ok(())
}

/// Returns the character of an escape, and the escape's length without the backslash.
fn escape(tail: &[u8]) -> Result<(char, usize), Cause> {
    let character = match tail.first() {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode(&tail[1..]),
        _ => return Err(Cause::BadEscape),
    };
    Ok((character, 1))
}

fn unicode(tail: &[u8]) -> Result<(char, usize), Cause> {
    let first = hex(tail)?;
    if let Some(character) = char::from_u32(first) {
        return Ok((character, 5));
    }
    let second = match tail.get(4..) {
        Some([b'\\', b'u', digits @ ..]) => hex(digits)?,
        _ => return Err(Cause::LoneSurrogate),
    };
    if !matches!((first, second), (0xd800..=0xdbff, 0xdc00..=0xdfff)) {
        return Err(Cause::LoneSurrogate);
    }
    let number = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    char::from_u32(number).map(|character| (character, 11)).ok_or(Cause::LoneSurrogate)
}

fn hex(tail: &[u8]) -> Result<u32, Cause> {
    let digits = tail.first_chunk::<4>().ok_or(Cause::BadEscape)?;
    digits.iter().try_fold(0, |number, &digit| {
        let digit = char::from(digit).to_digit(16).ok_or(Cause::BadEscape)?;
        Ok(number << 4 | digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_characters_or_errors_with_positions() {
        let result = |text: &str| {
            let mut unescaped = String::from("old");
            unescape(text, &mut unescaped).map(|()| unescaped)
        };
        assert_eq!(result(r#"\"\\\/\b\f\n\r\tx"#).unwrap(), "\"\\/\u{8}\u{c}\n\r\tx");
        assert_eq!(result(r"é\u00e9\u0000\uD83D\uDE00!").unwrap(), "éé\0😀!");
        for (text, at, cause) in [
            (r"ab\q", 2, Cause::BadEscape),
            (r"\u12", 0, Cause::BadEscape),
            (r"\u+123", 0, Cause::BadEscape),
            (r"x\ud800", 1, Cause::LoneSurrogate),
            (r"\ud800\n", 0, Cause::LoneSurrogate),
            (r"\ud800\u0041", 0, Cause::LoneSurrogate),
            (r"\udc00\ud800", 0, Cause::LoneSurrogate),
            (r"\ud800\uzzzz", 0, Cause::BadEscape),
        ] {
            assert_eq!(result(text), Err((at, cause)), "{text}");
        }
    }
}
