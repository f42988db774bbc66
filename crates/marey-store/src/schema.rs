//! The Arrow schemas of the declared tables.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use marey_model::table::{Column, ColumnKind, Table};

/// Returns the schema of a table: its columns in order, with their descriptions as the metadata
/// `doc`.
pub fn arrow_schema(table: &Table) -> SchemaRef {
    Arc::new(Schema::new(table.columns.iter().map(field).collect::<Vec<_>>()))
}

fn field(column: &Column) -> Field {
    Field::new(column.name, data_type(column.kind), column.is_nullable)
        .with_metadata(HashMap::from([("doc".to_owned(), column.doc.to_owned())]))
}

fn data_type(kind: ColumnKind) -> DataType {
    match kind {
        ColumnKind::Nanos | ColumnKind::Int => DataType::Int64,
        ColumnKind::Bits => DataType::UInt64,
        ColumnKind::Id => DataType::UInt32,
        ColumnKind::Real => DataType::Float64,
        ColumnKind::Flag => DataType::Boolean,
        ColumnKind::Text => DataType::Utf8,
        ColumnKind::Bytes => DataType::Binary,
        ColumnKind::Reals => DataType::new_list(DataType::Float64, true),
        ColumnKind::Ints => DataType::new_list(DataType::Int64, true),
    }
}
