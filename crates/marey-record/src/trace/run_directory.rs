//! The run directory: its path, its lock, and its removal.
//!
//! All processes of a program record into one directory, each into a spool of its own. A recording
//! process holds a shared lock on the file `.recording` in it, which children of a fork inherit. So
//! a new process can tell the run of its own program from an earlier one: it joins the former, and
//! moves the latter aside to `<name>.<n>.marey`. If a collector is working on the earlier run, that
//! run stays, and the new one gets the number.

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
    /// Opens the directory of a session: the one that the environment names, else the one derived
    /// from the session's name.
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

    /// Takes the lock again if the program has closed its file.
    pub(super) fn relock(&self) {
        // The thread that holds the mutex is doing this already, or was when this process was
        // forked.
        if let Some(mut lock) = try_lock(&self.lock)
            && let Some(lock) = lock.as_mut()
        {
            // Without the lock the run is recorded nevertheless.
            drop(lock.get(open_locked));
        }
    }

    /// Creates a directory that other users can neither read nor guess, for a trace that is written
    /// to standard output.
    fn temporary() -> Result<Self, Error> {
        let number = RandomState::new().hash_one(std::process::id());
        let path = environment::temp_dir().join(format!("marey-{number:016x}.{EXTENSION}"));
        let created = DirBuilder::new().mode(0o700).create(&path);
        created.map_err(|source| write_error("create", &path, source))?;
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
                    // Another process moves the directory at the same time.
                    io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists => last_error = error,
                    _ => return Err(write_error("create", &candidate.join(SPOOL), error)),
                },
            }
        }
        Err(write_error("create", &candidate.join(SPOOL), last_error))
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
                // A directory that cannot be moved is joined.
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

/// Treatment of a finished earlier run at the same path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EarlierRun {
    Join,
    MoveAside,
    Avoid,
}

/// The result of an attempt to join.
enum Attempt {
    Joined(RunDirectory),
    /// The directory was moved or removed, by us or by another process.
    Moved,
    /// An earlier run is at the path and stays.
    Occupied,
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        drop(self.lock.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        // A directory that is not empty, or that others record into, stays.
        drop(remove_empty(&self.path));
    }
}

fn with_extension(base: &str) -> PathBuf {
    PathBuf::from(format!("{base}.{EXTENSION}"))
}

fn write_error(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Write { action, path: path.to_owned(), source }
}

fn open_lock(path: &Path) -> io::Result<File> {
    lock_options().create(true).truncate(false).open(path)
}

fn open_locked(path: &Path) -> io::Result<File> {
    let file = lock_options().open(path)?;
    lock_shared(&file)?;
    Ok(file)
}

/// Returns the options to open the lock file. Over NFS a shared lock needs a readable file, and an
/// exclusive lock a writable one. Following a symbolic link could create or lock another file.
fn lock_options() -> OpenOptions {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
    options
}

/// Takes the shared lock. An exclusive holder keeps it only for a moment.
fn lock_shared(file: &File) -> io::Result<()> {
    match file.lock_shared() {
        Err(error) if is_lock_unsupported(&error) => Ok(()),
        locked => locked,
    }
}

/// Tries to take the lock exclusively. Returns whether it succeeded and the path still names this
/// lock file.
fn try_lock_exclusively(file: &File, path: &Path) -> io::Result<bool> {
    // A check takes microseconds. Readers that poll may interfere with all but a few attempts.
    const ATTEMPTS: u32 = 300;
    const QUICK_ATTEMPTS: u32 = 100;
    const PAUSE: Duration = Duration::from_micros(100);
    for attempt in 0..ATTEMPTS {
        if acquired_lock(file.try_lock())? {
            return Ok(is_at(file, path));
        }
        // A reader that checks for a recording process holds the lock exclusively: this waits for
        // it.
        lock_shared(file)?;
        if attempt >= QUICK_ATTEMPTS {
            // A process that has just ended may still hold it shared.
            thread::park_timeout(PAUSE);
        }
    }
    Ok(false)
}

/// Whether the lock was taken. On a filesystem without locks it never is.
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

/// Renames a run with the first free number, unless a collector is working on it. The caller holds
/// the exclusive lock.
fn move_aside(path: &Path) -> io::Result<bool> {
    // Locked until the run is renamed, so that no collector begins in between.
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
            // Another process took the number.
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

/// Whether a directory cannot be renamed: it is a mount point, or its folder is not writable.
fn prevents_move(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    let kinds = [CrossesDevices, PermissionDenied, ReadOnlyFilesystem, ResourceBusy];
    kinds.contains(&error.kind())
}

pub(super) fn numbered_path(path: &Path, number: u32) -> PathBuf {
    path.with_extension(format!("{number}.{EXTENSION}"))
}

/// Removes a run that is empty and into which no process records.
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
