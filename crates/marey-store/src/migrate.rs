//! Adapts runs of other schema versions when they are read.
//!
//! The files of a run are never rewritten for a newer version. Instead, [`conform`] converts each
//! batch to the declared columns when it is read. Version 1 is the first, so no migration exists
//! yet.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::Field;
use arrow::error::ArrowError;
use marey_model::table::Table;
use marey_model::table::stored::SCHEMA_VERSION;

use crate::{StoreError, arrow_schema};

/// Fails if runs of this version cannot be read.
pub(crate) fn check_version(found: u32, run: &Path) -> Result<(), StoreError> {
    if found == SCHEMA_VERSION {
        return Ok(());
    }
    Err(StoreError::Version { path: run.to_owned(), found })
}

/// Converts a batch to the declared columns of a table. Missing nullable columns become null, and
/// unknown columns are dropped.
pub(crate) fn conform(batch: &RecordBatch, table: &Table) -> Result<RecordBatch, ArrowError> {
    let schema = arrow_schema(table);
    let columns: Result<_, _> = schema.fields().iter().map(|field| column(batch, field)).collect();
    RecordBatch::try_new(Arc::clone(&schema), columns?)
}

fn column(batch: &RecordBatch, field: &Field) -> Result<ArrayRef, ArrowError> {
    match batch.column_by_name(field.name()) {
        Some(column) if column.data_type() == field.data_type() => Ok(Arc::clone(column)),
        Some(column) => cast(column, field.data_type()),
        None if field.is_nullable() => Ok(new_null_array(field.data_type(), batch.num_rows())),
        None => Err(ArrowError::SchemaError(format!("the column `{}` is missing", field.name()))),
    }
}
