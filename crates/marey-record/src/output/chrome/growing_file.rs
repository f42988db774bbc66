//! A reader of a spool that other threads still append to. It stops at a limit, which its owner
//! moves on.

use crate::progress;
use crate::reopening_file::ReopeningFile;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A reader of a file up to a limit that grows.
#[derive(Debug)]
pub(super) struct GrowingFile {
    file: ReopeningFile,
    position: u64,
    /// The limit: all frames before it are complete.
    pub(super) end: u64,
}

impl GrowingFile {
    pub(super) fn open(path: &Path, end: u64) -> io::Result<Self> {
        Ok(Self { file: ReopeningFile::new(path, File::open(path)?)?, position: 0, end })
    }
}

impl Read for GrowingFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let room = buffer.len().min(left);
        let (file, _) = self.file.get(|path| File::open(path))?;
        let bytes = file.read_at(&mut buffer[..room], self.position)?;
        self.position += bytes as u64;
        progress::count(bytes);
        Ok(bytes)
    }
}
