//! `marey schema`: describes the tables of runs and their columns.

use std::io::{self, Write};

use clap::Args;
use marey_model::table::{Column, Table, stored, view};
use marey_query::sql::SqlError;
use serde::Serialize;

use crate::output::{self, CommandError, Failure, Output, Paint, Style};
use crate::text::printable;

const EXAMPLES: &str = "\
Examples:
  marey schema                List all tables
  marey schema spans          List the columns of a table
  marey schema --json         Print everything for programs";

/// The schema of the stored tables.
const RAW_SCHEMA: &str = "raw";

/// The schema of views with the names and columns of another tool.
const PYTHON_SCHEMA: &str = "python";

/// The default schema of queries.
pub(crate) const MAIN_SCHEMA: &str = "main";

/// Arguments of `marey schema`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct SchemaArgs {
    /// Table to describe, such as `spans` or `raw.spans` [default: list all]
    #[arg(value_name = "TABLE")]
    table: Option<String>,

    /// Print a JSON array with the columns of each table
    #[arg(long)]
    json: bool,
}

/// A table in a schema.
#[derive(Clone, Copy)]
pub(crate) struct SchemaTable {
    schema: &'static str,
    table: &'static Table,
    is_view: bool,
}

/// Runs `marey schema`.
pub(crate) fn schema(args: &SchemaArgs, output: &mut Output) -> Result<(), CommandError> {
    let selected = args.table.as_deref().map(find_table).transpose()?;
    let paint = output.paint;
    match (selected, args.json) {
        (Some(table), true) => write_json(output.data(), &[table])?,
        (Some(table), false) => write_table(output.data(), &table, paint)?,
        (None, true) => write_json(output.data(), &all_tables())?,
        (None, false) => write_list(output.data(), paint)?,
    }
    Ok(())
}

/// Returns the table with this name.
pub(crate) fn find_table(name: &str) -> Result<SchemaTable, Failure> {
    let (schema, table_name) = name.split_once('.').unwrap_or((MAIN_SCHEMA, name));
    let has_name = |schema_table: &SchemaTable| {
        schema_table.schema.eq_ignore_ascii_case(schema)
            && schema_table.table.name.eq_ignore_ascii_case(table_name)
    };
    all_tables().into_iter().find(has_name).ok_or_else(|| {
        let is_raw = schema.eq_ignore_ascii_case(RAW_SCHEMA);
        let known_names = all_tables()
            .into_iter()
            .filter(|schema_table| (schema_table.schema == RAW_SCHEMA) == is_raw);
        let known_names = known_names.map(|schema_table| schema_table.name()).collect();
        let error = SqlError::unknown_table(name.to_owned(), known_names);
        Failure { message: printable(&error.to_string()).into_owned(), hint: error.hint() }
    })
}

fn all_tables() -> Vec<SchemaTable> {
    main_tables().chain(python_views()).chain(raw_tables()).collect()
}

/// Returns the views, and the stored tables without a view of the same name.
fn main_tables() -> impl Iterator<Item = SchemaTable> {
    let views =
        view::ALL.iter().map(|table| SchemaTable { schema: MAIN_SCHEMA, table, is_view: true });
    let is_hidden = |table: &Table| view::ALL.iter().any(|view| view.name == table.name);
    let stored = stored::ALL.iter().filter(move |table| !is_hidden(table));
    views.chain(stored.map(|table| SchemaTable { schema: MAIN_SCHEMA, table, is_view: false }))
}

fn python_views() -> impl Iterator<Item = SchemaTable> {
    view::PYTHON.iter().map(|table| SchemaTable { schema: PYTHON_SCHEMA, table, is_view: true })
}

fn raw_tables() -> impl Iterator<Item = SchemaTable> {
    stored::ALL.iter().map(|table| SchemaTable { schema: RAW_SCHEMA, table, is_view: false })
}

/// Writes a line for each table.
pub(crate) fn write_list(out: &mut impl Write, paint: Paint) -> io::Result<()> {
    let names = all_tables().into_iter().map(|schema_table| schema_table.name());
    let width = names.map(|name| name.len()).max().unwrap_or(0);
    let mut write = |heading: &str, tables: &mut dyn Iterator<Item = SchemaTable>| {
        writeln!(out, "{}", paint.with(Style::Bold, heading))?;
        for schema_table in tables {
            writeln!(out, "  {:width$}  {}", schema_table.name(), schema_table.table.doc)?;
        }
        io::Result::Ok(())
    };
    write(
        "Views, with names in place of ids",
        &mut main_tables().filter(|schema_table| schema_table.is_view),
    )?;
    write("Views with the columns of Probing", &mut python_views())?;
    write("Tables", &mut main_tables().filter(|schema_table| !schema_table.is_view))?;
    write("Stored tables", &mut raw_tables())
}

/// Writes the description of a table, and a line for each column.
pub(crate) fn write_table(
    out: &mut impl Write,
    schema_table: &SchemaTable,
    paint: Paint,
) -> io::Result<()> {
    writeln!(out, "{}: {}", paint.with(Style::Bold, schema_table.name()), schema_table.table.doc)?;
    let columns = schema_table.table.columns;
    let widest = |text: fn(&Column) -> usize| columns.iter().map(text).max().unwrap_or(0);
    let name_width = widest(|column| column.name.len());
    let type_width = widest(|column| type_name(column).len());
    for column in columns {
        let kind = paint.with(Style::Dim, format!("{:type_width$}", type_name(column)));
        writeln!(out, "  {:name_width$}  {kind}  {}", column.name, column.doc)?;
    }
    Ok(())
}

fn type_name(column: &Column) -> String {
    let null = if column.is_nullable { " or null" } else { "" };
    format!("{}{null}", column.kind.as_str())
}

fn write_json(out: &mut impl Write, tables: &[SchemaTable]) -> io::Result<()> {
    let tables: Vec<_> = tables.iter().map(TableJson::new).collect();
    output::write_json(out, &tables)
}

#[derive(Serialize)]
struct TableJson {
    schema: &'static str,
    name: &'static str,
    is_view: bool,
    description: &'static str,
    columns: Vec<ColumnJson>,
}

#[derive(Serialize)]
struct ColumnJson {
    name: &'static str,
    r#type: &'static str,
    is_nullable: bool,
    description: &'static str,
}

impl TableJson {
    fn new(schema_table: &SchemaTable) -> Self {
        let column = |column: &Column| ColumnJson {
            name: column.name,
            r#type: column.kind.as_str(),
            is_nullable: column.is_nullable,
            description: column.doc,
        };
        Self {
            schema: schema_table.schema,
            name: schema_table.table.name,
            is_view: schema_table.is_view,
            description: schema_table.table.doc,
            columns: schema_table.table.columns.iter().map(column).collect(),
        }
    }
}

impl SchemaTable {
    /// Returns the shortest name for queries.
    fn name(&self) -> String {
        match self.schema {
            MAIN_SCHEMA => self.table.name.to_owned(),
            schema => format!("{schema}.{}", self.table.name),
        }
    }
}
