//! Files of other formats on their way into a run.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use marey_formats::{Format, ImportError, ImportWarning, Imported, TemporaryRun};
use marey_model::loss::LossCause;
use marey_model::quantity::Grouped;

use crate::output::Failure;
use crate::progress::Progress;
use crate::text::{printable, quoted};

/// Stands for stdin in place of a file.
pub(crate) const STDIN: &str = "-";

/// How often the bar moves.
const TICK: Duration = Duration::from_millis(100);

/// Makes a run of files at a path where nothing is.
pub(crate) fn import(files: &[PathBuf], out: &Path) -> Result<Imported, Failure> {
    check_pipes(files)?;
    let files: Vec<PathBuf> = files.iter().map(|file| source(file).to_owned()).collect();
    with_progress(&files, |read_bytes| marey_formats::import(&files, out, read_bytes))
}

/// Makes a run of a file that is gone when nobody has it open.
pub(crate) fn open(file: &Path) -> Result<TemporaryRun, Failure> {
    let file = source(file);
    with_progress(&[file.to_owned()], |read_bytes| marey_formats::open(file, read_bytes))
}

/// Shows how far files are read, as the counter says that `read` gets.
fn with_progress<T: Send>(
    files: &[PathBuf],
    read: impl FnOnce(&Arc<AtomicU64>) -> Result<T, ImportError> + Send,
) -> Result<T, Failure> {
    let total_bytes = total_bytes(files);
    let mut bar = Progress::of_importing(total_bytes);
    let read_bytes = Arc::new(AtomicU64::new(0));
    let waiting = thread::current();
    let imported = thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let imported = read(&read_bytes);
            waiting.unpark();
            imported
        });
        while !reading.is_finished() {
            thread::park_timeout(TICK);
            match read_bytes.load(Ordering::Relaxed) {
                read if read < total_bytes || total_bytes == 0 => bar.at(read),
                _ => bar.at_last("sorting and writing"),
            }
        }
        reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    imported.map_err(Failure::from)
}

/// Bytes of all files together; 0, if that is not known.
fn total_bytes(files: &[PathBuf]) -> u64 {
    let length =
        |file| fs::metadata(file).ok().filter(fs::Metadata::is_file).map(|file| file.len());
    files.iter().map(length).sum::<Option<u64>>().unwrap_or(0)
}

/// What can be read once only must not have two readers, each of which would get a part.
fn check_pipes(files: &[PathBuf]) -> Result<(), Failure> {
    let mut pipes = HashSet::new();
    for file in files {
        let Ok(about) = fs::metadata(source(file)) else { continue };
        let is_pipe = !about.is_file() && !about.is_dir();
        if is_pipe && !pipes.insert((about.dev(), about.ino())) {
            let message = format!("{} is given twice, and can be read once only", quoted(file));
            return Err(Failure { message, hint: None });
        }
    }
    Ok(())
}

/// The path under which the system has the file.
pub(crate) fn source(file: &Path) -> &Path {
    if file == Path::new(STDIN) { Path::new("/dev/stdin") } else { file }
}

/// What was lost in the files, each in a line.
pub fn warnings(imported: &Imported) -> Vec<String> {
    let mut warnings = Vec::new();
    for file in &imported.files {
        warnings.extend(file.warnings.iter().map(|warning| describe(&file.path, warning)));
    }
    if let ([file], 0) = (&imported.files[..], imported.events) {
        let title = file.format.title();
        warnings.push(format!("{}: there are no events in it, as {title}", quoted(&file.path)));
    }
    warnings
}

fn describe(file: &Path, warning: &ImportWarning) -> String {
    let lost = match (warning.loss, warning.count) {
        (LossCause::Truncated, _) => "what follows is left out".to_owned(),
        (_, 1) => "1 event is left out".to_owned(),
        (_, count) => format!("{} events are left out", Grouped(count.into())),
    };
    format!("{}: {} ({lost})", quoted(file), printable(&warning.first.to_string()))
}

/// What can be read.
pub(crate) fn readable() -> String {
    let formats = Format::ALL.iter().filter(|format| format.is_readable());
    let names: Vec<&str> = formats.map(|format| format.as_str()).collect();
    format!("marey reads its own runs and packs, and {}", names.join(", "))
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        let message = printable(&error.to_string()).into_owned();
        let hint = match error {
            ImportError::Store(error) => return error.into(),
            // Whatever is an object in JSON seems to be a trace.
            ImportError::Unknown { .. }
            | ImportError::Unusable { format: Format::ChromeTrace, .. } => Some(readable()),
            ImportError::Unusable { .. } | ImportError::Io { .. } => None,
        };
        Self { message, hint }
    }
}
