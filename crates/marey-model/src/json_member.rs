//! Finds the value of a key in the text of a JSON object, without building a tree or reading the
//! rest of the text.

use std::borrow::Cow;

/// Returns the value of a key of an object: a string without its quotes, anything else as its JSON.
/// `None` if the key is missing, if its value is null, or if the text up to there is not an object.
pub fn member_value<'j>(object: &'j str, key: &str) -> Option<Cow<'j, str>> {
    let mut members = strip_token('{', object)?;
    loop {
        let (quoted_key, unread) = split_value(members)?;
        let (value, unread) = split_value(strip_token(':', unread)?)?;
        if unquote(quoted_key)? == key {
            return (value != "null").then(|| unquote(value).unwrap_or(value.into()));
        }
        members = strip_token(',', unread)?;
    }
}

/// Returns the text after `token`, if `token` comes next.
fn strip_token(token: char, json: &str) -> Option<&str> {
    json.trim_ascii_start().strip_prefix(token)
}

/// Returns the next value and the text after it. Brackets are counted, but not matched by kind.
fn split_value(json: &str) -> Option<(&str, &str)> {
    let json = json.trim_ascii_start();
    let (mut depth, mut is_in_string, mut is_escaped) = (0_usize, false, false);
    for (index, byte) in json.bytes().enumerate() {
        let ends_value = match byte {
            _ if is_escaped => {
                is_escaped = false;
                continue;
            }
            b'\\' if is_in_string => {
                is_escaped = true;
                continue;
            }
            b'"' => {
                is_in_string = !is_in_string;
                !is_in_string
            }
            _ if is_in_string => continue,
            b'{' | b'[' => {
                depth += 1;
                false
            }
            b',' | b':' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => {
                return (index > 0).then(|| json.split_at(index));
            }
            b'}' | b']' => {
                depth -= 1;
                true
            }
            _ => false,
        };
        if ends_value && depth == 0 {
            return Some(json.split_at(index + 1));
        }
    }
    None
}

/// Returns the content of a string value, `None` for any other value.
fn unquote(value: &str) -> Option<Cow<'_, str>> {
    let mut unread = value.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::new();
    while let Some((plain, escape)) = unread.split_once('\\') {
        text.push_str(plain);
        let (char, remaining) = unescape(escape)?;
        text.push(char);
        unread = remaining;
    }
    if text.is_empty() {
        return Some(unread.into());
    }
    text.push_str(unread);
    Some(text.into())
}

/// Returns the character of an escape (without its backslash) and the text after it. An unpaired
/// surrogate, which a `str` cannot contain, becomes the replacement character.
fn unescape(escape: &str) -> Option<(char, &str)> {
    let mut chars = escape.chars();
    let char = match chars.next()? {
        char @ ('"' | '\\' | '/') => char,
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => return unescape_utf16(chars.as_str()),
        _ => return None,
    };
    Some((char, chars.as_str()))
}

fn unescape_utf16(digits: &str) -> Option<(char, &str)> {
    let (first_unit, unread) = parse_utf16_unit(digits)?;
    let second_unit = unread.strip_prefix("\\u").and_then(parse_utf16_unit);
    let units = [first_unit, second_unit.map_or(0, |(unit, _)| unit)];
    match char::decode_utf16(units).next()? {
        Ok(char) => Some((
            char,
            second_unit.filter(|_| char.len_utf16() == 2).map_or(unread, |(_, unread)| unread),
        )),
        Err(_) => Some((char::REPLACEMENT_CHARACTER, unread)),
    }
}

fn parse_utf16_unit(digits: &str) -> Option<(u16, &str)> {
    let (digits, unread) = digits.split_at_checked(4)?;
    Some((u16::from_str_radix(digits, 16).ok()?, unread))
}

#[cfg(test)]
mod tests {
    use crate::args::{NewArgs, fill};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_of_every_kind_are_found() {
        let object = r#" { "text" : "a\"b\\" , "n":-1.5e3,"yes":true, "none":null,
            "list":[1,"]",{"n":2}], "object":{"text":"}"},"":"","lines":"\b\f\n\r\t.","é\u0041":"\u00e9\ud83d\ude00\/" } "#;
        let cases = [
            ("text", Some("a\"b\\")),
            ("n", Some("-1.5e3")),
            ("yes", Some("true")),
            ("none", None),
            ("list", Some(r#"[1,"]",{"n":2}]"#)),
            ("object", Some(r#"{"text":"}"}"#)),
            ("", Some("")),
            ("lines", Some("\u{8}\u{c}\n\r\t.")),
            ("éA", Some("é😀/")),
            ("Text", None),
        ];
        for (key, expected) in cases {
            assert_eq!(member_value(object, key).as_deref(), expected, "{key}");
        }
    }

    #[test]
    fn invalid_json_and_other_values_have_no_members() {
        for json in [
            "",
            "{",
            "[]",
            "{}",
            "1",
            "null",
            "\"a\"",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":}",
            "{\"a\":1",
            "{\"a\":\"1",
            "{a:1}",
            "{\"b\" \"a\":1}",
            "{\"a\"=1}",
            "x{\"a\":1}",
            "{\"\\q\":1,\"a\":1}",
        ] {
            assert_eq!(member_value(json, "a"), None, "{json}");
        }
    }

    #[test]
    fn an_unpaired_surrogate_is_replaced_and_a_broken_escape_stays_json() {
        let object = r#"{"a":"\ud83d!","b":"\ude00\ud83d","c":"\u12","d":"\ud83d\u0041"}"#;
        let values = ["a", "b", "c", "d"].map(|key| member_value(object, key).unwrap());
        assert_eq!(values, ["\u{fffd}!", "\u{fffd}\u{fffd}", r#""\u12""#, "\u{fffd}A"]);
    }

    proptest! {
        #[test]
        fn recorded_arguments_are_found(
            members in prop::collection::hash_map(any::<String>(), any::<(i64, String)>(), 1..6),
        ) {
            let mut args = NewArgs::default();
            for (key, (number, text)) in &members {
                args.int(&format!("number {key}"), *number);
                args.text(&format!("text {key}"), text);
            }
            let mut object = String::new();
            fill(&args.template(), args.numbers(), &mut object);
            for (key, (number, text)) in &members {
                let found = member_value(&object, &format!("number {key}"));
                prop_assert_eq!(found, Some(number.to_string().into()));
                let found = member_value(&object, &format!("text {key}"));
                prop_assert_eq!(found.as_deref(), Some(&**text));
            }
        }

        #[test]
        fn any_text_is_searched_without_a_panic(json in "[{}\\[\\]\",:\\\\u0a é]{0,20}", key in "[a0]?") {
            member_value(&json, &key);
        }
    }
}
