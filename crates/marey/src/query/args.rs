//! The arguments of `marey query`.

use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use marey_query::sql::Limits;

use super::format::Format;
use crate::limits::{limits, size};
use crate::output::Failure;
use crate::text::quoted;

const EXAMPLES: &str = "\
Examples:
  marey query train.marey                              A prompt; \\? there shows what it knows
  marey query train.marey \"SELECT * FROM top ORDER BY total_nanos DESC LIMIT 10\"
  marey query train.marey \"SELECT * FROM steps\" -o steps.parquet
  marey query train.marey -f csv < slow_steps.sql      The query is in a file
  marey query train.marey \"SELECT name, duration_nanos FROM spans\" -f jsonl | jq .
  marey schema                                         What there is to ask for

Queries read only. Times are in nanoseconds since 1970.";

/// Stands for stdin in place of a query.
const STDIN: &str = "-";

/// No limit of rows.
const ALL_ROWS: u64 = 0;

/// Arguments of `marey query`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct QueryArgs {
    /// The run: a folder `NAME.marey`, the one file of `marey pack`, or a file of another format
    #[arg(value_name = "RUN", value_hint = ValueHint::AnyPath)]
    pub(super) run: PathBuf,

    /// The query; `-` reads it from stdin [default: stdin if it is no terminal, else a prompt]
    #[arg(value_name = "SQL", allow_hyphen_values = true)] // it may begin with a comment
    sql: Option<String>,

    /// How rows are written [default: what the suffix of -o says, else table]
    #[arg(short, long, value_name = "FORMAT")]
    format: Option<Format>,

    /// Write the rows to FILE
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) output: Option<PathBuf>,

    /// Rows at most; 0 means all [default: 1000 as a table, else all]
    #[arg(long, value_name = "N")]
    max_rows: Option<u64>,

    /// Memory that the query may use, such as `512MiB` [default: `MAREY_MEMORY_LIMIT`, else 2GiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory_limit: Option<usize>,

    /// Threads that compute [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

/// What is asked.
pub(super) enum Question {
    Sql(String),
    /// Whatever the user types.
    Prompt,
}

impl QueryArgs {
    /// Reads the query if it comes by stdin.
    pub(super) fn question(&self, is_terminal: bool) -> Result<Question, Failure> {
        match self.sql.as_deref() {
            None if io::stdin().is_terminal() => self.prompt(is_terminal),
            None | Some(STDIN) => Ok(Question::Sql(from_stdin()?)),
            Some(sql) => Ok(Question::Sql(sql.to_owned())),
        }
    }

    fn prompt(&self, is_terminal: bool) -> Result<Question, Failure> {
        if is_terminal && self.output.is_none() {
            return Ok(Question::Prompt);
        }
        Err(Failure {
            message: "there is no query, and the prompt needs a terminal to write to".into(),
            hint: Some(format!("marey query {} \"SELECT ...\"", self.run.display())),
        })
    }

    pub(super) fn format(&self, is_terminal: bool) -> Result<Format, Failure> {
        let format = match (self.format, &self.output) {
            (Some(format), _) => format,
            (None, Some(file)) => Format::of_suffix(file).ok_or_else(|| no_format(file))?,
            (None, None) => Format::Table,
        };
        if format.is_binary() && self.output.is_none() && is_terminal {
            return Err(Failure {
                message: "this format is not for terminals".into(),
                hint: Some("write it to a file with -o, or into a pipe".into()),
            });
        }
        Ok(format)
    }

    pub(super) fn max_rows(&self, format: Format) -> Option<u64> {
        match self.max_rows {
            Some(ALL_ROWS) => None,
            Some(rows) => Some(rows),
            None => format.default_max_rows(),
        }
    }

    pub(super) fn limits(&self) -> Result<Limits, Failure> {
        limits(self.memory_limit, self.threads.map(usize::from))
    }
}

fn from_stdin() -> Result<String, Failure> {
    let failure = |message: String| Failure { message, hint: None };
    let mut sql = String::new();
    match io::stdin().read_to_string(&mut sql) {
        Ok(_) if sql.trim().is_empty() => Err(failure("stdin has no query".into())),
        Ok(_) => Ok(sql),
        Err(error) => Err(failure(format!("cannot read the query from stdin: {error}"))),
    }
}

fn no_format(file: &Path) -> Failure {
    Failure {
        message: format!("the suffix of {} says no format", quoted(file)),
        hint: Some("choose one with -f: table, csv, json, jsonl, arrow or parquet".into()),
    }
}
