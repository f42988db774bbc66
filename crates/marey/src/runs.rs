//! Opening the runs that commands are asked about.

use std::path::Path;

use marey_store::{Collected, Run, StoreError};

use crate::output::Failure;
use crate::progress::Progress;
use crate::text::printable;

/// Opens a run, folder or pack, and collects first what was recorded since it was last opened.
pub(crate) fn open(path: &Path) -> Result<Run, Failure> {
    let mut bar = Progress::of_collecting();
    marey_store::open(path, &mut |progress| bar.at_of(progress.done_bytes, progress.total_bytes))
        .map_err(Failure::from)
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
