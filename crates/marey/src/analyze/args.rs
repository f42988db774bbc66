//! The arguments of `marey analyze`.

use std::collections::HashSet;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};
use marey_analysis::section::{self, Section};
use marey_analysis::{ReportOptions, Thresholds};

use crate::limits::parse_size;
use crate::output::Failure;

const EXAMPLES: &str = "\
Examples:
  marey analyze train.marey                        Find hot spots and bottlenecks
  marey analyze                                    Analyze the newest run here
  marey analyze trace.json.gz                      Analyze a trace of another profiler
  marey analyze train.marey -o report.html         Write a report with charts to one file
  marey analyze train.marey --section kernels --top 30
  marey analyze train.marey --threshold hot_operation.medium_percent=20
  marey analyze --rules                            List all rules with their thresholds
  marey analyze train.marey -f json | jq '.findings[] | {severity, title, impact_nanos}'

The impact of a finding is time per training step, or of the recording if it has no steps.
The exit code is 0 whatever is found; use `marey check` to fail on regressions.";

/// The default number of rows of a section in formats for people.
const ROWS_FOR_PEOPLE: u64 = 10;
/// The default number of rows in formats for programs, and in HTML, where tables scroll.
const ROWS_FOR_PROGRAMS: u64 = 1_000;

/// Arguments of `marey analyze`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct AnalyzeArgs {
    /// Run to analyze: a folder `NAME.marey`, a packed run, or a file of another format [default: the
    /// newest `*.marey` of the working directory]
    #[arg(value_name = "RUN", value_hint = ValueHint::AnyPath)]
    pub(super) run: Option<PathBuf>,

    /// Output format [default: from the suffix of -o, else txt]
    #[arg(short, long, value_name = "FORMAT")]
    format: Option<ReportFormat>,

    /// Write the report to FILE
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) output: Option<PathBuf>,

    /// Show only this table, without findings; may be repeated
    #[arg(long, value_name = "NAME", value_parser = section_parser())]
    section: Vec<&'static Section>,

    /// Show at most N rows of each table [default: 10 in txt and md, else 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,

    /// Set a threshold of a rule; may be repeated
    #[arg(long, value_name = "RULE.NAME=VALUE")]
    threshold: Vec<String>,

    /// Limit the memory of queries, such as `512MiB` [default: `MAREY_MEMORY_LIMIT`, else 2GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(super) memory_limit: Option<usize>,

    /// Include the SQL queries of findings and tables
    #[arg(long)]
    pub(super) sql: bool,

    /// List all rules with their thresholds, and exit
    #[arg(long)]
    pub(super) rules: bool,
}

/// Output format of a report.
// Variants have no doc comments, which keeps `--help` short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ReportFormat {
    Txt,
    Md,
    Html,
    Json,
}

impl AnalyzeArgs {
    /// Returns the output format.
    pub(super) fn format(&self) -> ReportFormat {
        let suffix = || self.output.as_ref()?.extension()?.to_str();
        self.format.unwrap_or_else(|| match suffix() {
            Some("md" | "markdown") => ReportFormat::Md,
            Some("html" | "htm") => ReportFormat::Html,
            Some("json") => ReportFormat::Json,
            _ => ReportFormat::Txt,
        })
    }

    /// Whether the report has only the tables of `--section`.
    pub(super) fn has_sections(&self) -> bool {
        !self.section.is_empty()
    }

    /// Returns the options of the report.
    pub(super) fn options(&self) -> Result<ReportOptions, Failure> {
        let max_rows = match (self.top, self.format()) {
            (Some(rows), _) => rows.into(),
            (None, ReportFormat::Txt | ReportFormat::Md) => ROWS_FOR_PEOPLE,
            (None, ReportFormat::Html | ReportFormat::Json) => ROWS_FOR_PROGRAMS,
        };
        let mut seen = HashSet::new();
        let selected = self.section.iter().copied();
        let mut sections: Vec<_> = selected.filter(|section| seen.insert(section.name)).collect();
        if sections.is_empty() {
            sections.extend(section::ALL);
        }
        Ok(ReportOptions {
            thresholds: parse_thresholds(&self.threshold)?,
            sections,
            is_sections_only: self.has_sections(),
            includes_charts: matches!(self.format(), ReportFormat::Html | ReportFormat::Json)
                && !self.has_sections(),
            max_rows,
        })
    }
}

fn section_parser() -> impl TypedValueParser<Value = &'static Section> {
    let names = PossibleValuesParser::new(section::ALL.iter().map(|section| section.name));
    names.try_map(|name| Section::find(&name).ok_or("no such section"))
}

/// Parses settings of the form `RULE.NAME=VALUE`.
fn parse_thresholds(settings: &[String]) -> Result<Thresholds, Failure> {
    let mut thresholds = Thresholds::default();
    for setting in settings {
        let failure = |message: String| Failure {
            message: format!("--threshold {setting}: {message}"),
            hint: Some("list the thresholds with `marey analyze --rules`".into()),
        };
        let parts = setting
            .split_once('=')
            .and_then(|(name, value)| Some((name, value.trim().parse().ok()?)));
        let Some((name, value)) = parts else {
            return Err(failure("expected RULE.NAME=NUMBER".into()));
        };
        thresholds.set(name.trim(), value).map_err(|error| failure(error.to_string()))?;
    }
    Ok(thresholds)
}
