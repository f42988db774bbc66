//! `marey export`: converts a run to files of another format.
//!
//! [`args`] is the command line, [`format`] finds the format, [`selection`] selects rows, and
//! [`target`] finds the files to write. The Python package uses [`Export`] directly.

mod args;
mod format;
mod selection;
mod target;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use marey_formats::{ExportError, Format, LeftOut};
use marey_store::{Reader, Run, Selection};

pub(crate) use args::{ExportArgs, export};
pub use format::parse as parse_format;
pub use selection::{Moment, TimeRange};

use crate::out_file::{OutFile, cannot_write};
use crate::output::Failure;
use crate::text::printable;

/// The options of an export.
#[derive(Debug)]
pub struct Export<'a> {
    /// The run.
    pub run: &'a Run,
    /// The path that the user gave.
    pub name: &'a Path,
    /// The format. `None` derives it from the name of the file.
    pub format: Option<Format>,
    /// A file, or a folder in which files get the default names of the format.
    pub out: &'a Path,
    /// Whether existing files are replaced.
    pub replaces_existing: bool,
    /// The time range.
    pub time_range: TimeRange,
    /// The ranks. `None` means all processes.
    pub ranks: Option<Vec<u32>>,
}

/// A file that was written.
#[derive(Debug)]
pub struct WrittenFile {
    /// The file.
    pub path: PathBuf,
    /// The format of the file.
    pub format: Format,
    /// The length of the file.
    pub bytes: u64,
    /// Counts of data that the format cannot represent.
    pub left_out: LeftOut,
}

impl Export<'_> {
    /// Writes the files.
    ///
    /// # Errors
    /// Fails if the files cannot be written or the run lacks the selected ranks or steps.
    pub fn write(&self) -> Result<Vec<WrittenFile>, Failure> {
        let selection = self.selection()?;
        if !target::is_folder(self.out, self.format) {
            let format = self.format()?;
            return Ok(vec![self.write_file(self.out, format, selection)?]);
        }
        let Some(format) = self.format else { return Err(format::missing_format(self.out)) };
        fs::create_dir_all(self.out).map_err(|error| cannot_write(self.out, &error))?;
        let files = target::default_files(self, format, &selection);
        files
            .into_iter()
            .map(|(path, selection)| self.write_file(&path, format, selection))
            .collect()
    }

    /// Writes one file to `out`.
    ///
    /// # Errors
    /// Fails like [`Export::write`], and if `out` fails.
    pub(crate) fn write_to(
        &self,
        format: Format,
        out: &mut dyn Write,
    ) -> Result<LeftOut, ExportFailure> {
        let reader = Reader::new(self.run, self.selection()?).map_err(Failure::from)?;
        Ok(marey_formats::export(&reader, format, out)?)
    }

    fn selection(&self) -> Result<Selection, Failure> {
        selection::select_rows(self.run, &self.time_range, self.ranks.as_deref())
    }

    fn format(&self) -> Result<Format, Failure> {
        self.format
            .or_else(|| format::from_file_name(self.out))
            .ok_or_else(|| format::missing_format(self.out))
    }

    fn write_file(
        &self,
        path: &Path,
        format: Format,
        selection: Selection,
    ) -> Result<WrittenFile, Failure> {
        target::check_replaceable(path, self.replaces_existing)?;
        let reader = Reader::new(self.run, selection).map_err(Failure::from)?;
        let mut file = OutFile::create(path)?;
        let mut out = CountingWriter { out: &mut file, bytes: 0 };
        let left_out = if is_gzip(path, format) {
            let mut gzip = GzEncoder::new(&mut out, Compression::default());
            let left_out = marey_formats::export(&reader, format, &mut gzip);
            left_out.and_then(|left_out| Ok(gzip.finish().map(|_| left_out)?))
        } else {
            marey_formats::export(&reader, format, &mut out)
        };
        let left_out = left_out.map_err(|error| match error.into() {
            ExportFailure::Failed(failure) => failure,
            ExportFailure::Output(error) => cannot_write(path, &error),
        })?;
        let bytes = out.bytes;
        file.finish().map_err(|error| cannot_write(path, &error))?;
        Ok(WrittenFile { path: path.to_owned(), format, bytes, left_out })
    }
}

impl WrittenFile {
    /// Returns a sentence for each kind of data that the file lacks.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        describe_left_out(self.format, &self.left_out)
    }
}

/// Returns a sentence for each kind of data that a format cannot represent.
fn describe_left_out(format: Format, left_out: &LeftOut) -> impl Iterator<Item = String> {
    left_out
        .iter()
        .map(move |(kind, count)| format!("{} cannot represent {count} {kind}", format.as_str()))
}

/// The reason why an export failed.
#[derive(Debug)]
pub(crate) enum ExportFailure {
    /// The run cannot be exported.
    Failed(Failure),
    /// The output cannot be written.
    Output(io::Error),
}

impl From<Failure> for ExportFailure {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<ExportError> for ExportFailure {
    fn from(error: ExportError) -> Self {
        let message = printable(&error.to_string()).into_owned();
        match error {
            ExportError::Io(error) => Self::Output(error),
            ExportError::Store(error) => Self::Failed(error.into()),
            ExportError::ReadOnly(_) => {
                Self::Failed(Failure { message, hint: Some(format::describe_writable()) })
            }
            ExportError::NoData { .. } => Self::Failed(Failure::new(message)),
        }
    }
}

/// Whether the file name asks for compression. The writer of pprof always compresses by itself.
fn is_gzip(path: &Path, format: Format) -> bool {
    format != Format::Pprof && path.extension().is_some_and(|suffix| suffix == "gz")
}

/// Counts the bytes written to `out`.
struct CountingWriter<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for CountingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
