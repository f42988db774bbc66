//! Values that many rows share. A collection keeps each once, and rows refer to it by position.

use std::collections::HashMap;
use std::hash::Hash;

/// Values, each once.
#[derive(Debug, Default)]
pub(super) struct Interned<T> {
    values: Vec<T>,
    /// The position of each value in `values`.
    positions: HashMap<T, u32>,
}

impl<T: Clone + Eq + Hash> Interned<T> {
    /// Returns the position of a value.
    pub(super) fn position(&mut self, value: T) -> u32 {
        *self.positions.entry(value).or_insert_with_key(|value| {
            self.values.push(value.clone());
            self.values.len() as u32 - 1
        })
    }

    /// Returns the value at a position.
    pub(super) fn get(&self, position: u32) -> &T {
        &self.values[position as usize]
    }

    /// Returns all values by position.
    pub(super) fn into_vec(self) -> Vec<T> {
        self.values
    }
}
