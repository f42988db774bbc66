//! The files of a session: whole at every moment, and never another process's.
//!
//! A document goes to a temporary file in the same folder, which then takes the final name. As long
//! as a session lives it holds an advisory lock on its file, so another process that comes for the
//! same name can tell a running owner from one of yesterday: it leaves the first one alone and adds
//! its pid to the name, and moves the second one's file aside to `<name>.<n>.<extension>`.

use super::{Contents, Format};
use crate::error::Error;
use crate::own_file::OwnFile;
use crate::progress::Counted;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The files of one session, by the name that was asked for.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    files: HashMap<PathBuf, OutputFile>,
    /// The session is over: a late checkpoint must not write any more.
    pub(crate) closed: bool,
}

/// A file that this session has written, locked.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    locked: OwnFile,
}

impl Outputs {
    /// Writes a file under the name `base` and the format's extension; returns the path.
    ///
    /// An empty name and `-` mean standard output.
    pub(crate) fn write(
        &mut self,
        base: &str,
        contents: &mut Contents,
        is_ours: &dyn Fn(&Path) -> bool,
    ) -> Result<Option<PathBuf>, Error> {
        if base.is_empty() || base == "-" {
            let mut out = BufWriter::new(Counted(io::stdout().lock()));
            let written = contents.write(&mut out).and_then(|()| out.flush());
            return match written {
                Ok(()) => Ok(None),
                Err(source) => Err(failed("write", Path::new("standard output"), source)),
            };
        }
        let format = contents.format();
        let wanted = PathBuf::from(format!("{base}.{}", format.as_str()));
        let temporary = temporary_name(&wanted);
        let written = write_temporary(&wanted, &temporary, contents);
        let placed = written.and_then(|locked| {
            let path = match self.files.get(&wanted) {
                Some(file) if file.locked.is_at(&file.path) => replace(&temporary, &file.path)?,
                _ => place(&temporary, base, &wanted, format, is_ours)?,
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
                // The error that matters is the first; what is left behind is a hidden file.
                drop(fs::remove_file(&temporary));
                Err(error)
            }
        }
    }
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Write { action, path: path.to_owned(), source }
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
) -> Result<OwnFile, Error> {
    if let Some(folder) = wanted.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(|source| failed("create", folder, source))?;
    }
    let file = File::create(temporary).and_then(|file| OwnFile::new(temporary, file));
    let mut file = file.map_err(|source| failed("create", temporary, source))?;
    let mut write = || {
        try_lock(file.get(reopen)?.0)?;
        let mut out = BufWriter::with_capacity(1 << 16, Counted(Ours(&mut file)));
        contents.write(&mut out)?;
        out.flush()
    };
    write().map_err(|source| failed("write", temporary, source))?;
    Ok(file)
}

/// Locks a file, which keeps the lock when it takes its final name.
fn try_lock(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Ok(()) | Err(TryLockError::WouldBlock) => Ok(()),
        // A filesystem without locks still gets its file.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Opens a file again that the program has closed while it was written.
fn reopen(path: &Path) -> io::Result<File> {
    let file = File::options().append(true).open(path)?;
    try_lock(&file)?;
    Ok(file)
}

/// A file that is written to, whatever the program does to its descriptor.
struct Ours<'a>(&'a mut OwnFile);

impl Write for Ours<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let (mut file, _) = self.0.get(reopen)?;
        file.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn replace(temporary: &Path, path: &Path) -> Result<PathBuf, Error> {
    fs::rename(temporary, path).map_err(|source| failed("rename to", path, source))?;
    Ok(path.to_owned())
}

/// Gives the temporary file its final name, which nobody else's file has.
fn place(
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
        match publish(temporary, wanted) {
            Ok(()) => return Ok(wanted.to_owned()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed("rename to", wanted, error)),
        }
        if has_running_owner(wanted) {
            let own = format!("{base}.{}.{}", std::process::id(), format.as_str());
            return replace(temporary, Path::new(&own));
        }
        move_aside(base, wanted, format).map_err(|source| failed("move aside", wanted, source))?;
    }
    let source = io::Error::from(io::ErrorKind::ResourceBusy);
    Err(failed("find a free name for", wanted, source))
}

/// Renames, but only to a name that nothing has.
fn publish(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // A filesystem without hard links: the check and the act are then two steps.
        Err(_) if !to.exists() => fs::rename(from, to),
        Err(_) => Err(io::Error::from(io::ErrorKind::AlreadyExists)),
    }
}

fn has_running_owner(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Gives the file of an earlier run the first free number.
fn move_aside(base: &str, path: &Path, format: Format) -> io::Result<()> {
    let free = (1_u32..=u32::MAX)
        .map(|number| PathBuf::from(format!("{base}.{number}.{}", format.as_str())))
        .find(|candidate| !candidate.exists());
    match free.map(|free| publish(path, &free)) {
        // Somebody else moved it, or took the number: the caller looks again.
        Some(Err(error))
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) =>
        {
            Ok(())
        }
        Some(result) => result,
        None => Ok(()),
    }
}
