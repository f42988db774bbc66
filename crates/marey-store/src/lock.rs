//! The locks of a run: one is held while the run is being collected, the other while it is being
//! recorded.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use marey_model::run::{COLLECTING, RECORDING, is_lock_unsupported};

use crate::StoreError;
use crate::file_id::{self, FileId};

/// The exclusive right to collect a run, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, and waits while another process has it. On a filesystem without locks, takes
    /// none.
    pub fn collecting(run: &Path) -> Result<Self, StoreError> {
        let path = run.join(COLLECTING);
        let error = StoreError::io("lock", &path);
        loop {
            // NFS requires write access for an exclusive lock and read access for a shared one.
            let mut options = File::options();
            let file = options.create(true).truncate(false).read(true).write(true).open(&path);
            let file = file.map_err(|source| cannot_create(run, &path, source))?;
            match file.lock() {
                Err(source) if !is_lock_unsupported(&source) => return Err(error(source)),
                _ => {}
            }
            // A recorder that had the lock may have moved the run aside, and another run may have
            // its name.
            match is_named(&file, &path) {
                Ok(true) => return Ok(Self { _file: file }),
                Ok(false) => file_id::reject_links(run)?,
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

/// Whether a path still names this file.
fn is_named(file: &File, path: &Path) -> io::Result<bool> {
    Ok(FileId::from_path(path)? == Some(FileId::from_metadata(&file.metadata()?)))
}

/// Whether a process may still record into the run. True on a filesystem without locks.
pub fn is_recording(run: &Path) -> Result<bool, StoreError> {
    let path = run.join(RECORDING);
    let file = match open_lock(&path) {
        Ok(file) => file,
        // A pack, which is a file, is not being recorded either.
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

/// Opens a lock file, if possible with write access, which NFS requires.
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
