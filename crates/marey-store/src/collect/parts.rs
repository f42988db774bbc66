//! The parts that a collection writes.

use std::path::Path;

use arrow::array::{ArrayRef, RecordBatch};
use marey_model::table::Table;

use crate::{PartWriter, StoreError, WrittenPart, arrow_schema};

/// The parts that are written in a collection.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    pub(super) run: &'a Path,
    /// The next free number of a part.
    pub(super) next: u32,
    /// Each with the process that its rows are of, if they are of one.
    pub(super) written: Vec<(WrittenPart, Option<u32>)>,
}

/// A part that is made when its first rows come.
pub(super) struct LazyPart {
    table: &'static Table,
    writer: Option<PartWriter>,
}

impl LazyPart {
    pub(super) const fn new(table: &'static Table) -> Self {
        Self { table, writer: None }
    }

    /// Appends rows, as the table's columns.
    pub(super) fn write(
        &mut self,
        columns: Vec<ArrayRef>,
        parts: &mut Parts,
    ) -> Result<(), StoreError> {
        let batch = RecordBatch::try_new(arrow_schema(self.table), columns).map_err(|source| {
            StoreError::Arrow { run: parts.run.to_owned(), table: self.table.name, source }
        })?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                parts.next += 1;
                none.insert(PartWriter::create(parts.run, self.table, parts.next - 1)?)
            }
        };
        writer.write(&batch)
    }

    /// Ends the part, if it has rows.
    pub(super) fn finish(self, process: Option<u32>, parts: &mut Parts) -> Result<(), StoreError> {
        if let Some(writer) = self.writer {
            parts.written.push((writer.finish()?, process));
        }
        Ok(())
    }
}

/// Writes a part at once.
pub(super) fn write(
    table: &'static Table,
    columns: Vec<ArrayRef>,
    process: Option<u32>,
    parts: &mut Parts,
) -> Result<(), StoreError> {
    let mut part = LazyPart::new(table);
    part.write(columns, parts)?;
    part.finish(process, parts)
}
