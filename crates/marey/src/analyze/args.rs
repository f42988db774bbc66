//! The arguments of `marey analyze`.

use std::collections::HashSet;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};
use marey_analysis::section::{self, Section};
use marey_analysis::{Options, Thresholds};

use crate::limits::size;
use crate::output::Failure;

const EXAMPLES: &str = "\
Examples:
  marey analyze train.marey                        What takes the time, and what is wrong
  marey analyze trace.json.gz                      Of anybody's trace, too
  marey analyze train.marey -o report.html         The same with charts, in one file
  marey analyze train.marey --section kernels --top 30
  marey analyze train.marey --threshold hot_operation.medium_percent=20
  marey analyze --rules                            What is looked for, and every threshold
  marey analyze train.marey -f json | jq '.findings[] | {severity, title, impact_nanos}'

Findings say what they cost in time of each training step, or of the recording if it has no steps.
The exit code is 0 whatever is found; `marey check` is for gates.";

/// Rows of a section where people read it.
const DEFAULT_ROWS: u64 = 10;
/// Rows of a section where programs read it, or there is room.
const MANY_ROWS: u64 = 1_000;

/// Arguments of `marey analyze`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct AnalyzeArgs {
    /// The run: a folder `NAME.marey`, the one file of `marey pack`, or a file of another format
    #[arg(value_name = "RUN", value_hint = ValueHint::AnyPath, required_unless_present = "rules")]
    pub(super) run: Option<PathBuf>,

    /// How the report is written [default: what the suffix of -o says, else txt]
    #[arg(short, long, value_name = "FORMAT")]
    format: Option<Format>,

    /// Write the report to FILE
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) output: Option<PathBuf>,

    /// Only this table, without findings; may be repeated
    #[arg(long, value_name = "NAME", value_parser = sections())]
    section: Vec<&'static Section>,

    /// Rows of each table at most [default: 10 in txt and md, else 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,

    /// Set a threshold of a rule; may be repeated
    #[arg(long, value_name = "RULE.NAME=VALUE")]
    threshold: Vec<String>,

    /// Memory that it may use, such as `512MiB` [default: `MAREY_MEMORY_LIMIT`, else 2GiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(super) memory_limit: Option<usize>,

    /// Show the queries behind findings and tables, too
    #[arg(long)]
    pub(super) sql: bool,

    /// List what is looked for, with every threshold, and do nothing else
    #[arg(long)]
    pub(super) rules: bool,
}

/// How a report is written.
// Help is shorter without a line for each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Txt,
    Md,
    Html,
    Json,
}

impl AnalyzeArgs {
    /// How the report is written.
    pub(super) fn format(&self) -> Format {
        let suffix = || self.output.as_ref()?.extension()?.to_str();
        self.format.unwrap_or_else(|| match suffix() {
            Some("md" | "markdown") => Format::Md,
            Some("html" | "htm") => Format::Html,
            Some("json") => Format::Json,
            _ => Format::Txt,
        })
    }

    /// Whether only tables are wanted.
    pub(super) fn has_sections(&self) -> bool {
        !self.section.is_empty()
    }

    /// What the report shall have.
    pub(super) fn options(&self) -> Result<Options, Failure> {
        let max_rows = match (self.top, self.format()) {
            (Some(rows), _) => rows.into(),
            (None, Format::Txt | Format::Md) => DEFAULT_ROWS,
            (None, Format::Html | Format::Json) => MANY_ROWS,
        };
        let mut seen = HashSet::new();
        let asked = self.section.iter().copied();
        let mut sections: Vec<_> = asked.filter(|section| seen.insert(section.name)).collect();
        if sections.is_empty() {
            sections.extend(section::ALL);
        }
        Ok(Options {
            thresholds: thresholds(&self.threshold)?,
            sections,
            has_sections_only: self.has_sections(),
            has_charts: matches!(self.format(), Format::Html | Format::Json)
                && !self.has_sections(),
            max_rows,
        })
    }
}

fn sections() -> impl TypedValueParser<Value = &'static Section> {
    let names = PossibleValuesParser::new(section::ALL.iter().map(|section| section.name));
    names.try_map(|name| Section::find(&name).ok_or("no such section"))
}

/// Thresholds of `RULE.NAME=VALUE`.
fn thresholds(settings: &[String]) -> Result<Thresholds, Failure> {
    let mut thresholds = Thresholds::default();
    for setting in settings {
        let failure = |message: String| Failure {
            message: format!("--threshold {setting}: {message}"),
            hint: Some("`marey analyze --rules` lists what can be set".into()),
        };
        let parts = setting
            .split_once('=')
            .and_then(|(name, value)| Some((name, value.trim().parse().ok()?)));
        let Some((name, value)) = parts else {
            return Err(failure("not of the form RULE.NAME=NUMBER".into()));
        };
        thresholds.set(name.trim(), value).map_err(|error| failure(error.to_string()))?;
    }
    Ok(thresholds)
}
