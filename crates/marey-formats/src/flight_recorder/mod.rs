//! Dumps of PyTorch's flight recorder, which keeps the last collectives of NCCL and other backends.
//!
//! A dump is a dict, pickled or as JSON: the `entries`, one a collective, and what is known of the
//! process groups. A dump says nothing of its rank; PyTorch puts it at the end of the file's name.
//!
//! A collective begins where the recorder saw that it had begun, and lasts as long as the device's
//! own events say or, without those, until the recorder saw that it had ended. Its group is named by
//! the number or hash that is the same on all its ranks, as in other traces; the description, which
//! several groups may share, is in the arguments.

mod entry;
mod json;
pub(crate) mod rank;

use marey_model::args::NewArgs;
use marey_model::loss::LossCause;
use marey_store::row::Metadata;
use marey_store::{NewProcess, ProcessGroup};

use self::entry::ENTRIES;
use crate::group_ranks::GroupRanks;
use crate::import::{Broken, Import};
use crate::input::Input;
use crate::pickle::{Fields, Pickle, RowList, Value, Values};

const LISTS: &[RowList] = &[RowList { key: ENTRIES, depth: 1 }];
const GROUPS: &str = "pg_config";

/// Reads a dump.
pub(crate) fn read(input: &mut Input, import: &mut Import) -> Result<(), Broken> {
    let rank = rank::named(&import.stem).or_else(|| rank::numbered(&import.stem));
    let process = import.process(NewProcess { pid: -1, rank, ..NewProcess::default() });
    let is_pickle = input.head()?.first() == Some(&0x80);
    let mut dump = Dump { import, process, args: NewArgs::default() };
    if is_pickle { dump.pickle(input) } else { json::read(input, &mut dump) }
}

/// A dump that is being read.
struct Dump<'a> {
    import: &'a mut Import,
    process: u32,
    args: NewArgs,
}

impl Dump<'_> {
    fn pickle(&mut self, input: &mut Input) -> Result<(), Broken> {
        let mut pickle = Pickle::new(input, LISTS);
        let read = loop {
            match pickle.next_row() {
                Ok(Some(row)) => self.entry(&mut pickle.values, row.value, row.offset)?,
                Ok(None) => break Ok(()),
                Err(broken) => break Err(broken),
            }
        };
        let offset = pickle.offset();
        for (key, value) in pickle.outer_fields() {
            if let Some(key) = pickle.values.name(key).filter(|&key| key != ENTRIES) {
                self.about(key, value, &pickle.values, offset)?;
            }
        }
        read
    }

    /// What a dump says beside its entries.
    fn about(
        &mut self,
        key: &str,
        value: Value,
        values: &Values,
        offset: u64,
    ) -> Result<(), Broken> {
        if key == GROUPS {
            self.groups(value, values);
        }
        match values.json(value) {
            Ok(json) => self.import.run.add_metadata(&Metadata {
                process_id: self.process,
                thread_id: None,
                key: key.into(),
                value: json.into(),
            })?,
            Err(reason) => {
                let cause = format!("`{key}`: {reason}");
                self.import.lose(LossCause::Unreadable, 1, offset, cause);
            }
        }
        Ok(())
    }

    /// Notes which ranks each group has: they stand there as a list, written as a text.
    fn groups(&mut self, groups: Value, values: &Values) {
        for (name, group) in values.pairs(groups).into_iter().flatten() {
            let Ok(mut group) = Fields::of(values, group) else { continue };
            let ranks = group.take(values, "ranks", |ranks| values.text(ranks));
            if let (Some(name), Some(ranks)) = (values.name(name), ranks)
                && values.unfold(ranks.len()).is_ok()
            {
                let run = &mut self.import.run;
                let (name_id, ranks) = (run.text(name), GroupRanks::of_text(ranks));
                let size = ranks.as_ref().map(|ranks| ranks.count);
                let ranks_id = ranks.map(|ranks| run.text(&ranks.text));
                run.set_process_group(name_id, ProcessGroup { size, ranks_id });
            }
        }
    }
}
