//! Opens the runs that are given to subcommands: folders, packed runs, files of other formats, and
//! process ids.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use marey_formats::{Format, Imported, TemporaryRun};
use marey_model::quantity::Size;
use marey_model::table::{Table, stored};
use marey_store::{Collected, Found, Manifest, Run, StoreError};
use tempfile::TempDir;

use crate::foreign;
use crate::interrupt::UnfinishedPath;
use crate::live;
use crate::output::{CommandError, Failure, Output};
use crate::progress::Progress;
use crate::sources::Sources;
use crate::text::{printable, quote_path};

/// The tables whose rows are events.
const EVENT_TABLES: [&Table; 11] = [
    &stored::SPANS,
    &stored::ASYNC_SPANS,
    &stored::INSTANTS,
    &stored::METRICS,
    &stored::COUNTERS,
    &stored::SAMPLES,
    &stored::GPU_ACTIVITIES,
    &stored::COLLECTIVES,
    &stored::VARIABLES,
    &stored::MEMORY_EVENTS,
    &stored::MEMORY_SNAPSHOTS,
];

/// An opened run, possibly imported from a file of another format.
pub(crate) struct OpenedRun {
    run: Run,
    /// The path that the user gave.
    name: PathBuf,
    imported: Option<Imported>,
}

/// The folder of a temporary run.
pub(crate) struct TemporaryFolder {
    _folder: TempDir,
    _unfinished: UnfinishedPath,
}

impl OpenedRun {
    /// Returns the path that the user gave.
    pub(crate) fn name(&self) -> &Path {
        &self.name
    }

    /// Returns the format of the imported file, `None` for a run or pack.
    pub(crate) fn format(&self) -> Option<Format> {
        Some(self.imported.as_ref()?.files.first()?.format)
    }

    /// Returns the run itself.
    pub(crate) fn into_run(self) -> Run {
        self.run
    }

    /// Returns a warning for each loss of the import, and one for all spools that could not be
    /// collected.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = match &self.imported {
            Some(imported) => foreign::warnings(imported),
            None => Vec::new(),
        };
        if self.run.uncollected_bytes() > 0 {
            let (run_name, bytes) = (quote_path(&self.name), Size(self.run.uncollected_bytes()));
            let reason = "the folder is not writable";
            warnings.push(format!("{run_name}: {bytes} of spools are not collected: {reason}"));
        }
        warnings
    }
}

impl Deref for OpenedRun {
    type Target = Run;

    fn deref(&self) -> &Run {
        &self.run
    }
}

/// Returns the run of the working directory that was recorded, imported or merged last, and prints its name.
pub(crate) fn newest(output: &mut Output) -> Result<PathBuf, CommandError> {
    let entries = fs::read_dir(".").map_err(|error| Failure {
        message: format!("the working directory cannot be read: {error}"),
        hint: Some("name a run".into()),
    })?;
    let paths = entries.filter_map(|entry| Some(PathBuf::from(entry.ok()?.file_name())));
    let runs = paths.filter(|path| path.extension().is_some_and(|suffix| suffix == "marey"));
    let by_time = runs.filter_map(|path| Some((creation_time(&path)?, path)));
    let Some((_, path)) = by_time.max() else {
        return Err(CommandError::Failed(Failure {
            message: "no run in this directory".into(),
            hint: Some("name one, or record one: `marey run -d trace train.py`".into()),
        }));
    };
    output.note(format_args!("the newest run here is {}", quote_path(&path)))?;
    Ok(path)
}

/// Returns the start of the last recording in a run, or the time when it was imported or merged.
/// Opening a run for the first time modifies its folder, so its modification counts only before that.
fn creation_time(path: &Path) -> Option<SystemTime> {
    let metadata = fs::metadata(path).ok()?;
    let manifest = if metadata.is_dir() {
        Manifest::read(path).ok().flatten()
    } else {
        Run::open(path).ok().map(|run| run.manifest().clone())
    };
    let Some(manifest) = manifest else { return metadata.modified().ok() };
    let starts = manifest.processes.iter().map(|process| process.start_unix_nanos);
    let start = starts.max().filter(|_| !manifest.spools.is_empty());
    let unix_nanos = start.unwrap_or(manifest.created_unix_nanos).try_into().unwrap_or(0);
    Some(SystemTime::UNIX_EPOCH + Duration::from_nanos(unix_nanos))
}

/// Opens a run and prints its warnings.
pub(crate) fn open(path: &Path, output: &mut Output) -> Result<OpenedRun, CommandError> {
    let opened = open_quietly(path)?;
    opened.warnings().into_iter().try_for_each(|warning| output.warning(warning))?;
    Ok(opened)
}

/// Opens a run, or imports a file of another format. First collects the data of a folder that were
/// recorded since its last collection. For a process id, opens what the process has recorded so
/// far.
pub(crate) fn open_quietly(path: &Path) -> Result<OpenedRun, Failure> {
    let path = &*live::resolve_run(path)?;
    if is_foreign(path) {
        let TemporaryRun { run, imported } = foreign::open(path)?;
        return Ok(OpenedRun { run, name: path.to_owned(), imported: Some(imported) });
    }
    let run = open_run(path).map_err(Failure::from)?;
    Ok(OpenedRun { run, name: path.to_owned(), imported: None })
}

/// Whether a path has to be imported. It is false for a file of marey that is not a run, whose
/// opening fails.
pub(crate) fn is_foreign(path: &Path) -> bool {
    path == Path::new(foreign::STDIN) || is_foreign_file(path)
}

/// Like [`is_foreign`], but `-` is a file of that name and not stdin.
pub fn is_foreign_file(path: &Path) -> bool {
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => false,
        Ok(metadata) if metadata.is_file() => matches!(
            Run::open(path),
            Err(StoreError::NotARun {
                found: Found::Profile | Found::ChromeTrace | Found::File,
                ..
            })
        ),
        // Not opened, because a pipe can be read only once.
        Ok(_pipe) => true,
        Err(_absent) => false,
    }
}

fn open_run(path: &Path) -> Result<Run, StoreError> {
    let mut bar = Progress::collecting();
    let mut report = |progress: marey_store::Progress| {
        bar.set_progress(progress.done_bytes, progress.total_bytes);
    };
    marey_store::open(path, &Sources::default(), &mut report)
}

/// Imports files into a run. The drop of the returned folder removes the run.
pub(crate) fn import(files: &[PathBuf]) -> Result<(Run, Imported, TemporaryFolder), Failure> {
    let parent = marey_store::temp_dir();
    let cannot_write = |error| Failure::from(StoreError::io("create a folder in", &parent)(error));
    let folder =
        tempfile::Builder::new().prefix("marey-").tempdir_in(&parent).map_err(cannot_write)?;
    let unfinished = UnfinishedPath::new(folder.path()).map_err(cannot_write)?;
    let path = folder.path().join("run");
    let imported = foreign::import(files, &path)?;
    let run = Run::open(&path).map_err(Failure::from)?;
    Ok((run, imported, TemporaryFolder { _folder: folder, _unfinished: unfinished }))
}

/// Returns the number of rows of a table.
pub(crate) fn row_count(run: &Run, table: &Table) -> u64 {
    run.parts(table).iter().map(marey_store::Part::row_count).sum()
}

/// Returns the number of events.
pub(crate) fn event_count(run: &Run) -> u64 {
    EVENT_TABLES.iter().map(|table| row_count(run, table)).sum()
}

/// Returns the size of all tables in bytes.
pub(crate) fn size_bytes(run: &Run) -> u64 {
    let parts = stored::ALL.iter().flat_map(|table| run.parts(table));
    parts.map(marey_store::Part::len_bytes).sum()
}

/// Collects what was recorded since the run was last collected.
pub(crate) fn collect(path: &Path, shows_progress: bool) -> Result<Collected, Failure> {
    let mut bar = shows_progress.then(Progress::collecting);
    let mut report = |progress: marey_store::Progress| {
        if let Some(bar) = &mut bar {
            bar.set_progress(progress.done_bytes, progress.total_bytes);
        }
    };
    marey_store::collect(path, &Sources::default(), &mut report).map_err(Failure::from)
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let hint = error.hint().map(|hint| printable(&hint).into_owned());
        Self { message: printable(&error.to_string()).into_owned(), hint }
    }
}
