//! A file that is opened again if the program closes its descriptor.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An open file that is checked before each use. A program that closes every descriptor that it
/// finds may have closed this one, and may have opened another file under its number.
#[derive(Debug)]
pub(crate) struct ReopeningFile {
    path: PathBuf,
    /// `None` once the descriptor was lost.
    file: Option<File>,
    identity: (u64, u64),
}

impl ReopeningFile {
    pub(crate) fn new(path: &Path, file: File) -> io::Result<Self> {
        let identity = identity(&file.metadata()?);
        Ok(Self { path: path.to_owned(), file: Some(file), identity })
    }

    /// Returns the file and its metadata. A file whose descriptor was lost is opened again.
    pub(crate) fn get(
        &mut self,
        open: impl FnOnce(&Path) -> io::Result<File>,
    ) -> io::Result<(&File, Metadata)> {
        if let Some(metadata) = self.valid_metadata() {
            let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
            return Ok((file, metadata));
        }
        forget_descriptor(self.file.take());
        let reopened = open(&self.path)?;
        let metadata = reopened.metadata()?;
        if identity(&metadata) != self.identity {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok((self.file.insert(reopened), metadata))
    }

    /// Whether a path names this file.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|metadata| identity(&metadata) == self.identity)
    }

    /// Whether the path by which it was opened still names this file.
    pub(crate) fn is_at_its_path(&self) -> bool {
        self.is_at(&self.path)
    }

    fn valid_metadata(&self) -> Option<Metadata> {
        let metadata = self.file.as_ref()?.metadata().ok()?;
        (identity(&metadata) == self.identity).then_some(metadata)
    }
}

impl Drop for ReopeningFile {
    fn drop(&mut self) {
        if self.valid_metadata().is_none() {
            forget_descriptor(self.file.take());
        }
    }
}

/// Whether a path names `file`.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let named = std::fs::metadata(path).map(|metadata| identity(&metadata));
    let open = file.metadata().map(|metadata| identity(&metadata));
    matches!((named, open), (Ok(named), Ok(open)) if named == open)
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Gives up a descriptor without closing it, because the number may belong to another file by now.
#[expect(clippy::mem_forget, reason = "closing it could close a file of the program")]
fn forget_descriptor(file: Option<File>) {
    std::mem::forget(file);
}
