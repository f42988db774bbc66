//! Reads a JSON document, which is an object, member by member. Dumps of PyTorch that exist as
//! pickles and as JSON share their handling of values by it.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::from_json::ValueSeed;
use super::values::{Value, Values};
use crate::shared::import::ReaderError;
use crate::shared::input::{Input, OffsetReader};

/// The receiver of a document.
pub(crate) trait Document {
    /// The name of the document in messages, with its article.
    const NAME: &'static str;

    /// The keys of members that are long lists, whose entries are added one by one.
    const LONG_LISTS: &'static [&'static str];

    /// Adds a member of the object, or an entry of a long list. `offset` is the position of the
    /// reader in the file.
    fn add(
        &mut self,
        key: &str,
        value: Value,
        values: &mut Values,
        offset: u64,
    ) -> Result<(), ReaderError>;
}

/// Reads a document. Only one member, or one entry of a long list, is in memory at a time.
pub(crate) fn read_document<D: Document>(
    input: &mut Input,
    document: &mut D,
) -> Result<(), ReaderError> {
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
    fn add<E: Error>(&mut self, key: &str, value: Value, mut values: Values) -> Result<(), E> {
        self.document.add(key, value, &mut values, self.offset.get()).map_err(|error| {
            *self.error = Some(error);
            E::custom("the run cannot be written")
        })
    }
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
            if D::LONG_LISTS.contains(&key.as_str()) {
                map.next_value_seed(LongList { key: &key, object: &mut self })?;
            } else {
                let mut values = Values::unshared();
                let value = map.next_value_seed(ValueSeed(&mut values))?;
                self.add(&key, value, values)?;
            }
        }
        Ok(())
    }
}

/// A long list of the document.
struct LongList<'a, 'o, D> {
    key: &'a str,
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
            let Some(entry) = entries.next_element_seed(ValueSeed(&mut values))? else {
                return Ok(());
            };
            self.object.add(self.key, entry, values)?;
        }
    }
}
