//! The output file of `-o`. It has a temporary name until it is complete.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use marey_store::is_device_or_pipe;
use tempfile::NamedTempFile;

use crate::interrupt::UnfinishedPath;
use crate::output::Failure;
use crate::text::quote_path;

/// The permissions of the file, before the umask.
const PERMISSIONS: u32 = 0o666;

/// An output file.
pub(crate) enum OutFile {
    /// A file with a temporary name, removed unless it is finished.
    New { file: BufWriter<NamedTempFile>, path: PathBuf, unfinished: UnfinishedPath },
    /// A device or a pipe, which must not be replaced.
    Special(BufWriter<File>),
}

impl OutFile {
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        Self::open(path).map_err(|error| cannot_write(path, &error))
    }

    fn open(path: &Path) -> io::Result<Self> {
        // Links are resolved, so that the target is replaced and not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_absent| path.to_owned());
        if is_device_or_pipe(&path) {
            return Ok(Self::Special(BufWriter::new(File::options().write(true).open(path)?)));
        }
        if path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        // If the folder is missing, this fails with a message without the temporary name.
        fs::metadata(folder)?;
        let file = tempfile::Builder::new()
            .prefix(".marey-")
            .permissions(Permissions::from_mode(PERMISSIONS))
            .tempfile_in(folder)?;
        let unfinished = UnfinishedPath::new(file.path())?;
        Ok(Self::New { file: BufWriter::new(file), path, unfinished })
    }

    /// Flushes the file and renames it to its path.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        match self {
            Self::Special(_) => Ok(()),
            Self::New { file, path, unfinished } => {
                file.into_inner().map_err(io::IntoInnerError::into_error)?.persist(path)?;
                drop(unfinished);
                Ok(())
            }
        }
    }
}

impl Write for OutFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::New { file, .. } => file.write(bytes),
            Self::Special(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::New { file, .. } => file.flush(),
            Self::Special(file) => file.flush(),
        }
    }
}

/// Returns the failure for an output file.
pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", quote_path(path)))
}
