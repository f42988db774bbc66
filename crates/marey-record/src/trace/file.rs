//! The file of a spool: its path, its removal on drop, and the appender, which never leaves a torn
//! frame in the middle.

use super::run_directory::RunDirectory;
use crate::error::Error;
use crate::reopening_file::ReopeningFile;
use crate::settings;
use marey_model::setting::Setting;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A spool on disk. The file is removed on drop, unless [`SpoolFile::keep`] was called.
#[derive(Debug)]
pub(crate) struct SpoolFile {
    path: PathBuf,
    /// Whether the file stays when this value is dropped. The segments of a ring share this flag.
    is_kept: Arc<AtomicBool>,
    /// The earlier segments of a ring that has ended. They live as long as its last segment.
    older: OnceLock<Vec<Arc<SpoolFile>>>,
    /// Keeps the directory locked until the file is complete. Dropped after the file.
    run_directory: Arc<RunDirectory>,
}

impl SpoolFile {
    /// Creates the file of this process's next spool.
    pub(super) fn create(run_directory: &Arc<RunDirectory>) -> Result<(Self, Appender), Error> {
        const ATTEMPTS: u32 = 10_000;
        let folder = run_directory.spool_folder();
        let mut last_error = io::Error::from(io::ErrorKind::AlreadyExists);
        let mut number = 0_u32;
        for _ in 0..ATTEMPTS {
            let path = folder.join(format!("{}-{number}.spool", std::process::id()));
            last_error = match fs::create_dir_all(&folder).and_then(|()| Appender::create(&path)) {
                Ok(file) => {
                    return Ok((Self::new(path, Arc::default(), run_directory), file));
                }
                Err(error) => error,
            };
            match last_error.kind() {
                // The file of an earlier spool, or of an earlier process with the same pid.
                io::ErrorKind::AlreadyExists if path.exists() => number += 1,
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound => {}
                _ => break,
            }
        }
        Err(Error::write("create", &folder, last_error))
    }

    /// Creates the file of a segment of a ring.
    pub(super) fn create_segment(
        run_directory: &Arc<RunDirectory>,
        name: &str,
        is_kept: Arc<AtomicBool>,
    ) -> Result<(Self, Appender), Error> {
        let folder = run_directory.spool_folder();
        let path = folder.join(name);
        let appender = fs::create_dir_all(&folder)
            .and_then(|()| Appender::create(&path))
            .map_err(|source| Error::write("create", &path, source))?;
        Ok((Self::new(path, is_kept, run_directory), appender))
    }

    fn new(path: PathBuf, is_kept: Arc<AtomicBool>, run_directory: &Arc<RunDirectory>) -> Self {
        Self { path, is_kept, older: OnceLock::new(), run_directory: Arc::clone(run_directory) }
    }

    /// Keeps the earlier segments of the ring as long as this one.
    pub(super) fn set_older(&self, older: Vec<Arc<Self>>) {
        drop(self.older.set(older));
    }

    /// Removes the file of a segment that the ring no longer needs, even if the ring's files are
    /// kept.
    pub(super) fn remove(&self) {
        drop(fs::remove_file(&self.path));
    }

    /// Returns the flag that keeps the files of all segments of the ring.
    pub(super) fn kept_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_kept)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn run_directory(&self) -> &Arc<RunDirectory> {
        &self.run_directory
    }

    /// Prevents the removal of the file on drop.
    pub(crate) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        if !self.is_kept.load(Ordering::Relaxed) {
            // If the removal fails, the spool is collected like any other.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// The writer at the end of the file.
#[derive(Debug)]
pub(super) struct Appender {
    file: ReopeningFile,
    written_bytes: u64,
    /// Whether an append has failed, so that the file lacks bytes.
    has_failed: bool,
    /// The time of the last check of the filesystem's free space.
    space_checked_at: Instant,
}

impl Appender {
    fn create(path: &Path) -> io::Result<Self> {
        let file = File::options().append(true).create_new(true).open(path)?;
        let file = ReopeningFile::new(path, file)?;
        Ok(Self { file, written_bytes: 0, has_failed: false, space_checked_at: Instant::now() })
    }

    pub(super) const fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Whether the filesystem's free space should be checked now. True at most once a second.
    pub(super) fn is_space_check_due(&mut self) -> bool {
        const PERIOD: Duration = Duration::from_secs(1);
        let is_due = self.space_checked_at.elapsed() >= PERIOD;
        if is_due {
            self.space_checked_at = Instant::now();
        }
        is_due
    }

    pub(super) const fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Appends all of the bytes, or none of them.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.append_all(bytes).inspect_err(|_| self.has_failed = true)
    }

    fn append_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        /// A limit of about 50 ms, for a program that closes all descriptors again and again. After
        /// a failure the rest of the recording is lost.
        const ATTEMPTS: u32 = 10_000;
        let is_closed = |error: &io::Error| error.raw_os_error() == Some(libc::EBADF);
        for _ in 1..ATTEMPTS {
            match self.try_append(bytes) {
                // The program closed the file during the write.
                Err(error) if is_closed(&error) => {}
                result => return result,
            }
        }
        self.try_append(bytes)
    }

    fn try_append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (mut file, metadata) = self.file.get(|path| File::options().append(true).open(path))?;
        // Cut off what a failed append has left: a torn frame would make all later frames
        // unreadable.
        if metadata.len() != self.written_bytes {
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

/// Returns the maximum size of a spool in bytes.
pub(super) fn max_spool_bytes() -> u64 {
    settings::whole(Setting::SpoolBytes)
}
