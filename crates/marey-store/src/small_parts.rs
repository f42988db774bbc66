//! Merges small parts of a table into one, in a collection or a merge of runs.
//!
//! Without this, a run of a thousand ranks would have ten thousand files, and a reader of rows in
//! order would have to open all of them.

use std::collections::BTreeMap;
use std::mem;

use arrow::array::{AsArray, RecordBatch, UInt32Array};
use arrow::compute::{cast, concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Int64Type};
use arrow::error::ArrowError;
use marey_model::table::Table;

use crate::arrow_schema;

/// Memory of rows below which a part is small. A row group of spans takes about as much.
pub(crate) const MAX_SMALL_BYTES: usize = 16 << 20;

/// Memory of the rows of small parts at which they become a part.
const PART_BYTES: usize = 64 << 20;

/// The rows of small parts, by table.
#[derive(Debug, Default)]
pub(crate) struct SmallParts {
    tables: BTreeMap<&'static str, PendingRows>,
}

#[derive(Debug)]
struct PendingRows {
    table: &'static Table,
    batches: Vec<RecordBatch>,
    bytes: usize,
}

impl SmallParts {
    /// Adds the rows of a part. Returns all rows of its table once they are enough for one part.
    pub(crate) fn add(
        &mut self,
        table: &'static Table,
        batches: Vec<RecordBatch>,
    ) -> Option<Vec<RecordBatch>> {
        let empty = PendingRows { table, batches: Vec::new(), bytes: 0 };
        let rows = self.tables.entry(table.name).or_insert(empty);
        rows.bytes += batches.iter().map(RecordBatch::get_array_memory_size).sum::<usize>();
        rows.batches.extend(batches);
        if rows.bytes < PART_BYTES {
            return None;
        }
        rows.bytes = 0;
        Some(mem::take(&mut rows.batches))
    }

    /// Removes and returns the rows of a table, or returns `None` if none are left.
    pub(crate) fn pop(&mut self) -> Option<(&'static Table, Vec<RecordBatch>)> {
        loop {
            let (_, PendingRows { table, batches, .. }) = self.tables.pop_first()?;
            if !batches.is_empty() {
                return Some((table, batches));
            }
        }
    }
}

/// Concatenates rows in the order of their table. The sort is stable.
pub(crate) fn concat_sorted(
    table: &'static Table,
    batches: &[RecordBatch],
) -> Result<RecordBatch, ArrowError> {
    let rows = concat_batches(&arrow_schema(table), batches)?;
    let Some(key) = table.sorted_by.and_then(|column| table.position(column)) else {
        return Ok(rows);
    };
    let keys = cast(rows.column(key), &DataType::Int64)?;
    let keys = keys.as_primitive::<Int64Type>().values();
    if keys.is_sorted() {
        return Ok(rows);
    }
    let mut order: Vec<u32> = (0..rows.num_rows() as u32).collect();
    order.sort_by_key(|&row| keys[row as usize]);
    take_record_batch(&rows, &UInt32Array::from(order))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::{ids, texts};
    use marey_model::table::stored::{LOSSES, STRINGS};

    fn strings(rows: &[(u32, &str)]) -> RecordBatch {
        let columns = vec![ids(rows.iter().map(|row| row.0)), texts(rows.iter().map(|row| row.1))];
        RecordBatch::try_new(arrow_schema(&STRINGS), columns).unwrap()
    }

    #[test]
    fn rows_are_sorted_by_key_and_then_by_arrival() {
        let batches = [strings(&[(1, "a"), (3, "b")]), strings(&[(0, "c"), (1, "d"), (3, "e")])];
        let expected = strings(&[(0, "c"), (1, "a"), (1, "d"), (3, "b"), (3, "e")]);
        assert_eq!(concat_sorted(&STRINGS, &batches).unwrap(), expected);
    }

    #[test]
    fn enough_rows_become_a_part_and_the_rest_is_returned_at_the_end() {
        let batch = strings(&[(0, &"x".repeat(PART_BYTES / 4))]);
        let mut small_parts = SmallParts::default();
        for _ in 0..3 {
            assert!(small_parts.add(&STRINGS, vec![batch.clone()]).is_none());
        }
        assert!(small_parts.add(&LOSSES, Vec::new()).is_none());
        assert_eq!(small_parts.add(&STRINGS, vec![batch.clone()]).unwrap().len(), 4);
        assert!(small_parts.add(&STRINGS, vec![batch]).is_none());
        let (table, batches) = small_parts.pop().unwrap();
        assert_eq!((table.name, batches.len()), ("strings", 1));
        assert!(small_parts.pop().is_none());
    }
}
