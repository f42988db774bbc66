//! The spool's file: where it is, how bytes reach it, and when it goes.

use crate::error::Error;
use crate::recorder;
use marey_model::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// A spool on disk. It is removed when nobody needs it any more, unless it shall be kept.
#[derive(Debug)]
pub(crate) struct SpoolFile {
    path: PathBuf,
    is_kept: AtomicBool,
}

impl SpoolFile {
    /// Makes the file of this process's next spool, in the folder that goes with a profile.
    pub(super) fn create(base: &str) -> Result<(Self, Appender), Error> {
        const ATTEMPTS: u32 = 10_000;
        let folder = folder_of(base);
        let failed = |source| Error::Write { action: "create", path: folder.clone(), source };
        let is_kept = env::is_on(std::env::var(env::KEEP_SPOOL).ok().as_deref());
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        let mut number = 0_u32;
        for _ in 0..ATTEMPTS {
            let path = folder.join(format!("{}-{number}.spool", std::process::id()));
            last = match fs::create_dir_all(&folder).and_then(|()| Appender::create(&path)) {
                Ok(file) => return Ok((Self { path, is_kept: AtomicBool::new(is_kept) }, file)),
                Err(error) => error,
            };
            match last.kind() {
                // Of an earlier spool, or of an earlier process that had our number.
                io::ErrorKind::AlreadyExists if path.exists() => number += 1,
                // Another process of the same name has ended and taken the folders with it.
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound => {}
                _ => break,
            }
        }
        Err(failed(last))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the file where it is.
    pub(crate) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        if self.is_kept.load(Ordering::Relaxed) || fs::remove_file(&self.path).is_err() {
            return;
        }
        // The folders go with their last file; others may still be in there.
        let spool = self.path.parent();
        let folders = [spool, spool.and_then(Path::parent)];
        folders.into_iter().flatten().all(|folder| fs::remove_dir(folder).is_ok());
    }
}

/// `<profile>.marey/spool`; a profile that goes to standard output has one in the folder for temporary
/// files.
pub(super) fn folder_of(base: &str) -> PathBuf {
    let run = match base {
        "" | "-" => std::env::temp_dir().join(format!("stdout.{}.marey", std::process::id())),
        base => PathBuf::from(format!("{base}.marey")),
    };
    run.join("spool")
}

/// The end of the file.
#[derive(Debug)]
pub(super) struct Appender {
    path: PathBuf,
    /// `None` once it was lost.
    file: Option<File>,
    identity: (u64, u64),
    written_bytes: u64,
}

impl Appender {
    fn create(path: &Path) -> io::Result<Self> {
        let file = File::options().append(true).create_new(true).open(path)?;
        let identity = identity(&file)?;
        Ok(Self { path: path.to_owned(), file: Some(file), identity, written_bytes: 0 })
    }

    pub(super) const fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Appends all of the bytes, or none of them.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let before_bytes = self.written_bytes;
        let mut file = self.file()?;
        if let Err(error) = file.write_all(bytes) {
            // A torn frame would hide all that follows.
            file.set_len(before_bytes)?;
            return Err(error);
        }
        self.written_bytes = before_bytes + bytes.len() as u64;
        Ok(())
    }

    /// Our file, which the program may have closed, and even opened another one under its number.
    fn file(&mut self) -> io::Result<&File> {
        let is_ours = |file: &File| identity(file).is_ok_and(|identity| identity == self.identity);
        if self.file.as_ref().is_none_or(|file| !is_ours(file)) {
            leave(self.file.take());
            let again = File::options().append(true).open(&self.path)?;
            if !is_ours(&again) {
                return Err(io::ErrorKind::NotFound.into());
            }
            self.file = Some(again);
        }
        self.file.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        let is_ours = |file: &File| identity(file).is_ok_and(|identity| identity == self.identity);
        if !self.file.as_ref().is_some_and(is_ours) {
            leave(self.file.take());
        }
    }
}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    file.metadata().map(|about| (about.dev(), about.ino()))
}

/// Gives a descriptor up without closing it: its number is not ours any more.
#[expect(clippy::mem_forget, reason = "closing it could close a file of the program")]
fn leave(file: Option<File>) {
    std::mem::forget(file);
}

/// Most bytes of a spool.
pub(super) fn max_bytes() -> u64 {
    const DEFAULT: u64 = 16 << 30;
    recorder::env_number(env::SPOOL_BYTES).unwrap_or(DEFAULT)
}
