//! The interactive prompt of `marey query`, with history and completion.

use std::env;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use clap::ValueEnum;
use marey_model::quantity::{Grouped, Nanos};
use marey_query::sql::{Database, SqlNames};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use super::args::QueryArgs;
use super::completion::Completions;
use super::format::RowFormat;
use super::{Query, query_to_stdout};
use crate::output::{CommandError, Failure, Output, Style};
use crate::schema;
use crate::text::printable;

/// The prefix of commands, such as `\d`.
pub(super) const COMMAND_PREFIX: &str = "\\";

const PROMPT: &str = "marey> ";
const MAX_HISTORY: usize = 1_000;

/// A command of the prompt.
pub(super) struct Command {
    pub(super) name: &'static str,
    argument: &'static str,
    doc: &'static str,
}

/// Every command.
pub(super) const COMMANDS: [Command; 4] = [
    Command { name: "?", argument: "", doc: "List the commands" },
    Command { name: "d", argument: "[TABLE]", doc: "List all tables, or the columns of a table" },
    Command { name: "f", argument: "FORMAT", doc: "Set the format: table, csv, json or jsonl" },
    Command { name: "q", argument: "", doc: "Quit, as does Ctrl-D" },
];

/// The prompt and its state.
pub(super) struct Prompt<'a> {
    database: &'a Database,
    args: &'a QueryArgs,
    format: RowFormat,
    editor: Editor<Completions, FileHistory>,
    /// `None` without a home directory.
    history: Option<PathBuf>,
}

impl<'a> Prompt<'a> {
    pub(super) fn new(
        args: &'a QueryArgs,
        database: &'a Database,
        names: &SqlNames,
        format: RowFormat,
    ) -> Result<Self, Failure> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .max_history_size(MAX_HISTORY)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(|error| terminal_failure(&error))?
            .build();
        let mut editor = Editor::with_config(config).map_err(|error| terminal_failure(&error))?;
        editor.set_helper(Some(Completions::new(names)));
        let history = history_file();
        if let Some(file) = &history {
            // An error is ignored, because the file may not exist yet, and a damaged one is
            // rewritten.
            drop(editor.load_history(file));
        }
        Ok(Self { database, args, format, editor, history })
    }

    pub(super) fn run(mut self, output: &mut Output) -> Result<(), CommandError> {
        output.note("End a query with `;`. \\? lists commands, \\q quits")?;
        loop {
            match self.editor.readline(PROMPT) {
                Ok(text) if text.trim() == "\\q" => return Ok(()),
                Ok(text) => {
                    self.save_line(&text, output)?;
                    self.run_line(text.trim(), output)?;
                }
                // Ctrl-C clears the input.
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(()),
                Err(error) => return Err(terminal_failure(&error).into()),
            }
        }
    }

    /// Saves a line to the history file at once, so that it is kept if the terminal is closed.
    fn save_line(&mut self, text: &str, output: &mut Output) -> Result<(), CommandError> {
        if let Err(error) = self.add_to_history(text) {
            output.warning(format_args!("cannot save the history: {error}"))?;
            self.history = None;
        }
        Ok(())
    }

    fn add_to_history(&mut self, text: &str) -> rustyline::Result<()> {
        self.editor.add_history_entry(text)?;
        let Some(file) = &self.history else { return Ok(()) };
        fs::create_dir_all(file.parent().unwrap_or(file))?;
        self.editor.append_history(file)
    }

    /// Runs a line. Errors are printed and do not end the prompt.
    fn run_line(&mut self, text: &str, output: &mut Output) -> Result<(), CommandError> {
        let result = match text.strip_prefix(COMMAND_PREFIX) {
            Some(command) => self.run_command(command, output),
            None if text.is_empty() => Ok(()),
            None => self.run_query(text, output),
        };
        match result {
            Err(CommandError::Failed(failure)) => output.print_error(&failure)?,
            Err(CommandError::Interrupted) => output.note("cancelled")?,
            Err(CommandError::Output(error)) => return Err(error.into()),
            Ok(()) => {}
        }
        Ok(output.data().flush()?)
    }

    fn run_query(&mut self, sql: &str, output: &mut Output) -> Result<(), CommandError> {
        let max_rows = self.args.max_rows(self.format);
        let query = Query { sql, format: self.format, max_rows };
        let max_width = self.editor.dimensions().map(|(columns, _)| columns.into());
        let start = Instant::now();
        let written = query_to_stdout(self.database, &query, max_width, output)?;
        let rows = match written.rows {
            1 => "1 row".to_owned(),
            rows => format!("{} rows", Grouped(rows.into())),
        };
        let duration = Nanos(start.elapsed().as_nanos() as f64);
        let footer = output.paint.with(Style::Dim, format!("{rows} in {duration}"));
        Ok(output.note(footer)?)
    }

    fn run_command(&mut self, command: &str, output: &mut Output) -> Result<(), CommandError> {
        let (name, argument) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        match (name, argument.trim()) {
            ("?", "") => Ok(write_help(output.data())?),
            ("d", "") => {
                let paint = output.paint;
                Ok(schema::write_list(output.data(), paint)?)
            }
            ("d", table) => {
                let (table, paint) = (schema::find_table(table)?, output.paint);
                Ok(schema::write_table(output.data(), &table, paint)?)
            }
            ("f", format) => {
                self.format = parse_text_format(format)?;
                Ok(())
            }
            _ => Err(CommandError::Failed(Failure {
                message: format!("unknown command `\\{}`", printable(command)),
                hint: Some("list the commands with \\?".into()),
            })),
        }
    }
}

fn parse_text_format(name: &str) -> Result<RowFormat, Failure> {
    match RowFormat::from_str(name, true) {
        Ok(format) if !format.is_binary() => Ok(format),
        Ok(_) => Err(Failure {
            message: "a binary format cannot be written to a terminal".into(),
            hint: Some("write it to a file with `marey query RUN SQL -o FILE`".into()),
        }),
        Err(_) => Err(Failure {
            message: format!("unknown format `{}`", printable(name)),
            hint: Some("choose one of table, csv, json and jsonl".into()),
        }),
    }
}

fn write_help(out: &mut impl Write) -> std::io::Result<()> {
    for Command { name, argument, doc } in &COMMANDS {
        writeln!(out, "{COMMAND_PREFIX}{name} {argument:8} {doc}")?;
    }
    writeln!(out, "Tab completes names; Ctrl-C cancels a query or clears the input.")
}

/// Returns the history file, in the state directory of the XDG base directory specification.
#[expect(clippy::disallowed_methods, reason = "this process is our own")]
fn history_file() -> Option<PathBuf> {
    let state = env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let state = state.or_else(|| Some(env::home_dir()?.join(".local/state")))?;
    Some(state.join("marey/history"))
}

fn terminal_failure(error: &ReadlineError) -> Failure {
    Failure::new(format!("cannot read from the terminal: {error}"))
}
