//! Checks and generators of this repository, run as `cargo xtask`.
//!
//! **Constraints.** For developers and CI only; nothing that ships depends on this crate. It writes
//! only the files that [`codegen`] lists.
//!
//! Start reading at [`deps::rules`], the allowed dependencies between crates.

#![forbid(unsafe_code)]

mod codegen;
mod deps;
mod layout;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use thiserror::Error;

const USAGE: &str = "\
usage: cargo xtask <command>

  deps               check the dependencies of the crates against the allowed ones
  codegen            write the files that are generated from marey-model
  codegen --check    fail if one of them differs
  layout [--cache FOLDER]
                     compare the tables of marey-gpu with the vendor's headers from wheels that are
                     fetched once and kept in the folder (~/.cache/marey/cupti-headers)
  layout --headers FOLDER...
                     compare them with the headers in these folders, offline";

/// The reason why a command failed.
#[derive(Debug, Error)]
enum XtaskError {
    #[error("no such command\n\n{USAGE}")]
    Usage,
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("`cargo metadata` failed: {0}")]
    CargoMetadata(String),
    #[error("cannot parse the output of `cargo metadata`: {0}")]
    MetadataFormat(#[from] serde_json::Error),
    #[error("forbidden dependencies\n{}", lines(.0))]
    ForbiddenDependencies(Vec<deps::Violation>),
    #[error("{}: no `#define CUPTI_API_VERSION` found", .0.display())]
    NoVersion(PathBuf),
    #[error("`{0}` failed: {1}")]
    Command(String, String),
    #[error("the tables of marey-gpu differ from the vendor's headers\n{}", lines(.0))]
    Layout(Vec<layout::Mismatch>),
    #[error("generated files are out of date\n{}\nhint: run `cargo xtask codegen`", lines(.0))]
    Stale(Vec<&'static str>),
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(message) => {
            eprintln!("{message}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> Result<String, XtaskError> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    match args {
        ["deps"] => deps::run(&root),
        ["codegen"] => codegen::write(&root),
        ["codegen", "--check"] => codegen::check(&root),
        ["layout"] => layout::run(None),
        ["layout", "--cache", folder] => layout::run(Some(folder)),
        ["layout", "--headers", folders @ ..] if !folders.is_empty() => {
            layout::run_on_folders(folders)
        }
        _ => Err(XtaskError::Usage),
    }
}

fn lines<T: std::fmt::Display>(items: &[T]) -> String {
    items.iter().map(|item| format!("  {item}")).collect::<Vec<_>>().join("\n")
}
