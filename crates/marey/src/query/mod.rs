//! `marey query`: queries a run with SQL.
//!
//! [`args`] reads the query, [`write`] and [`table`] write the rows, and [`prompt`] is interactive.

mod args;
mod completion;
mod format;
mod prompt;
mod statement;
mod table;
mod write;

use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use marey_model::quantity::Grouped;
use marey_query::sql::{Database, SqlError};

pub(crate) use args::QueryArgs;
use args::QuerySource;
use format::RowFormat;
use table::StreamedTable;
use write::{RowSink, RowWriter};

use crate::aligned::TextLayout;
use crate::interrupt;
use crate::live;
use crate::out_file::OutFile;
use crate::output::{CommandError, Failure, Output, PLAIN};
use crate::runs;
use crate::text::printable;

/// Runs `marey query`.
pub(crate) fn query(args: &QueryArgs, output: &mut Output) -> Result<(), CommandError> {
    let source = args.source(output.is_terminal)?;
    let format = args.format(output.is_terminal)?;
    if let QuerySource::Sql(sql) = &source
        && let Some(failure) = live::sample_first(&args.run, sql)
    {
        output.warning(format_args!("backtrace has no new sample: {}", failure.message))?;
        let hint = format!("`marey dump {}` reads the stacks from outside", args.run.display());
        output.note(hint)?;
    }
    let run = runs::open(&args.run, output)?.into_run();
    let database = Database::new(Arc::new(run), args.limits()?);
    match source {
        QuerySource::Prompt => {
            let names = database.names()?;
            prompt::Prompt::new(args, &database, &names, format)?.run(output)
        }
        QuerySource::Sql(sql) => {
            let query = Query { sql: &sql, format, max_rows: args.max_rows(format) };
            match &args.output {
                None => {
                    query_to_stdout(&database, &query, output.terminal_width(), output).map(drop)
                }
                Some(path) => {
                    let mut file = OutFile::create(path)?;
                    let layout = TextLayout { paint: PLAIN, max_width: None };
                    let row_sink = RowSink { out: &mut file, layout, is_file: true };
                    let written = write_rows(&database, &query, row_sink)?;
                    file.finish()?;
                    warn_if_cut(&written, output)
                }
            }
        }
    }
}

/// Formats rows as a table for a terminal of `max_width` columns, or for a pipe.
pub fn as_table(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    max_width: Option<usize>,
) -> io::Result<String> {
    let mut text = Vec::new();
    let mut table: Box<dyn RowWriter> =
        Box::new(StreamedTable::new(&mut text, schema, TextLayout { paint: PLAIN, max_width }));
    let written = batches.iter().try_for_each(|batch| table.write(batch));
    match written.and_then(|()| table.finish()) {
        Ok(()) => String::from_utf8(text).map_err(io::Error::other),
        Err(CommandError::Output(error)) => Err(error),
        Err(CommandError::Failed(failure)) => Err(io::Error::other(failure.message)),
        Err(CommandError::Interrupted) => Err(io::ErrorKind::Interrupted.into()),
    }
}

/// A query with its output options.
struct Query<'a> {
    sql: &'a str,
    format: RowFormat,
    max_rows: Option<u64>,
}

/// The number of rows that a query has written.
struct WrittenRows {
    rows: u64,
    /// Whether the row limit has cut off rows.
    was_cut: bool,
}

/// Writes the rows of a query to stdout. `max_width` is the width of the terminal.
fn query_to_stdout(
    database: &Database,
    query: &Query<'_>,
    max_width: Option<usize>,
    output: &mut Output,
) -> Result<WrittenRows, CommandError> {
    let layout = TextLayout { paint: output.paint, max_width };
    let row_sink = RowSink { out: output.data(), layout, is_file: false };
    let written = write_rows(database, query, row_sink)?;
    warn_if_cut(&written, output)?;
    Ok(written)
}

fn write_rows<W: Write + Send>(
    database: &Database,
    query: &Query<'_>,
    row_sink: RowSink<W>,
) -> Result<WrittenRows, CommandError> {
    let mut answer = database.query(query.sql, query.max_rows)?;
    interrupt::cancel_on_interrupt(answer.canceller())?;
    let mut writer = row_sink.into_writer(query.format, &answer.schema())?;
    let mut row_count = 0;
    for batch in &mut answer {
        let batch = batch?;
        row_count += batch.num_rows() as u64;
        writer.write(&batch)?;
    }
    writer.finish()?;
    Ok(WrittenRows { rows: row_count, was_cut: answer.was_cut() })
}

/// Warns if the row limit has cut off rows.
fn warn_if_cut(written: &WrittenRows, output: &mut Output) -> Result<(), CommandError> {
    if written.was_cut {
        let rows = Grouped(written.rows.into());
        output.warning(format_args!(
            "output limited to {rows} rows; use --max-rows N for more, --max-rows 0 for all"
        ))?;
    }
    Ok(())
}

impl From<SqlError> for CommandError {
    fn from(error: SqlError) -> Self {
        if matches!(error, SqlError::Cancelled) {
            return Self::Interrupted;
        }
        let hint = error.hint().map(|hint| printable(&hint).into_owned());
        Self::Failed(Failure { message: printable(&error.to_string()).into_owned(), hint })
    }
}
