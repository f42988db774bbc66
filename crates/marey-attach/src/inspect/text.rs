//! Values as text, in the form of Python.

use std::fmt::{self, Display};

use super::value::{Content, Value};

impl Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.content {
            Content::None => f.write_str("None"),
            Content::Bool(true) => f.write_str("True"),
            Content::Bool(false) => f.write_str("False"),
            Content::Integer(digits) => f.write_str(digits),
            Content::Large { bits } => write!(f, "<{} of up to {bits} bits>", self.class),
            Content::Float(value) => f.write_str(&float(*value)),
            Content::Complex(real, imaginary) => {
                let sign = if imaginary.is_sign_negative() { "" } else { "+" };
                write!(f, "({}{sign}{}j)", float(*real), float(*imaginary))
            }
            Content::Text(text) => {
                f.write_str(&quoted(text))?;
                self.write_ellipsis(f, text.chars().count())
            }
            Content::Bytes(bytes) => {
                write!(f, "b'{}'", bytes.escape_ascii())?;
                self.write_ellipsis(f, bytes.len())
            }
            Content::List(items) => self.write_items(f, ("[", "]"), items, Display::fmt),
            Content::Tuple(items) if items.len() == 1 && self.length == Some(1) => {
                write!(f, "({},)", items[0])
            }
            Content::Tuple(items) => self.write_items(f, ("(", ")"), items, Display::fmt),
            Content::Dictionary(entries) => {
                self.write_items(f, ("{", "}"), entries, |(key, value), f| {
                    write!(f, "{key}: {value}")
                })
            }
            Content::Class(name) => write!(f, "<class {name}>"),
            Content::Module(name) => write!(f, "<module {name}>"),
            Content::Object => match self.length {
                Some(length) => {
                    write!(f, "<{} of {length} items at {:#x}>", self.class, self.address)
                }
                None => write!(f, "<{} at {:#x}>", self.class, self.address),
            },
        }
    }
}

impl Value {
    /// Writes the items that were read, and whether there are more.
    fn write_items<T>(
        &self,
        f: &mut fmt::Formatter<'_>,
        (open, close): (&str, &str),
        items: &[T],
        write_item: impl Fn(&T, &mut fmt::Formatter<'_>) -> fmt::Result,
    ) -> fmt::Result {
        f.write_str(open)?;
        for (index, item) in items.iter().enumerate() {
            f.write_str(if index > 0 { ", " } else { "" })?;
            write_item(item, f)?;
        }
        if !self.is_whole(items.len()) && !items.is_empty() {
            f.write_str(", ")?;
        }
        self.write_ellipsis(f, items.len())?;
        f.write_str(close)
    }

    fn write_ellipsis(&self, f: &mut fmt::Formatter<'_>, read_count: usize) -> fmt::Result {
        f.write_str(if self.is_whole(read_count) { "" } else { "…" })
    }

    /// Whether no more items or characters exist than those that were read.
    fn is_whole(&self, read_count: usize) -> bool {
        self.length.is_none_or(|length| length <= read_count as u64)
    }
}

/// Returns a text as Python quotes it.
pub(super) fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut quoted = String::from(quote);
    for character in text.chars() {
        match character {
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            '\\' => quoted.push_str("\\\\"),
            _ if character == quote => quoted.extend(['\\', character]),
            _ if character.is_control() => quoted.extend([format!("\\x{:02x}", character as u32)]),
            _ => quoted.push(character),
        }
    }
    quoted.push(quote);
    quoted
}

/// Returns a number as Python prints it.
pub(super) fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        -4..16 => format!("{value:?}"),
        exponent => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
        }
    }
}
