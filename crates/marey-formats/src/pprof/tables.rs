//! Collects the tables of a profile before its samples are read, because they may follow the
//! samples that refer to them.

use std::collections::BTreeMap;

use marey_model::loss::LossCause;
use prost::Message;

use super::message::{Function, Location, Mapping, Profile, tag};
use crate::shared::import::{Import, ReaderError};
use crate::shared::protobuf::{Field, Fields};

/// The entries that samples refer to. They stay encoded, which takes the least memory.
#[derive(Default)]
pub(super) struct Tables<'a> {
    pub(super) texts: Vec<&'a [u8]>,
    pub(super) mappings: Entries<'a>,
    pub(super) locations: Entries<'a>,
    pub(super) functions: Entries<'a>,
    /// The other fields of the profile. The tables are empty here.
    pub(super) file: Profile,
}

/// The byte offset and the encoded bytes of entries, by id. Only entries that can be decoded are
/// here.
pub(super) type Entries<'a> = BTreeMap<u64, (u64, &'a [u8])>;

/// Decodes an entry.
pub(super) fn decode_entry<M: Message + Default>(entries: &Entries, id: u64) -> Option<M> {
    let (_, bytes) = entries.get(&id)?;
    M::decode(*bytes).ok()
}

impl<'a> Tables<'a> {
    /// Returns the tables of a profile as far as it can be read, and the error that ended the
    /// reading.
    pub(super) fn collect(
        content: &'a [u8],
        import: &mut Import,
    ) -> (Self, Result<(), ReaderError>) {
        let mut tables = Self::default();
        for field in Fields::new(content) {
            match field {
                Ok(field) => tables.add(&field, import),
                Err(fault) => return (tables, Err(fault.into())),
            }
        }
        (tables, Ok(()))
    }

    fn add(&mut self, field: &Field<'a>, import: &mut Import) {
        match field.number {
            tag::SAMPLE => {}
            tag::STRING_TABLE => self.texts.push(field.value),
            tag::MAPPING => {
                insert(&mut self.mappings, field, "mapping", |entry: &Mapping| entry.id, import);
            }
            tag::LOCATION => {
                insert(&mut self.locations, field, "location", |entry: &Location| entry.id, import);
            }
            tag::FUNCTION => {
                insert(&mut self.functions, field, "function", |entry: &Function| entry.id, import);
            }
            1 | 7..=15 => {
                if self.file.merge(field.encoded).is_err() {
                    let cause = format!("field {} is malformed", field.number);
                    import.lose(LossCause::Unreadable, 1, field.offset, cause);
                }
            }
            unknown => {
                let cause = format!("profiles have no field {unknown}");
                import.lose(LossCause::Unsupported, 1, field.offset, cause);
            }
        }
    }
}

fn insert<'a, M: Message + Default>(
    entries: &mut Entries<'a>,
    field: &Field<'a>,
    entry_name: &str,
    get_id: impl Fn(&M) -> u64,
    import: &mut Import,
) {
    let cause = match M::decode(field.value).map(|entry| get_id(&entry)) {
        Err(_malformed) => format!("the {entry_name} is malformed"),
        Ok(id) if entries.contains_key(&id) => format!("{entry_name} {id} appears twice"),
        Ok(id) => {
            entries.insert(id, (field.offset, field.value));
            return;
        }
    };
    import.lose(LossCause::Unreadable, 1, field.offset, cause);
}
