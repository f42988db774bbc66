//! The output of all subcommands: data on stdout, notes and errors on stderr, and the exit code.
//! [`CommandError`] is the error type of subcommands.

use std::env;
use std::fmt::{self, Display};
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Stderr, Stdout, Write};

use rustyline::DefaultEditor;
use serde::Serialize;

const FAILURE: i32 = 2;
/// The exit code that shells use for a program ended by Ctrl-C.
const INTERRUPTED: i32 = 130;

/// Writes data to stdout and everything else to stderr.
pub(crate) struct Output {
    stdout: BufWriter<Stdout>,
    stderr: Stderr,
    /// Whether stdout is a terminal.
    pub(crate) is_terminal: bool,
    /// Colours for stdout.
    pub(crate) paint: Paint,
    stderr_paint: Paint,
    has_failed: bool,
    /// The exit code unless a failure is reported.
    exit_code: i32,
}

impl Output {
    #[expect(clippy::disallowed_methods, reason = "this process is our own")]
    pub(crate) fn new() -> Self {
        let wants_colour = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let is_terminal = io::stdout().is_terminal();
        Self {
            is_terminal,
            paint: Paint { is_on: wants_colour && is_terminal },
            stderr_paint: Paint { is_on: wants_colour && io::stderr().is_terminal() },
            stdout: BufWriter::with_capacity(1 << 16, io::stdout()),
            stderr: io::stderr(),
            has_failed: false,
            exit_code: 0,
        }
    }

    /// Returns the width of the terminal, if stdout is one. Must not be called while another line
    /// editor exists, because editors share a signal handler.
    pub(crate) fn terminal_width(&self) -> Option<usize> {
        let mut editor = self.is_terminal.then(DefaultEditor::new)?.ok()?;
        editor.dimensions().map(|(columns, _)| columns.into())
    }

    /// Returns the writer for data.
    pub(crate) const fn data(&mut self) -> &mut impl Write {
        &mut self.stdout
    }

    /// Prints a note to stderr.
    pub(crate) fn note(&mut self, text: impl Display) -> io::Result<()> {
        self.stdout.flush()?;
        writeln!(self.stderr, "{text}")
    }

    /// Prints a warning to stderr.
    pub(crate) fn warning(&mut self, text: impl Display) -> io::Result<()> {
        let label = self.stderr_paint.with(Style::Yellow, "warning:");
        self.note(format_args!("{label} {text}"))
    }

    /// Prints an error and sets the exit code to 2.
    pub(crate) fn error(&mut self, failure: &Failure) -> io::Result<()> {
        self.has_failed = true;
        self.print_error(failure)
    }

    /// Prints an error without changing the exit code.
    pub(crate) fn print_error(&mut self, failure: &Failure) -> io::Result<()> {
        let label = self.stderr_paint.with(Style::Red, "error:");
        self.note(format_args!("{label} {}", failure.message))?;
        if let Some(hint) = &failure.hint {
            let label = self.stderr_paint.with(Style::Cyan, "hint:");
            self.note(format_args!("{label} {hint}"))?;
        }
        Ok(())
    }

    /// Sets the exit code of a command that does not fail.
    pub(crate) const fn set_exit_code(&mut self, exit_code: i32) {
        self.exit_code = exit_code;
    }

    /// Flushes the output, reports a failure, and returns the exit code.
    pub(crate) fn finish(mut self, result: Result<(), CommandError>) -> i32 {
        let written = match result {
            Ok(()) => self.stdout.flush(),
            Err(CommandError::Interrupted) => {
                // Keeps the data that were written so far, if possible.
                drop(self.stdout.flush());
                return INTERRUPTED;
            }
            Err(CommandError::Failed(failure)) => self.error(&failure),
            Err(CommandError::Output(error)) => Err(error),
        };
        match written {
            // The reader has closed the pipe, as `| head` does.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.exit_code,
            Err(error) => {
                drop(writeln!(self.stderr, "error: cannot write the output: {error}"));
                FAILURE
            }
            Ok(()) if self.has_failed => FAILURE,
            Ok(()) => self.exit_code,
        }
    }
}

/// The reason why a subcommand stops early.
pub(crate) enum CommandError {
    /// The subcommand failed.
    Failed(Failure),
    /// The output of the subcommand could not be written.
    Output(io::Error),
    /// The user has interrupted the subcommand.
    Interrupted,
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<Failure> for CommandError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Writes a value as indented JSON.
pub(crate) fn write_json(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

/// An error with an optional hint on how to fix it.
#[derive(Debug)]
pub struct Failure {
    /// One line without a full stop.
    pub message: String,
    /// One line without a full stop.
    pub hint: Option<String>,
}

impl Failure {
    /// Returns a failure without a hint.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }
}

/// Whether output is coloured.
#[derive(Clone, Copy)]
pub(crate) struct Paint {
    pub(crate) is_on: bool,
}

/// No colours.
pub(crate) const PLAIN: Paint = Paint { is_on: false };

/// A style of text on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

/// A text that is displayed with its style.
pub(crate) struct Painted<T> {
    paint: Paint,
    style: Style,
    text: T,
}

impl Paint {
    pub(crate) const fn with<T: Display>(self, style: Style, text: T) -> Painted<T> {
        Painted { paint: self, style, text }
    }
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.paint.is_on {
            return self.text.fmt(f);
        }
        let code = match self.style {
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Red => "1;31",
            Style::Green => "32",
            Style::Yellow => "1;33",
            Style::Cyan => "1;36",
        };
        write!(f, "\x1b[{code}m{}\x1b[0m", self.text)
    }
}
