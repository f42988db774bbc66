//! Who is at work on a run.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

use crate::StoreError;

/// Every recording process holds a shared lock on this file of the run.
const RECORDING: &str = ".recording";

/// A collector holds an exclusive lock on this file of the run.
const COLLECTING: &str = ".collecting";

/// The right to collect a run: there is one at a time, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the right, and waits for as long as another process has it.
    pub fn collecting(run: &Path) -> Result<Self, StoreError> {
        let path = run.join(COLLECTING);
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(StoreError::io("create", &path))?;
        file.lock().map_err(StoreError::io("lock", &path))?;
        Ok(Self { _file: file })
    }
}

/// Whether some process still records into the run.
pub fn is_recording(run: &Path) -> Result<bool, StoreError> {
    let path = run.join(RECORDING);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(StoreError::io("open", &path)(error)),
    };
    match file.try_lock() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(StoreError::io("lock", &path)(error)),
    }
}
