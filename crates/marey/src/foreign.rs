//! Imports files of other formats, for `marey import` and for subcommands that open such a file as
//! a run. Shows a progress bar and describes losses.

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
use crate::text::{printable, quote_path};

/// The file argument that means stdin.
pub(crate) const STDIN: &str = "-";

/// Refresh interval of the progress bar.
const REFRESH_INTERVAL: Duration = Duration::from_millis(100);

/// Imports files into a new run at `out`. Nothing may exist there.
pub(crate) fn import(files: &[PathBuf], out: &Path) -> Result<Imported, Failure> {
    check_pipes(files)?;
    let files: Vec<PathBuf> = files.iter().map(|file| input_path(file).to_owned()).collect();
    with_progress(&files, |read_bytes| marey_formats::import(&files, out, read_bytes))
}

/// Imports a file into a temporary run.
pub(crate) fn open(file: &Path) -> Result<TemporaryRun, Failure> {
    let file = input_path(file);
    with_progress(&[file.to_owned()], |read_bytes| marey_formats::open(file, read_bytes))
}

/// Runs `read` and shows its progress. `read` counts the bytes that it has read in its argument.
fn with_progress<T: Send>(
    files: &[PathBuf],
    read: impl FnOnce(&Arc<AtomicU64>) -> Result<T, ImportError> + Send,
) -> Result<T, Failure> {
    let total_bytes = total_bytes(files);
    let mut bar = Progress::importing(total_bytes);
    let read_bytes = Arc::new(AtomicU64::new(0));
    let waiting_thread = thread::current();
    let imported = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let imported = read(&read_bytes);
            waiting_thread.unpark();
            imported
        });
        while !reader.is_finished() {
            thread::park_timeout(REFRESH_INTERVAL);
            match read_bytes.load(Ordering::Relaxed) {
                read if read < total_bytes || total_bytes == 0 => bar.set_position(read),
                _ => bar.set_last_phase("sorting and writing"),
            }
        }
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    imported.map_err(Failure::from)
}

/// Returns the size of all files in bytes, 0 if it is unknown.
fn total_bytes(files: &[PathBuf]) -> u64 {
    let length =
        |file| fs::metadata(file).ok().filter(fs::Metadata::is_file).map(|file| file.len());
    files.iter().map(length).sum::<Option<u64>>().unwrap_or(0)
}

/// Fails if a pipe is given twice, because each of two readers would get only a part of it.
fn check_pipes(files: &[PathBuf]) -> Result<(), Failure> {
    let mut pipes = HashSet::new();
    for file in files {
        let Ok(metadata) = fs::metadata(input_path(file)) else { continue };
        let is_pipe = !metadata.is_file() && !metadata.is_dir();
        if is_pipe && !pipes.insert((metadata.dev(), metadata.ino())) {
            let message = format!("{} is given twice but can be read only once", quote_path(file));
            return Err(Failure::new(message));
        }
    }
    Ok(())
}

/// Returns the path to open for a file argument.
pub(crate) fn input_path(file: &Path) -> &Path {
    if file == Path::new(STDIN) { Path::new("/dev/stdin") } else { file }
}

/// Returns a warning for each loss of an import.
pub fn warnings(imported: &Imported) -> Vec<String> {
    let mut warnings = Vec::new();
    for file in &imported.files {
        warnings.extend(file.warnings.iter().map(|warning| describe(&file.path, warning)));
    }
    if let ([file], 0) = (&imported.files[..], imported.events) {
        let title = file.format.title();
        warnings.push(format!("{}: no events found ({title})", quote_path(&file.path)));
    }
    warnings
}

fn describe(file: &Path, warning: &ImportWarning) -> String {
    let lost = match (warning.loss, warning.count) {
        (LossCause::Truncated, _) => "the rest is skipped".to_owned(),
        (_, 1) => "1 event skipped".to_owned(),
        (_, count) => format!("{} events skipped", Grouped(count.into())),
    };
    format!("{}: {} ({lost})", quote_path(file), printable(&warning.first.to_string()))
}

/// Returns a sentence with the formats that can be read.
pub(crate) fn describe_readable() -> String {
    let formats = Format::ALL.iter().filter(|format| format.is_readable());
    let names: Vec<&str> = formats.map(|format| format.as_str()).collect();
    format!("marey reads its own runs and packs, and {}", names.join(", "))
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        let message = printable(&error.to_string()).into_owned();
        let hint = match error {
            ImportError::Store(error) => return error.into(),
            // Any JSON object is taken for a trace, so the hint lists the formats for it too.
            ImportError::Unknown { .. }
            | ImportError::Unusable { format: Format::ChromeTrace, .. } => {
                Some(describe_readable())
            }
            ImportError::Unusable { .. } | ImportError::Io { .. } => None,
        };
        Self { message, hint }
    }
}
