//! The fields of an entry: those that have columns are taken, the others become arguments.

use std::borrow::Cow;

use marey_model::args::NewArgs;

use super::values::{Unfit, Value, Values};

/// The fields that nobody has taken yet.
#[derive(Debug)]
pub(crate) struct Fields(Vec<(Value, Value)>);

impl Fields {
    /// Those of a dict.
    pub(crate) fn of(values: &Values, dict: Value) -> Result<Self, Unfit> {
        let fields: Vec<_> = values.pairs(dict).ok_or(Unfit::NoDict)?.collect();
        values.unfold(size_of_val(fields.as_slice()))?;
        Ok(Self(fields))
    }

    /// A field, which stays.
    pub(crate) fn get(&self, values: &Values, key: &str) -> Option<Value> {
        self.0.iter().rev().find(|field| values.text(field.0) == Some(key)).map(|field| field.1)
    }

    /// Takes a field that can be read so.
    pub(crate) fn take<T>(
        &mut self,
        values: &Values,
        key: &str,
        read: impl FnOnce(Value) -> Option<T>,
    ) -> Option<T> {
        let at = self.0.iter().rposition(|field| values.text(field.0) == Some(key))?;
        let value = read(self.0[at].1)?;
        self.0.remove(at);
        Some(value)
    }

    /// Takes a whole number.
    pub(crate) fn int(&mut self, values: &Values, key: &str) -> Option<i64> {
        self.take(values, key, Value::as_int)
    }

    /// Takes a text that is not long.
    pub(crate) fn name<'v>(&mut self, values: &'v Values, key: &str) -> Option<&'v str> {
        self.take(values, key, |value| values.name(value))
    }

    /// Adds what is left to arguments, `prefix` before each key that has it not. What cannot be added
    /// is left out, and the reason is that of the first.
    pub(crate) fn add_to_args(
        &self,
        values: &Values,
        prefix: &str,
        args: &mut NewArgs,
    ) -> Result<(), Unfit> {
        let mut result = Ok(());
        for &(key, value) in &self.0 {
            let added = self::key(values, key).and_then(|key| {
                let prefix = if key.starts_with(prefix) { "" } else { prefix };
                values.add_arg(&format!("{prefix}{key}"), value, args)
            });
            result = result.and(added);
        }
        result
    }
}

/// A key as a text: another value stands as its JSON.
fn key(values: &Values, key: Value) -> Result<Cow<'_, str>, Unfit> {
    match values.name(key) {
        Some(key) => Ok(Cow::Borrowed(key)),
        None => values.json(key).map(Cow::Owned),
    }
}
