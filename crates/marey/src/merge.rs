//! `marey merge`: merges several runs into one.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use marey_store::{Merger, Run, StoreError};

use crate::import;
use crate::new_run::NewRun;
use crate::output::{CommandError, Failure, Output};
use crate::runs::{self, OpenedRun};

const EXAMPLES: &str = "\
Examples:
  marey merge rank0.marey rank1.marey -o job.marey
  marey merge node*/train.marey.zip -o job.marey
  marey merge train.marey trace.json.gz -o both.marey

Equal names and calling contexts are unified; times are kept. The clocks of files of other formats
are aligned with each other, as by `marey import`.";

/// Arguments of `marey merge`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct MergeArgs {
    /// Runs, packed runs, and files of other formats
    #[arg(required = true, value_name = "RUN", value_hint = ValueHint::AnyPath)]
    runs: Vec<PathBuf>,

    /// Folder of the new run
    #[arg(short, long, value_name = "RUN", value_hint = ValueHint::DirPath)]
    output: PathBuf,

    /// Replace an existing run
    #[arg(long)]
    force: bool,
}

/// Runs `marey merge`.
pub(crate) fn merge(args: &MergeArgs, output: &mut Output) -> Result<(), CommandError> {
    let new_run = NewRun::create(&args.output, args.force)?;
    let folder = new_run.folder();
    let created = std::fs::create_dir(&folder).map_err(StoreError::io("create", &folder));
    created.map_err(Failure::from)?;

    let (foreign, native): (Vec<PathBuf>, Vec<PathBuf>) =
        args.runs.iter().cloned().partition(|path| runs::is_foreign(path));
    let mut merger = Merger::new(&folder);
    // The runs are added one at a time, because a thousand runs have more files than a process may
    // have open.
    for path in &native {
        merger.add(&open_run(path, output)?).map_err(Failure::from)?;
    }
    if !foreign.is_empty() {
        let (run, imported, _folder) = runs::import(&foreign)?;
        import::report_import(&imported, output)?;
        merger.add(&run).map_err(Failure::from)?;
    }
    merger.finish().map_err(Failure::from)?;
    Ok(output.note(new_run.publish()?.describe())?)
}

fn open_run(path: &Path, output: &mut Output) -> Result<Run, CommandError> {
    runs::open(path, output).map(OpenedRun::into_run)
}
