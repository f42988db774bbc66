//! Who is at work on a run.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use marey_model::run::{COLLECTING, RECORDING, has_no_locks};

use crate::StoreError;
use crate::own::{self, FileId};

/// The right to collect a run: there is one at a time, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the right, and waits for as long as another process has it. On a filesystem without
    /// locks everybody has it.
    pub fn collecting(run: &Path) -> Result<Self, StoreError> {
        let path = run.join(COLLECTING);
        let error = StoreError::io("lock", &path);
        loop {
            // NFS locks alone only what is open for writing, and beside others for reading.
            let mut options = File::options();
            let file = options.create(true).truncate(false).read(true).write(true).open(&path);
            let file = file.map_err(|source| cannot_create(run, &path, source))?;
            match file.lock() {
                Err(source) if !has_no_locks(&source) => return Err(error(source)),
                _ => {}
            }
            // A recorder that held the lock has moved the run aside: another one may have its name.
            match is_at(&file, &path) {
                Ok(true) => return Ok(Self { _file: file }),
                Ok(false) => own::check(run)?,
                Err(source) => return Err(error(source)),
            }
        }
    }
}

fn cannot_create(run: &Path, path: &Path, source: io::Error) -> StoreError {
    match source.kind() {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            StoreError::ReadOnly { path: run.to_owned(), source }
        }
        _ => StoreError::io("create", path)(source),
    }
}

/// Whether this is the file that a path names.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    Ok(FileId::at(path)? == Some(FileId::of(&file.metadata()?)))
}

/// Whether some process may still record into the run. Where locks do not tell, one may.
pub fn is_recording(run: &Path) -> Result<bool, StoreError> {
    let path = run.join(RECORDING);
    let file = match open_lock(&path) {
        Ok(file) => file,
        // Nobody records into a file either.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(false);
        }
        Err(error) => return Err(StoreError::io("open", &path)(error)),
    };
    match file.try_lock() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => Ok(true),
    }
}

/// For writing too, where that is allowed: NFS asks for it.
fn open_lock(path: &Path) -> io::Result<File> {
    match File::options().read(true).write(true).open(path) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied
            ) =>
        {
            File::open(path)
        }
        opened => opened,
    }
}
