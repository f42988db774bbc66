//! Reads dumps of PyTorch's flight recorder, which keeps the last collectives of NCCL and other
//! backends.
//!
//! A dump is a dict, pickled or as JSON. It has the `entries`, one for each collective, and the
//! configuration of the process groups. It does not contain its rank, which PyTorch appends to the
//! name of the file.
//!
//! A collective starts when the recorder has observed its start. It lasts for the duration that the
//! events of the device have measured or, without them, until the recorder has observed its end.
//! The name of the group is the number or hash that all its ranks share, as in other traces. The
//! description becomes an argument, because several groups may share it.

mod entry;

use marey_model::args::NewArgs;
use marey_store::{NewProcess, ProcessGroup};

use self::entry::ENTRIES;
use crate::shared::group_ranks::GroupRanks;
use crate::shared::import::{Import, ReaderError};
use crate::shared::input::Input;
use crate::shared::pickle::{Document, Fields, Pickle, RowList, Value, Values, read_document};
use crate::shared::rank_in_name::{rank_after_word, rank_at_end};

const ROW_LISTS: &[RowList] = &[RowList { key: ENTRIES, depth: 1 }];
const GROUPS_KEY: &str = "pg_config";

/// Reads a dump.
pub(crate) fn read(input: &mut Input, import: &mut Import) -> Result<(), ReaderError> {
    let rank = rank_after_word(&import.stem).or_else(|| rank_at_end(&import.stem));
    let process_id = import.add_process(NewProcess { pid: -1, rank, ..NewProcess::default() });
    let is_pickle = input.head()?.first() == Some(&0x80);
    let mut dump = Dump { import, process_id, args: NewArgs::default() };
    if is_pickle { dump.read_pickle(input) } else { read_document(input, &mut dump) }
}

/// A dump that is being read.
struct Dump<'a> {
    import: &'a mut Import,
    process_id: u32,
    args: NewArgs,
}

/// Reading of a dump in JSON.
impl Document for Dump<'_> {
    const NAME: &'static str = "a dump of the flight recorder";
    const LONG_LISTS: &'static [&'static str] = &[ENTRIES];

    fn add(
        &mut self,
        key: &str,
        value: Value,
        values: &mut Values,
        offset: u64,
    ) -> Result<(), ReaderError> {
        if key == ENTRIES {
            self.add_entry(values, value, offset)
        } else {
            self.add_member(key, value, values, offset)
        }
    }
}

impl Dump<'_> {
    fn read_pickle(&mut self, input: &mut Input) -> Result<(), ReaderError> {
        let mut pickle = Pickle::new(input, ROW_LISTS);
        let result = loop {
            match pickle.next_row() {
                Ok(Some(row)) => self.add_entry(&mut pickle.values, row.value, row.offset)?,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let offset = pickle.offset();
        for (key, value) in pickle.outer_fields() {
            if let Some(key) = pickle.values.name(key).filter(|&key| key != ENTRIES) {
                self.add_member(key, value, &pickle.values, offset)?;
            }
        }
        result
    }

    /// Adds a member of the dump other than the entries.
    fn add_member(
        &mut self,
        key: &str,
        value: Value,
        values: &Values,
        offset: u64,
    ) -> Result<(), ReaderError> {
        if key == GROUPS_KEY {
            self.set_process_groups(value, values);
        }
        Ok(self.import.add_metadata(self.process_id, key, values.json(value), offset)?)
    }

    /// Sets the ranks of each group, which the dump stores as the text of a list.
    fn set_process_groups(&mut self, groups: Value, values: &Values) {
        for (name, group) in values.pairs(groups).into_iter().flatten() {
            let Ok(mut group) = Fields::from_dict(values, group) else { continue };
            let ranks = group.take(values, "ranks", |ranks| values.text(ranks));
            if let (Some(name), Some(ranks)) = (values.name(name), ranks)
                && values.count_expansion(ranks.len()).is_ok()
            {
                let run = &mut self.import.run;
                let (name_id, ranks) = (run.text_id(name), GroupRanks::parse(ranks));
                let size = ranks.as_ref().map(|ranks| ranks.count);
                let ranks_id = ranks.map(|ranks| run.text_id(&ranks.canonical));
                run.set_process_group(name_id, ProcessGroup { size, ranks_id });
            }
        }
    }
}
