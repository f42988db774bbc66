//! Writes values as JSON, for arguments and metadata.

use std::fmt::Write as _;

use marey_model::args::NewArgs;
use marey_model::json::quote;

use super::values::{Value, ValueError, Values};

/// The maximum depth of nested lists and dicts.
const MAX_DEPTH: usize = 32;

/// The number of bytes that an element counts besides its text.
const BYTES_PER_VALUE: usize = 8;

impl Values {
    /// Returns a value as JSON.
    pub(crate) fn json(&self, value: Value) -> Result<String, ValueError> {
        let mut json = String::new();
        self.write_json(value, 0, &mut json)?;
        Ok(json)
    }

    /// Adds a value to arguments.
    pub(crate) fn add_arg(
        &self,
        key: &str,
        value: Value,
        args: &mut NewArgs,
    ) -> Result<(), ValueError> {
        self.count_expansion(key.len())?;
        match value {
            Value::Int(value) => args.int(key, value),
            value => args.json(key, &self.json(value)?),
        }
        Ok(())
    }

    fn write_json(&self, value: Value, depth: usize, out: &mut String) -> Result<(), ValueError> {
        self.count_expansion(BYTES_PER_VALUE + self.text(value).map_or(0, str::len))?;
        match value {
            Value::None => out.push_str("null"),
            Value::Bool(value) => out.push_str(if value { "true" } else { "false" }),
            Value::Int(value) => write!(out, "{value}").expect("writing to a `String` cannot fail"),
            Value::Real(bits) => write_real(f64::from_bits(bits), out),
            Value::Text(_) => quote(self.text(value).unwrap_or_default(), out),
            Value::Object(_) if depth == MAX_DEPTH => return Err(ValueError::TooDeep),
            Value::Object(_) => {
                if let Some(items) = self.items(value) {
                    self.write_list(items, depth, out)?;
                } else {
                    let pairs = self.pairs(value).ok_or(ValueError::Freed)?;
                    self.write_dict(pairs, depth, out)?;
                }
            }
            Value::Yielded => return Err(ValueError::Freed),
        }
        Ok(())
    }

    fn write_list(
        &self,
        items: &[Value],
        depth: usize,
        out: &mut String,
    ) -> Result<(), ValueError> {
        out.push('[');
        for (number, &item) in items.iter().enumerate() {
            if number > 0 {
                out.push(',');
            }
            self.write_json(item, depth + 1, out)?;
        }
        out.push(']');
        Ok(())
    }

    fn write_dict(
        &self,
        pairs: impl Iterator<Item = (Value, Value)>,
        depth: usize,
        out: &mut String,
    ) -> Result<(), ValueError> {
        out.push('{');
        for (number, (key, value)) in pairs.enumerate() {
            if number > 0 {
                out.push(',');
            }
            if let Value::Text(_) = key {
                self.write_json(key, depth + 1, out)?;
            } else {
                // The key of a JSON object must be a string, so another value becomes its JSON.
                let mut text = String::new();
                self.write_json(key, depth + 1, &mut text)?;
                quote(&text, out);
            }
            out.push(':');
            self.write_json(value, depth + 1, out)?;
        }
        out.push('}');
        Ok(())
    }
}

/// Writes a number. JSON has no infinities and no NaN, so they become strings.
fn write_real(value: f64, out: &mut String) {
    let quote = if value.is_finite() { "" } else { "\"" };
    write!(out, "{quote}{value:?}{quote}").expect("writing to a `String` cannot fail");
}
