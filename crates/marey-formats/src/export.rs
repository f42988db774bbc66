//! Export: from a run to a file of another format.
//!
//! A writer reads the run row by row and writes as it goes; what its format has no place for it
//! counts in [`LeftOut`].

use std::collections::BTreeMap;
use std::io::{self, Write};

use marey_model::table::Table;
use marey_store::{Part, Reader, StoreError};
use thiserror::Error;

use crate::{Format, writers};

/// What a format has no place for: what it is, in the plural, and how much of it there is.
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
    /// The run has nothing that the format is for.
    #[error("the run has {missing}, which {} is made of", format.title())]
    Nothing {
        /// The format.
        format: Format,
        /// What the run lacks, with `no` before it.
        missing: &'static str,
    },
}

/// Writes what `reader` sees of a run, and says what is left out.
pub fn export(
    reader: &Reader,
    format: Format,
    out: &mut dyn Write,
) -> Result<LeftOut, ExportError> {
    let mut left_out = LeftOut::new();
    writers::write(format, reader, out, &mut left_out)?;
    out.flush()?;
    left_out.retain(|_, count| *count > 0);
    Ok(left_out)
}

/// Counts all rows of a table that a format has no place for.
pub(crate) fn leave_out_table(
    reader: &Reader,
    table: &Table,
    name: &'static str,
    left_out: &mut LeftOut,
) {
    let rows: u64 = reader.run().parts(table).iter().map(Part::rows).sum();
    *left_out.entry(name).or_default() += rows;
}
