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

use crate::shared::group_ranks::GroupRanks;
use crate::shared::import::{Import, ReaderError};
use crate::shared::input::Input;
use crate::shared::pickle::{Document, Fields, Row, RowList, Value, Values, read_document};
use crate::shared::rank_in_name::{rank_after_word, rank_at_end};

const ENTRIES: &str = "entries";
const GROUPS_KEY: &str = "pg_config";

/// Reads a dump.
pub(crate) fn read(input: &mut Input, import: &mut Import) -> Result<(), ReaderError> {
    let rank = rank_after_word(&import.stem).or_else(|| rank_at_end(&import.stem));
    let process_id = import.add_process(NewProcess { pid: -1, rank, ..NewProcess::default() });
    read_document(input, &mut Dump { import, process_id, args: NewArgs::default() })
}

/// A dump that is being read.
struct Dump<'a> {
    import: &'a mut Import,
    process_id: u32,
    args: NewArgs,
}

impl Document for Dump<'_> {
    const NAME: &'static str = "a dump of the flight recorder";
    const ROW_LISTS: &'static [RowList] = &[RowList { key: ENTRIES, depth: 1 }];
    const LONG_LISTS: &'static [&'static str] = &[ENTRIES];

    /// Adds an entry. Unusable parts of it are counted as lost.
    fn add_row(&mut self, values: &mut Values, entry: Row) -> Result<(), ReaderError> {
        let result = self.add_entry(values, entry.value, entry.offset);
        Ok(self.import.count_unreadable(result, ENTRIES, entry.offset)?)
    }

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
}

impl Dump<'_> {
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
