//! Deserializes JSON to the same values that pickles have.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::values::{Value, Values};

impl Values {
    /// Returns an empty set for values of JSON. JSON shares no values, so the size of the file
    /// bounds their expansion, and there is no other limit.
    pub(super) fn unshared() -> Self {
        let mut values = Self::default();
        values.set_max_expanded_bytes(u64::MAX);
        values
    }
}

/// Deserializes a value.
pub(super) struct ValueSeed<'a>(pub(super) &'a mut Values);

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
