//! `marey run`, `marey doctor` and `marey profile`. The Python package implements them, so this
//! program only starts Python.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::output::Failure;
use crate::run_args::requests_help;
use crate::text::printable;

const PYTHON: &str = "python3";

/// A Python program that exits with 1 if the package is missing, without an import of it.
const HAS_PACKAGE: &str =
    "import importlib.util, sys; sys.exit(importlib.util.find_spec('marey') is None)";

/// Returns the arguments in the form that the parser expects.
///
/// Moves the id of a process after the verb, so that `marey 4242 config` is `marey config 4242`.
/// Inserts `run` before a bare target, so that `marey train.py` is `marey run train.py`. Inserts
/// `--` after `run`, `doctor` and `profile`, so that this program parses none of their options
/// except for help. Adds `--help` if there are no arguments.
pub(crate) fn normalize_args(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.len() > 2 && is_number(&args[1]) && !is_number(&args[2]) {
        args.swap(1, 2);
    }
    if args.get(1).is_some_and(|first| is_bare_run(&first.to_string_lossy())) {
        args.insert(1, "run".into());
    }
    let Some(verb) = args.get(1) else {
        args.push("--help".into());
        return args;
    };
    if ["run", "doctor", "profile"].iter().any(|python| verb == python) {
        if requests_help(&args[2..]) {
            args.truncate(2);
            args.push("--help".into());
        } else {
            args.insert(2, "--".into());
        }
    }
    args
}

/// Whether the first argument is an option or target of `run`, and not a subcommand. No subcommand
/// contains a dot or a slash.
fn is_bare_run(first: &str) -> bool {
    let is_own_option = matches!(first, "-h" | "--help" | "-V" | "--version");
    let ends_with = |ends: &[&str]| ends.iter().any(|end| first.ends_with(end));
    let is_path = first.contains('/') || ends_with(&[".py", ".pyc", ".pyz", ".zip"]);
    let is_target = first.starts_with('-') || first == "pytest" || is_path;
    let is_profile = ends_with(&[".hatchet", ".hatchet_msgpack"]);
    !is_own_option && is_target && !is_profile && !is_run(first)
}

fn is_number(word: &OsString) -> bool {
    word.to_str().is_some_and(|word| word.parse::<u32>().is_ok())
}

/// Whether a path has the name of a run or of a packed run.
fn is_run(name: &str) -> bool {
    let name = name.strip_suffix('/').unwrap_or(name);
    [".marey", ".marey.zip"].iter().any(|end| name.ends_with(end))
}

/// Whether a word that is no subcommand is a recorded file or run.
pub(crate) fn is_recorded(word: &Path) -> bool {
    word.is_file() || word.is_dir() && is_run(&word.to_string_lossy())
}

/// Suggests `marey view` for a file and `marey query` for a run.
pub(crate) fn not_a_program(file: &Path) -> Failure {
    let file = file.to_string_lossy();
    let verb = if is_run(&file) { "query" } else { "view" };
    let file = printable(&file);
    Failure {
        message: format!("`{file}` is not a Python program"),
        hint: Some(format!("to open it, run `marey {verb} {file}`")),
    }
}

/// Replaces this process by `python3 -m marey VERB …`. Returns only on failure.
pub(crate) fn exec_python(verb: &str, words: &[OsString]) -> Failure {
    let probe = Command::new(PYTHON)
        .args(["-c", HAS_PACKAGE])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    match probe {
        Ok(status) if status.success() => {
            let command = ["-m", "marey", verb];
            python_failure(verb, &Command::new(PYTHON).args(command).args(words).exec())
        }
        Ok(_) => Failure {
            message: format!("{PYTHON} has no module `marey`"),
            hint: Some(format!(
                "run `{PYTHON} -m pip install marey`, or activate the environment where it is installed"
            )),
        },
        Err(error) => python_failure(verb, &error),
    }
}

fn python_failure(verb: &str, error: &io::Error) -> Failure {
    Failure {
        message: format!("cannot start {PYTHON}: {error}"),
        hint: Some(format!("install Python 3.10 or later, which `marey {verb}` needs on PATH")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_target_is_run_with_its_own_arguments() {
        for (line, expected) in [
            ("marey train.py --lr 1", "marey run -- train.py --lr 1"),
            ("marey -n a -c python t.py", "marey run -- -n a -c python t.py"),
            ("marey pytest -x", "marey run -- pytest -x"),
            ("marey -m pkg.train", "marey run -- -m pkg.train"),
            ("marey bin/train", "marey run -- bin/train"),
            ("marey -- ./launch.sh", "marey run -- -- ./launch.sh"),
            ("marey run -n a --help", "marey run --help"),
            ("marey run a.py --help", "marey run -- a.py --help"),
            ("marey doctor -h", "marey doctor --help"),
            ("marey doctor --json", "marey doctor -- --json"),
            ("marey profile --help", "marey profile --help"),
            ("marey profile view p.pt", "marey profile -- view p.pt"),
            ("marey view x.py", "marey view x.py"),
            ("marey runs/x.hatchet", "marey runs/x.hatchet"),
            ("marey ./x.hatchet_msgpack", "marey ./x.hatchet_msgpack"),
            ("marey runs/train.marey", "marey runs/train.marey"),
            ("marey train.marey.zip", "marey train.marey.zip"),
            ("marey 4242 config a=1", "marey config 4242 a=1"),
            ("marey app.zip", "marey run -- app.zip"),
            ("marey --help", "marey --help"),
            ("marey", "marey --help"),
        ] {
            let args = normalize_args(line.split(' ').map(OsString::from).collect());
            let normalized: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
            assert_eq!(normalized.join(" "), expected);
        }
    }
}
