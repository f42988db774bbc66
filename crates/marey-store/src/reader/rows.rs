//! The rows of a table, merged over all parts.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::marker::PhantomData;

use arrow::array::{Array, ArrayRef};
use marey_model::table::Table;

use super::Reader;
use crate::StoreError;
use crate::read::Batches;
use crate::row::{Field, Row};

/// The rows of a table in its order over all parts.
pub struct Rows<'r, R> {
    reader: &'r Reader<'r>,
    /// A min-heap of the parts, by their next rows.
    cursors: BinaryHeap<Reverse<PartCursor<'r>>>,
    row_type: PhantomData<R>,
}

impl<'r, R: Row> Rows<'r, R> {
    pub(super) fn new(reader: &'r Reader<'r>, parts: Vec<Batches<'r>>) -> Self {
        let mut cursors = BinaryHeap::with_capacity(parts.len());
        for (number, batches) in parts.into_iter().enumerate() {
            // A part with an unknown first key sorts first, so it is read at once and its key
            // becomes known.
            let first = if R::TABLE.sorted_by.is_some() { batches.first_key() } else { Some(0) };
            let key = (first.unwrap_or(i64::MIN), number);
            cursors.push(Reverse(PartCursor { key, columns: Vec::new(), row: 0, batches }));
        }
        Self { reader, cursors, row_type: PhantomData }
    }

    fn next_row(&mut self) -> Result<Option<R>, StoreError> {
        while let Some(mut least) = self.cursors.peek_mut() {
            let cursor = &mut least.0;
            if cursor.columns.is_empty() {
                if !cursor.load_batch(R::TABLE)? {
                    PeekMut::pop(least);
                }
                continue;
            }
            let row = is_selected(R::TABLE, &cursor.columns, cursor.row, self.reader)
                .then(|| R::read(&cursor.columns, cursor.row));
            cursor.row += 1;
            if cursor.row < cursor.columns[0].len() {
                cursor.key.0 = sort_key(R::TABLE, &cursor.columns, cursor.row);
            } else if !cursor.load_batch(R::TABLE)? {
                PeekMut::pop(least);
            }
            if row.is_some() {
                return Ok(row);
            }
        }
        Ok(None)
    }
}

impl<R: Row> Iterator for Rows<'_, R> {
    type Item = Result<R, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_row().transpose()
    }
}

/// The read position in a part.
struct PartCursor<'r> {
    /// The sort key of the next row, then the number of the part.
    key: (i64, usize),
    /// The columns of the current batch. Empty before the first read.
    columns: Vec<ArrayRef>,
    row: usize,
    batches: Batches<'r>,
}

impl PartCursor<'_> {
    /// Loads the next batch. Returns whether there is one.
    fn load_batch(&mut self, table: &'static Table) -> Result<bool, StoreError> {
        for batch in self.batches.by_ref() {
            let batch = batch?;
            if batch.num_rows() > 0 {
                self.columns = batch.columns().to_vec();
                self.row = 0;
                self.key.0 = sort_key(table, &self.columns, 0);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Ord for PartCursor<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl PartialOrd for PartCursor<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PartCursor<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for PartCursor<'_> {}

/// Returns the sort key of a row, which is 0 for all rows of an unsorted table.
fn sort_key(table: &Table, columns: &[ArrayRef], row: usize) -> i64 {
    let column = table.sorted_by.and_then(|column| table.position(column));
    column.map_or(0, |index| i64::read(&columns[index..], row))
}

/// Whether a row is in the selection.
pub(super) fn is_selected(
    table: &Table,
    columns: &[ArrayRef],
    row: usize,
    reader: &Reader,
) -> bool {
    let selection = &reader.selection;
    let column = |name: &str| table.position(name).map(|index| &columns[index..]);
    if let Some(selected) = &selection.processes {
        let process = match (column("process_id"), column("thread_id")) {
            (Some(process), _) => Some(u32::read(process, row)),
            (None, Some(thread)) => {
                reader.thread(u32::read(thread, row)).map(|thread| thread.process_id)
            }
            (None, None) => None,
        };
        if process.is_some_and(|process| !selected.contains(&process)) {
            return false;
        }
    }
    if selection.is_all_time() {
        return true;
    }
    let moment = column("start_nanos").or_else(|| column("time_nanos"));
    let Some(start) = moment.and_then(|moment| Option::<i64>::read(moment, row)) else {
        return true;
    };
    let duration = column("duration_nanos").and_then(|column| Option::<i64>::read(column, row));
    let end = start.saturating_add(duration.unwrap_or(0));
    start < selection.until_nanos && (end > selection.from_nanos || start >= selection.from_nanos)
}
