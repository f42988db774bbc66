//! `marey export`: a run as files of another format.
//!
//! [`args`] is the command line, [`format`] tells the format, [`window`] what of the run is written,
//! and [`target`] where.

mod args;
mod format;
mod target;
mod window;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use marey_formats::{ExportError, Format, LeftOut};
use marey_store::{Reader, Run, Window};

pub(crate) use args::{ExportArgs, export};
pub use format::parse as parse_format;
pub use window::{Moment, Span};

use crate::out_file::{OutFile, cannot_write};
use crate::output::Failure;
use crate::text::printable;

/// How a run becomes files.
#[derive(Debug)]
pub struct Export<'a> {
    /// The run.
    pub run: &'a Run,
    /// What the user calls it.
    pub name: &'a Path,
    /// The format; `None` for what the name of the file says.
    pub format: Option<Format>,
    /// The file, or a folder, in which the file gets the name that is usual for its format.
    pub out: &'a Path,
    /// Whether files that are there are replaced.
    pub replaces: bool,
    /// What is written of the time.
    pub span: Span,
    /// The ranks that are written; `None` for all processes.
    pub ranks: Option<Vec<u32>>,
}

/// A file that was written.
#[derive(Debug)]
pub struct Written {
    /// The file.
    pub path: PathBuf,
    /// Its format.
    pub format: Format,
    /// Its length.
    pub bytes: u64,
    /// What the format has no place for.
    pub left_out: LeftOut,
}

impl Export<'_> {
    /// Writes the files.
    ///
    /// # Errors
    /// Nothing can be written there, or the run lacks what is asked for.
    pub fn write(&self) -> Result<Vec<Written>, Failure> {
        let window = self.window()?;
        if !target::is_folder(self.out, self.format) {
            let format = self.format()?;
            return Ok(vec![self.write_file(self.out, format, window)?]);
        }
        let Some(format) = self.format else { return Err(format::unclear(self.out)) };
        fs::create_dir_all(self.out).map_err(|error| cannot_write(self.out, &error))?;
        let files = target::files(self, format, &window);
        files.into_iter().map(|(path, window)| self.write_file(&path, format, window)).collect()
    }

    /// Writes one file as a stream.
    ///
    /// # Errors
    /// As [`Export::write`]; and those of `out`.
    pub(crate) fn write_to(
        &self,
        format: Format,
        out: &mut dyn Write,
    ) -> Result<LeftOut, ExportFailure> {
        let reader = Reader::new(self.run, self.window()?).map_err(Failure::from)?;
        Ok(marey_formats::export(&reader, format, out)?)
    }

    fn window(&self) -> Result<Window, Failure> {
        window::of(self.run, &self.span, self.ranks.as_deref())
    }

    fn format(&self) -> Result<Format, Failure> {
        self.format.or_else(|| format::of_name(self.out)).ok_or_else(|| format::unclear(self.out))
    }

    fn write_file(&self, path: &Path, format: Format, window: Window) -> Result<Written, Failure> {
        target::check(path, self.replaces)?;
        let reader = Reader::new(self.run, window).map_err(Failure::from)?;
        let mut file = OutFile::create(path)?;
        let mut out = Counted { out: &mut file, bytes: 0 };
        let left_out = if is_packed_by_name(path, format) {
            let mut packed = GzEncoder::new(&mut out, Compression::default());
            let left_out = marey_formats::export(&reader, format, &mut packed);
            left_out.and_then(|left_out| Ok(packed.finish().map(|_| left_out)?))
        } else {
            marey_formats::export(&reader, format, &mut out)
        };
        let left_out = left_out.map_err(|error| match error.into() {
            ExportFailure::Failed(failure) => failure,
            ExportFailure::Output(error) => cannot_write(path, &error),
        })?;
        let bytes = out.bytes;
        file.finish().map_err(|error| cannot_write(path, &error))?;
        Ok(Written { path: path.to_owned(), format, bytes, left_out })
    }
}

impl Written {
    /// What is not in the file, each in a sentence.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        lacks(self.format, &self.left_out)
    }
}

/// What a format has no place for, each in a sentence.
fn lacks(format: Format, left_out: &LeftOut) -> impl Iterator<Item = String> {
    left_out
        .iter()
        .map(move |(what, count)| format!("{} cannot hold {count} {what}", format.as_str()))
}

/// Why a run was not written.
#[derive(Debug)]
pub(crate) enum ExportFailure {
    /// It cannot be.
    Failed(Failure),
    /// Not there.
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
                Self::Failed(Failure { message, hint: Some(format::writable()) })
            }
            ExportError::Nothing { .. } => Self::Failed(Failure { message, hint: None }),
        }
    }
}

/// Whether the file's name asks for compression. Writers of pprof compress by themselves.
fn is_packed_by_name(path: &Path, format: Format) -> bool {
    format != Format::Pprof && path.extension().is_some_and(|ending| ending == "gz")
}

/// Counts what goes through.
struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
