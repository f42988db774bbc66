//! Writes the parts of a collection, an import or a merge: numbers them, begins a file only when
//! there are rows, and merges small parts.

use std::fmt;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use marey_model::table::Table;

use crate::small_parts::{self, SmallParts};

use crate::row::Row;
use crate::write::TemporaryFilePool;
use crate::{PartWriter, StoreError, WrittenPart, arrow_schema};

/// The failures that a finished part survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// A power cut. The part is fsynced, because its source is removed afterwards.
    Synced,
    /// The end of the process, but not a power cut. The part is not fsynced, because it can be
    /// rebuilt from its source.
    Unsynced,
    /// Nothing. The part is in a temporary file, and is not compressed because that would take
    /// longer than it saves.
    Temporary,
}

/// The parts that a collection, an import or a merge writes.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The folder of the run. For temporary parts, the folder in which their files are created.
    pub(crate) run: PathBuf,
    /// The next free number of a part.
    next_number: Arc<AtomicU32>,
    durability: Durability,
    /// Files for temporary parts.
    pool: TemporaryFilePool,
    /// Finished parts, each with the process of its rows if they may be collected again.
    pub(crate) written: Vec<(WrittenPart, Option<u32>)>,
    /// The rows of small parts to merge. `None` if each part gets a file.
    small: Option<SmallParts>,
}

impl Parts {
    /// Creates parts of a run whose numbers begin at `next_number`.
    pub(crate) fn new(run: &Path, next_number: u32, durability: Durability) -> Self {
        Self::with_pool(run, next_number, durability, TemporaryFilePool::default())
    }

    /// Creates temporary parts in files that other runs share.
    pub(crate) fn temporary(folder: &Path, pool: TemporaryFilePool) -> Self {
        Self::with_pool(folder, 0, Durability::Temporary, pool)
    }

    /// Creates synced parts, with the small ones of a table merged.
    pub(crate) fn merging_small(run: &Path, next_number: u32) -> Self {
        let small = Some(SmallParts::default());
        Self { small, ..Self::new(run, next_number, Durability::Synced) }
    }

    fn with_pool(
        run: &Path,
        next_number: u32,
        durability: Durability,
        pool: TemporaryFilePool,
    ) -> Self {
        let next_number = Arc::new(AtomicU32::new(next_number));
        let run = run.to_owned();
        Self { run, next_number, durability, pool, written: Vec::new(), small: None }
    }

    /// Returns a writer of other parts of the same run, for another thread.
    pub(crate) fn for_thread(&self) -> Self {
        let Self { run, next_number, durability, pool, .. } = self;
        let (run, next_number, pool) = (run.clone(), Arc::clone(next_number), pool.clone());
        let durability = *durability;
        Self { run, next_number, durability, pool, written: Vec::new(), small: None }
    }

    /// Whether the parts are temporary files.
    pub(crate) fn is_temporary(&self) -> bool {
        self.durability == Durability::Temporary
    }

    /// Begins a part. `first_batch_rows` is the size of its first batch.
    fn begin_part(
        &mut self,
        table: &'static Table,
        first_batch_rows: usize,
    ) -> Result<PartWriter, StoreError> {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        if !self.is_temporary() {
            return PartWriter::create(&self.run, table, number);
        }
        let temporary_file = self.pool.acquire(&self.run)?;
        PartWriter::append(temporary_file, &self.run, table, number, first_batch_rows < BATCH_ROWS)
    }

    fn end_part(&mut self, writer: PartWriter, owner_id: Option<u32>) -> Result<(), StoreError> {
        let part = writer.finish_with(self.durability == Durability::Synced)?;
        if let Some(temporary_file) = part.remaining_file() {
            self.pool.release(temporary_file);
        }
        self.written.push((part, owner_id));
        Ok(())
    }

    /// Writes the merged small parts, one for each table.
    pub(crate) fn write_small_parts(&mut self) -> Result<(), StoreError> {
        while let Some((table, batches)) = self.small.as_mut().and_then(SmallParts::pop) {
            self.write_merged(table, &batches)?;
        }
        Ok(())
    }

    /// Adds the rows of a small part to the rows of other small parts.
    fn add_small_part(
        &mut self,
        table: &'static Table,
        batches: Vec<RecordBatch>,
    ) -> Result<(), StoreError> {
        let small_parts = self.small.as_mut();
        let full_part = small_parts.and_then(|small_parts| small_parts.add(table, batches));
        full_part.map_or(Ok(()), |batches| self.write_merged(table, &batches))
    }

    fn write_merged(
        &mut self,
        table: &'static Table,
        batches: &[RecordBatch],
    ) -> Result<(), StoreError> {
        let rows = small_parts::concat_sorted(table, batches)
            .map_err(StoreError::arrow(&self.run, table))?;
        let mut writer = self.begin_part(table, rows.num_rows())?;
        writer.write(&rows)?;
        self.end_part(writer, None)
    }

    /// Returns the next free number of a part.
    pub(crate) fn next_number(&self) -> u32 {
        self.next_number.load(Ordering::Relaxed)
    }
}

/// A part whose file is created with its first rows. If small parts are merged, the file is created
/// once the part is too large for that.
pub(crate) struct LazyPart {
    table: &'static Table,
    writer: Option<PartWriter>,
    /// Rows held back while the part may be small.
    pending_batches: Vec<RecordBatch>,
    pending_bytes: usize,
}

impl fmt::Debug for LazyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyPart").field("table", &self.table.name).finish_non_exhaustive()
    }
}

impl LazyPart {
    pub(crate) const fn new(table: &'static Table) -> Self {
        Self { table, writer: None, pending_batches: Vec::new(), pending_bytes: 0 }
    }

    /// Appends rows, given as the table's columns.
    pub(crate) fn write(
        &mut self,
        columns: Vec<ArrayRef>,
        parts: &mut Parts,
    ) -> Result<(), StoreError> {
        let batch = RecordBatch::try_new(arrow_schema(self.table), columns)
            .map_err(StoreError::arrow(&parts.run, self.table))?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if self.writer.is_none() && parts.small.is_some() {
            self.pending_bytes += batch.get_array_memory_size();
            self.pending_batches.push(batch);
            let is_small = self.pending_bytes < small_parts::MAX_SMALL_BYTES;
            return if is_small { Ok(()) } else { self.write_pending(parts) };
        }
        self.append_to_file(&batch, parts)
    }

    fn write_pending(&mut self, parts: &mut Parts) -> Result<(), StoreError> {
        let pending_batches = mem::take(&mut self.pending_batches);
        pending_batches.iter().try_for_each(|batch| self.append_to_file(batch, parts))
    }

    fn append_to_file(&mut self, batch: &RecordBatch, parts: &mut Parts) -> Result<(), StoreError> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            absent => absent.insert(parts.begin_part(self.table, batch.num_rows())?),
        };
        writer.write(batch)
    }

    /// Ends the part, if it has rows. A part with `owner_id`, whose rows may be collected again, is
    /// not merged with others.
    pub(crate) fn finish(
        mut self,
        owner_id: Option<u32>,
        parts: &mut Parts,
    ) -> Result<(), StoreError> {
        if owner_id.is_some() {
            self.write_pending(parts)?;
        } else if !self.pending_batches.is_empty() {
            return parts.add_small_part(self.table, self.pending_batches);
        }
        self.writer.map_or(Ok(()), |writer| parts.end_part(writer, owner_id))
    }
}

/// Writes a part with one batch.
pub(crate) fn write(
    table: &'static Table,
    columns: Vec<ArrayRef>,
    owner_id: Option<u32>,
    parts: &mut Parts,
) -> Result<(), StoreError> {
    let mut part = LazyPart::new(table);
    part.write(columns, parts)?;
    part.finish(owner_id, parts)
}

/// Buffers rows of a table and writes them to a part in batches.
pub(crate) struct RowPart<R: Row> {
    part: LazyPart,
    columns: R::Columns,
    pending_rows: usize,
    pending_bytes: usize,
    /// The offset that is added to all timestamps.
    shift_nanos: i64,
}

impl<R: Row> RowPart<R> {
    pub(crate) fn new(shift_nanos: i64) -> Self {
        let part = LazyPart::new(R::TABLE);
        Self {
            part,
            columns: R::Columns::default(),
            pending_rows: 0,
            pending_bytes: 0,
            shift_nanos,
        }
    }

    pub(crate) fn push(&mut self, row: &R, parts: &mut Parts) -> Result<(), StoreError> {
        row.append(&mut self.columns);
        self.pending_rows += 1;
        self.pending_bytes += row.heap_bytes();
        let is_full = self.pending_rows == BATCH_ROWS || self.pending_bytes >= BATCH_BYTES;
        if is_full { self.write(parts) } else { Ok(()) }
    }

    pub(crate) fn finish(mut self, parts: &mut Parts) -> Result<(), StoreError> {
        self.write(parts)?;
        self.part.finish(None, parts)
    }

    fn write(&mut self, parts: &mut Parts) -> Result<(), StoreError> {
        (self.pending_rows, self.pending_bytes) = (0, 0);
        let columns = R::finish(&mut self.columns);
        self.part.write(shift_timestamps(R::TABLE, columns, self.shift_nanos), parts)
    }
}

/// Number of rows in a batch. A part whose first batch has fewer rows is small.
const BATCH_ROWS: usize = 1 << 10;
/// Maximum bytes of texts and lists in a batch. The offsets of Arrow arrays have 32 bits.
const BATCH_BYTES: usize = 8 << 20;

/// Adds an offset to all timestamp columns.
fn shift_timestamps(table: &Table, mut columns: Vec<ArrayRef>, shift_nanos: i64) -> Vec<ArrayRef> {
    if shift_nanos != 0 {
        for (column, array) in table.columns.iter().zip(&mut columns) {
            if column.is_timestamp() {
                let timestamps = array.as_primitive::<Int64Type>();
                *array =
                    Arc::new(timestamps.unary::<_, Int64Type>(|time_nanos| {
                        time_nanos.saturating_add(shift_nanos)
                    }));
            }
        }
    }
    columns
}
