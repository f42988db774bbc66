//! The run directory: finds or creates it, locks it while a process records, and removes it if it
//! stays empty.
//!
//! All processes of a program record into one directory, each into a spool of its own. A recording
//! process holds a shared lock on the file `.recording` in the directory, which children of a fork
//! inherit. A new process can therefore tell a run of its own program from an earlier one. It joins
//! the former, and moves the latter aside to `<name>.<n>.marey`. If a collector is working on the
//! earlier run, that run stays, and the new one gets the number.

use crate::environment;
use crate::error::Error;
use crate::lock::try_lock;
use crate::reopening_file::{ReopeningFile, is_at};
use crate::session;
use marey_model::env;
use marey_model::run::{COLLECTING, MANIFEST, RECORDING, SPOOL, is_lock_unsupported};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

const EXTENSION: &str = "marey";

/// A run directory that this process records into.
#[derive(Debug)]
pub(crate) struct RunDirectory {
    path: PathBuf,
    lock: Mutex<Option<ReopeningFile>>,
}

impl RunDirectory {
    /// Opens the directory that the environment names, or else the one that is derived from the
    /// session's name.
    pub(super) fn open(name: &str) -> Result<Self, Error> {
        if session::is_stdout_name(name) {
            return Self::temporary();
        }
        let configured = environment::get(env::RUN_DIR).filter(|path| !path.is_empty());
        match configured {
            Some(path) => {
                Self::join(&std::path::absolute(&path).unwrap_or(path.into()), EarlierRun::Join)
            }
            None => {
                Self::join(&with_extension(&session::base_path(name, None)), EarlierRun::MoveAside)
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the folder of the spools.
    pub(super) fn spool_folder(&self) -> PathBuf {
        self.path.join(SPOOL)
    }

    /// Takes the lock again if the program has closed the lock file's descriptor.
    pub(super) fn relock(&self) {
        // If the mutex is held, its holder is doing this already. In the child of a fork the holder
        // may be a thread of the parent.
        if let Some(mut lock) = try_lock(&self.lock)
            && let Some(lock) = lock.as_mut()
        {
            // A run without the lock is still recorded.
            drop(lock.get(open_locked));
        }
    }

    /// Creates a directory that other users can neither read nor guess. Used for a trace that is
    /// written to standard output.
    fn temporary() -> Result<Self, Error> {
        let number = RandomState::new().hash_one(std::process::id());
        let path = environment::temp_dir().join(format!("marey-{number:016x}.{EXTENSION}"));
        let created = DirBuilder::new().mode(0o700).create(&path);
        created.map_err(|source| Error::write("create", &path, source))?;
        Self::join(&path, EarlierRun::Join)
    }

    /// Creates the directory, or joins the processes that record into it.
    fn join(path: &Path, mut earlier_run: EarlierRun) -> Result<Self, Error> {
        const ATTEMPTS: u32 = 10_000;
        let mut candidate = path.to_owned();
        let mut number = 0;
        let mut last_error = io::Error::from(io::ErrorKind::ResourceBusy);
        for _ in 0..ATTEMPTS {
            match Self::try_join(&candidate, earlier_run) {
                Ok(Attempt::Joined(run)) => return Ok(run),
                Ok(Attempt::Moved) => {}
                Ok(Attempt::Occupied) => {
                    number += 1;
                    (candidate, earlier_run) = (numbered_path(path, number), EarlierRun::Avoid);
                }
                Err(error) => match error.kind() {
                    // Another process is moving the directory at this moment.
                    io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists => last_error = error,
                    _ => return Err(Error::write("create", &candidate.join(SPOOL), error)),
                },
            }
        }
        Err(Error::write("create", &candidate.join(SPOOL), last_error))
    }

    fn try_join(path: &Path, earlier_run: EarlierRun) -> io::Result<Attempt> {
        fs::create_dir_all(path.join(SPOOL))?;
        let lock_path = path.join(RECORDING);
        let file = open_lock(&lock_path)?;
        if earlier_run != EarlierRun::Join
            && try_lock_exclusively(&file, &lock_path)?
            && contains_run(path)?
        {
            let moved =
                if earlier_run == EarlierRun::MoveAside { move_aside(path) } else { Ok(false) };
            match moved {
                Ok(true) => return Ok(Attempt::Moved),
                Ok(false) => return Ok(Attempt::Occupied),
                // A directory that cannot be moved is joined instead.
                Err(error) if prevents_move(&error) => {}
                Err(error) => return Err(error),
            }
        }
        lock_shared(&file)?;
        let lock = ReopeningFile::new(&lock_path, file)?;
        if !lock.is_at_its_path() {
            return Ok(Attempt::Moved);
        }
        Ok(Attempt::Joined(Self { path: path.to_owned(), lock: Mutex::new(Some(lock)) }))
    }
}

/// The treatment of a finished earlier run at the same path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EarlierRun {
    Join,
    MoveAside,
    Avoid,
}

/// The result of an attempt to join.
enum Attempt {
    Joined(RunDirectory),
    /// This or another process has moved or removed the directory.
    Moved,
    /// An earlier run is at the path and stays.
    Occupied,
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        drop(self.lock.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        // A directory that is not empty, or that another process records into, stays.
        drop(remove_empty(&self.path));
    }
}

fn with_extension(base: &str) -> PathBuf {
    PathBuf::from(format!("{base}.{EXTENSION}"))
}

fn open_lock(path: &Path) -> io::Result<File> {
    lock_options().create(true).truncate(false).open(path)
}

fn open_locked(path: &Path) -> io::Result<File> {
    let file = lock_options().open(path)?;
    lock_shared(&file)?;
    Ok(file)
}

/// Returns the options for opening the lock file. Over NFS, a shared lock needs a readable file and
/// an exclusive lock a writable one. Symbolic links are refused, because following one could create
/// or lock another file.
fn lock_options() -> OpenOptions {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
    options
}

/// Takes the shared lock. Waits for a holder of the exclusive lock, which keeps it only for a
/// moment.
fn lock_shared(file: &File) -> io::Result<()> {
    match file.lock_shared() {
        Err(error) if is_lock_unsupported(&error) => Ok(()),
        locked => locked,
    }
}

/// Tries to lock the file exclusively. Returns whether that succeeded and the path still names this
/// file.
fn try_lock_exclusively(file: &File, path: &Path) -> io::Result<bool> {
    // A reader's check holds the lock for microseconds. If readers poll, all but a few attempts may
    // fail.
    const ATTEMPTS: u32 = 300;
    const QUICK_ATTEMPTS: u32 = 100;
    const PAUSE: Duration = Duration::from_micros(100);
    for attempt in 0..ATTEMPTS {
        if acquired_lock(file.try_lock())? {
            return Ok(is_at(file, path));
        }
        // Wait for a reader that holds the lock exclusively while it checks for a recording
        // process.
        lock_shared(file)?;
        if attempt >= QUICK_ATTEMPTS {
            // A process that has just ended may still hold the lock shared.
            thread::park_timeout(PAUSE);
        }
    }
    Ok(false)
}

/// Whether the lock was taken. On a filesystem without locks it is never taken.
fn acquired_lock(result: Result<(), TryLockError>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) if is_lock_unsupported(&error) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether the directory contains data of an earlier run.
fn contains_run(path: &Path) -> io::Result<bool> {
    Ok(path.join(MANIFEST).exists() || fs::read_dir(path.join(SPOOL))?.next().is_some())
}

/// Renames a run with the first free number. Does nothing if a collector is working on it. The
/// caller must hold the exclusive lock.
fn move_aside(path: &Path) -> io::Result<bool> {
    // Hold this lock until the run is renamed, so that no collector begins meanwhile.
    let collecting_lock = open_lock(&path.join(COLLECTING))?;
    if !acquired_lock(collecting_lock.try_lock())? {
        return Ok(false);
    }
    for number in 1_u32.. {
        let new_path = numbered_path(path, number);
        if new_path.exists() {
            continue;
        }
        match fs::rename(path, &new_path) {
            // Another process has taken the number.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
                ) => {}
            renamed => return renamed.map(|()| true),
        }
    }
    Ok(false)
}

/// Whether an error means that a directory cannot be renamed: it is a mount point, or its parent is
/// not writable.
fn prevents_move(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    let kinds = [CrossesDevices, PermissionDenied, ReadOnlyFilesystem, ResourceBusy];
    kinds.contains(&error.kind())
}

pub(super) fn numbered_path(path: &Path, number: u32) -> PathBuf {
    path.with_extension(format!("{number}.{EXTENSION}"))
}

/// Removes the directory of a run if it is empty and no process records into it.
fn remove_empty(path: &Path) -> io::Result<()> {
    let lock_path = path.join(RECORDING);
    let file = lock_options().open(&lock_path)?;
    let is_other = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.file_name() != RECORDING && entry.file_name() != SPOOL)
    };
    let is_locked = match file.try_lock() {
        Err(TryLockError::WouldBlock) => false,
        Ok(()) | Err(TryLockError::Error(_)) => true,
    };
    if !is_locked || fs::read_dir(path)?.any(is_other) {
        return Ok(());
    }
    fs::remove_dir(path.join(SPOOL))?;
    fs::remove_file(&lock_path)?;
    fs::remove_dir(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_directory_that_is_moved_during_creation_is_created_again() {
        let folder = tempfile::tempdir().unwrap();
        let (run, moved) = (folder.path().join("run.marey"), folder.path().join("moved"));
        let is_done = AtomicBool::new(false);
        let failed = std::thread::scope(|threads| {
            threads.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    if fs::rename(&run, &moved).is_ok() && fs::rename(&moved, &run).is_err() {
                        fs::remove_dir_all(&moved).unwrap();
                    }
                }
            });
            let mut opened = (0..500).map(|_| RunDirectory::join(&run, EarlierRun::MoveAside));
            let failed = opened.find_map(Result::err);
            is_done.store(true, Ordering::Relaxed);
            failed
        });
        assert!(failed.is_none(), "{failed:?}");
    }
}
