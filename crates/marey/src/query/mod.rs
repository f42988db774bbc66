//! `marey query`: a run, asked in SQL.
//!
//! [`args`] says what is asked, [`write`] and [`table`] write the rows, and [`prompt`] asks the user.

mod args;
mod format;
mod prompt;
mod sentence;
mod table;
mod words;
mod write;

use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use marey_model::quantity::Grouped;
use marey_query::sql::{Database, SqlError};

pub(crate) use args::QueryArgs;
use args::Question;
use format::Format;
use table::{Look, Table};
use write::{RowWriter, Sink};

use crate::interrupt;
use crate::out_file::OutFile;
use crate::output::{Failure, Output, PLAIN, Stop};
use crate::runs;
use crate::text::printable;

/// Answers the question that the arguments ask.
pub(crate) fn query(args: &QueryArgs, output: &mut Output) -> Result<(), Stop> {
    let question = args.question(output.is_terminal)?;
    let format = args.format(output.is_terminal)?;
    let run = runs::open(&args.run, output)?.into_run();
    let database = Database::new(Arc::new(run), args.limits()?);
    match question {
        Question::Prompt => {
            let names = database.names()?;
            prompt::Prompt::new(args, &database, &names, format)?.run(output)
        }
        Question::Sql(sql) => {
            let asked = Asked { sql: &sql, format, max_rows: args.max_rows(format) };
            match &args.output {
                None => ask_to_stdout(&database, &asked, output.columns(), output).map(drop),
                Some(path) => {
                    let mut file = OutFile::create(path)?;
                    let look = Look { paint: PLAIN, room: None };
                    let sink = Sink { out: &mut file, look, is_file: true };
                    let answered = ask(&database, &asked, sink)?;
                    file.finish()?;
                    report(&answered, output)
                }
            }
        }
    }
}

/// The rows as the table that is shown on a terminal of `room` columns, or else in a pipe.
pub fn as_table(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    room: Option<usize>,
) -> io::Result<String> {
    let mut text = Vec::new();
    let mut table: Box<dyn RowWriter> =
        Box::new(Table::new(&mut text, schema, Look { paint: PLAIN, room }));
    let written = batches.iter().try_for_each(|batch| table.write(batch));
    match written.and_then(|()| table.finish()) {
        Ok(()) => String::from_utf8(text).map_err(io::Error::other),
        Err(Stop::Output(error)) => Err(error),
        Err(Stop::Failed(failure)) => Err(io::Error::other(failure.message)),
        Err(Stop::Interrupted) => Err(io::ErrorKind::Interrupted.into()),
    }
}

/// One query, and how it is answered.
struct Asked<'a> {
    sql: &'a str,
    format: Format,
    max_rows: Option<u64>,
}

/// What was answered.
struct Answered {
    rows: u64,
    /// Whether there were more.
    was_cut: bool,
}

/// `room` is the terminal's columns.
fn ask_to_stdout(
    database: &Database,
    asked: &Asked<'_>,
    room: Option<usize>,
    output: &mut Output,
) -> Result<Answered, Stop> {
    let look = Look { paint: output.paint, room };
    let sink = Sink { out: output.data(), look, is_file: false };
    let answered = ask(database, asked, sink)?;
    report(&answered, output)?;
    Ok(answered)
}

fn ask<W: Write + Send>(
    database: &Database,
    asked: &Asked<'_>,
    sink: Sink<W>,
) -> Result<Answered, Stop> {
    let mut answer = database.query(asked.sql, asked.max_rows)?;
    interrupt::stops(answer.canceller())?;
    let mut writer = sink.rows(asked.format, &answer.schema())?;
    let mut rows = 0;
    for batch in &mut answer {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        writer.write(&batch)?;
    }
    writer.finish()?;
    Ok(Answered { rows, was_cut: answer.was_cut() })
}

/// Says that there is more.
fn report(answered: &Answered, output: &mut Output) -> Result<(), Stop> {
    if answered.was_cut {
        let rows = Grouped(answered.rows.into());
        output.warning(format_args!(
            "these are the first {rows} rows; --max-rows N gives more, --max-rows 0 all"
        ))?;
    }
    Ok(())
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Self {
        if matches!(error, SqlError::Cancelled) {
            return Self::Interrupted;
        }
        let hint = error.hint().map(|hint| printable(&hint).into_owned());
        Self::Failed(Failure { message: printable(&error.to_string()).into_owned(), hint })
    }
}
