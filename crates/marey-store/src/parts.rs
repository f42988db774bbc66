//! The parts that a collection or an import writes.

use std::fmt;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use marey_model::table::Table;

use crate::gather::{self, Gathered};

use crate::row::Row;
use crate::write::Scratches;
use crate::{PartWriter, StoreError, WrittenPart, arrow_schema};

/// How long what is written must last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// It is on the disk when it is finished: nobody can make it again.
    Durable,
    /// What a power cut takes can be made again.
    Kept,
    /// It goes with the process: it has no name, and is not compressed, which takes longer than it saves.
    Brief,
}

/// The parts that are written in a collection or an import.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The folder of the run; if it is brief, where files are made.
    pub(crate) run: PathBuf,
    /// The next free number of a part.
    next: Arc<AtomicU32>,
    lifetime: Lifetime,
    /// Files of brief parts.
    scratches: Scratches,
    /// Each with the process that its rows are of, if that may be collected anew.
    pub(crate) written: Vec<(WrittenPart, Option<u32>)>,
    /// Rows of small parts, which share one; `None` where each part has a file.
    gathered: Option<Gathered>,
}

impl Parts {
    /// Of a run in which numbers are free from `next` on.
    pub(crate) fn new(run: &Path, next: u32, lifetime: Lifetime) -> Self {
        Self::in_scratches(run, next, lifetime, Scratches::default())
    }

    /// Brief parts in files that other runs use too.
    pub(crate) fn brief(folder: &Path, scratches: Scratches) -> Self {
        Self::in_scratches(folder, 0, Lifetime::Brief, scratches)
    }

    /// Durable parts, of which the small ones of a table become one.
    pub(crate) fn gathering(run: &Path, next: u32) -> Self {
        let gathered = Some(Gathered::default());
        Self { gathered, ..Self::new(run, next, Lifetime::Durable) }
    }

    fn in_scratches(run: &Path, next: u32, lifetime: Lifetime, scratches: Scratches) -> Self {
        let next = Arc::new(AtomicU32::new(next));
        let run = run.to_owned();
        Self { run, next, lifetime, scratches, written: Vec::new(), gathered: None }
    }

    /// Others of the same run, for another thread.
    pub(crate) fn beside(&self) -> Self {
        let Self { run, next, lifetime, scratches, .. } = self;
        let (run, next, scratches) = (run.clone(), Arc::clone(next), scratches.clone());
        let lifetime = *lifetime;
        Self { run, next, lifetime, scratches, written: Vec::new(), gathered: None }
    }

    /// Whether they go with the process.
    pub(crate) fn is_brief(&self) -> bool {
        self.lifetime == Lifetime::Brief
    }

    /// Begins a part, of which the first rows are so many.
    fn begin(&mut self, table: &'static Table, rows: usize) -> Result<PartWriter, StoreError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if !self.is_brief() {
            return PartWriter::create(&self.run, table, number);
        }
        let scratch = self.scratches.take(&self.run)?;
        PartWriter::append(scratch, &self.run, table, number, rows < BATCH_ROWS)
    }

    fn end(&mut self, writer: PartWriter, process: Option<u32>) -> Result<(), StoreError> {
        let part = writer.end(self.lifetime == Lifetime::Durable)?;
        if let Some(scratch) = part.behind() {
            self.scratches.put_back(scratch);
        }
        self.written.push((part, process));
        Ok(())
    }

    /// Writes the rows of small parts that are still in memory. Those of each table are one part.
    pub(crate) fn write_gathered(&mut self) -> Result<(), StoreError> {
        while let Some((table, batches)) = self.gathered.as_mut().and_then(Gathered::pop) {
            self.write_together(table, &batches)?;
        }
        Ok(())
    }

    /// Takes the rows of a small part, to be written with those of others.
    fn gather(
        &mut self,
        table: &'static Table,
        batches: Vec<RecordBatch>,
    ) -> Result<(), StoreError> {
        let full = self.gathered.as_mut().and_then(|gathered| gathered.add(table, batches));
        full.map_or(Ok(()), |batches| self.write_together(table, &batches))
    }

    fn write_together(
        &mut self,
        table: &'static Table,
        batches: &[RecordBatch],
    ) -> Result<(), StoreError> {
        let rows = gather::in_order(table, batches).map_err(|source| StoreError::Arrow {
            run: self.run.clone(),
            table: table.name,
            source,
        })?;
        let mut writer = self.begin(table, rows.num_rows())?;
        writer.write(&rows)?;
        self.end(writer, None)
    }

    /// The next free number.
    pub(crate) fn next(&self) -> u32 {
        self.next.load(Ordering::Relaxed)
    }
}

/// A part that is made when its first rows come; where small parts are gathered, when it is not one.
pub(crate) struct LazyPart {
    table: &'static Table,
    writer: Option<PartWriter>,
    /// Rows of what may be a small part.
    waiting: Vec<RecordBatch>,
    waiting_bytes: usize,
}

impl fmt::Debug for LazyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyPart").field("table", &self.table.name).finish_non_exhaustive()
    }
}

impl LazyPart {
    pub(crate) const fn new(table: &'static Table) -> Self {
        Self { table, writer: None, waiting: Vec::new(), waiting_bytes: 0 }
    }

    /// Appends rows, as the table's columns.
    pub(crate) fn write(
        &mut self,
        columns: Vec<ArrayRef>,
        parts: &mut Parts,
    ) -> Result<(), StoreError> {
        let batch = RecordBatch::try_new(arrow_schema(self.table), columns).map_err(|source| {
            StoreError::Arrow { run: parts.run.clone(), table: self.table.name, source }
        })?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if self.writer.is_none() && parts.gathered.is_some() {
            self.waiting_bytes += batch.get_array_memory_size();
            self.waiting.push(batch);
            let is_small = self.waiting_bytes < gather::SMALL_BYTES;
            return if is_small { Ok(()) } else { self.write_waiting(parts) };
        }
        self.write_now(&batch, parts)
    }

    fn write_waiting(&mut self, parts: &mut Parts) -> Result<(), StoreError> {
        let waiting = mem::take(&mut self.waiting);
        waiting.iter().try_for_each(|batch| self.write_now(batch, parts))
    }

    fn write_now(&mut self, batch: &RecordBatch, parts: &mut Parts) -> Result<(), StoreError> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(parts.begin(self.table, batch.num_rows())?),
        };
        writer.write(batch)
    }

    /// Ends the part, if it has rows. Those of a `process` that may be collected anew share no part
    /// with others.
    pub(crate) fn finish(
        mut self,
        process: Option<u32>,
        parts: &mut Parts,
    ) -> Result<(), StoreError> {
        if process.is_some() {
            self.write_waiting(parts)?;
        } else if !self.waiting.is_empty() {
            return parts.gather(self.table, self.waiting);
        }
        self.writer.map_or(Ok(()), |writer| parts.end(writer, process))
    }
}

/// Writes a part at once.
pub(crate) fn write(
    table: &'static Table,
    columns: Vec<ArrayRef>,
    process: Option<u32>,
    parts: &mut Parts,
) -> Result<(), StoreError> {
    let mut part = LazyPart::new(table);
    part.write(columns, parts)?;
    part.finish(process, parts)
}

/// Rows of a table on their way to a part.
pub(crate) struct RowPart<R: Row> {
    part: LazyPart,
    columns: R::Columns,
    waiting: usize,
    waiting_bytes: usize,
    /// What is added to all moments.
    shift_nanos: i64,
}

impl<R: Row> RowPart<R> {
    pub(crate) fn new(shift_nanos: i64) -> Self {
        let part = LazyPart::new(R::TABLE);
        Self { part, columns: R::Columns::default(), waiting: 0, waiting_bytes: 0, shift_nanos }
    }

    pub(crate) fn push(&mut self, row: &R, parts: &mut Parts) -> Result<(), StoreError> {
        row.append(&mut self.columns);
        self.waiting += 1;
        self.waiting_bytes += row.heap_bytes();
        let is_full = self.waiting == BATCH_ROWS || self.waiting_bytes >= BATCH_BYTES;
        if is_full { self.write(parts) } else { Ok(()) }
    }

    pub(crate) fn finish(mut self, parts: &mut Parts) -> Result<(), StoreError> {
        self.write(parts)?;
        self.part.finish(None, parts)
    }

    fn write(&mut self, parts: &mut Parts) -> Result<(), StoreError> {
        (self.waiting, self.waiting_bytes) = (0, 0);
        let columns = R::finish(&mut self.columns);
        self.part.write(shifted(R::TABLE, columns, self.shift_nanos), parts)
    }
}

/// Rows that are written at a time, and bytes of texts and lists in them: an array has a limit. A part
/// that begins with fewer rows is a small one.
const BATCH_ROWS: usize = 1 << 10;
const BATCH_BYTES: usize = 8 << 20;

/// The columns with something added to every moment.
fn shifted(table: &Table, mut columns: Vec<ArrayRef>, nanos: i64) -> Vec<ArrayRef> {
    if nanos != 0 {
        for (column, array) in table.columns.iter().zip(&mut columns) {
            if column.is_timestamp() {
                let moved = array.as_primitive::<Int64Type>();
                *array = Arc::new(moved.unary::<_, Int64Type>(|at| at.saturating_add(nanos)));
            }
        }
    }
    columns
}
