//! A small run with rows in every table.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, ListArray, RecordBatch,
    StringArray, UInt32Array, UInt64Array,
};
use arrow::datatypes::{Float64Type, Int64Type};
use marey_model::table::stored::ALL;
use marey_model::table::{Column, ColumnKind, Table};
use marey_store::{Manifest, PartWriter, Run, WrittenPart, arrow_schema};
use tempfile::TempDir;

/// Rows of each part of the sample.
pub(crate) const ROWS: usize = 7;

/// Returns rows of these numbers: ascending numbers, and null in every third row of nullable
/// columns.
pub(crate) fn create_rows(table: &Table, numbers: Range<usize>) -> RecordBatch {
    let numbers: Vec<usize> = numbers.collect();
    let columns = table.columns.iter().map(|column| column_values(column, &numbers)).collect();
    RecordBatch::try_new(arrow_schema(table), columns).unwrap()
}

fn column_values(column: &Column, numbers: &[usize]) -> ArrayRef {
    let optional_numbers =
        numbers.iter().map(|&n| (!column.is_nullable || n % 3 != 0).then_some(n));
    match column.kind {
        ColumnKind::Nanos | ColumnKind::Int => Arc::new(
            optional_numbers
                .map(|n| n.map(|n| n.cast_signed() as i64 * 1_000))
                .collect::<Int64Array>(),
        ),
        ColumnKind::Bits => {
            Arc::new(optional_numbers.map(|n| n.map(|n| n as u64)).collect::<UInt64Array>())
        }
        ColumnKind::Id => {
            Arc::new(optional_numbers.map(|n| n.map(|n| n as u32)).collect::<UInt32Array>())
        }
        ColumnKind::Real => {
            Arc::new(optional_numbers.map(|n| n.map(|n| n as f64 / 8.0)).collect::<Float64Array>())
        }
        ColumnKind::Flag => {
            Arc::new(optional_numbers.map(|n| n.map(|n| n % 2 == 0)).collect::<BooleanArray>())
        }
        ColumnKind::Text => Arc::new(
            optional_numbers.map(|n| n.map(|n| format!("text {n}"))).collect::<StringArray>(),
        ),
        ColumnKind::Bytes => Arc::new(
            optional_numbers.map(|n| n.map(|n| vec![n as u8; n % 5])).collect::<BinaryArray>(),
        ),
        ColumnKind::Reals => {
            let lists = optional_numbers.map(|n| n.map(|n| vec![Some(n as f64); n % 4]));
            Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(lists))
        }
        ColumnKind::Ints => {
            let lists =
                optional_numbers.map(|n| n.map(|n| vec![Some(n.cast_signed() as i64); n % 4]));
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))
        }
    }
}

/// Writes the rows of these numbers as a part.
pub(crate) fn write_part(
    run: &Path,
    table: &'static Table,
    number: u32,
    rows: Range<usize>,
) -> WrittenPart {
    let mut writer = PartWriter::create(run, table, number).unwrap();
    writer.write(&create_rows(table, rows)).unwrap();
    writer.finish().unwrap()
}

/// Publishes parts with numbers below 1,000 as a new run.
pub(crate) fn publish(run: &Path, parts: Vec<WrittenPart>) {
    let mut manifest = Manifest::new();
    manifest.next.part = 1_000;
    for part in &parts {
        manifest.list(part, None);
    }
    manifest.publish(run, parts).unwrap();
}

/// Creates a run with two parts of each table.
pub(crate) fn create_run() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let part = |table, number, rows| write_part(folder.path(), table, number, rows);
    let parts = |table| [part(table, 0, 0..ROWS), part(table, 1, ROWS..2 * ROWS)];
    let parts = ALL.iter().copied().flat_map(parts).collect();
    publish(folder.path(), parts);
    folder
}

/// Asserts that a run has the sample's rows.
pub(crate) fn assert_has_sample_rows(run: &Run) {
    for table in ALL {
        assert_eq!(run.read(table).unwrap(), create_rows(table, 0..2 * ROWS), "{}", table.name);
    }
}
