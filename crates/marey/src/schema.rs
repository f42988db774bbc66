//! `marey schema`: the tables that every run has.

use std::io::{self, Write};

use clap::Args;
use marey_model::table::{Column, Table, stored, view};
use marey_query::sql::SqlError;
use serde::Serialize;

use crate::output::{Failure, Output, Paint, Stop, Style};
use crate::text::printable;

const EXAMPLES: &str = "\
Examples:
  marey schema                What there is to ask for
  marey schema spans          The columns of a table
  marey schema --json         All of it, for programs";

/// The schema of the tables as they are stored.
const RAW: &str = "raw";

/// The schema whose name a query may leave out.
pub(crate) const MAIN: &str = "main";

/// Arguments of `marey schema`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct SchemaArgs {
    /// The table to describe, such as `spans` or `raw.spans` [default: all of them]
    #[arg(value_name = "TABLE")]
    table: Option<String>,

    /// Print one JSON array, with the columns of each table
    #[arg(long)]
    json: bool,
}

/// A table by the name that queries give it.
#[derive(Clone, Copy)]
pub(crate) struct Named {
    schema: &'static str,
    table: &'static Table,
    is_view: bool,
}

/// Shows what the arguments ask for.
pub(crate) fn schema(args: &SchemaArgs, output: &mut Output) -> Result<(), Stop> {
    let one = args.table.as_deref().map(find).transpose()?;
    let paint = output.paint;
    match (one, args.json) {
        (Some(table), true) => write_json(output.data(), &[table])?,
        (Some(table), false) => write_table(output.data(), &table, paint)?,
        (None, true) => write_json(output.data(), &all())?,
        (None, false) => write_list(output.data(), paint)?,
    }
    Ok(())
}

/// The table of this name.
pub(crate) fn find(name: &str) -> Result<Named, Failure> {
    let (schema, short) = name.split_once('.').unwrap_or((MAIN, name));
    let is_it = |named: &Named| {
        named.schema.eq_ignore_ascii_case(schema) && named.table.name.eq_ignore_ascii_case(short)
    };
    all().into_iter().find(is_it).ok_or_else(|| {
        let is_raw = schema.eq_ignore_ascii_case(RAW);
        let known = all().into_iter().filter(|named| (named.schema == RAW) == is_raw);
        let known = known.map(|named| named.name()).collect();
        let error = SqlError::unknown_table(name.to_owned(), known);
        Failure { message: printable(&error.to_string()).into_owned(), hint: error.hint() }
    })
}

fn all() -> Vec<Named> {
    main().chain(raw()).collect()
}

/// The views, and the stored tables that no view has the name of.
fn main() -> impl Iterator<Item = Named> {
    let views = view::ALL.iter().map(|table| Named { schema: MAIN, table, is_view: true });
    let is_hidden = |table: &Table| view::ALL.iter().any(|view| view.name == table.name);
    let stored = stored::ALL.iter().filter(move |table| !is_hidden(table));
    views.chain(stored.map(|table| Named { schema: MAIN, table, is_view: false }))
}

fn raw() -> impl Iterator<Item = Named> {
    stored::ALL.iter().map(|table| Named { schema: RAW, table, is_view: false })
}

/// Writes a line for each table.
pub(crate) fn write_list(out: &mut impl Write, paint: Paint) -> io::Result<()> {
    let names = main().chain(raw()).map(|named| named.name());
    let width = names.map(|name| name.len()).max().unwrap_or(0);
    let mut write = |heading: &str, tables: &mut dyn Iterator<Item = Named>| {
        writeln!(out, "{}", paint.with(Style::Bold, heading))?;
        for named in tables {
            writeln!(out, "  {:width$}  {}", named.name(), named.table.doc)?;
        }
        io::Result::Ok(())
    };
    write("Views, with names in place of ids", &mut main().filter(|named| named.is_view))?;
    write("Tables", &mut main().filter(|named| !named.is_view))?;
    write("Every table as it is stored", &mut raw())
}

/// Writes what a table is, and a line for each column.
pub(crate) fn write_table(out: &mut impl Write, named: &Named, paint: Paint) -> io::Result<()> {
    writeln!(out, "{}: {}", paint.with(Style::Bold, named.name()), named.table.doc)?;
    let columns = named.table.columns;
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

fn write_json(out: &mut impl Write, tables: &[Named]) -> io::Result<()> {
    let tables: Vec<_> = tables.iter().map(TableJson::of).collect();
    serde_json::to_writer_pretty(&mut *out, &tables)?;
    writeln!(out)
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
    fn of(named: &Named) -> Self {
        let column = |column: &Column| ColumnJson {
            name: column.name,
            r#type: column.kind.as_str(),
            is_nullable: column.is_nullable,
            description: column.doc,
        };
        Self {
            schema: named.schema,
            name: named.table.name,
            is_view: named.is_view,
            description: named.table.doc,
            columns: named.table.columns.iter().map(column).collect(),
        }
    }
}

impl Named {
    /// The shortest name that a query can give it.
    fn name(&self) -> String {
        match self.schema {
            MAIN => self.table.name.to_owned(),
            schema => format!("{schema}.{}", self.table.name),
        }
    }
}
