//! The spool's file: where it is, how bytes reach it, and when it goes.

use super::run::RunDirectory;
use crate::environment;
use crate::error::Error;
use crate::own_file::OwnFile;
use marey_model::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A spool on disk. It is removed when it is dropped, unless a session wants it kept.
#[derive(Debug)]
pub(crate) struct SpoolFile {
    path: PathBuf,
    is_kept: AtomicBool,
    /// Held until the file is written, and dropped after it.
    run: Arc<RunDirectory>,
}

impl SpoolFile {
    /// Makes the file of this process's next spool.
    pub(super) fn create(run: &Arc<RunDirectory>) -> Result<(Self, Appender), Error> {
        const ATTEMPTS: u32 = 10_000;
        let folder = run.spools();
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        let mut number = 0_u32;
        for _ in 0..ATTEMPTS {
            let path = folder.join(format!("{}-{number}.spool", std::process::id()));
            last = match fs::create_dir_all(&folder).and_then(|()| Appender::create(&path)) {
                Ok(file) => {
                    let (run, is_kept) = (Arc::clone(run), AtomicBool::new(false));
                    return Ok((Self { path, is_kept, run }, file));
                }
                Err(error) => error,
            };
            match last.kind() {
                // Of an earlier spool, or of an earlier process that had our number.
                io::ErrorKind::AlreadyExists if path.exists() => number += 1,
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound => {}
                _ => break,
            }
        }
        Err(Error::Write { action: "create", path: folder, source: last })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn run(&self) -> &RunDirectory {
        &self.run
    }

    /// Leaves the file where it is.
    pub(crate) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        if !self.is_kept.load(Ordering::Relaxed) {
            // What cannot be removed is collected like any other.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// The end of the file.
#[derive(Debug)]
pub(super) struct Appender {
    file: OwnFile,
    written_bytes: u64,
    /// Bytes are missing that were to be appended.
    has_failed: bool,
    /// When somebody looked how full the filesystem is.
    looked: Instant,
}

impl Appender {
    fn create(path: &Path) -> io::Result<Self> {
        let file = File::options().append(true).create_new(true).open(path)?;
        let file = OwnFile::new(path, file)?;
        Ok(Self { file, written_bytes: 0, has_failed: false, looked: Instant::now() })
    }

    pub(super) const fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Whether it is time to look how full the filesystem is: once a second.
    pub(super) fn is_time_to_look(&mut self) -> bool {
        const PERIOD: Duration = Duration::from_secs(1);
        let is_time = self.looked.elapsed() >= PERIOD;
        if is_time {
            self.looked = Instant::now();
        }
        is_time
    }

    pub(super) const fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Appends all of the bytes, or none of them.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.append_all(bytes).inspect_err(|_| self.has_failed = true)
    }

    fn append_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        /// For a program that closes every descriptor over and over.
        const ATTEMPTS: u32 = 64;
        let is_closed = |error: &io::Error| error.raw_os_error() == Some(libc::EBADF);
        for _ in 1..ATTEMPTS {
            match self.try_append(bytes) {
                // The program closed the file while we were at it.
                Err(error) if is_closed(&error) => {}
                done => return done,
            }
        }
        self.try_append(bytes)
    }

    fn try_append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (mut file, about) = self.file.get(|path| File::options().append(true).open(path))?;
        // A torn frame would hide all that follows.
        if about.len() != self.written_bytes {
            file.set_len(self.written_bytes)?;
        }
        if let Err(error) = file.write_all(bytes) {
            file.set_len(self.written_bytes)?;
            return Err(error);
        }
        self.written_bytes += bytes.len() as u64;
        Ok(())
    }
}

/// Most bytes of a spool.
pub(super) fn max_bytes() -> u64 {
    const DEFAULT: u64 = 16 << 30;
    environment::number(env::SPOOL_BYTES).unwrap_or(DEFAULT)
}
