//! [`Table`]: results as a table with declared columns, which becomes an Arrow batch for Python or
//! a list of objects in JSON. Here is also the table of findings.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
};
use arrow::datatypes::{DataType, Field, Schema};
use serde::ser::{Serialize, Serializer};

use crate::ask::Cell;
use crate::finding::Finding;
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

const FINDING_COLUMNS: &Columns = &[
    ("severity", ColumnType::Text),
    ("rule", ColumnType::Text),
    ("title", ColumnType::Text),
    ("subject", ColumnType::Text),
    ("description", ColumnType::Text),
    ("impact_nanos", ColumnType::Real),
    ("impact_percent", ColumnType::Real),
    ("gain_nanos", ColumnType::Real),
    ("speedup", ColumnType::Real),
    ("confidence", ColumnType::Text),
    ("hint", ColumnType::Text),
    ("rank", ColumnType::Int),
    ("process_id", ColumnType::Int),
    ("evidence", ColumnType::Text),
    ("evidence_sql", ColumnType::Text),
];

/// Returns the findings, one per row. The column `evidence` has the row of the rule's query as a
/// JSON object.
pub fn findings(findings: &[Finding]) -> Table {
    Table { columns: FINDING_COLUMNS, rows: findings.iter().map(finding_row).collect() }
}

fn finding_row(finding: &Finding) -> Vec<Cell> {
    let text = |text: &str| Cell::Text(text.to_owned());
    let real = |value: Option<f64>| value.map_or(Cell::Null, Cell::Real);
    let int = |value: Option<i64>| value.map_or(Cell::Null, Cell::Int);
    let evidence = &finding.evidence;
    let record = Record { columns: &evidence.columns, row: &evidence.row };
    vec![
        text(finding.severity.as_str()),
        text(finding.rule),
        text(finding.title),
        text(&finding.subject),
        text(&finding.description),
        Cell::Real(finding.impact_nanos),
        real(finding.impact_percent),
        real(finding.gain_nanos),
        real(finding.speedup),
        text(finding.confidence.as_str()),
        text(finding.hint),
        int(finding.rank),
        int(finding.process_id),
        Cell::Text(serde_json::to_string(&record).unwrap_or_default()),
        text(&evidence.sql),
    ]
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
