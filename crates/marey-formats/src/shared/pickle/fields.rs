//! The fields of an entry in a dump. Readers take the fields that have columns, and the rest become
//! arguments.

use std::borrow::Cow;

use marey_model::args::NewArgs;
use marey_model::loss::LossCause;
use marey_store::StoreError;
use thiserror::Error;

use super::values::{Value, ValueError, Values};
use crate::shared::import::Import;

/// The fields of an entry that no reader has taken yet.
#[derive(Debug)]
pub(crate) struct Fields(Vec<(Value, Value)>);

impl Fields {
    /// Returns the fields of a dict.
    pub(crate) fn from_dict(values: &Values, dict: Value) -> Result<Self, ValueError> {
        let fields: Vec<_> = values.pairs(dict).ok_or(ValueError::NotADict)?.collect();
        values.count_expansion(size_of_val(fields.as_slice()))?;
        Ok(Self(fields))
    }

    /// Returns a field without taking it.
    pub(crate) fn get(&self, values: &Values, key: &str) -> Option<Value> {
        self.0.iter().rev().find(|field| values.text(field.0) == Some(key)).map(|field| field.1)
    }

    /// Takes a field if `read` accepts its value.
    pub(crate) fn take<T>(
        &mut self,
        values: &Values,
        key: &str,
        read: impl FnOnce(Value) -> Option<T>,
    ) -> Option<T> {
        let index = self.0.iter().rposition(|field| values.text(field.0) == Some(key))?;
        let value = read(self.0[index].1)?;
        self.0.remove(index);
        Some(value)
    }

    /// Takes a field with an integer.
    pub(crate) fn take_int(&mut self, values: &Values, key: &str) -> Option<i64> {
        self.take(values, key, Value::as_int)
    }

    /// Takes a field with a short text.
    pub(crate) fn take_name<'v>(&mut self, values: &'v Values, key: &str) -> Option<&'v str> {
        self.take(values, key, |value| values.name(value))
    }

    /// Adds the remaining fields to arguments, with `prefix` before keys that lack it. Leaves out
    /// fields that cannot be added, and returns the first error of these.
    pub(crate) fn add_to_args(
        &self,
        values: &Values,
        prefix: &str,
        args: &mut NewArgs,
    ) -> Result<(), ValueError> {
        let mut result = Ok(());
        for &(key, value) in &self.0 {
            let added = key_text(values, key).and_then(|key| {
                let prefix = if key.starts_with(prefix) { "" } else { prefix };
                values.add_arg(&format!("{prefix}{key}"), value, args)
            });
            result = result.and(added);
        }
        result
    }
}

/// Why an element of a dump could not be read completely.
#[derive(Debug, Error)]
pub(crate) enum ElementError {
    /// The element, or part of it, cannot be used.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// The run could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Import {
    /// Counts an element of the list `key` as lost if its error is not fatal.
    pub(crate) fn count_unreadable(
        &mut self,
        result: Result<(), ElementError>,
        key: &str,
        offset: u64,
    ) -> Result<(), StoreError> {
        match result {
            Ok(()) => {}
            Err(ElementError::Value(reason)) => {
                let cause = format!("an element of `{key}`: {reason}");
                self.lose(LossCause::Unreadable, 1, offset, cause);
            }
            Err(ElementError::Store(error)) => return Err(error),
        }
        Ok(())
    }
}

/// Returns a key as a text. A key that is not a short text becomes its JSON.
fn key_text(values: &Values, key: Value) -> Result<Cow<'_, str>, ValueError> {
    match values.name(key) {
        Some(key) => Ok(Cow::Borrowed(key)),
        None => values.json(key).map(Cow::Owned),
    }
}
