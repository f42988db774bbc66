//! Serialises a row as a record: a map from column name to value, in the order of the columns.

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::ask::Cell;

/// A row with its column names.
pub(crate) struct Record<'a, N> {
    pub(crate) columns: &'a [N],
    pub(crate) row: &'a [Cell],
}

impl<N: AsRef<str>> Serialize for Record<'_, N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.columns.len()))?;
        for (column, cell) in self.columns.iter().zip(self.row) {
            map.serialize_entry(column.as_ref(), cell)?;
        }
        map.end()
    }
}
