//! The prompt: queries one after the other, with history and completion.

use std::env;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use clap::ValueEnum;
use marey_model::quantity::{Grouped, Nanos};
use marey_query::sql::{Database, Names};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use super::args::QueryArgs;
use super::format::Format;
use super::words::Words;
use super::{Asked, ask_to_stdout};
use crate::output::{Failure, Output, Stop, Style};
use crate::schema;
use crate::text::printable;

/// What commands begin with.
pub(super) const COMMAND_MARK: &str = "\\";

const QUESTION: &str = "marey> ";
const MAX_HISTORY: usize = 1_000;

/// A command of the prompt.
pub(super) struct Command {
    pub(super) name: &'static str,
    argument: &'static str,
    doc: &'static str,
}

/// Every command.
pub(super) const COMMANDS: [Command; 4] = [
    Command { name: "?", argument: "", doc: "Show this" },
    Command {
        name: "d",
        argument: "[TABLE]",
        doc: "What there is to ask for, or a table's columns",
    },
    Command { name: "f", argument: "FORMAT", doc: "Write rows as a table, csv, json or jsonl" },
    Command { name: "q", argument: "", doc: "Leave; so does Ctrl-D" },
];

/// The prompt and what it was told.
pub(super) struct Prompt<'a> {
    database: &'a Database,
    args: &'a QueryArgs,
    format: Format,
    editor: Editor<Words, FileHistory>,
    /// None where there is no home.
    history: Option<PathBuf>,
}

impl<'a> Prompt<'a> {
    pub(super) fn new(
        args: &'a QueryArgs,
        database: &'a Database,
        names: &Names,
        format: Format,
    ) -> Result<Self, Failure> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .max_history_size(MAX_HISTORY)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(|error| broken(&error))?
            .build();
        let mut editor = Editor::with_config(config).map_err(|error| broken(&error))?;
        editor.set_helper(Some(Words::new(names)));
        let history = history_file();
        if let Some(file) = &history {
            // The first time there is none; a broken one is written anew.
            drop(editor.load_history(file));
        }
        Ok(Self { database, args, format, editor, history })
    }

    pub(super) fn run(mut self, output: &mut Output) -> Result<(), Stop> {
        output.note("End a query with `;`. \\? shows the commands, \\q leaves")?;
        loop {
            match self.editor.readline(QUESTION) {
                Ok(text) if text.trim() == "\\q" => return Ok(()),
                Ok(text) => {
                    self.remember(&text, output)?;
                    self.obey(text.trim(), output)?;
                }
                // Ctrl-C takes back what was typed.
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(()),
                Err(error) => return Err(broken(&error).into()),
            }
        }
    }

    /// Keeps a line at once, so that it is there also if the terminal goes away.
    fn remember(&mut self, text: &str, output: &mut Output) -> Result<(), Stop> {
        if let Err(error) = self.add_to_history(text) {
            output.warning(format_args!("the history is not kept: {error}"))?;
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

    /// Does what a line says. What goes wrong is said, and does not end the prompt.
    fn obey(&mut self, text: &str, output: &mut Output) -> Result<(), Stop> {
        let obeyed = match text.strip_prefix(COMMAND_MARK) {
            Some(command) => self.command(command, output),
            None if text.is_empty() => Ok(()),
            None => self.ask(text, output),
        };
        match obeyed {
            Err(Stop::Failed(failure)) => output.complain(&failure)?,
            Err(Stop::Interrupted) => output.note("stopped")?,
            Err(Stop::Output(error)) => return Err(error.into()),
            Ok(()) => {}
        }
        Ok(output.data().flush()?)
    }

    fn ask(&mut self, sql: &str, output: &mut Output) -> Result<(), Stop> {
        let max_rows = self.args.max_rows(self.format);
        let asked = Asked { sql, format: self.format, max_rows };
        let room = self.editor.dimensions().map(|(columns, _)| columns.into());
        let since = Instant::now();
        let answered = ask_to_stdout(self.database, &asked, room, output)?;
        let rows = match answered.rows {
            1 => "1 row".to_owned(),
            rows => format!("{} rows", Grouped(rows.into())),
        };
        let took = Nanos(since.elapsed().as_nanos() as f64);
        let footer = output.paint.with(Style::Dim, format!("{rows} in {took}"));
        Ok(output.note(footer)?)
    }

    fn command(&mut self, command: &str, output: &mut Output) -> Result<(), Stop> {
        let (name, argument) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        match (name, argument.trim()) {
            ("?", "") => Ok(write_help(output.data())?),
            ("d", "") => {
                let paint = output.paint;
                Ok(schema::write_list(output.data(), paint)?)
            }
            ("d", table) => {
                let (table, paint) = (schema::find(table)?, output.paint);
                Ok(schema::write_table(output.data(), &table, paint)?)
            }
            ("f", format) => {
                self.format = text_format(format)?;
                Ok(())
            }
            _ => Err(Stop::Failed(Failure {
                message: format!("there is no command `\\{}`", printable(command)),
                hint: Some("\\? shows the commands".into()),
            })),
        }
    }
}

fn text_format(name: &str) -> Result<Format, Failure> {
    match Format::from_str(name, true) {
        Ok(format) if !format.is_binary() => Ok(format),
        Ok(_) => Err(Failure {
            message: "this format is not for terminals".into(),
            hint: Some("`marey query RUN SQL -o FILE` writes it to a file".into()),
        }),
        Err(_) => Err(Failure {
            message: format!("there is no format `{}`", printable(name)),
            hint: Some("the formats here are table, csv, json and jsonl".into()),
        }),
    }
}

fn write_help(out: &mut impl Write) -> std::io::Result<()> {
    for Command { name, argument, doc } in &COMMANDS {
        writeln!(out, "{COMMAND_MARK}{name} {argument:8} {doc}")?;
    }
    writeln!(out, "Tab completes names; Ctrl-C stops a query or takes back what was typed.")
}

/// Where the XDG base directories put what programs remember.
#[expect(clippy::disallowed_methods, reason = "this process is our own")]
fn history_file() -> Option<PathBuf> {
    let state = env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let state = state.or_else(|| Some(env::home_dir()?.join(".local/state")))?;
    Some(state.join("marey/history"))
}

fn broken(error: &ReadlineError) -> Failure {
    Failure { message: format!("cannot read from the terminal: {error}"), hint: None }
}
