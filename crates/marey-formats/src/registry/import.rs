//! Import: makes a run of foreign files.
//!
//! The content of a file decides its format ([`recognise`]). The reader of the format adds events
//! to an [`Import`], which counts losses and passes the events to the assembler of the run. Several
//! files, one for each rank, are read in parallel, and their clocks are aligned ([`align`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use marey_model::loss::LossCause;
use marey_store::{Assembler, Run, StoreError, TemporaryFiles, temp_dir};
use tempfile::TempDir;
use thiserror::Error;

use super::align::{self, EndsByCollective};
use super::recognise::recognise;
use crate::shared::format::Format;
use crate::shared::import::{Fault, Import, ImportWarning, ReaderError};
use crate::shared::input::Input;

/// The result of an import.
#[derive(Debug)]
pub struct Imported {
    /// Rows of events in the run.
    pub events: u64,
    /// The files, in the order of the arguments.
    pub files: Vec<ImportedFile>,
}

/// The result of importing one file.
#[derive(Debug)]
pub struct ImportedFile {
    /// The file.
    pub path: PathBuf,
    /// The format of its content.
    pub format: Format,
    /// The nanoseconds added to all its timestamps, so that collectives end together on all ranks.
    pub alignment_nanos: Option<i64>,
    /// The losses of the file, one warning for each cause.
    pub warnings: Vec<ImportWarning>,
}

/// Why files could not be imported.
#[derive(Debug, Error)]
pub enum ImportError {
    /// A file could not be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file has the format, but no usable content.
    #[error("cannot read `{}` as {}: {fault}", path.display(), format.title())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The recognised format.
        format: Format,
        /// The first error in the content.
        fault: Fault,
    },
    /// The content has no known format.
    #[error("cannot read `{}`: its content is of no known format", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
    },
    /// The run could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A run of a foreign file, stored in temporary files that are freed when the run is closed.
#[derive(Debug)]
pub struct TemporaryRun {
    /// The run.
    pub run: Run,
    /// The result of importing the file.
    pub imported: Imported,
}

/// Imports files into a new run at the path `out`, which must not exist. The run appears there only
/// when it is complete. `read_bytes` grows as the files are read.
pub fn import(
    files: &[PathBuf],
    out: &Path,
    read_bytes: &Arc<AtomicU64>,
) -> Result<Imported, ImportError> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    let temporary =
        temporary_folder(".import-", folder).map_err(|source| cannot_create(folder, source))?;
    let imported = import_into_folder(files, temporary.path(), read_bytes)?;
    publish(temporary, out).map_err(|source| cannot_create(out, source))?;
    Ok(imported)
}

/// Imports a file into a temporary run. `read_bytes` grows as the file is read.
pub fn open(file: &Path, read_bytes: &Arc<AtomicU64>) -> Result<TemporaryRun, ImportError> {
    let run = Assembler::temporary(&temp_dir());
    Ok(read(file, run, read_bytes)?.open(None)?)
}

/// Imports content of a format and drops the run. Only for fuzzing.
#[cfg(fuzzing)]
pub fn fuzz_import(format: Format, content: &[u8]) {
    let mut import = Import::new(Assembler::temporary(&temp_dir()), "fuzz");
    let content = io::Cursor::new(content.to_vec());
    let mut input = Input::new(content).expect("threads can be made");
    match read_content(format, &mut input, &mut import) {
        Ok(()) => {
            drop(import.run.open(None, Path::new("fuzz")).expect("what was read can be written"));
        }
        Err(ReaderError::Content(_)) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Imports the trace of a window of torch.profiler, for the collector of a run
/// ([`marey_store::Sources`]).
pub fn read_window(trace: &Path) -> Result<Run, String> {
    let opened = open(trace, &Arc::default());
    opened.map(|opened| opened.run).map_err(|error| error.to_string())
}

fn temporary_folder(prefix: &str, folder: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(prefix).tempdir_in(folder)
}

fn cannot_create(path: &Path, source: io::Error) -> ImportError {
    StoreError::io("create", path)(source).into()
}

/// Renames a temporary folder to its final path, which must not exist.
fn publish(folder: TempDir, out: &Path) -> io::Result<()> {
    // Fails if the path exists. The rename below replaces this empty folder.
    fs::create_dir(out)?;
    // A temporary folder has the mode 0700. The run gets the mode of an ordinary new folder.
    let renamed = fs::metadata(out).and_then(|metadata| {
        fs::set_permissions(folder.path(), metadata.permissions())?;
        fs::rename(folder.path(), out)
    });
    match renamed {
        Ok(()) => drop(folder.keep()),
        Err(_) => fs::remove_dir(out)?,
    }
    renamed
}

/// A file that was read and whose clock is not aligned yet.
struct UnalignedFile {
    import: Import,
    path: PathBuf,
    format: Format,
}

fn import_into_folder(
    files: &[PathBuf],
    folder: &Path,
    read_bytes: &Arc<AtomicU64>,
) -> Result<Imported, ImportError> {
    if let [file] = files {
        return Ok(read(file, Assembler::new(folder), read_bytes)?.finish()?);
    }
    // All runs share temporary files, because there may be more runs than a process may have open
    // files.
    let shared_files = TemporaryFiles::new(folder);
    let mut unaligned = map_in_parallel(files.len(), |index| {
        let mut unaligned =
            read(&files[index], Assembler::temporary_in(&shared_files), read_bytes)?;
        unaligned.import.run.spill()?;
        Ok(unaligned)
    })?;
    let shifts_nanos = align_clocks(&mut unaligned);
    let unaligned: Vec<_> =
        unaligned.into_iter().map(|unaligned| Mutex::new(Some(unaligned))).collect();
    let imported_files = map_in_parallel(files.len(), |index| {
        let file = unaligned[index].lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(file.expect("each number comes once").open(shifts_nanos[index])?)
    })?;
    let (runs, imported_files): (Vec<Run>, Vec<Imported>) =
        imported_files.into_iter().map(|TemporaryRun { run, imported }| (run, imported)).unzip();
    marey_store::merge(&runs, folder)?;
    Ok(Imported {
        events: imported_files.iter().map(|part| part.events).sum(),
        files: imported_files.into_iter().flat_map(|part| part.files).collect(),
    })
}

/// Returns the nanoseconds to add to the timestamps of each file, so that collectives end together.
/// Counts collectives that cannot be told apart as lost.
fn align_clocks(unaligned: &mut [UnalignedFile]) -> Vec<Option<i64>> {
    let mut ranks = BTreeSet::new();
    let mut ends: Vec<EndsByCollective> = unaligned
        .iter()
        .map(|UnalignedFile { import, .. }| match import.run.rank() {
            // A second recording of the same rank shares no collective with the first.
            Some(rank) if !ranks.insert(rank) => EndsByCollective::default(),
            _ => EndsByCollective::new(&import.collective_ends, &import.run),
        })
        .collect();
    let ambiguous = align::remove_ambiguous(&mut ends);
    let shifts_nanos = align::clock_shifts(&ends);
    for (unaligned, warning) in unaligned.iter_mut().zip(ambiguous) {
        if let Some(ImportWarning { loss, count, first }) = warning {
            unaligned.import.lose(loss, count, first.offset, first.cause);
        }
    }
    shifts_nanos
}

/// Reads a file up to its end or its first fatal error.
fn read(
    path: &Path,
    run: Assembler,
    read_bytes: &Arc<AtomicU64>,
) -> Result<UnalignedFile, ImportError> {
    let unreadable = |source| ImportError::Io { path: path.to_owned(), source };
    if path.is_dir() {
        return Err(unreadable(io::ErrorKind::IsADirectory.into()));
    }
    let mut input = Input::open(path, read_bytes).map_err(unreadable)?;
    let head = input.head().map_err(unreadable)?;
    let format = recognise(head).ok_or_else(|| ImportError::Unknown { path: path.to_owned() })?;
    let mut import = Import::new(run, file_stem(path));
    match read_content(format, &mut input, &mut import) {
        Ok(()) => Ok(UnalignedFile { import, path: path.to_owned(), format }),
        Err(ReaderError::Io(source)) => Err(unreadable(source)),
        Err(ReaderError::Store(error)) => Err(error.into()),
        Err(ReaderError::Content(fault)) => {
            Err(ImportError::Unusable { path: path.to_owned(), format, fault })
        }
    }
}

/// Reads content. Keeps the events before an error, and returns the error if there are none.
fn read_content(format: Format, input: &mut Input, import: &mut Import) -> Result<(), ReaderError> {
    let result = super::read(format, input, import);
    let compression_fault =
        input.fault().map(|cause| Fault { offset: input.offset(), cause: cause.to_owned() });
    // A `.hatchet` profile itself states whether its process had ended.
    if !matches!(format, Format::Hatchet | Format::HatchetMsgpack) {
        import.run.set_complete(result.is_ok() && compression_fault.is_none());
    }
    let fault = match (result, compression_fault) {
        (Ok(()), None) => return import.fail_if_all_lost(),
        (Ok(()) | Err(ReaderError::Content(_)), Some(fault))
        | (Err(ReaderError::Content(fault)), None) => fault,
        (Err(error), _) => return Err(error),
    };
    if import.run.event_count() == 0 {
        return Err(ReaderError::Content(fault));
    }
    import.lose(LossCause::Truncated, 1, fault.offset, fault.cause);
    Ok(())
}

impl UnalignedFile {
    /// Writes the tables into the run's folder.
    fn finish(self) -> Result<Imported, StoreError> {
        let (run, file) = self.into_parts();
        Ok(Imported { events: run.finish(None)?.events, files: vec![file] })
    }

    /// Opens a temporary run with `shift_nanos` added to all timestamps.
    fn open(self, shift_nanos: Option<i64>) -> Result<TemporaryRun, StoreError> {
        let (run, file) = self.into_parts();
        let (run, assembled) = run.open(shift_nanos, &file.path)?;
        let file = ImportedFile { alignment_nanos: shift_nanos, ..file };
        Ok(TemporaryRun { run, imported: Imported { events: assembled.events, files: vec![file] } })
    }

    fn into_parts(self) -> (Assembler, ImportedFile) {
        let Self { import, path, format } = self;
        let (run, warnings) = import.finish();
        (run, ImportedFile { path, format, alignment_nanos: None, warnings })
    }
}

/// Maps the numbers below `count` on as many threads as there are cores. Returns the results in
/// order, or the first error.
fn map_in_parallel<T: Send>(
    count: usize,
    map: impl Fn(usize) -> Result<T, ImportError> + Sync,
) -> Result<Vec<T>, ImportError> {
    let next_index = AtomicUsize::new(0);
    let results: Mutex<BTreeMap<usize, Result<T, ImportError>>> = Mutex::default();
    let worker = || {
        loop {
            let index = next_index.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                break;
            }
            let result = map(index);
            if result.is_err() {
                next_index.store(count, Ordering::Relaxed);
            }
            results.lock().unwrap_or_else(PoisonError::into_inner).insert(index, result);
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..cores.min(count) {
            scope.spawn(worker);
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

/// Returns the name of a file without folders and suffixes.
fn file_stem(path: &Path) -> &str {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.split('.').find(|part| !part.is_empty()).unwrap_or(name)
}
