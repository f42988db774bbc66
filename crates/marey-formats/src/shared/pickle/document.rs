//! Reads a document, which is a dict, from a pickle or from JSON. Dumps of PyTorch exist as both, and
//! share their handling of values by it.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::Pickle;
use super::from_json::ValueSeed;
use super::row_lists::{Row, RowList};
use super::values::{Value, Values};
use crate::shared::import::ReaderError;
use crate::shared::input::{Input, OffsetReader};

/// The receiver of a document.
pub(crate) trait Document {
    /// The name of the document in messages, with its article.
    const NAME: &'static str;

    /// The lists whose elements are added one by one.
    const ROW_LISTS: &'static [RowList];

    /// The keys of those of them whose elements are also read one by one from JSON. The others are
    /// in memory as a whole.
    const LONG_LISTS: &'static [&'static str];

    /// Adds an element of a row list.
    fn add_row(&mut self, values: &mut Values, row: Row) -> Result<(), ReaderError>;

    /// Adds another member. `offset` is the position of the reader in the file.
    fn add_member(
        &mut self,
        key: &str,
        value: Value,
        values: &Values,
        offset: u64,
    ) -> Result<(), ReaderError>;
}

/// Reads a document.
pub(crate) fn read_document<D: Document>(
    input: &mut Input,
    document: &mut D,
) -> Result<(), ReaderError> {
    let is_pickle = input.head()?.first() == Some(&0x80);
    if is_pickle { read_pickle(input, document) } else { read_json(input, document) }
}

/// Reads a pickle. Its members other than rows are added even after an error.
fn read_pickle<D: Document>(input: &mut Input, document: &mut D) -> Result<(), ReaderError> {
    let mut pickle = Pickle::new(input, D::ROW_LISTS);
    let result = loop {
        match pickle.next_row() {
            Ok(Some(row)) => document.add_row(&mut pickle.values, row)?,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let offset = pickle.offset();
    for (key, value) in pickle.outer_fields() {
        let key = pickle.values.name(key);
        if let Some(key) = key.filter(|key| D::ROW_LISTS.iter().all(|list| list.key != *key)) {
            document.add_member(key, value, &pickle.values, offset)?;
        }
    }
    result
}

/// Reads JSON. Only one member, or one entry of a long list, is in memory at a time.
fn read_json<D: Document>(input: &mut Input, document: &mut D) -> Result<(), ReaderError> {
    let mut error = None;
    let offset = Cell::new(0);
    let object = OutermostObject { document, error: &mut error, offset: &offset };
    let reader = OffsetReader { input: &mut *input, offset: &offset };
    let mut json = serde_json::Deserializer::from_reader(reader);
    let result = object.deserialize(&mut json).and_then(|()| json.end());
    match (error, result) {
        (Some(error), _) => Err(error),
        (None, Ok(())) => Ok(()),
        (None, Err(error)) if error.is_io() => Err(ReaderError::Io(error.into())),
        (None, Err(error)) => Err(ReaderError::content(input.offset(), error)),
    }
}

/// The outermost object.
struct OutermostObject<'a, D> {
    document: &'a mut D,
    /// The error that ended the reading. It is stored here, because an error of JSON cannot carry
    /// it.
    error: &'a mut Option<ReaderError>,
    offset: &'a Cell<u64>,
}

impl<D: Document> OutermostObject<'_, D> {
    /// Adds something to the document, given the position of the reader in the file.
    fn add<E: Error>(
        &mut self,
        add: impl FnOnce(&mut D, u64) -> Result<(), ReaderError>,
    ) -> Result<(), E> {
        add(self.document, self.offset.get()).map_err(|error| {
            *self.error = Some(error);
            E::custom("the run cannot be written")
        })
    }
}

/// Adds a member: a row list row by row.
fn add_member<D: Document>(
    document: &mut D,
    key: &str,
    value: Value,
    values: &mut Values,
    offset: u64,
) -> Result<(), ReaderError> {
    let Some(&RowList { key, depth }) = D::ROW_LISTS.iter().find(|list| list.key == key) else {
        return document.add_member(key, value, values, offset);
    };
    let items = |values: &Values, list| values.items(list).unwrap_or_default().to_vec();
    let lists = if depth == 1 { vec![value] } else { items(values, value) };
    for (list, list_index) in lists.into_iter().zip(0..) {
        for value in items(values, list) {
            document.add_row(values, Row { key, list_index, value, offset })?;
        }
    }
    Ok(())
}

impl<'de, D: Document> DeserializeSeed<'de> for OutermostObject<'_, D> {
    type Value = ();

    fn deserialize<J: Deserializer<'de>>(self, json: J) -> Result<(), J::Error> {
        json.deserialize_map(self)
    }
}

impl<'de, D: Document> Visitor<'de> for OutermostObject<'_, D> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(D::NAME)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if let Some(key) = D::LONG_LISTS.iter().find(|list| **list == key) {
                map.next_value_seed(LongList { key, object: &mut self })?;
            } else {
                let mut values = Values::unshared();
                let value = map.next_value_seed(ValueSeed(&mut values))?;
                self.add(|document, offset| {
                    add_member(document, &key, value, &mut values, offset)
                })?;
            }
        }
        Ok(())
    }
}

/// A long list of the document.
struct LongList<'a, 'o, D> {
    key: &'static str,
    object: &'a mut OutermostObject<'o, D>,
}

impl<'de, D: Document> DeserializeSeed<'de> for LongList<'_, '_, D> {
    type Value = ();

    fn deserialize<J: Deserializer<'de>>(self, json: J) -> Result<(), J::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de, D: Document> Visitor<'de> for LongList<'_, '_, D> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a list of entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        loop {
            let mut values = Values::unshared();
            let Some(value) = entries.next_element_seed(ValueSeed(&mut values))? else {
                return Ok(());
            };
            let row = |offset| Row { key: self.key, list_index: 0, value, offset };
            self.object.add(|document, offset| document.add_row(&mut values, row(offset)))?;
        }
    }
}
