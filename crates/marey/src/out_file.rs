//! The file of `-o`: it has its name when it is whole.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::interrupt::Unfinished;
use crate::output::Failure;
use crate::text::quoted;

/// Before what the user's mask takes off.
const PERMISSIONS: u32 = 0o666;

/// A file that is being written.
pub(crate) enum OutFile {
    /// It gets its name at the end, and is gone if there is none.
    New { file: BufWriter<NamedTempFile>, path: PathBuf, unfinished: Unfinished },
    /// A device or a pipe, which must stay what it is.
    Special(BufWriter<File>),
}

impl OutFile {
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        Self::open(path).map_err(|error| cannot_write(path, &error))
    }

    fn open(path: &Path) -> io::Result<Self> {
        // A link stays one.
        let path = fs::canonicalize(path).unwrap_or_else(|_absent| path.to_owned());
        if fs::metadata(&path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
            return Ok(Self::Special(BufWriter::new(File::options().write(true).open(path)?)));
        }
        if path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        // Said here, where the message has no temporary name in it.
        fs::metadata(folder)?;
        let file = tempfile::Builder::new()
            .prefix(".marey-")
            .permissions(Permissions::from_mode(PERMISSIONS))
            .tempfile_in(folder)?;
        let unfinished = Unfinished::new(file.path())?;
        Ok(Self::New { file: BufWriter::new(file), path, unfinished })
    }

    /// Ends the file and gives it its name.
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

/// For the user.
pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure { message: format!("cannot write {}: {error}", quoted(path)), hint: None }
}
