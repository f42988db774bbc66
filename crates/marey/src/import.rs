//! `marey import`: converts files of other formats to a run.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use marey_formats::{ImportWarning, Imported, ImportedFile};
use marey_model::quantity::Nanos;
use serde::Serialize;

use crate::foreign;
use crate::new_run::{NewRun, Published};
use crate::output::{CommandError, Output, write_json};
use crate::text::quote_path;

const EXAMPLES: &str = "\
Examples:
  marey import trace.json.gz                    Write trace.marey next to it
  marey import rank*.json -o job.marey          Import the ranks of a job and align their clocks
  curl -s URL | marey import - -o trace.marey   Import from stdin

Formats are recognised by content, not by name: traces of torch.profiler, Proton, Chrome and
Perfetto; speedscope, pprof and collapsed stacks; .hatchet files; memory snapshots of PyTorch; dumps
of NCCL's flight recorder; each optionally compressed with gzip. Every command that takes a run
also takes such a file; an imported run opens faster.";

/// The suffix of the name of a run.
const SUFFIX: &str = ".marey";

/// Arguments of `marey import`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct ImportArgs {
    /// Files of one job to import; `-` is stdin
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,

    /// Folder of the new run [default: NAME.marey, next to the first file]
    #[arg(short, long, value_name = "RUN", value_hint = ValueHint::DirPath)]
    output: Option<PathBuf>,

    /// Replace an existing run
    #[arg(long)]
    force: bool,

    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `marey import`.
pub(crate) fn import(args: &ImportArgs, output: &mut Output) -> Result<(), CommandError> {
    let path = args.output.clone().unwrap_or_else(|| default_path(&args.files[0]));
    let run = NewRun::create(&path, args.force)?;
    let imported = foreign::import(&args.files, &run.folder())?;
    let published = run.publish()?;
    report_import(&imported, output)?;
    output.note(published.describe())?;
    if args.json {
        let report = ImportReport::new(&imported, &published);
        write_json(output.data(), &report)?;
    }
    Ok(())
}

/// Reports the losses of an import, and how the clocks of several files were aligned.
pub(crate) fn report_import(imported: &Imported, output: &mut Output) -> io::Result<()> {
    for file in imported.files.iter().filter(|_| imported.files.len() > 1) {
        let name = quote_path(&file.path);
        match file.alignment_nanos {
            Some(nanos) => {
                let shift = Nanos(nanos as f64);
                output.note(format_args!("{name}: clock shifted by {shift}"))?;
            }
            None => output.note(format_args!(
                "{name}: clock not aligned: no collectives in common with the other files"
            ))?,
        }
    }
    foreign::warnings(imported).into_iter().try_for_each(|warning| output.warning(warning))
}

/// Returns the default path of the run of a file.
pub(crate) fn default_path(file: &Path) -> PathBuf {
    if file == Path::new(foreign::STDIN) {
        return format!("stdin{SUFFIX}").into();
    }
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.split('.').find(|part| !part.is_empty()).unwrap_or("trace");
    file.with_file_name(format!("{stem}{SUFFIX}"))
}

/// The result of an import for `--json`.
#[derive(Serialize)]
struct ImportReport<'a> {
    run: String,
    events: u64,
    bytes: u64,
    files: Vec<FileReport<'a>>,
}

#[derive(Serialize)]
struct FileReport<'a> {
    path: String,
    format: &'static str,
    /// `None` if the file was not aligned.
    alignment_nanos: Option<i64>,
    warnings: Vec<WarningReport<'a>>,
}

#[derive(Serialize)]
struct WarningReport<'a> {
    /// The key of the loss.
    loss: &'static str,
    count: u64,
    offset: u64,
    cause: &'a str,
}

impl<'a> ImportReport<'a> {
    fn new(imported: &'a Imported, published: &Published) -> Self {
        let Published { path, events, bytes } = published;
        let run = path.to_string_lossy().into_owned();
        let files = imported.files.iter().map(FileReport::new).collect();
        Self { run, events: *events, bytes: *bytes, files }
    }
}

impl<'a> FileReport<'a> {
    fn new(file: &'a ImportedFile) -> Self {
        Self {
            path: file.path.to_string_lossy().into_owned(),
            format: file.format.as_str(),
            alignment_nanos: file.alignment_nanos,
            warnings: file.warnings.iter().map(WarningReport::new).collect(),
        }
    }
}

impl<'a> WarningReport<'a> {
    fn new(warning: &'a ImportWarning) -> Self {
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
    fn the_default_run_is_next_to_the_file() {
        for (file, run) in [
            ("a/b.json.gz", "a/b.marey"),
            ("host_7.123.pt.trace.json", "host_7.marey"),
            (".hidden.pb", "hidden.marey"),
            ("...", "trace.marey"),
            ("-", "stdin.marey"),
        ] {
            assert_eq!(default_path(Path::new(file)), Path::new(run));
        }
    }
}
