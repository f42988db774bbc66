//! The parts that all readers share: the import that they fill, and their errors.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;

use marey_model::loss::LossCause;
use marey_store::row::Metadata;
use marey_store::{Assembler, NewProcess, StoreError};
use thiserror::Error;

/// The import of one file. A reader adds events to [`run`](Self::run) and counts losses.
#[derive(Debug)]
pub(crate) struct Import {
    /// The run that receives the events.
    pub(crate) run: Assembler,
    /// Name of the file without folders and suffixes, for things that have no name in the file.
    pub(crate) stem: String,
    /// The ends of collectives, by which the clocks of ranks are aligned.
    pub(crate) collective_ends: Vec<CollectiveEnd>,
    losses: BTreeMap<LossCause, (Fault, u64)>,
    process_count: u32,
}

/// The end of a collective on a rank. Ids refer to the strings of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CollectiveEnd {
    /// Name of the process group.
    pub(crate) group_id: u32,
    /// Ranks of the group, if the collective lists them.
    pub(crate) group_ranks_id: Option<u32>,
    /// Number of ranks in the group, if the collective states it.
    pub(crate) group_size: Option<u32>,
    /// The collective's sequence number in the group.
    pub(crate) sequence: i64,
    /// The collective's name.
    pub(crate) name_id: u32,
    /// Nanoseconds since 1970 on the rank's clock.
    pub(crate) end_nanos: i64,
    /// Byte offset in the file.
    pub(crate) offset: u64,
}

/// An error in the content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("byte {offset}: {cause}")]
pub struct Fault {
    /// Byte offset of the error. In a compressed file it counts in the uncompressed content.
    pub offset: u64,
    /// The cause, as a sentence without its full stop.
    pub cause: String,
}

/// Events of a file that were left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportWarning {
    /// The cause.
    pub loss: LossCause,
    /// Number of events.
    pub count: u64,
    /// The fault of the first of these events.
    pub first: Fault,
}

/// Why reading stopped before the end of a file.
#[derive(Debug, Error)]
pub(crate) enum ReaderError {
    /// The rest of the content cannot be parsed.
    #[error(transparent)]
    Content(#[from] Fault),
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The run could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ReaderError {
    /// Returns a [`Content`](Self::Content) error.
    pub(crate) fn content(offset: u64, cause: impl Display) -> Self {
        Self::Content(Fault { offset, cause: cause.to_string() })
    }
}

impl Import {
    /// Starts the import of a file into an empty run.
    pub(crate) fn new(run: Assembler, stem: &str) -> Self {
        Self {
            run,
            stem: stem.to_owned(),
            collective_ends: Vec::new(),
            losses: BTreeMap::new(),
            process_count: 0,
        }
    }

    /// Adds a process and returns its id.
    pub(crate) fn add_process(&mut self, process: NewProcess) -> u32 {
        self.process_count += 1;
        self.run.add_process(process)
    }

    /// Adds an entry of metadata, or counts it as lost if its value cannot be written as JSON.
    pub(crate) fn add_metadata(
        &mut self,
        process_id: u32,
        key: &str,
        json: Result<String, impl Display>,
        offset: u64,
    ) -> Result<(), StoreError> {
        match json {
            Ok(json) => self.run.add_metadata(&Metadata::new(process_id, key, &json)),
            Err(error) => {
                let cause = format!("`{key}`: {error}");
                self.lose(LossCause::Unreadable, 1, offset, cause);
                Ok(())
            }
        }
    }

    /// Counts events that are left out. Warnings show the first fault of each cause.
    pub(crate) fn lose(&mut self, loss: LossCause, count: u64, offset: u64, cause: impl Display) {
        if self.process_count == 0 {
            self.add_process(NewProcess { pid: -1, ..NewProcess::default() });
        }
        self.run.lose(0, loss, count);
        let new_entry = || (Fault { offset, cause: cause.to_string() }, 0);
        self.losses.entry(loss).or_insert_with(new_entry).1 += count;
    }

    /// Returns the first fault if all events of the file were lost.
    pub(crate) fn fail_if_all_lost(&self) -> Result<(), ReaderError> {
        let faults = self.losses.values().map(|(fault, _)| fault);
        match faults.min_by_key(|fault| fault.offset) {
            Some(first) if self.run.event_count() == 0 => Err(ReaderError::Content(first.clone())),
            _ => Ok(()),
        }
    }

    /// Splits the import into the run and the warnings, one for each cause of loss.
    pub(crate) fn finish(self) -> (Assembler, Vec<ImportWarning>) {
        let warning = |(loss, (first, count))| ImportWarning { loss, count, first };
        (self.run, self.losses.into_iter().map(warning).collect())
    }
}
