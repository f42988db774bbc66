//! Runs of other versions: which can be read, and how their rows become today's.
//!
//! Files of a run are never changed for a newer version: [`conform`] gives each batch that is read
//! the declared columns. Version 1 is the first, so no manifest needs a step yet.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::Field;
use arrow::error::ArrowError;
use marey_model::table::Table;
use marey_model::table::stored::SCHEMA_VERSION;

use crate::{StoreError, arrow_schema};

/// Whether runs of this version can be read.
pub(crate) fn check_version(found: u32, run: &Path) -> Result<(), StoreError> {
    if found == SCHEMA_VERSION {
        return Ok(());
    }
    Err(StoreError::Version { path: run.to_owned(), found })
}

/// The declared columns of a table from those of a batch: one that the batch lacks is null, if it
/// may be; one that the table lacks is left out.
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
