//! [`Table`]: results as a table with declared columns, which becomes an Arrow batch for Python or
//! a list of objects in JSON. Here is also the table of findings.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
};
use arrow::datatypes::{DataType, Field, Schema};
use serde::ser::{Serialize, Serializer};

use self::ColumnType::{Int, Real, Text};
use crate::ask::Cell;
use crate::finding::{Evidence, Finding};
use crate::record::Record;

/// The type of a column's values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ColumnType {
    Int,
    Real,
    Text,
}

/// Column names with their types.
pub(crate) type Columns = [(&'static str, ColumnType)];

/// Rows with declared columns.
#[derive(Debug)]
pub struct Table {
    pub(crate) columns: &'static Columns,
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Serialize for Table {
    /// Serialises the table as a list of objects, one per row.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let columns: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
        serializer.collect_seq(self.rows.iter().map(|row| Record { columns: &columns, row }))
    }
}

impl Table {
    /// Returns the table as an Arrow batch. A value of another type than its column's becomes null.
    pub fn to_batch(&self) -> RecordBatch {
        let Self { columns, rows } = self;
        let column_array = |(index, &(_, column_type)): (usize, &(&str, ColumnType))| -> ArrayRef {
            let cells = rows.iter().map(|row| &row[index]);
            match column_type {
                ColumnType::Int => Arc::new(cells.map(Cell::integer).collect::<Int64Array>()),
                ColumnType::Real => Arc::new(cells.map(Cell::number).collect::<Float64Array>()),
                ColumnType::Text => Arc::new(cells.map(Cell::as_text).collect::<StringArray>()),
            }
        };
        let field = |&(name, column_type): &(&str, ColumnType)| {
            let data_type = match column_type {
                ColumnType::Int => DataType::Int64,
                ColumnType::Real => DataType::Float64,
                ColumnType::Text => DataType::Utf8,
            };
            Field::new(name, data_type, true)
        };
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let arrays = columns.iter().enumerate().map(column_array).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        // This cannot fail, because each array has `rows.len()` values of its field's type.
        RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options)
            .unwrap_or_else(|_mismatch| RecordBatch::new_empty(schema))
    }
}

/// A column of a table whose rows are made of `T`: its name and type, and its value in a row.
pub(crate) type Column<T> = (&'static str, ColumnType, fn(&T) -> Cell);

/// Returns the names and types of columns.
pub(crate) const fn header<T, const N: usize>(
    columns: &[Column<T>; N],
) -> [(&'static str, ColumnType); N] {
    let mut header = [("", ColumnType::Text); N];
    let mut index = 0;
    while index < N {
        header[index] = (columns[index].0, columns[index].1);
        index += 1;
    }
    header
}

/// Returns a row for each item.
pub(crate) fn rows<T>(columns: &[Column<T>], items: &[T]) -> Vec<Vec<Cell>> {
    let row = |item| columns.iter().map(|(_, _, cell)| cell(item)).collect();
    items.iter().map(row).collect()
}

pub(crate) fn text_cell(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

pub(crate) fn real_cell(value: Option<f64>) -> Cell {
    value.map_or(Cell::Null, Cell::Real)
}

fn int_cell(value: Option<i64>) -> Cell {
    value.map_or(Cell::Null, Cell::Int)
}

const FINDINGS: [Column<Finding>; 15] = [
    ("severity", Text, |finding| text_cell(finding.severity.as_str())),
    ("rule", Text, |finding| text_cell(finding.rule)),
    ("title", Text, |finding| text_cell(finding.title)),
    ("subject", Text, |finding| text_cell(&finding.subject)),
    ("description", Text, |finding| text_cell(&finding.description)),
    ("impact_nanos", Real, |finding| Cell::Real(finding.impact_nanos)),
    ("impact_percent", Real, |finding| real_cell(finding.impact_percent)),
    ("gain_nanos", Real, |finding| real_cell(finding.gain_nanos)),
    ("speedup", Real, |finding| real_cell(finding.speedup)),
    ("confidence", Text, |finding| text_cell(finding.confidence.as_str())),
    ("hint", Text, |finding| text_cell(finding.hint)),
    ("rank", Int, |finding| int_cell(finding.rank)),
    ("process_id", Int, |finding| int_cell(finding.process_id)),
    ("evidence", Text, |finding| evidence_cell(&finding.evidence)),
    ("evidence_sql", Text, |finding| text_cell(&finding.evidence.sql)),
];

/// Returns the findings, one per row. The column `evidence` has the row of the rule's query as a
/// JSON object.
pub fn findings(findings: &[Finding]) -> Table {
    Table { columns: &const { header(&FINDINGS) }, rows: rows(&FINDINGS, findings) }
}

fn evidence_cell(evidence: &Evidence) -> Cell {
    let record = Record { columns: &evidence.columns, row: &evidence.row };
    Cell::Text(serde_json::to_string(&record).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;

    #[test]
    fn a_value_of_another_type_is_null_in_a_batch() {
        let table = Table {
            columns: &[("n", ColumnType::Int), ("r", ColumnType::Real), ("t", ColumnType::Text)],
            rows: vec![
                vec![Cell::Int(1), Cell::Int(2), Cell::Text("x".to_owned())],
                vec![Cell::Real(1.5), Cell::Text("y".to_owned()), Cell::Int(3)],
            ],
        };
        let batch = table.to_batch();
        assert_eq!((batch.num_rows(), batch.num_columns()), (2, 3));
        assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), 1);
        assert_eq!(batch.column(2).as_string::<i32>().value(0), "x");
        assert!(batch.columns().iter().all(|column| column.is_valid(0) && column.is_null(1)));
    }
}
