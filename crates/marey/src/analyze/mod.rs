//! `marey analyze`: reports where the time of a run goes, what is wrong, and what to change.
//!
//! [`marey_analysis`] computes the report. [`text`], [`markdown`] and [`html`] write it.

mod args;
mod cells;
mod html;
mod markdown;
mod rules;
mod text;

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use marey_analysis::{Questions, Report};
use marey_query::sql::{Database, SqlError};

pub(crate) use args::AnalyzeArgs;
use args::ReportFormat;

use crate::aligned::TextLayout;
use crate::limits::limits;
use crate::out_file::OutFile;
use crate::output::{CommandError, Failure, Output, PLAIN, Paint, write_json};
use crate::progress::Progress;
use crate::runs;

/// Refresh interval of the progress bar.
const REFRESH_INTERVAL: Duration = Duration::from_millis(100);

/// Runs `marey analyze`.
pub(crate) fn analyze(args: &AnalyzeArgs, output: &mut Output) -> Result<(), CommandError> {
    let mut file = args.output.as_deref().map(OutFile::create).transpose()?;
    if args.rules {
        match &mut file {
            Some(file) => write_rules(args, PLAIN, file)?,
            None => write_rules(args, output.paint, output.data())?,
        }
        return Ok(file.map_or(Ok(()), OutFile::finish)?);
    }
    let options = args.options()?;
    let limits = limits(args.memory_limit, None)?;
    let path = match &args.run {
        Some(path) => path.clone(),
        None => runs::newest(output)?,
    };
    let opened = runs::open(&path, output)?;
    let (name, warnings) = (opened.name().to_string_lossy().into_owned(), opened.warnings());
    let run = opened.into_run();
    let database = Database::new(Arc::new(run), limits);
    let questions = Questions::new(&database);
    let report = with_progress(&questions, || Report::new(&questions, name, warnings, &options))?;
    if let Some(mut file) = file {
        write(&report, args, TextLayout { paint: PLAIN, max_width: None }, &mut file)?;
        file.finish()?;
    } else {
        let layout = TextLayout { paint: output.paint, max_width: output.terminal_width() };
        write(&report, args, layout, output.data())?;
    }
    Ok(())
}

fn write_rules(args: &AnalyzeArgs, paint: Paint, out: &mut impl Write) -> Result<(), CommandError> {
    match args.format() {
        ReportFormat::Txt => Ok(rules::write(out, paint)?),
        ReportFormat::Md => Ok(rules::write_markdown(out)?),
        ReportFormat::Html | ReportFormat::Json => {
            Err(CommandError::Failed(Failure::new("--rules supports the formats txt and md only")))
        }
    }
}

fn write(
    report: &Report,
    args: &AnalyzeArgs,
    layout: TextLayout,
    out: &mut impl Write,
) -> io::Result<()> {
    match args.format() {
        ReportFormat::Txt => text::write(report, args, layout, out),
        ReportFormat::Md => markdown::write(report, args, out),
        ReportFormat::Html => html::write(report, &title(report), out),
        ReportFormat::Json => write_json(out, report),
    }
}

/// Returns the title of the HTML page, which is the file name of the run.
fn title(report: &Report) -> String {
    let name = Path::new(&report.path).file_name();
    name.map_or_else(|| report.path.clone(), |name| name.to_string_lossy().into_owned())
}

/// Runs `work`. If it takes long, shows how many of its questions are answered.
pub(crate) fn with_progress<T: Send>(
    questions: &Questions<'_>,
    work: impl FnOnce() -> Result<T, SqlError> + Send,
) -> Result<T, CommandError> {
    let mut bar = Progress::analyzing();
    let waiting_thread = thread::current();
    let result = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let result = work();
            waiting_thread.unpark();
            result
        });
        while !worker.is_finished() {
            thread::park_timeout(REFRESH_INTERVAL);
            bar.set_answered(questions.answered());
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    Ok(result?)
}
