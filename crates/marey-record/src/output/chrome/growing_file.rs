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
    pub(super) limit_bytes: u64,
}

impl GrowingFile {
    pub(super) fn open(path: &Path, limit_bytes: u64) -> io::Result<Self> {
        Ok(Self { file: ReopeningFile::new(path, File::open(path)?)?, position: 0, limit_bytes })
    }
}

impl Read for GrowingFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let unread_bytes =
            usize::try_from(self.limit_bytes.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let max_bytes = buffer.len().min(unread_bytes);
        let (file, _) = self.file.get(|path| File::open(path))?;
        let read_bytes = file.read_at(&mut buffer[..max_bytes], self.position)?;
        self.position += read_bytes as u64;
        progress::count(read_bytes);
        Ok(read_bytes)
    }
}
