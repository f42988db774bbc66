//! `marey import`: files of other formats as a run.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use marey_formats::{ImportWarning, Imported, ImportedFile};
use marey_model::quantity::Nanos;
use serde::Serialize;

use crate::foreign;
use crate::new_run::{NewRun, Published};
use crate::output::{Output, Stop};
use crate::text::quoted;

const EXAMPLES: &str = "\
Examples:
  marey import trace.json.gz                    Writes trace.marey, beside it
  marey import rank*.json -o job.marey          The ranks of a job, their clocks aligned
  curl -s URL | marey import - -o trace.marey   What comes by stdin

The content says what a file is, not its name: a trace of torch.profiler, Proton, Chrome or
Perfetto; speedscope, pprof or collapsed stacks; a .hatchet file; a memory snapshot of PyTorch, or a
dump of NCCL's flight recorder; all of them also compressed with gzip. Every command that takes a
run takes such a file; from a run it answers sooner.";

/// What the name of a run ends with.
const ENDING: &str = ".marey";

/// Arguments of `marey import`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct ImportArgs {
    /// Files of one job; `-` is stdin
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,

    /// Run to write, a folder [default: NAME.marey, beside the first file]
    #[arg(short, long, value_name = "RUN", value_hint = ValueHint::DirPath)]
    output: Option<PathBuf>,

    /// Replace the run if it is there
    #[arg(long)]
    force: bool,

    /// Print one JSON object that says what came of it
    #[arg(long)]
    json: bool,
}

/// Makes the run.
pub(crate) fn import(args: &ImportArgs, output: &mut Output) -> Result<(), Stop> {
    let path = args.output.clone().unwrap_or_else(|| beside(&args.files[0]));
    let run = NewRun::at(&path, args.force)?;
    let imported = foreign::import(&args.files, &run.folder())?;
    let published = run.publish()?;
    say(&imported, output)?;
    output.note(published.describe())?;
    if args.json {
        let report = Report::of(&imported, &published);
        serde_json::to_writer_pretty(output.data(), &report).map_err(io::Error::from)?;
        writeln!(output.data())?;
    }
    Ok(())
}

/// Says what was lost, and how the clocks of several files were put.
pub(crate) fn say(imported: &Imported, output: &mut Output) -> io::Result<()> {
    for file in imported.files.iter().filter(|_| imported.files.len() > 1) {
        let name = quoted(&file.path);
        match file.alignment_nanos {
            Some(nanos) => {
                let moved = Nanos(nanos as f64);
                output.note(format_args!("{name}: its clock is moved by {moved}"))?;
            }
            None => output.note(format_args!(
                "{name}: its clock stays, as it has no collectives in common with the others"
            ))?,
        }
    }
    foreign::warnings(imported).into_iter().try_for_each(|warning| output.warning(warning))
}

/// Where the run of a file lies, unless the user says it.
pub(crate) fn beside(file: &Path) -> PathBuf {
    if file == Path::new(foreign::STDIN) {
        return format!("stdin{ENDING}").into();
    }
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.split('.').find(|part| !part.is_empty()).unwrap_or("trace");
    file.with_file_name(format!("{stem}{ENDING}"))
}

/// What came of an import, for programs.
#[derive(Serialize)]
struct Report<'a> {
    run: String,
    events: u64,
    bytes: u64,
    files: Vec<FileReport<'a>>,
}

#[derive(Serialize)]
struct FileReport<'a> {
    path: String,
    format: &'static str,
    /// None if it was not aligned.
    alignment_nanos: Option<i64>,
    warnings: Vec<WarningReport<'a>>,
}

#[derive(Serialize)]
struct WarningReport<'a> {
    /// The cause under which the run counts it.
    loss: &'static str,
    count: u64,
    offset: u64,
    cause: &'a str,
}

impl<'a> Report<'a> {
    fn of(imported: &'a Imported, published: &Published) -> Self {
        let Published { path, events, bytes } = published;
        let run = path.to_string_lossy().into_owned();
        let files = imported.files.iter().map(FileReport::of).collect();
        Self { run, events: *events, bytes: *bytes, files }
    }
}

impl<'a> FileReport<'a> {
    fn of(file: &'a ImportedFile) -> Self {
        Self {
            path: file.path.to_string_lossy().into_owned(),
            format: file.format.as_str(),
            alignment_nanos: file.alignment_nanos,
            warnings: file.warnings.iter().map(WarningReport::of).collect(),
        }
    }
}

impl<'a> WarningReport<'a> {
    fn of(warning: &'a ImportWarning) -> Self {
        Self {
            loss: warning.loss.as_str(),
            count: warning.count,
            offset: warning.first.offset,
            cause: &warning.first.cause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_lies_beside_the_file() {
        for (file, run) in [
            ("a/b.json.gz", "a/b.marey"),
            ("host_7.123.pt.trace.json", "host_7.marey"),
            (".hidden.pb", "hidden.marey"),
            ("...", "trace.marey"),
            ("-", "stdin.marey"),
        ] {
            assert_eq!(beside(Path::new(file)), Path::new(run));
        }
    }
}
