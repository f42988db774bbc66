//! The arguments of `marey query`.

use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use marey_query::sql::Limits;

use super::format::RowFormat;
use crate::limits::{limits, parse_size};
use crate::output::Failure;
use crate::text::quote_path;

const EXAMPLES: &str = "\
Examples:
  marey query train.marey                              Open a prompt; \\? lists its commands
  marey query train.marey \"SELECT * FROM top ORDER BY total_nanos DESC LIMIT 10\"
  marey query train.marey \"SELECT * FROM steps\" -o steps.parquet
  marey query train.marey -f csv < slow_steps.sql      Read the query from a file
  marey query train.marey \"SELECT name, duration_nanos FROM spans\" -f jsonl | jq .
  marey schema                                         List all tables

Queries cannot modify the run. Times are in nanoseconds since 1970.";

/// The argument that means that the query comes from stdin.
const STDIN: &str = "-";

/// The value of `--max-rows` that means all rows.
const ALL_ROWS: u64 = 0;

/// Arguments of `marey query`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct QueryArgs {
    /// Run to query: a folder `NAME.marey`, a packed run, or a file of another format
    #[arg(value_name = "RUN", value_hint = ValueHint::AnyPath)]
    pub(super) run: PathBuf,

    /// Query to run; `-` reads it from stdin [default: stdin unless it is a terminal, else a
    /// prompt]
    #[arg(value_name = "SQL", allow_hyphen_values = true)] // it may begin with a comment
    sql: Option<String>,

    /// Output format [default: from the suffix of -o, else table]
    #[arg(short, long, value_name = "FORMAT")]
    format: Option<RowFormat>,

    /// Write the rows to FILE
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) output: Option<PathBuf>,

    /// Return at most N rows; 0 for all [default: 1000 as a table, else all]
    #[arg(long, value_name = "N")]
    max_rows: Option<u64>,

    /// Limit the memory of the query, such as `512MiB` [default: `MAREY_MEMORY_LIMIT`, else 2GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory_limit: Option<usize>,

    /// Use N threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

/// The source of queries.
pub(super) enum QuerySource {
    Sql(String),
    /// The prompt.
    Prompt,
}

impl QueryArgs {
    /// Returns the query, or the prompt. Reads stdin if the query comes from there.
    pub(super) fn source(&self, is_terminal: bool) -> Result<QuerySource, Failure> {
        match self.sql.as_deref() {
            None if io::stdin().is_terminal() => self.prompt(is_terminal),
            None | Some(STDIN) => Ok(QuerySource::Sql(read_stdin()?)),
            Some(sql) => Ok(QuerySource::Sql(sql.to_owned())),
        }
    }

    fn prompt(&self, is_terminal: bool) -> Result<QuerySource, Failure> {
        if is_terminal && self.output.is_none() {
            return Ok(QuerySource::Prompt);
        }
        Err(Failure {
            message: "no query given, and the prompt needs a terminal".into(),
            hint: Some(format!("run `marey query {} \"SELECT ...\"`", self.run.display())),
        })
    }

    pub(super) fn format(&self, is_terminal: bool) -> Result<RowFormat, Failure> {
        let format = match (self.format, &self.output) {
            (Some(format), _) => format,
            (None, Some(file)) => {
                RowFormat::from_suffix(file).ok_or_else(|| unknown_suffix(file))?
            }
            (None, None) => RowFormat::Table,
        };
        if format.is_binary() && self.output.is_none() && is_terminal {
            return Err(Failure {
                message: "a binary format cannot be written to a terminal".into(),
                hint: Some("write to a file with -o, or to a pipe".into()),
            });
        }
        Ok(format)
    }

    pub(super) fn max_rows(&self, format: RowFormat) -> Option<u64> {
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

fn read_stdin() -> Result<String, Failure> {
    let mut sql = String::new();
    match io::stdin().read_to_string(&mut sql) {
        Ok(_) if sql.trim().is_empty() => Err(Failure::new("stdin is empty, expected a query")),
        Ok(_) => Ok(sql),
        Err(error) => Err(Failure::new(format!("cannot read the query from stdin: {error}"))),
    }
}

fn unknown_suffix(file: &Path) -> Failure {
    Failure {
        message: format!("the suffix of {} does not imply a format", quote_path(file)),
        hint: Some("choose one with -f: table, csv, json, jsonl, arrow or parquet".into()),
    }
}
