//! Import: from foreign files to a run.
//!
//! What a file is, its content says ([`recognise`]). The reader of its format gives what it finds to
//! an [`Import`], which counts what is lost on the way; the run's assembler does the rest. Several
//! files, one a rank, are read at the same time, and their clocks aligned ([`align`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use marey_model::loss::LossCause;
use marey_store::{Assembler, NewProcess, Run, StoreError, TemporaryFiles, temp_dir};
use tempfile::TempDir;
use thiserror::Error;

use crate::align::{self, CollectiveEnd, Ends};
use crate::input::Input;
use crate::recognise::recognise;
use crate::{Format, readers};

/// A file on its way into a run.
#[derive(Debug)]
pub(crate) struct Import {
    /// What takes the events.
    pub(crate) run: Assembler,
    /// Name of the file without folders and endings, for what has no name in it.
    pub(crate) stem: String,
    /// By which the clocks of ranks are aligned.
    pub(crate) collective_ends: Vec<CollectiveEnd>,
    warnings: BTreeMap<LossCause, (Fault, u64)>,
    process_count: u32,
}

/// Something wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("byte {offset}: {cause}")]
pub struct Fault {
    /// Bytes before it; in a compressed file, of its unpacked content.
    pub offset: u64,
    /// What is wrong, in a sentence without its full stop.
    pub cause: String,
}

/// Why reading a file ended before its end.
#[derive(Debug, Error)]
pub(crate) enum Broken {
    /// What follows cannot be understood.
    #[error(transparent)]
    Content(#[from] Fault),
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The run could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Broken {
    /// What follows cannot be understood.
    pub(crate) fn at(offset: u64, cause: impl Display) -> Self {
        Self::Content(Fault { offset, cause: cause.to_string() })
    }
}

impl Import {
    /// Of a file, into a run that is empty.
    pub(crate) fn new(run: Assembler, stem: &str) -> Self {
        Self {
            run,
            stem: stem.to_owned(),
            collective_ends: Vec::new(),
            warnings: BTreeMap::new(),
            process_count: 0,
        }
    }

    /// A process more; its id.
    pub(crate) fn process(&mut self, process: NewProcess) -> u32 {
        self.process_count += 1;
        self.run.process(process)
    }

    /// Counts events that are left out. The first fault of each cause is shown.
    pub(crate) fn lose(&mut self, loss: LossCause, count: u64, offset: u64, cause: impl Display) {
        if self.process_count == 0 {
            self.process(NewProcess { pid: -1, ..NewProcess::default() });
        }
        self.run.lose(0, loss, count);
        let first = || (Fault { offset, cause: cause.to_string() }, 0);
        self.warnings.entry(loss).or_insert_with(first).1 += count;
    }

    /// What lost all of its events is of no use.
    fn check(&self) -> Result<(), Broken> {
        let faults = self.warnings.values().map(|(fault, _)| fault);
        match faults.min_by_key(|fault| fault.offset) {
            Some(first) if self.run.events() == 0 => Err(Broken::Content(first.clone())),
            _ => Ok(()),
        }
    }
}

/// What came of an import.
#[derive(Debug)]
pub struct Imported {
    /// Rows of events in the run.
    pub events: u64,
    /// The files, in the order in which they were given.
    pub files: Vec<ImportedFile>,
}

/// What came of a file.
#[derive(Debug)]
pub struct ImportedFile {
    /// The file.
    pub path: PathBuf,
    /// What it is.
    pub format: Format,
    /// What was added to its times so that collectives end together on all ranks.
    pub alignment_nanos: Option<i64>,
    /// What was lost in it.
    pub warnings: Vec<ImportWarning>,
}

/// Events of a file that were left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportWarning {
    /// Why.
    pub loss: LossCause,
    /// How many.
    pub count: u64,
    /// The first of them.
    pub first: Fault,
}

/// Why no run came of files.
#[derive(Debug, Error)]
pub enum ImportError {
    /// A file could not be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing in a file can be used.
    #[error("cannot read `{}` as {}: {fault}", path.display(), format.title())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What it seems to be.
        format: Format,
        /// What is wrong with it.
        fault: Fault,
    },
    /// A file is of no format that is known.
    #[error("cannot read `{}`: its content is of no known format", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
    },
    /// The run could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A run of a foreign file: in files without names, it is gone when nobody has it open.
#[derive(Debug)]
pub struct TemporaryRun {
    /// The run.
    pub run: Run,
    /// What came of the file.
    pub imported: Imported,
}

/// Makes a run of files, at a path where nothing is. It is there when all is done, or not at all.
/// `read_bytes` grows as the files are read.
pub fn import(
    files: &[PathBuf],
    out: &Path,
    read_bytes: &Arc<AtomicU64>,
) -> Result<Imported, ImportError> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    let hidden = temporary(".import-", folder).map_err(|source| unwritable(folder, source))?;
    let imported = into_folder(files, hidden.path(), read_bytes)?;
    publish(hidden, out).map_err(|source| unwritable(out, source))?;
    Ok(imported)
}

/// Makes a run of a file that lasts as long as it is open. `read_bytes` grows as the file is read.
pub fn open(file: &Path, read_bytes: &Arc<AtomicU64>) -> Result<TemporaryRun, ImportError> {
    let run = Assembler::temporary(&temp_dir());
    Ok(read(file, run, read_bytes)?.open(None)?)
}

/// Makes a run of content of a format and forgets it: for fuzzing.
#[cfg(fuzzing)]
pub fn fuzz_import(format: Format, content: &[u8]) {
    let mut import = Import::new(Assembler::temporary(&temp_dir()), "fuzz");
    let content = io::Cursor::new(content.to_vec());
    let mut input = Input::new(content).expect("threads can be made");
    match read_content(format, &mut input, &mut import) {
        Ok(()) => {
            drop(import.run.open(None, Path::new("fuzz")).expect("what was read can be written"));
        }
        Err(Broken::Content(_)) => {}
        Err(broken) => panic!("{broken}"),
    }
}

fn temporary(prefix: &str, folder: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(prefix).tempdir_in(folder)
}

fn unwritable(path: &Path, source: io::Error) -> ImportError {
    StoreError::io("create", path)(source).into()
}

/// Gives a folder its name, if that is free.
fn publish(folder: TempDir, out: &Path) -> io::Result<()> {
    fs::create_dir(out)?; // fails where something is; an empty folder gives way to another
    // Temporary folders are closed to others; this one is as open as any new one.
    let renamed = fs::metadata(out).and_then(|made| {
        fs::set_permissions(folder.path(), made.permissions())?;
        fs::rename(folder.path(), out)
    });
    match renamed {
        Ok(()) => drop(folder.keep()),
        Err(_) => fs::remove_dir(out)?,
    }
    renamed
}

/// A file that was read and waits for the clock that it is put on.
struct Pending {
    import: Import,
    path: PathBuf,
    format: Format,
}

fn into_folder(
    files: &[PathBuf],
    folder: &Path,
    read_bytes: &Arc<AtomicU64>,
) -> Result<Imported, ImportError> {
    if let [file] = files {
        return Ok(read(file, Assembler::new(folder), read_bytes)?.finish()?);
    }
    // There may be more of them than a process may have files open.
    let shared = TemporaryFiles::new(folder);
    let mut pending = on_all_cores(files.len(), |n| {
        let mut pending = read(&files[n], Assembler::temporary_in(&shared), read_bytes)?;
        pending.import.run.spill()?;
        Ok(pending)
    })?;
    let shifts = aligned(&mut pending);
    let pending: Vec<_> = pending.into_iter().map(|pending| Mutex::new(Some(pending))).collect();
    let parts = on_all_cores(files.len(), |n| {
        let taken = pending[n].lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(taken.expect("each number comes once").open(shifts[n])?)
    })?;
    let (runs, parts): (Vec<Run>, Vec<Imported>) =
        parts.into_iter().map(|TemporaryRun { run, imported }| (run, imported)).unzip();
    marey_store::merge(&runs, folder)?;
    Ok(Imported {
        events: parts.iter().map(|part| part.events).sum(),
        files: parts.into_iter().flat_map(|part| part.files).collect(),
    })
}

/// Returns what is to be added to the times of each file so that collectives end together; what
/// cannot be told apart is counted as lost.
fn aligned(pending: &mut [Pending]) -> Vec<Option<i64>> {
    let mut ranks = BTreeSet::new();
    let mut ends: Vec<Ends> = pending
        .iter()
        .map(|Pending { import, .. }| match import.run.rank() {
            // Two recordings of one rank had no collective together.
            Some(rank) if !ranks.insert(rank) => Ends::default(),
            _ => Ends::of(&import.collective_ends, &import.run),
        })
        .collect();
    let ambiguous = align::take_ambiguous(&mut ends);
    let shifts = align::shifts(&ends);
    for (pending, warning) in pending.iter_mut().zip(ambiguous) {
        if let Some(ImportWarning { loss, count, first }) = warning {
            pending.import.lose(loss, count, first.offset, first.cause);
        }
    }
    shifts
}

/// Reads a file as far as it can be read.
fn read(path: &Path, run: Assembler, read_bytes: &Arc<AtomicU64>) -> Result<Pending, ImportError> {
    let unreadable = |source| ImportError::Io { path: path.to_owned(), source };
    if path.is_dir() {
        return Err(unreadable(io::ErrorKind::IsADirectory.into()));
    }
    let mut input = Input::open(path, read_bytes).map_err(unreadable)?;
    let head = input.head().map_err(unreadable)?;
    let format = recognise(head).ok_or_else(|| ImportError::Unknown { path: path.to_owned() })?;
    let mut import = Import::new(run, stem(path));
    match read_content(format, &mut input, &mut import) {
        Ok(()) => Ok(Pending { import, path: path.to_owned(), format }),
        Err(Broken::Io(source)) => Err(unreadable(source)),
        Err(Broken::Store(error)) => Err(error.into()),
        Err(Broken::Content(fault)) => {
            Err(ImportError::Unusable { path: path.to_owned(), format, fault })
        }
    }
}

/// Reads content. What comes before a fault is used, if there is anything.
fn read_content(format: Format, input: &mut Input, import: &mut Import) -> Result<(), Broken> {
    let end = readers::read(format, input, import);
    let packing_fault =
        input.fault().map(|cause| Fault { offset: input.offset(), cause: cause.to_owned() });
    // A profile says itself whether its process had ended.
    if !matches!(format, Format::Hatchet | Format::HatchetMsgpack) {
        import.run.set_complete(end.is_ok() && packing_fault.is_none());
    }
    let fault = match (end, packing_fault) {
        (Ok(()), None) => return import.check(),
        (Ok(()) | Err(Broken::Content(_)), Some(fault)) | (Err(Broken::Content(fault)), None) => {
            fault
        }
        (Err(broken), _) => return Err(broken),
    };
    if import.run.events() == 0 {
        return Err(Broken::Content(fault));
    }
    import.lose(LossCause::Truncated, 1, fault.offset, fault.cause);
    Ok(())
}

impl Pending {
    /// Makes the folder a run.
    fn finish(self) -> Result<Imported, StoreError> {
        let (run, file) = self.split();
        Ok(Imported { events: run.finish(None)?.events, files: vec![file] })
    }

    /// Opens a brief run, with this much added to all times.
    fn open(self, shift_nanos: Option<i64>) -> Result<TemporaryRun, StoreError> {
        let (run, file) = self.split();
        let (run, assembled) = run.open(shift_nanos, &file.path)?;
        let file = ImportedFile { alignment_nanos: shift_nanos, ..file };
        Ok(TemporaryRun { run, imported: Imported { events: assembled.events, files: vec![file] } })
    }

    fn split(self) -> (Assembler, ImportedFile) {
        let Self { import, path, format } = self;
        let warnings = import.warnings.into_iter();
        let warnings = warnings.map(|(loss, (first, count))| ImportWarning { loss, count, first });
        let warnings = warnings.collect();
        (import.run, ImportedFile { path, format, alignment_nanos: None, warnings })
    }
}

/// Does something for each number below `count`, as many at a time as there are cores; the results in
/// order, or the first error.
fn on_all_cores<T: Send>(
    count: usize,
    each: impl Fn(usize) -> Result<T, ImportError> + Sync,
) -> Result<Vec<T>, ImportError> {
    let next = AtomicUsize::new(0);
    let results: Mutex<BTreeMap<usize, Result<T, ImportError>>> = Mutex::default();
    let work = || {
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= count {
                break;
            }
            let result = each(n);
            if result.is_err() {
                next.store(count, Ordering::Relaxed);
            }
            results.lock().unwrap_or_else(PoisonError::into_inner).insert(n, result);
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..cores.min(count) {
            scope.spawn(work);
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

/// The name without folders and endings.
fn stem(path: &Path) -> &str {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.split('.').find(|part| !part.is_empty()).unwrap_or(name)
}
