//! Parts of all writers: errors, and counts of the data that a format cannot represent.
//!
//! A writer reads the run row by row and writes as it goes.

use std::collections::BTreeMap;
use std::io;

use marey_model::table::Table;
use marey_store::row::Row;
use marey_store::{Part, Reader, StoreError};
use thiserror::Error;

use super::format::Format;

/// The data that a format cannot represent: names in the plural, with counts.
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

/// Counts all rows of tables that a format cannot hold.
pub(crate) fn leave_out_tables(reader: &Reader, tables: &[&Table], left_out: &mut LeftOut) {
    for table in tables {
        *left_out.entry(label(table)).or_default() += row_count(reader, table);
    }
}

/// Returns the number of rows of a table of the run.
pub(crate) fn row_count(reader: &Reader, table: &Table) -> u64 {
    reader.run().parts(table).iter().map(Part::rows).sum()
}

/// Counts the rows of a table that `reader` sees and a format cannot hold.
pub(crate) fn leave_out_rows<R: Row>(
    reader: &Reader,
    left_out: &mut LeftOut,
) -> Result<(), StoreError> {
    let count = reader.rows::<R>()?.try_fold(0, |count, row| row.map(|_| count + 1))?;
    *left_out.entry(label(R::TABLE)).or_default() += count;
    Ok(())
}

/// Returns the name of a table's rows in a [`LeftOut`].
fn label(table: &Table) -> &'static str {
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
