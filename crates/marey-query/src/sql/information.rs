//! `information_schema`: the declarations of tables, columns, views and functions.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringViewArray, UInt32Array};
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::Documentation;
use marey_model::table::ColumnKind::{Flag, Id, Text};
use marey_model::table::{Table, column, nullable, view};

use super::catalogue::{MAIN, declared};
use super::table::sql_schema;
use super::views;

/// The tables of the schema.
pub(super) const ALL: [&Table; 4] = [&TABLES, &COLUMNS, &VIEWS, &FUNCTIONS];

const TABLES: Table = Table {
    name: "tables",
    doc: "Tables and views.",
    columns: &[
        column("table_schema", Text, "Its schema; `main` need not be said."),
        column("table_name", Text, "Its name."),
        column("table_type", Text, "BASE TABLE or VIEW."),
        column("description", Text, "What a row is."),
    ],
    sorted_by: None,
};

const COLUMNS: Table = Table {
    name: "columns",
    doc: "The columns of tables and views.",
    columns: &[
        column("table_schema", Text, "Schema of its table."),
        column("table_name", Text, "Its table."),
        column("column_name", Text, "Its name; one that is a quantity ends in its unit."),
        column("ordinal_position", Id, "Its place in the table; the first is 1."),
        column("data_type", Text, "What it holds."),
        column("is_nullable", Flag, "Whether a row may have no value here."),
        column("description", Text, "What the value means."),
    ],
    sorted_by: None,
};

const VIEWS: Table = Table {
    name: "views",
    doc: "The views, with their SQL.",
    columns: &[
        column("table_schema", Text, "Its schema."),
        column("table_name", Text, "Its name."),
        column("view_definition", Text, "The query that it stands for."),
    ],
    sorted_by: None,
};

const FUNCTIONS: Table = Table {
    name: "functions",
    doc: "The functions.",
    columns: &[
        column("name", Text, "Its name."),
        column("kind", Text, "scalar, aggregate, window or table."),
        column("section", Text, "What it is about; `marey` for those that only marey has."),
        column("syntax", Text, "How it is called."),
        column("description", Text, "What it gives."),
        nullable("example", Text, "A query with it."),
    ],
    sorted_by: None,
};

/// A table of the schema, with its rows in memory.
pub(super) fn table(state: &SessionState, table: &Table) -> Result<Arc<dyn TableProvider>> {
    let columns = match table.name {
        "tables" => tables(),
        "columns" => columns(),
        "views" => view_texts(),
        "functions" => functions(state),
        other => unreachable!("the table `{other}` is declared, but has no rows"),
    };
    let batch = RecordBatch::try_new(sql_schema(table), columns)?;
    Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
}

fn tables() -> Vec<ArrayRef> {
    let is_view = |schema, table: &Table| {
        schema == MAIN && view::ALL.iter().any(|view| view.name == table.name)
    };
    vec![
        texts(declared().map(|(schema, _)| schema)),
        texts(declared().map(|(_, table)| table.name)),
        texts(
            declared()
                .map(|(schema, table)| if is_view(schema, table) { "VIEW" } else { "BASE TABLE" }),
        ),
        texts(declared().map(|(_, table)| table.doc)),
    ]
}

fn columns() -> Vec<ArrayRef> {
    let all: Vec<_> = declared()
        .flat_map(|(schema, table)| {
            (1..).zip(table.columns).map(move |(at, column)| (schema, table, at, column))
        })
        .collect();
    vec![
        texts(all.iter().map(|(schema, ..)| *schema)),
        texts(all.iter().map(|(_, table, ..)| table.name)),
        texts(all.iter().map(|(.., column)| column.name)),
        Arc::new(UInt32Array::from_iter_values(all.iter().map(|&(_, _, at, _)| at))),
        texts(all.iter().map(|(.., column)| column.kind.as_str())),
        Arc::new(BooleanArray::from(
            all.iter().map(|(.., column)| column.is_nullable).collect::<Vec<_>>(),
        )),
        texts(all.iter().map(|(.., column)| column.doc)),
    ]
}

fn view_texts() -> Vec<ArrayRef> {
    vec![
        texts(view::ALL.iter().map(|_| MAIN)),
        texts(view::ALL.iter().map(|view| view.name)),
        texts(view::ALL.iter().map(|view| views::definition(view.name).trim_end())),
    ]
}

/// All functions with their aliases, in alphabetical order.
fn functions(state: &SessionState) -> Vec<ArrayRef> {
    let mut all: BTreeMap<(&str, &str), Option<&Documentation>> = BTreeMap::new();
    let scalar = state.scalar_functions().iter();
    all.extend(
        scalar.map(|(name, function)| ((name.as_str(), "scalar"), function.documentation())),
    );
    let aggregate = state.aggregate_functions().iter();
    all.extend(
        aggregate.map(|(name, function)| ((name.as_str(), "aggregate"), function.documentation())),
    );
    let window = state.window_functions().iter();
    all.extend(
        window.map(|(name, function)| ((name.as_str(), "window"), function.documentation())),
    );
    all.extend(state.table_functions().keys().map(|name| ((name.as_str(), "table"), None)));
    let text =
        |get: fn(&Documentation) -> &str| texts(all.values().map(move |doc| doc.map_or("", get)));
    vec![
        texts(all.keys().map(|(name, _)| *name)),
        texts(all.keys().map(|(_, kind)| *kind)),
        text(|doc| doc.doc_section.label),
        text(|doc| &doc.syntax_example),
        text(|doc| &doc.description),
        Arc::new(
            all.values()
                .map(|doc| doc.and_then(|doc| doc.sql_example.as_deref()))
                .collect::<StringViewArray>(),
        ),
    ]
}

fn texts<'a>(texts: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringViewArray::from_iter_values(texts))
}
