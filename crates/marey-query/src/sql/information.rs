//! The schema `information_schema`: tables that list and describe the tables, columns, views and
//! functions. It replaces `DataFusion`'s, which has no descriptions.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringViewArray, UInt32Array};
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::Documentation;
use marey_model::table::ColumnKind::{Flag, Id, Text};
use marey_model::table::{Table, column, nullable, view};

use super::catalogue::{INTERNAL_SCHEMA, MAIN_SCHEMA, PYTHON_SCHEMA, declared_tables};
use super::table::sql_schema;
use super::views;

/// The tables of the schema.
pub(super) const ALL: [&Table; 4] = [&TABLES, &COLUMNS, &VIEWS, &FUNCTIONS];

const TABLES: Table = Table {
    name: "tables",
    doc: "Tables and views.",
    columns: &[
        column("table_schema", Text, "The schema; `main` is the default."),
        column("table_name", Text, "The name."),
        column("table_type", Text, "BASE TABLE or VIEW."),
        column("description", Text, "The meaning of a row."),
    ],
    sorted_by: None,
};

const COLUMNS: Table = Table {
    name: "columns",
    doc: "The columns of tables and views.",
    columns: &[
        column("table_schema", Text, "The schema of the table."),
        column("table_name", Text, "The table."),
        column("column_name", Text, "The name; the name of a quantity ends in its unit."),
        column("ordinal_position", Id, "The position in the table, from 1."),
        column("data_type", Text, "The type of the values."),
        column("is_nullable", Flag, "Whether the value may be null."),
        column("description", Text, "The meaning of the values."),
    ],
    sorted_by: None,
};

const VIEWS: Table = Table {
    name: "views",
    doc: "The views, with their SQL.",
    columns: &[
        column("table_schema", Text, "The schema."),
        column("table_name", Text, "The name."),
        column("view_definition", Text, "The query behind the view."),
    ],
    sorted_by: None,
};

const FUNCTIONS: Table = Table {
    name: "functions",
    doc: "The functions.",
    columns: &[
        column("name", Text, "The name."),
        column("kind", Text, "scalar, aggregate, window or table."),
        column("section", Text, "The subject; `marey` for functions that only marey has."),
        column("syntax", Text, "The call with its arguments."),
        column("description", Text, "The result."),
        nullable("example", Text, "A query that uses the function."),
    ],
    sorted_by: None,
};

/// Returns a table of the schema with its rows in memory.
pub(super) fn table(state: &SessionState, table: &Table) -> Result<Arc<dyn TableProvider>> {
    let columns = match table.name {
        "tables" => table_rows(),
        "columns" => column_rows(),
        "views" => view_rows(),
        "functions" => function_rows(state),
        other => unreachable!("the table `{other}` is declared, but has no rows"),
    };
    let batch = RecordBatch::try_new(sql_schema(table), columns)?;
    Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
}

fn table_rows() -> Vec<ArrayRef> {
    let is_view = |schema: &str, table: &Table| {
        declared_views().any(|(view_schema, view)| (view_schema, view.name) == (schema, table.name))
    };
    vec![
        text_array(declared_tables().map(|(schema, _)| schema)),
        text_array(declared_tables().map(|(_, table)| table.name)),
        text_array(
            declared_tables()
                .map(|(schema, table)| if is_view(schema, table) { "VIEW" } else { "BASE TABLE" }),
        ),
        text_array(declared_tables().map(|(_, table)| table.doc)),
    ]
}

fn column_rows() -> Vec<ArrayRef> {
    let declared_columns: Vec<_> = declared_tables()
        .flat_map(|(schema, table)| {
            (1..)
                .zip(table.columns)
                .map(move |(position, column)| (schema, table, position, column))
        })
        .collect();
    vec![
        text_array(declared_columns.iter().map(|(schema, ..)| *schema)),
        text_array(declared_columns.iter().map(|(_, table, ..)| table.name)),
        text_array(declared_columns.iter().map(|(.., column)| column.name)),
        Arc::new(UInt32Array::from_iter_values(
            declared_columns.iter().map(|&(_, _, position, _)| position),
        )),
        text_array(declared_columns.iter().map(|(.., column)| column.kind.as_str())),
        Arc::new(BooleanArray::from(
            declared_columns.iter().map(|(.., column)| column.is_nullable).collect::<Vec<_>>(),
        )),
        text_array(declared_columns.iter().map(|(.., column)| column.doc)),
    ]
}

fn view_rows() -> Vec<ArrayRef> {
    let internal = views::INTERNAL_VIEWS.iter().map(|&view| (INTERNAL_SCHEMA, view));
    let views = declared_views().chain(internal);
    vec![
        text_array(views.clone().map(|(schema, _)| schema)),
        text_array(views.clone().map(|(_, view)| view.name)),
        text_array(views.map(|(_, view)| views::definition(view.name).trim_end())),
    ]
}

/// All views with their schema, except for the schema `internal`.
fn declared_views() -> impl Iterator<Item = (&'static str, &'static Table)> + Clone {
    let python = view::PYTHON.iter().map(|&view| (PYTHON_SCHEMA, view));
    view::ALL.iter().map(|&view| (MAIN_SCHEMA, view)).chain(python)
}

/// Returns the documentation of all functions by name and kind, aliases included.
fn functions(state: &SessionState) -> BTreeMap<(&str, &'static str), Option<&Documentation>> {
    let mut functions_by_name = BTreeMap::new();
    let scalar = state.scalar_functions().iter();
    functions_by_name.extend(
        scalar.map(|(name, function)| ((name.as_str(), "scalar"), function.documentation())),
    );
    let aggregate = state.aggregate_functions().iter();
    functions_by_name.extend(
        aggregate.map(|(name, function)| ((name.as_str(), "aggregate"), function.documentation())),
    );
    let window = state.window_functions().iter();
    functions_by_name.extend(
        window.map(|(name, function)| ((name.as_str(), "window"), function.documentation())),
    );
    functions_by_name
        .extend(state.table_functions().keys().map(|name| ((name.as_str(), "table"), None)));
    functions_by_name
}

fn function_rows(state: &SessionState) -> Vec<ArrayRef> {
    let functions_by_name = functions(state);
    let documented_text = |get: fn(&Documentation) -> &str| {
        text_array(functions_by_name.values().map(move |doc| doc.map_or("", get)))
    };
    vec![
        text_array(functions_by_name.keys().map(|(name, _)| *name)),
        text_array(functions_by_name.keys().map(|(_, kind)| *kind)),
        documented_text(|doc| doc.doc_section.label),
        documented_text(|doc| &doc.syntax_example),
        documented_text(|doc| &doc.description),
        Arc::new(
            functions_by_name
                .values()
                .map(|doc| doc.and_then(|doc| doc.sql_example.as_deref()))
                .collect::<StringViewArray>(),
        ),
    ]
}

fn text_array<'a>(texts: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringViewArray::from_iter_values(texts))
}
