//! `marey view`: profiles as trees.

mod columns;
mod json;
mod report;
mod rows;
mod tree;
mod units;

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, ValueHint};
use marey_formats::hatchet::{self, ParseError, Profile, ReadError};

use self::columns::Column;
use self::rows::Rows;
use crate::output::{Failure, Output, Stop};

const EXAMPLES: &str = "\
Examples:
  marey view train.hatchet                     All levels, in the order first seen
  marey view --sort total -t 1 train.hatchet   What takes at least 1 %, the most first
  marey view -m total,tokens train.hatchet     Chosen metrics; units may be left out
  marey view --json train.hatchet | jq .       For programs

Metrics of every file that marey wrote: total, self, calls, min, max, p50, p90, p99.
Times are wall times of a scope with everything inside it; `self` is what no inner scope covers.";

/// Arguments of `marey view`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ViewArgs {
    /// Files to show, `.hatchet` or `.hatchet_msgpack`
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,

    /// Metrics to show, separated by commas; the first one serves --threshold and --sort
    #[arg(short, long, value_name = "METRICS", value_delimiter = ',')]
    metrics: Vec<String>,

    /// Levels to show below ROOT
    #[arg(short, long, value_name = "N")]
    depth: Option<usize>,

    /// Show only what reaches this percentage of the whole
    #[arg(short, long, value_name = "PERCENT", default_value = "0", value_parser = percent)]
    threshold: f64,

    /// Order of siblings: the largest first metric first, or as the program met them
    #[arg(long, value_name = "ORDER", default_value = "first-seen")]
    sort: Sort,

    /// Print one JSON object a file, with every metric unless --metrics is given
    #[arg(long)]
    json: bool,
}

// By the first metric, or as the program met them. Help is shorter without a line for each.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Sort {
    Total,
    FirstSeen,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim_end().parse() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("not a number from 0 to 100".into()),
    }
}

/// Shows every file; one that cannot be read does not hide the others.
pub(crate) fn view(args: &ViewArgs, output: &mut Output) -> Result<(), Stop> {
    let mut is_first = true;
    for file in &args.files {
        match Shown::load(file, args) {
            Err(failure) => output.error(&failure)?,
            Ok(shown) if args.json => shown.write_json(file, output)?,
            Ok(shown) => {
                output.stdout(if is_first { b"" } else { b"\n" })?;
                shown.write_text(file, output)?;
                is_first = false;
            }
        }
    }
    Ok(())
}

/// A file and what is shown of it.
struct Shown {
    profile: Profile,
    columns: Vec<Column>,
    rows: Rows,
}

impl Shown {
    fn load(file: &Path, args: &ViewArgs) -> Result<Self, Failure> {
        let profile = hatchet::read(file).map_err(|error| unreadable(&error))?;
        let columns = columns::choose(&profile, file, &args.metrics, args.json)?;
        let rows = rows::choose(&profile, columns.first(), args);
        Ok(Self { profile, columns, rows })
    }

    fn write_json(&self, file: &Path, output: &mut Output) -> io::Result<()> {
        json::write(output.data(), file, &self.profile, &self.columns, &self.rows)
    }

    fn write_text(&self, file: &Path, output: &mut Output) -> io::Result<()> {
        let paint = output.paint;
        report::write_heading(output.data(), paint, file, &self.profile)?;
        tree::write(output.data(), paint, &self.profile, &self.columns, &self.rows)?;
        report::note_rest(output, &self.profile, &self.rows)
    }
}

fn unreadable(error: &ReadError) -> Failure {
    let hint = match error {
        ReadError::Malformed { source: ParseError::Syntax { cause, .. }, .. } => match cause {
            hatchet::Cause::NewerVersion { .. } => Some("update marey"),
            hatchet::Cause::NotAProfile | hatchet::Cause::UnexpectedValue { .. } => {
                Some("`marey view` reads .hatchet and .hatchet_msgpack files")
            }
            _ => None,
        },
        _ => None,
    };
    Failure { message: error.to_string(), hint: hint.map(Into::into) }
}
