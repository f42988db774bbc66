//! Dumps in JSON: each entry is processed before the next one is parsed.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::Dump;
use super::entry::ENTRIES;
use crate::shared::import::ReaderError;
use crate::shared::input::{Input, OffsetReader};
use crate::shared::pickle::{ValueSeed, Values};

/// Reads a dump.
pub(super) fn read(input: &mut Input, dump: &mut Dump) -> Result<(), ReaderError> {
    let mut error = None;
    let offset = Cell::new(0);
    let document = Document { dump, error: &mut error, offset: &offset };
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
    dump: &'a mut Dump<'d>,
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
        out.write_str("a dump of the flight recorder")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == ENTRIES {
                map.next_value_seed(Entries {
                    dump: self.dump,
                    error: self.error,
                    offset: self.offset,
                })?;
                continue;
            }
            let mut values = Values::unshared();
            let value = map.next_value_seed(ValueSeed(&mut values))?;
            if let Err(error) = self.dump.add_member(&key, value, &values, self.offset.get()) {
                *self.error = Some(error);
                return Err(A::Error::custom("the run cannot be written"));
            }
        }
        Ok(())
    }
}

/// The entries.
struct Entries<'a, 'd> {
    dump: &'a mut Dump<'d>,
    error: &'a mut Option<ReaderError>,
    offset: &'a Cell<u64>,
}

impl<'de> DeserializeSeed<'de> for Entries<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_, '_> {
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
            if let Err(error) = self.dump.add_entry(&mut values, entry, self.offset.get()) {
                *self.error = Some(error);
                return Err(A::Error::custom("the run cannot be written"));
            }
        }
    }
}
