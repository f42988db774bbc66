//! Transcripts of the command lines.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod analyze;
mod collect;
mod diff;
mod errors;
mod export;
mod import;
mod info;
mod lines;
mod machines;
mod merge;
mod pack;
mod query;
mod recorded;
mod schema;
mod table;
mod triton;
mod verbs;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};

use tempfile::TempDir;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../marey-formats/tests/data");

/// Before and after a change: `gemm` is faster, `copy` slower, `old` removed, `new` added.
const BEFORE: &str = r#"[{"frame": {"name": "ROOT"}, "metrics": {"time (ns)": 0, "count": 0}, "children": [
    {"frame": {"name": "gemm"}, "metrics": {"time (ns)": 8000, "count": 4}, "children": []},
    {"frame": {"name": "copy"}, "metrics": {"time (ns)": 500, "count": 1}, "children": []},
    {"frame": {"name": "old"}, "metrics": {"time (ns)": 300, "count": 2}, "children": []}]}, {}]"#;
const AFTER: &str = r#"[{"frame": {"name": "ROOT"}, "metrics": {"time (ns)": 0, "count": 0}, "children": [
    {"frame": {"name": "gemm"}, "metrics": {"time (ns)": 5000, "count": 4}, "children": []},
    {"frame": {"name": "new"}, "metrics": {"time (ns)": 700, "count": 2}, "children": []},
    {"frame": {"name": "copy"}, "metrics": {"time (ns)": 2000, "count": 1}, "children": []}]}, {}]"#;

/// Returns a command line of `marey`, in the folder with the examples.
fn marey(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_marey"));
    command.args(line.split_whitespace()).current_dir(DATA).env_remove("NO_COLOR");
    command
}

/// Sends a program a signal such as `-INT`.
fn kill(signal: &str, child: &Child) {
    let mut kill = Command::new("kill");
    assert!(kill.args([signal, &child.id().to_string()]).status().unwrap().success());
}

/// Runs a command; returns exit code, stdout and stderr.
fn transcript(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let mut text = format!("exit code: {}\n", output.status.code().unwrap());
    for (name, bytes) in [("stdout", output.stdout), ("stderr", output.stderr)] {
        let stream = String::from_utf8(bytes).unwrap();
        write!(text, "--- {name} ---\n{stream}").unwrap();
    }
    text
}

/// Runs a command line of `marey`, in the folder with the examples.
fn run(line: &str) -> String {
    transcript(&mut marey(line))
}

/// Runs `marey view` on the examples.
fn view(line: &str) -> String {
    run(&format!("view {line}"))
}

/// A folder with test files.
struct Folder(TempDir);

impl Folder {
    fn new<C: AsRef<[u8]>>(files: &[(&str, C)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        Self(folder)
    }

    fn before_and_after() -> Self {
        Self::new(&[("before.hatchet", BEFORE), ("after.hatchet", AFTER)])
    }

    /// Creates a folder with the run `train.marey`, which is not collected yet.
    fn with_run() -> Self {
        let folder = Self::new::<&str>(&[]);
        recorded::write(&folder.path("train.marey"));
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns a command line of `marey`, in this folder.
    fn marey(&self, line: &str) -> Command {
        let mut command = marey(line);
        command.current_dir(self.0.path());
        command
    }

    /// Like [`Self::marey`], with SIGINT enabled even if the tests ignore it.
    fn interruptible(&self, line: &str) -> Command {
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_marey")]);
        command.args(line.split_whitespace()).current_dir(self.0.path());
        command
    }

    /// Runs a command line of `marey`, in this folder.
    fn run(&self, line: &str) -> String {
        transcript(&mut self.marey(line))
    }

    fn view(&self, line: &str) -> String {
        self.run(&format!("view {line}"))
    }

    /// Returns the rows of a query of a run or file, as CSV.
    fn csv(&self, run: &str, sql: &str) -> String {
        let transcript = transcript(self.marey(&format!("query {run} -f csv")).arg(sql));
        stdout(&transcript).to_owned()
    }

    /// Runs `marey query train.marey SQL` with options and an empty stdin.
    fn query(&self, sql: &str, options: &str) -> String {
        transcript(self.marey(&format!("query train.marey {options}")).arg(sql))
    }
}

/// Returns the stdout of a transcript.
fn stdout(transcript: &str) -> &str {
    let (_, rest) = transcript.split_once("--- stdout ---\n").unwrap();
    rest.split_once("--- stderr ---\n").unwrap().0
}

/// Returns the JSON document that a command prints.
fn json(transcript: &str) -> serde_json::Value {
    serde_json::from_str(stdout(transcript)).unwrap()
}

#[track_caller]
fn assert_success(transcript: &str) {
    assert!(transcript.starts_with("exit code: 0\n"), "{transcript}");
}

/// Returns the stdout of a command that succeeds without a message. It ends with one newline.
fn printed(transcript: &str) -> &str {
    let rest = transcript.strip_prefix("exit code: 0\n--- stdout ---\n");
    let printed = rest.and_then(|rest| rest.strip_suffix("\n--- stderr ---\n"));
    assert!(printed.is_some_and(|printed| !printed.ends_with('\n')), "{transcript}");
    at_margin(printed.unwrap())
}

/// Returns the messages of a command that succeeds and prints nothing else.
fn notes(transcript: &str) -> &str {
    let notes = transcript.strip_prefix("exit code: 0\n--- stdout ---\n--- stderr ---\n");
    at_margin(notes.unwrap_or_else(|| panic!("{transcript}")))
}

/// Returns the messages of a command that is refused and prints nothing else.
fn refusal(transcript: &str) -> &str {
    let refusal = transcript.strip_prefix("exit code: 2\n--- stdout ---\n--- stderr ---\n");
    at_margin(refusal.unwrap_or_else(|| panic!("{transcript}")))
}

/// Returns a text that begins in the first column: snapshots are compared without indentation.
fn at_margin(text: &str) -> &str {
    assert!(!text.starts_with(char::is_whitespace), "{text}");
    text
}
