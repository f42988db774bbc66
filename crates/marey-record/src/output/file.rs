//! Writes the output files of a session. Each file is complete at every moment, and a file of
//! another running process is never overwritten.
//!
//! A document is written to a temporary file in the same folder, which is then renamed. A session
//! holds an advisory lock on its file as long as it is alive, so that another process with the same
//! name can tell a running owner from an earlier one. If the owner is running, the other process
//! adds its pid to the name. If not, it moves the old file aside to `<name>.<n>.<extension>`.

use super::{Contents, Format};
use crate::error::Error;
use crate::progress::CountingWriter;
use crate::reopening_file::ReopeningFile;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The files of one session, by the requested name.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    files: HashMap<PathBuf, OutputFile>,
    /// Whether the session is over. A late checkpoint must then write nothing.
    pub(crate) is_closed: bool,
}

/// A locked file that this session has written.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    locked: ReopeningFile,
}

impl Outputs {
    /// Writes a file named `base` with the format's extension. Returns the path.
    ///
    /// An empty name and `-` mean standard output.
    pub(crate) fn write(
        &mut self,
        base: &str,
        contents: &mut Contents,
        is_ours: &dyn Fn(&Path) -> bool,
    ) -> Result<Option<PathBuf>, Error> {
        if base.is_empty() || base == "-" {
            let mut out = BufWriter::new(CountingWriter(io::stdout().lock()));
            let written = contents.write(&mut out).and_then(|()| out.flush());
            return written
                .map(|()| None)
                .map_err(|source| Error::write("write", Path::new("standard output"), source));
        }
        let format = contents.format();
        let wanted = PathBuf::from(format!("{base}.{}", format.as_str()));
        let temporary = temporary_name(&wanted);
        let written = write_temporary(&wanted, &temporary, contents);
        let placed = written.and_then(|locked| {
            let path = match self.files.get(&wanted) {
                Some(file) if file.locked.is_at(&file.path) => replace(&temporary, &file.path)?,
                _ => publish(&temporary, base, &wanted, format, is_ours)?,
            };
            Ok(OutputFile { path, locked })
        });
        match placed {
            Ok(file) => {
                let path = file.path.clone();
                self.files.insert(wanted, file);
                Ok(Some(path))
            }
            Err(error) => {
                // Report the first error. A temporary file that stays is a hidden one.
                drop(fs::remove_file(&temporary));
                Err(error)
            }
        }
    }
}

fn temporary_name(wanted: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(wanted.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    wanted.with_file_name(name)
}

fn write_temporary(
    wanted: &Path,
    temporary: &Path,
    contents: &mut Contents,
) -> Result<ReopeningFile, Error> {
    if let Some(folder) = wanted.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(|source| Error::write("create", folder, source))?;
    }
    let file = File::create(temporary).and_then(|file| ReopeningFile::new(temporary, file));
    let mut file = file.map_err(|source| Error::write("create", temporary, source))?;
    let mut write = || {
        try_lock(file.get(reopen)?.0)?;
        let mut out = BufWriter::with_capacity(1 << 16, CountingWriter(ReopeningWriter(&mut file)));
        contents.write(&mut out)?;
        out.flush()
    };
    write().map_err(|source| Error::write("write", temporary, source))?;
    Ok(file)
}

/// Locks a file. The lock outlives the renaming.
fn try_lock(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Ok(()) | Err(TryLockError::WouldBlock) => Ok(()),
        // A filesystem without locks still gets its file.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Opens a file again after the program has closed its descriptor during the writing.
fn reopen(path: &Path) -> io::Result<File> {
    let file = File::options().append(true).open(path)?;
    try_lock(&file)?;
    Ok(file)
}

/// A writer that opens its file again if the program closes the descriptor.
struct ReopeningWriter<'a>(&'a mut ReopeningFile);

impl Write for ReopeningWriter<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let (mut file, _) = self.0.get(reopen)?;
        file.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn replace(temporary: &Path, path: &Path) -> Result<PathBuf, Error> {
    fs::rename(temporary, path).map_err(|source| Error::write("rename to", path, source))?;
    Ok(path.to_owned())
}

/// Renames the temporary file to its final name, or to another one if that is not free.
fn publish(
    temporary: &Path,
    base: &str,
    wanted: &Path,
    format: Format,
    is_ours: &dyn Fn(&Path) -> bool,
) -> Result<PathBuf, Error> {
    const ATTEMPTS: u32 = 100;
    for _ in 0..ATTEMPTS {
        if is_ours(wanted) {
            return replace(temporary, wanted);
        }
        match rename_new(temporary, wanted) {
            Ok(()) => return Ok(wanted.to_owned()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::write("rename to", wanted, error)),
        }
        if has_running_owner(wanted) {
            let with_pid = format!("{base}.{}.{}", std::process::id(), format.as_str());
            return replace(temporary, Path::new(&with_pid));
        }
        move_aside(base, wanted, format)
            .map_err(|source| Error::write("move aside", wanted, source))?;
    }
    let source = io::Error::from(io::ErrorKind::ResourceBusy);
    Err(Error::write("find a free name for", wanted, source))
}

/// Renames a file, and fails if the new name exists.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // On a filesystem without hard links, the check and the renaming are two steps.
        Err(_) if !to.exists() => fs::rename(from, to),
        Err(_) => Err(io::Error::from(io::ErrorKind::AlreadyExists)),
    }
}

fn has_running_owner(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Renames the file of an earlier run with the first free number.
fn move_aside(base: &str, path: &Path, format: Format) -> io::Result<()> {
    let free = (1_u32..=u32::MAX)
        .map(|number| PathBuf::from(format!("{base}.{number}.{}", format.as_str())))
        .find(|candidate| !candidate.exists());
    match free.map(|free| rename_new(path, &free)) {
        // Another process has moved the file or taken the number. The caller tries again.
        Some(Err(error))
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) =>
        {
            Ok(())
        }
        Some(result) => result,
        None => Ok(()),
    }
}
