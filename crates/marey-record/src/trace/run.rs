//! The run directory: where it is, whose it is, and when it goes.
//!
//! All processes of a program record into one, each into a spool of its own. As long as a process
//! records it holds a shared lock on `.recording` in there, which the children of a fork inherit. So a
//! process that begins can tell the run of its own program from one of yesterday: it joins the first,
//! and moves the second aside to `<name>.<n>.marey`.

use crate::error::Error;
use crate::own_file::OwnFile;
use crate::registry::lock;
use crate::session;
use marey_model::env;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

const LOCK: &str = ".recording";
const SPOOLS: &str = "spool";
const MANIFEST: &str = "manifest.json";
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
        let given = std::env::var_os(env::RUN_DIR).filter(|path| !path.is_empty());
        match given {
            Some(path) => Self::join(&std::path::absolute(&path).unwrap_or(path.into()), false),
            None => Self::join(&with_extension(&session::base_for(name, None)), true),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of its spools.
    pub(super) fn spools(&self) -> PathBuf {
        self.path.join(SPOOLS)
    }

    /// Takes the lock again if the program has closed it.
    pub(super) fn hold(&self) {
        let mut lock = lock(&self.lock);
        if let Some(lock) = lock.as_mut() {
            // Without it the run is recorded all the same.
            drop(lock.get(open_locked));
        }
    }

    /// A directory that others neither read nor guess: the trace goes to standard output.
    fn temporary() -> Result<Self, Error> {
        let number = RandomState::new().hash_one(std::process::id());
        let path = std::env::temp_dir().join(format!("marey-{number:016x}.{EXTENSION}"));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|source| failed("create", &path, source))?;
        Self::join(&path, false)
    }

    /// Makes the directory, or joins those who record into it. Where nobody does, and one `may_move`
    /// it, what an earlier run has left there is moved aside.
    fn join(path: &Path, may_move: bool) -> Result<Self, Error> {
        const ATTEMPTS: u32 = 10_000;
        for _ in 0..ATTEMPTS {
            match Self::try_join(path, may_move) {
                Ok(Some(run)) => return Ok(run),
                // Somebody else has moved or removed it.
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("create", &path.join(SPOOLS), error)),
            }
        }
        Err(failed("create", path, io::ErrorKind::ResourceBusy.into()))
    }

    fn try_join(path: &Path, may_move: bool) -> io::Result<Option<Self>> {
        fs::create_dir_all(path.join(SPOOLS))?;
        let lock_path = path.join(LOCK);
        let file = open_lock(&lock_path)?;
        if may_move && is_locked(file.try_lock())? && has_a_run(path)? {
            move_aside(path)?;
            return Ok(None);
        }
        shared(&file)?;
        let lock = OwnFile::new(&lock_path, file)?;
        let is_there = lock.is_at_its_path();
        Ok(is_there.then(|| Self { path: path.to_owned(), lock: Mutex::new(Some(lock)) }))
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        drop(lock(&self.lock).take());
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
    File::options().create(true).truncate(false).write(true).open(path)
}

fn open_locked(path: &Path) -> io::Result<File> {
    let file = File::options().write(true).open(path)?;
    shared(&file)?;
    Ok(file)
}

/// Takes the lock beside others who record. Whoever holds it alone does so for a moment only.
fn shared(file: &File) -> io::Result<()> {
    match file.lock_shared() {
        // A filesystem without locks.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        locked => locked,
    }
}

/// Whether the lock was taken. Nobody takes one on a filesystem without locks.
fn is_locked(tried: Result<(), TryLockError>) -> io::Result<bool> {
    match tried {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether an earlier run has left something there.
fn has_a_run(path: &Path) -> io::Result<bool> {
    Ok(path.join(MANIFEST).exists() || fs::read_dir(path.join(SPOOLS))?.next().is_some())
}

/// Gives a run the first free number. The caller holds it alone.
fn move_aside(path: &Path) -> io::Result<()> {
    for number in 1_u32.. {
        let free = path.with_extension(format!("{number}.{EXTENSION}"));
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
            renamed => return renamed,
        }
    }
    Ok(())
}

/// Removes a run that holds nothing and that nobody records into.
fn remove_empty(path: &Path) -> io::Result<()> {
    let lock_path = path.join(LOCK);
    let file = File::options().write(true).open(&lock_path)?;
    let others = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.file_name() != LOCK && entry.file_name() != SPOOLS)
    };
    let is_locked = match file.try_lock() {
        Err(TryLockError::WouldBlock) => false,
        Ok(()) | Err(TryLockError::Error(_)) => true,
    };
    if !is_locked || fs::read_dir(path)?.any(others) {
        return Ok(());
    }
    fs::remove_dir(path.join(SPOOLS))?;
    fs::remove_file(&lock_path)?;
    fs::remove_dir(path)
}
