//! The one writer, and how a verb stops.

use std::env;
use std::fmt::{self, Display};
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Stderr, Stdout, Write};

use rustyline::DefaultEditor;

const FAILURE: i32 = 2;
/// What shells say of a program that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// Stdout for data, stderr for everything else.
pub(crate) struct Output {
    stdout: BufWriter<Stdout>,
    stderr: Stderr,
    /// Whether a person reads stdout.
    pub(crate) is_terminal: bool,
    /// Colours for stdout.
    pub(crate) paint: Paint,
    stderr_paint: Paint,
    has_failed: bool,
    /// What a verb that came to its end exits with.
    exit_code: i32,
}

impl Output {
    #[expect(clippy::disallowed_methods, reason = "this process is our own")]
    pub(crate) fn of_process() -> Self {
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

    /// Columns of the terminal that stdout is. Not where another editor lives: they share a handler
    /// of signals.
    pub(crate) fn columns(&self) -> Option<usize> {
        let mut editor = self.is_terminal.then(DefaultEditor::new)?.ok()?;
        editor.dimensions().map(|(columns, _)| columns.into())
    }

    /// The writer for data.
    pub(crate) const fn data(&mut self) -> &mut impl Write {
        &mut self.stdout
    }

    /// Says something that is neither data nor wrong.
    pub(crate) fn note(&mut self, text: impl Display) -> io::Result<()> {
        self.stdout.flush()?;
        writeln!(self.stderr, "{text}")
    }

    /// Says that the data has a flaw.
    pub(crate) fn warning(&mut self, text: impl Display) -> io::Result<()> {
        let word = self.stderr_paint.with(Style::Yellow, "warning:");
        self.note(format_args!("{word} {text}"))
    }

    /// Says that something failed; the exit code will be 2.
    pub(crate) fn error(&mut self, failure: &Failure) -> io::Result<()> {
        self.has_failed = true;
        self.complain(failure)
    }

    /// Says that something failed that does not count for the exit code.
    pub(crate) fn complain(&mut self, failure: &Failure) -> io::Result<()> {
        let word = self.stderr_paint.with(Style::Red, "error:");
        self.note(format_args!("{word} {}", failure.message))?;
        if let Some(hint) = &failure.hint {
            let word = self.stderr_paint.with(Style::Cyan, "hint:");
            self.note(format_args!("{word} {hint}"))?;
        }
        Ok(())
    }

    /// Says how the program shall end if nothing fails.
    pub(crate) const fn end_with(&mut self, exit_code: i32) {
        self.exit_code = exit_code;
    }

    /// Reports how a verb ended and gives the exit code.
    pub(crate) fn finish(mut self, result: Result<(), Stop>) -> i32 {
        let written = match result {
            Ok(()) => self.stdout.flush(),
            Err(Stop::Interrupted) => {
                // What was written before stays written, if it can be.
                drop(self.stdout.flush());
                return INTERRUPTED;
            }
            Err(Stop::Failed(failure)) => self.error(&failure),
            Err(Stop::Output(error)) => Err(error),
        };
        match written {
            // `| head` has seen enough.
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

/// Why a verb stops before its end.
pub(crate) enum Stop {
    /// It cannot do what was asked.
    Failed(Failure),
    /// Its output has nowhere to go.
    Output(io::Error),
    /// The user stopped it.
    Interrupted,
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// What went wrong, and what the user can do about it.
#[derive(Debug)]
pub struct Failure {
    /// On one line, without a full stop.
    pub message: String,
    /// Likewise.
    pub hint: Option<String>,
}

/// Colours, where they are wanted.
#[derive(Clone, Copy)]
pub(crate) struct Paint {
    pub(crate) is_on: bool,
}

/// No colours.
pub(crate) const PLAIN: Paint = Paint { is_on: false };

/// How a text looks on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

/// A text with the codes that make it look so.
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
