//! Passes record batches to other Python libraries, such as pandas or polars, through the Arrow
//! `PyCapsule` interface.
//!
//! The interface is described at
//! <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>. Data is copied
//! only if the reader requests another layout.

use std::ffi::CStr;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow::compute;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi::FFI_ArrowSchema;
use arrow::ffi_stream::FFI_ArrowArrayStream;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const SCHEMA_NAME: &CStr = c"arrow_schema";
const STREAM_NAME: &CStr = c"arrow_array_stream";

pub(crate) fn from_schema<'py>(
    py: Python<'py>,
    schema: &Schema,
) -> PyResult<Bound<'py, PyCapsule>> {
    let schema =
        FFI_ArrowSchema::try_from(&to_plain_schema(schema)).map_err(|error| value_error(&error))?;
    PyCapsule::new_with_value(py, schema, SCHEMA_NAME)
}

/// Returns a stream of the batches, in the requested schema if the columns can be cast to it.
pub(crate) fn from_batches<'py>(
    py: Python<'py>,
    schema: &Schema,
    batches: Arc<[RecordBatch]>,
    requested: Option<&Bound<'py, PyCapsule>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = match requested {
        Some(requested) => convert_schema(schema, &requested_schema(requested)?)?,
        None => to_plain_schema(schema),
    };
    let stream = BatchStream { schema: Arc::new(schema), batches, next_batch: 0 };
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(stream)), STREAM_NAME)
}

struct BatchStream {
    schema: SchemaRef,
    batches: Arc<[RecordBatch]>,
    next_batch: usize,
}

impl Iterator for BatchStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.get(self.next_batch)?;
        self.next_batch += 1;
        Some(with_schema(batch, &self.schema))
    }
}

impl RecordBatchReader for BatchStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Returns the batch with each column cast to its type in `schema`.
fn with_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| compute::cast(column, field.data_type()));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns.collect::<Result<_, _>>()?,
        &options,
    )
}

/// Returns the schema with strings and binary data in the layouts that every reader of Arrow
/// supports.
fn to_plain_schema(schema: &Schema) -> Schema {
    Schema::new(to_plain_fields(schema.fields()))
}

fn to_plain_fields(fields: &Fields) -> Fields {
    fields.iter().map(to_plain_field).collect()
}

fn to_plain_field(field: &FieldRef) -> FieldRef {
    let plain = match field.data_type() {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(item) => DataType::List(to_plain_field(item)),
        DataType::Struct(fields) => DataType::Struct(to_plain_fields(fields)),
        other => other.clone(),
    };
    Arc::new(Field::clone(field).with_data_type(plain))
}

/// Returns `own_schema` with the requested types.
fn convert_schema(own_schema: &Schema, requested: &Schema) -> PyResult<Schema> {
    let (requested, own_schema) = (requested.fields(), own_schema.fields());
    if requested.len() != own_schema.len() {
        let message = format!(
            "the requested schema must have {} columns, not {}",
            own_schema.len(),
            requested.len()
        );
        return Err(PyValueError::new_err(message));
    }
    let fields = own_schema.iter().zip(requested).map(|(own_schema, wanted)| {
        if compute::can_cast_types(own_schema.data_type(), wanted.data_type()) {
            return Ok(Field::clone(own_schema).with_data_type(wanted.data_type().clone()));
        }
        let (name, from, to) = (own_schema.name(), own_schema.data_type(), wanted.data_type());
        Err(PyValueError::new_err(format!("column `{name}` of type {from} cannot become {to}")))
    });
    Ok(Schema::new(fields.collect::<PyResult<Vec<_>>>()?))
}

fn requested_schema(capsule: &Bound<'_, PyCapsule>) -> PyResult<Schema> {
    let schema = capsule.pointer_checked(Some(SCHEMA_NAME))?.cast::<FFI_ArrowSchema>();
    // SAFETY: by the interface a capsule with this name contains an `ArrowSchema`, which is valid
    // as long as the capsule, and the borrowed capsule outlives this function.
    #[expect(unsafe_code, reason = "the schema of another library is passed as a pointer")]
    let schema = unsafe { schema.as_ref() };
    Schema::try_from(schema).map_err(|error| value_error(&error))
}

fn value_error(error: &ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
