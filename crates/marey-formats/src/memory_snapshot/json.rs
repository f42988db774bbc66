//! Snapshots in JSON, as `marey.torch.memory_snapshot` writes them: one list at a time is in memory.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

use super::{LISTS, Snapshot};
use crate::shared::import::ReaderError;
use crate::shared::input::{Input, OffsetReader};
use crate::shared::pickle::{Row, RowList, Value, ValueSeed, Values};

/// Reads a snapshot.
pub(super) fn read(input: &mut Input, snapshot: &mut Snapshot) -> Result<(), ReaderError> {
    let mut error = None;
    let offset = Cell::new(0);
    let document = Document { snapshot, error: &mut error, offset: &offset };
    let reader = OffsetReader { input: &mut *input, offset: &offset };
    let mut json = serde_json::Deserializer::from_reader(reader);
    let result = document.deserialize(&mut json).and_then(|()| json.end());
    match (error, result) {
        (Some(error), _) => Err(error),
        (None, Ok(())) => Ok(()),
        (None, Err(error)) if error.is_io() => Err(ReaderError::Io(error.into())),
        (None, Err(error)) => Err(ReaderError::content(input.offset(), error)),
    }
}

/// The outermost object.
struct Document<'a, 'd> {
    snapshot: &'a mut Snapshot<'d>,
    /// The error that ended reading; errors of JSON cannot carry it.
    error: &'a mut Option<ReaderError>,
    offset: &'a Cell<u64>,
}

impl<'de> DeserializeSeed<'de> for Document<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a memory snapshot")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let mut values = Values::unshared();
            let value = map.next_value_seed(ValueSeed(&mut values))?;
            let offset = self.offset.get();
            if let Err(error) = self.snapshot.add_member(&key, value, &mut values, offset) {
                *self.error = Some(error);
                return Err(A::Error::custom("the run cannot be written"));
            }
        }
        Ok(())
    }
}

impl Snapshot<'_> {
    /// Adds a member of the outermost object.
    fn add_member(
        &mut self,
        key: &str,
        value: Value,
        values: &mut Values,
        offset: u64,
    ) -> Result<(), ReaderError> {
        let Some(&RowList { key, depth }) = LISTS.iter().find(|list| list.key == key) else {
            return Ok(self.import.add_metadata(self.process, key, values.json(value), offset)?);
        };
        let lists = if depth == 1 { vec![value] } else { items(values, value) };
        for (list, list_index) in lists.into_iter().zip(0..) {
            for value in items(values, list) {
                self.add_row(values, Row { key, list_index, value, offset })?;
            }
        }
        Ok(())
    }
}

fn items(values: &Values, list: Value) -> Vec<Value> {
    values.items(list).unwrap_or_default().to_vec()
}
