//! Opening the runs that commands are asked about.

use std::path::Path;

use marey_store::{Collected, Run, StoreError};

use crate::output::{Failure, Output, Stop};
use crate::progress::Progress;
use crate::text::{Size, printable, quoted};

/// Opens a run, folder or pack, and collects first what was recorded since it was last opened.
pub(crate) fn open(path: &Path, output: &mut Output) -> Result<Run, Stop> {
    let mut bar = Progress::of_collecting();
    let mut report =
        |progress: marey_store::Progress| bar.at_of(progress.done_bytes, progress.total_bytes);
    let run = marey_store::open(path, &mut report).map_err(Failure::from)?;
    drop(bar);
    if run.uncollected_bytes() > 0 {
        let (run_name, bytes) = (quoted(path), Size(run.uncollected_bytes()));
        let why = "nothing can be written there";
        output.warning(format_args!("{run_name}: {bytes} of spools are not collected: {why}"))?;
    }
    Ok(run)
}

/// Collects what was recorded since a run was last opened.
pub(crate) fn collect(path: &Path, shows_progress: bool) -> Result<Collected, Failure> {
    let mut bar = shows_progress.then(Progress::of_collecting);
    let mut report = |progress: marey_store::Progress| {
        if let Some(bar) = &mut bar {
            bar.at_of(progress.done_bytes, progress.total_bytes);
        }
    };
    marey_store::collect(path, &mut report).map_err(Failure::from)
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let hint = error.hint().map(|hint| printable(&hint).into_owned());
        Self { message: printable(&error.to_string()).into_owned(), hint }
    }
}
