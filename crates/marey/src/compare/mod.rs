//! `marey compare`: compares two runs, *before* and *after*.

mod text;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum, ValueHint};
use marey_analysis::compare::{Tolerance, compare as compare_runs};
use marey_analysis::{Comparison, Questions, RunMeasurements, tables};
use marey_query::sql::Database;
use serde_json::json;

use crate::aligned::TextLayout;
use crate::analyze::with_progress;
use crate::limits::limits;
use crate::out_file::OutFile;
use crate::output::{CommandError, Output, PLAIN, write_json};
use crate::runs;

pub(crate) use text::write_metrics;

const EXAMPLES: &str = "\
Examples:
  marey compare before.marey after.marey
  marey compare before.json.gz after.json.gz --top 30   Traces of other profilers
  marey compare before.marey after.marey -f md -o pull-request.md
  marey compare before.marey after.marey -f json | jq '.metrics[] | {metric, change_percent}'

Times and counts are per training step, or of the recording if it has no steps. A change of a step
time is significant if its 95 % bootstrap interval over the steps excludes 0.";

/// The default number of rows of each table in formats for people.
const DEFAULT_ROWS: usize = 10;

/// Arguments of `marey compare`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct CompareArgs {
    /// Baseline run: a folder `NAME.marey`, a packed run, or a file of another format
    #[arg(value_name = "BEFORE", value_hint = ValueHint::AnyPath)]
    before: PathBuf,

    /// Run to compare with the baseline
    #[arg(value_name = "AFTER", value_hint = ValueHint::AnyPath)]
    after: PathBuf,

    /// Output format [default: from the suffix of -o, else txt]
    #[arg(short, long, value_name = "FORMAT")]
    format: Option<ComparisonFormat>,

    /// Write the comparison to FILE
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,

    /// Show at most N rows of each table; json has all [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,

    /// Treat changes of at most PERCENT as unchanged
    #[arg(long, value_name = "PERCENT", default_value_t = Tolerance::default().percent)]
    #[arg(value_parser = parse_percent)]
    tolerance: f64,
}

/// Output format of a comparison.
// Variants have no doc comments, which keeps `--help` short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ComparisonFormat {
    Txt,
    Md,
    Json,
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.trim_end_matches('%').trim().parse().ok();
    percent
        .filter(|percent| percent.is_finite() && *percent >= 0.0)
        .ok_or("not a percentage".into())
}

/// Runs `marey compare`.
pub(crate) fn compare(args: &CompareArgs, output: &mut Output) -> Result<(), CommandError> {
    let file = args.output.as_deref().map(OutFile::create).transpose()?;
    let before = measure(&args.before, output)?;
    let after = measure(&args.after, output)?;
    let tolerance = Tolerance { percent: args.tolerance, ..Tolerance::default() };
    let comparison = compare_runs(&before, &after, tolerance);
    if let Some(mut file) = file {
        args.write(&comparison, TextLayout { paint: PLAIN, max_width: None }, &mut file)?;
        file.finish()?;
    } else {
        let layout = TextLayout { paint: output.paint, max_width: output.terminal_width() };
        args.write(&comparison, layout, output.data())?;
    }
    Ok(())
}

/// Opens a run and measures it.
pub(crate) fn measure(path: &Path, output: &mut Output) -> Result<RunMeasurements, CommandError> {
    let opened = runs::open(path, output)?;
    let name = opened.name().to_string_lossy().into_owned();
    let run = opened.into_run();
    let database = Database::new(Arc::new(run), limits(None, None)?);
    let questions = Questions::new(&database);
    with_progress(&questions, || RunMeasurements::query(&questions, name))
}

impl CompareArgs {
    fn format(&self) -> ComparisonFormat {
        let suffix = || self.output.as_ref()?.extension()?.to_str();
        self.format.unwrap_or_else(|| match suffix() {
            Some("md" | "markdown") => ComparisonFormat::Md,
            Some("json") => ComparisonFormat::Json,
            _ => ComparisonFormat::Txt,
        })
    }

    fn write(
        &self,
        comparison: &Comparison,
        layout: TextLayout,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let max_rows = self.top.map_or(DEFAULT_ROWS, |rows| rows as usize);
        match self.format() {
            ComparisonFormat::Txt => text::write(comparison, max_rows, layout, out),
            ComparisonFormat::Md => out
                .write_all(marey_analysis::render::markdown(comparison, &[], max_rows).as_bytes()),
            ComparisonFormat::Json => {
                let json = json!({
                    "version": 1,
                    "before": comparison.before,
                    "after": comparison.after,
                    "metrics": tables::metrics(comparison),
                    "operations": tables::operations(comparison),
                    "kernels": tables::kernels(comparison),
                    "renames": tables::renames(comparison),
                });
                write_json(out, &json)
            }
        }
    }
}
