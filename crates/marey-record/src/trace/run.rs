//! The run directory: where it is, whose it is, and when it goes.
//!
//! All processes of a program record into one, each into a spool of its own. As long as a process
//! records it holds a shared lock on `.recording` in there, which the children of a fork inherit. So a
//! process that begins can tell the run of its own program from one of yesterday: it joins the first,
//! and moves the second aside to `<name>.<n>.marey`. While a collector is at work on the second, that
//! stays, and the new run takes the number.

use crate::environment;
use crate::error::Error;
use crate::lock::try_lock;
use crate::own_file::{OwnFile, is_at};
use crate::session;
use marey_model::env;
use marey_model::run::{COLLECTING, MANIFEST, RECORDING, SPOOL, has_no_locks};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const EXTENSION: &str = "marey";

/// A run directory that this process records into.
#[derive(Debug)]
pub(crate) struct RunDirectory {
    path: PathBuf,
    lock: Mutex<Option<OwnFile>>,
}

impl RunDirectory {
    /// The directory of a session with this name: the one that the environment names, else the one
    /// that goes with the name.
    pub(super) fn open(name: &str) -> Result<Self, Error> {
        if session::means_stdout(name) {
            return Self::temporary();
        }
        let given = environment::get(env::RUN_DIR).filter(|path| !path.is_empty());
        match given {
            Some(path) => {
                Self::join(&std::path::absolute(&path).unwrap_or(path.into()), Earlier::Join)
            }
            None => Self::join(&with_extension(&session::base_for(name, None)), Earlier::MoveAside),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of its spools.
    pub(super) fn spools(&self) -> PathBuf {
        self.path.join(SPOOL)
    }

    /// Takes the lock again if the program has closed it.
    pub(super) fn hold(&self) {
        // Whoever holds it is at that already, or was when this process was forked.
        if let Some(mut lock) = try_lock(&self.lock)
            && let Some(lock) = lock.as_mut()
        {
            // Without it the run is recorded all the same.
            drop(lock.get(open_locked));
        }
    }

    /// A directory that others neither read nor guess: the trace goes to standard output.
    fn temporary() -> Result<Self, Error> {
        let number = RandomState::new().hash_one(std::process::id());
        let path = environment::temp_dir().join(format!("marey-{number:016x}.{EXTENSION}"));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|source| failed("create", &path, source))?;
        Self::join(&path, Earlier::Join)
    }

    /// Makes the directory, or joins those who record into it.
    fn join(path: &Path, mut earlier: Earlier) -> Result<Self, Error> {
        const ATTEMPTS: u32 = 10_000;
        let mut place = path.to_owned();
        let mut number = 0;
        let mut last = io::Error::from(io::ErrorKind::ResourceBusy);
        for _ in 0..ATTEMPTS {
            match Self::try_join(&place, earlier) {
                Ok(Attempt::Joined(run)) => return Ok(run),
                Ok(Attempt::Gone) => {}
                Ok(Attempt::Taken) => {
                    number += 1;
                    (place, earlier) = (numbered(path, number), Earlier::Avoid);
                }
                Err(error) => match error.kind() {
                    // Somebody moves the directory while we make it.
                    io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists => last = error,
                    _ => return Err(failed("create", &place.join(SPOOL), error)),
                },
            }
        }
        Err(failed("create", &place.join(SPOOL), last))
    }

    fn try_join(path: &Path, earlier: Earlier) -> io::Result<Attempt> {
        fs::create_dir_all(path.join(SPOOL))?;
        let lock_path = path.join(RECORDING);
        let file = open_lock(&lock_path)?;
        if earlier != Earlier::Join && is_alone(&file, &lock_path)? && has_a_run(path)? {
            let moved = if earlier == Earlier::MoveAside { move_aside(path) } else { Ok(false) };
            match moved {
                Ok(true) => return Ok(Attempt::Gone),
                Ok(false) => return Ok(Attempt::Taken),
                // Then the program joins it.
                Err(error) if must_stay(&error) => {}
                Err(error) => return Err(error),
            }
        }
        shared(&file)?;
        let lock = OwnFile::new(&lock_path, file)?;
        if !lock.is_at_its_path() {
            return Ok(Attempt::Gone);
        }
        Ok(Attempt::Joined(Self { path: path.to_owned(), lock: Mutex::new(Some(lock)) }))
    }
}

/// What to do where an earlier run lies, which nobody records any more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Earlier {
    Join,
    MoveAside,
    Avoid,
}

/// What came of an attempt to join.
enum Attempt {
    Joined(RunDirectory),
    /// The directory has been moved or removed, by us or by somebody else.
    Gone,
    /// An earlier run lies there, and stays.
    Taken,
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        drop(self.lock.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        // What is not empty stays; so does what others record into.
        drop(remove_empty(&self.path));
    }
}

fn with_extension(base: &str) -> PathBuf {
    PathBuf::from(format!("{base}.{EXTENSION}"))
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Write { action, path: path.to_owned(), source }
}

fn open_lock(path: &Path) -> io::Result<File> {
    lock_options().create(true).truncate(false).open(path)
}

fn open_locked(path: &Path) -> io::Result<File> {
    let file = lock_options().open(path)?;
    shared(&file)?;
    Ok(file)
}

/// Over NFS a shared lock needs a file that can be read, and the other kind one that can be written.
/// A link would have us make or lock somebody else's file.
fn lock_options() -> OpenOptions {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
    options
}

/// Takes the lock beside others who record. Whoever holds it alone does so for a moment only.
fn shared(file: &File) -> io::Result<()> {
    match file.lock_shared() {
        Err(error) if has_no_locks(&error) => Ok(()),
        locked => locked,
    }
}

/// Whether nobody else holds the lock of the directory that has this name; if so it is ours alone.
fn is_alone(file: &File, path: &Path) -> io::Result<bool> {
    // A look takes microseconds, and readers that ask again and again may come between all but a few.
    const LOOKS: u32 = 100;
    for _ in 0..LOOKS {
        if is_locked(file.try_lock())? {
            return Ok(is_at(file, path));
        }
        // A reader that asks whether somebody records holds it alone: this waits for it.
        shared(file)?;
    }
    Ok(false)
}

/// Whether the lock was taken. Nobody takes one on a filesystem without locks.
fn is_locked(tried: Result<(), TryLockError>) -> io::Result<bool> {
    match tried {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) if has_no_locks(&error) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether an earlier run has left something there.
fn has_a_run(path: &Path) -> io::Result<bool> {
    Ok(path.join(MANIFEST).exists() || fs::read_dir(path.join(SPOOL))?.next().is_some())
}

/// Gives a run the first free number, unless a collector is at work on it. The caller holds it alone.
fn move_aside(path: &Path) -> io::Result<bool> {
    // Held until the run has its new name: no collector begins meanwhile.
    let collecting = open_lock(&path.join(COLLECTING))?;
    if !is_locked(collecting.try_lock())? {
        return Ok(false);
    }
    for number in 1_u32.. {
        let free = numbered(path, number);
        if free.exists() {
            continue;
        }
        match fs::rename(path, &free) {
            // Somebody else took the number.
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

/// Whether a directory cannot get another name: it is a mount point, or its folder is not ours to
/// change.
fn must_stay(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    let kinds = [CrossesDevices, PermissionDenied, ReadOnlyFilesystem, ResourceBusy];
    kinds.contains(&error.kind())
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    path.with_extension(format!("{number}.{EXTENSION}"))
}

/// Removes a run that holds nothing and that nobody records into.
fn remove_empty(path: &Path) -> io::Result<()> {
    let lock_path = path.join(RECORDING);
    let file = lock_options().open(&lock_path)?;
    let others = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.file_name() != RECORDING && entry.file_name() != SPOOL)
    };
    let is_locked = match file.try_lock() {
        Err(TryLockError::WouldBlock) => false,
        Ok(()) | Err(TryLockError::Error(_)) => true,
    };
    if !is_locked || fs::read_dir(path)?.any(others) {
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
    fn a_directory_that_is_moved_away_while_it_is_made_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let (run, away) = (folder.path().join("run.marey"), folder.path().join("away"));
        let is_over = AtomicBool::new(false);
        let failed = std::thread::scope(|threads| {
            threads.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    if fs::rename(&run, &away).is_ok() && fs::rename(&away, &run).is_err() {
                        fs::remove_dir_all(&away).unwrap();
                    }
                }
            });
            let mut made = (0..500).map(|_| RunDirectory::join(&run, Earlier::MoveAside));
            let failed = made.find_map(Result::err);
            is_over.store(true, Ordering::Relaxed);
            failed
        });
        assert!(failed.is_none(), "{failed:?}");
    }
}
