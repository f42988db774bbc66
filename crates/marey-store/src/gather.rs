//! Small parts of a table as one.
//!
//! A run of a thousand ranks would have ten thousand files otherwise, and who reads its rows in order
//! would have all of them open.

use std::collections::BTreeMap;
use std::mem;

use arrow::array::{AsArray, RecordBatch, UInt32Array};
use arrow::compute::{cast, concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Int64Type};
use arrow::error::ArrowError;
use marey_model::table::Table;

use crate::arrow_schema;

/// A part whose rows take less memory is a small one; a row group of spans takes about as much.
pub(crate) const SMALL_BYTES: usize = 16 << 20;

/// Rows that take so much memory become a part.
const PART_BYTES: usize = 64 << 20;

/// The rows of small parts, by table.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    tables: BTreeMap<&'static str, Rows>,
}

#[derive(Debug)]
struct Rows {
    table: &'static Table,
    batches: Vec<RecordBatch>,
    bytes: usize,
}

impl Gathered {
    /// Takes the rows of a part; returns all of its table if they are enough for one.
    pub(crate) fn add(
        &mut self,
        table: &'static Table,
        batches: Vec<RecordBatch>,
    ) -> Option<Vec<RecordBatch>> {
        let none = Rows { table, batches: Vec::new(), bytes: 0 };
        let rows = self.tables.entry(table.name).or_insert(none);
        rows.bytes += batches.iter().map(RecordBatch::get_array_memory_size).sum::<usize>();
        rows.batches.extend(batches);
        if rows.bytes < PART_BYTES {
            return None;
        }
        rows.bytes = 0;
        Some(mem::take(&mut rows.batches))
    }

    /// The rows of a table, if any has some.
    pub(crate) fn pop(&mut self) -> Option<(&'static Table, Vec<RecordBatch>)> {
        loop {
            let (_, Rows { table, batches, .. }) = self.tables.pop_first()?;
            if !batches.is_empty() {
                return Some((table, batches));
            }
        }
    }
}

/// All rows in the order of their table; those that it does not tell apart stay as they came.
pub(crate) fn in_order(
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
    fn rows_are_in_the_order_of_their_table_and_then_as_they_came() {
        let batches = [strings(&[(1, "a"), (3, "b")]), strings(&[(0, "c"), (1, "d"), (3, "e")])];
        let expected = strings(&[(0, "c"), (1, "a"), (1, "d"), (3, "b"), (3, "e")]);
        assert_eq!(in_order(&STRINGS, &batches).unwrap(), expected);
    }

    #[test]
    fn enough_rows_are_a_part_and_the_others_come_at_the_end() {
        let batch = strings(&[(0, &"x".repeat(PART_BYTES / 4))]);
        let mut gathered = Gathered::default();
        for _ in 0..3 {
            assert!(gathered.add(&STRINGS, vec![batch.clone()]).is_none());
        }
        assert!(gathered.add(&LOSSES, Vec::new()).is_none());
        assert_eq!(gathered.add(&STRINGS, vec![batch.clone()]).unwrap().len(), 4);
        assert!(gathered.add(&STRINGS, vec![batch]).is_none());
        let (table, batches) = gathered.pop().unwrap();
        assert_eq!((table.name, batches.len()), ("strings", 1));
        assert!(gathered.pop().is_none());
    }
}
