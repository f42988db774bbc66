//! A spool that is read while others append to it.

use crate::own_file::OwnFile;
use crate::progress;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The bytes of a spool, up to where it may be read for now.
#[derive(Debug)]
pub(super) struct Tail {
    file: OwnFile,
    at: u64,
    /// Where frames are whole.
    pub(super) end: u64,
}

impl Tail {
    pub(super) fn open(path: &Path, end: u64) -> io::Result<Self> {
        Ok(Self { file: OwnFile::new(path, File::open(path)?)?, at: 0, end })
    }
}

impl Read for Tail {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let room = buffer.len().min(left);
        let (file, _) = self.file.get(|path| File::open(path))?;
        let bytes = file.read_at(&mut buffer[..room], self.at)?;
        self.at += bytes as u64;
        progress::count(bytes);
        Ok(bytes)
    }
}
