//! The parts that all writers share: errors, and counts of the data that a format cannot represent.
//!
//! A writer reads the run row by row, and writes each row before it reads the next.

use std::collections::BTreeMap;
use std::io;

use marey_model::table::Table;
use marey_model::table::stored::{
    self, ARGS, CONTEXTS, LOSSES, PHASES, PROCESSES, ROLLUPS, SESSIONS, STRINGS, THREADS,
};
use marey_store::{Reader, StoreError};
use thiserror::Error;

use super::format::Format;

/// The counts of the data that a format cannot represent, by their names in the plural.
pub type LeftOut = BTreeMap<&'static str, u64>;

/// Why a run was not exported.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The file could not be written.
    #[error("cannot write: {0}")]
    Io(#[from] io::Error),
    /// The run could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The format can only be read.
    #[error("cannot write {}", .0.title())]
    ReadOnly(Format),
    /// The run has none of the data that the format holds.
    #[error("the run has {missing}, which {} consists of", format.title())]
    NoData {
        /// The format.
        format: Format,
        /// The data that the run lacks, with `no` before it.
        missing: &'static str,
    },
}

/// The tables that no writer counts as left out. Rows of other tables refer to them, they are sums
/// of such rows, or they describe the recording.
const UNCOUNTED_TABLES: [&Table; 9] =
    [&STRINGS, &CONTEXTS, &ARGS, &PROCESSES, &THREADS, &SESSIONS, &PHASES, &LOSSES, &ROLLUPS];

/// Counts the rows of all tables except those that a writer writes.
pub(crate) fn leave_out_tables_except(
    written: &[&Table],
    reader: &Reader,
    left_out: &mut LeftOut,
) -> Result<(), StoreError> {
    for table in stored::ALL {
        if !written.iter().chain(&UNCOUNTED_TABLES).any(|other| other.name == table.name) {
            *left_out.entry(name_of_rows(table)).or_default() += reader.count(table)?;
        }
    }
    Ok(())
}

/// Returns the name of a table's rows in a [`LeftOut`].
fn name_of_rows(table: &Table) -> &'static str {
    match table.name {
        "async_spans" => "asynchronous spans",
        "counters" => "counter values",
        "flows" => "flow points",
        "gpu_activities" => "device activities",
        "memory_events" => "memory events",
        "memory_snapshots" => "memory blocks",
        "metadata" => "metadata entries",
        "metrics" => "metric values",
        "steps" => "step numbers",
        name => name,
    }
}
