//! Dumps in JSON: each entry is processed before the next one is parsed.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::Dump;
use super::entry::ENTRIES;
use crate::shared::import::ReaderError;
use crate::shared::input::{Input, OffsetReader};
use crate::shared::pickle::{Value, Values};

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
            let mut values = new_values();
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
            let mut values = new_values();
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

/// JSON shares no values, so their expansion is bounded by the file.
fn new_values() -> Values {
    let mut values = Values::default();
    values.set_max_expanded_bytes(u64::MAX);
    values
}

/// Deserializes a value.
struct ValueSeed<'a>(&'a mut Values);

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::None)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(match i64::try_from(value) {
            Ok(value) => Value::Int(value),
            Err(_too_large) => self.0.add_text(value.to_string()),
        })
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::real(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(self.0.add_text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(ValueSeed(self.0))? {
            items.push(item);
        }
        Ok(self.0.add_list(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            items.push(self.0.add_text(key));
            items.push(map.next_value_seed(ValueSeed(self.0))?);
        }
        Ok(self.0.add_dict(items))
    }
}
