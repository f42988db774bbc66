//! `marey check`: fails if a run is worse than a baseline, by the conditions of `--fail-on`. It is
//! meant for CI.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use marey_analysis::compare::{Tolerance, compare};
use marey_analysis::gate::{Gate, Judge, Outcome, Verdict, exit_code};
use marey_analysis::metric::Quantity;
use marey_analysis::render::{junit, markdown, show};
use marey_analysis::{Comparison, tables};
use serde_json::json;

use crate::aligned::TextLayout;
use crate::compare::{measure, write_metrics};
use crate::out_file::OutFile;
use crate::output::{CommandError, Failure, Output, PLAIN, Style, write_json};
use crate::text::printable;

const EXAMPLES: &str = "\
Examples:
  marey check after.marey --baseline before.marey --fail-on 'step_time.p50>+3%'
  marey check after.marey --baseline before.marey --fail-on 'step_time.p99>+2ms' \\
      --fail-on 'gpu_idle.percent>30' --fail-on 'gpu_memory.peak>+100MB' --junit report.xml
  marey check after.json.gz --baseline before.json.gz --fail-on 'mfu<-2%' --markdown comment.md

A condition is METRIC[.STATISTIC] > or < THRESHOLD. A threshold with a sign is a change against the
baseline (+3%, +2ms, +100MB, +5pp); without a sign it applies to the run itself (20ms, 8GB, 30%).
A condition fails only if the whole 95 % interval lies beyond the threshold. --metrics lists all
metrics.

Exit codes: 0 all conditions pass, 1 regression, 2 bad usage or unreadable input, 3 no regression
but an inconclusive condition: a number is missing, or there are too few steps.";

/// Arguments of `marey check`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct CheckArgs {
    /// Run to check: a folder `NAME.marey`, a packed run, or a file of another format
    #[arg(value_name = "RUN", value_hint = ValueHint::AnyPath, required_unless_present = "metrics")]
    run: Option<PathBuf>,

    /// Run to compare with
    #[arg(long, value_name = "RUN", value_hint = ValueHint::AnyPath)]
    #[arg(required_unless_present = "metrics")]
    baseline: Option<PathBuf>,

    /// Fail if this condition holds; may be repeated
    #[arg(long, value_name = "CONDITION", required_unless_present = "metrics")]
    fail_on: Vec<Gate>,

    /// Require at least N steps for statistics of steps
    #[arg(long, value_name = "N", default_value_t = Judge::default().min_steps)]
    min_steps: usize,

    /// Output format [default: from the suffix of -o, else txt]
    #[arg(short, long, value_name = "FORMAT")]
    format: Option<CheckFormat>,

    /// Write the verdicts to FILE
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,

    /// Also write the verdicts to FILE as `JUnit` XML
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    junit: Option<PathBuf>,

    /// Also write the verdicts to FILE as Markdown
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    markdown: Option<PathBuf>,

    /// List all metrics with their statistics, and exit
    #[arg(long)]
    metrics: bool,
}

/// Output format of verdicts.
// Variants have no doc comments, which keeps `--help` short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CheckFormat {
    Txt,
    Md,
    Json,
    Junit,
}

/// Runs `marey check`.
pub(crate) fn check(args: &CheckArgs, output: &mut Output) -> Result<(), CommandError> {
    let (Some(run), Some(baseline), false) = (&args.run, &args.baseline, args.metrics) else {
        return Ok(list_metrics(output.data())?);
    };
    let format = args.format();
    let outputs = [
        (&args.output, format),
        (&args.junit, CheckFormat::Junit),
        (&args.markdown, CheckFormat::Md),
    ];
    let files = outputs.into_iter().filter_map(|(path, format)| Some((path.as_ref()?, format)));
    let files: Result<Vec<_>, Failure> =
        files.map(|(path, format)| Ok((OutFile::create(path)?, format))).collect();
    let files = files?;
    let before = measure(baseline, output)?;
    let after = measure(run, output)?;
    let judge = Judge { min_steps: args.min_steps };
    let verdicts: Vec<Verdict> =
        args.fail_on.iter().map(|gate| judge.judge(gate, &before, &after)).collect();
    let comparison = compare(&before, &after, Tolerance::default());
    let judged_run = JudgedRun { comparison: &comparison, verdicts: &verdicts };
    for (mut file, format) in files {
        judged_run.write(format, TextLayout { paint: PLAIN, max_width: None }, &mut file)?;
        file.finish()?;
    }
    if args.output.is_none() {
        let layout = TextLayout { paint: output.paint, max_width: output.terminal_width() };
        judged_run.write(format, layout, output.data())?;
    }
    output.set_exit_code(exit_code(&verdicts).into());
    Ok(())
}

impl CheckArgs {
    fn format(&self) -> CheckFormat {
        let suffix = || self.output.as_ref()?.extension()?.to_str();
        self.format.unwrap_or_else(|| match suffix() {
            Some("md" | "markdown") => CheckFormat::Md,
            Some("json") => CheckFormat::Json,
            Some("xml") => CheckFormat::Junit,
            _ => CheckFormat::Txt,
        })
    }
}

/// The verdicts, with the comparison that they are based on.
struct JudgedRun<'a> {
    comparison: &'a Comparison,
    verdicts: &'a [Verdict],
}

impl JudgedRun<'_> {
    fn write(
        &self,
        format: CheckFormat,
        layout: TextLayout,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let Self { comparison, verdicts } = *self;
        match format {
            CheckFormat::Txt => self.write_text(layout, out),
            CheckFormat::Md => out.write_all(markdown(comparison, verdicts, 0).as_bytes()),
            CheckFormat::Junit => {
                let document = junit(&comparison.before, &comparison.after, verdicts);
                out.write_all(document.as_bytes())
            }
            CheckFormat::Json => {
                let json = json!({
                    "version": 1,
                    "before": comparison.before,
                    "after": comparison.after,
                    "exit_code": exit_code(verdicts),
                    "verdicts": tables::verdicts(verdicts),
                    "metrics": tables::metrics(comparison),
                });
                write_json(out, &json)
            }
        }
    }

    fn write_text(&self, layout: TextLayout, out: &mut impl Write) -> io::Result<()> {
        for verdict in self.verdicts {
            let (label, style) = match verdict.outcome {
                Outcome::Pass => ("pass", Style::Green),
                Outcome::Regression => ("REGRESSION", Style::Red),
                Outcome::Inconclusive => ("inconclusive", Style::Yellow),
            };
            let unit = verdict.metric.unit();
            let sides = [verdict.before, verdict.after].map(|side| show::value(side, unit));
            let [before, after] = sides;
            let expression = printable(&verdict.expression);
            writeln!(out, "{}  {expression}", layout.paint.with(style, format!("{label:<12}")))?;
            let judged_number = |number| show::judged_number(verdict, number);
            let interval = show::interval(verdict.interval, judged_number);
            writeln!(
                out,
                "    {before} -> {after}, judged {} (95 %: {interval}): {}",
                judged_number(verdict.change),
                verdict.why,
            )?;
        }
        writeln!(out)?;
        write_metrics(self.comparison, layout, out)
    }
}

fn list_metrics(out: &mut impl Write) -> io::Result<()> {
    for name in Quantity::names() {
        let statistics =
            Quantity::parse(name).map(|quantity| quantity.summaries().collect::<Vec<_>>());
        writeln!(out, "{name}: {}", statistics.unwrap_or_default().join(", "))?;
    }
    writeln!(out, "\nMetrics with p90 have all of p1 to p99. The first statistic is the default.")
}
