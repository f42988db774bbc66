//! A file that stays ours in a program that closes every descriptor that it finds.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An open file. The program may have closed it, and even opened another one under its number.
#[derive(Debug)]
pub(crate) struct OwnFile {
    path: PathBuf,
    /// `None` once it was lost.
    file: Option<File>,
    identity: (u64, u64),
}

impl OwnFile {
    pub(crate) fn new(path: &Path, file: File) -> io::Result<Self> {
        let identity = identity(&file.metadata()?);
        Ok(Self { path: path.to_owned(), file: Some(file), identity })
    }

    /// The file and what the system says about it. One that is not ours any more is opened again.
    pub(crate) fn get(
        &mut self,
        open: impl FnOnce(&Path) -> io::Result<File>,
    ) -> io::Result<(&File, Metadata)> {
        if let Some(about) = self.about_ours() {
            let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
            return Ok((file, about));
        }
        leave(self.file.take());
        let again = open(&self.path)?;
        let about = again.metadata()?;
        if identity(&about) != self.identity {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok((self.file.insert(again), about))
    }

    /// Whether a path names the file.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|about| identity(&about) == self.identity)
    }

    /// Whether the file still has the name that it was opened by.
    pub(crate) fn is_at_its_path(&self) -> bool {
        self.is_at(&self.path)
    }

    fn about_ours(&self) -> Option<Metadata> {
        let about = self.file.as_ref()?.metadata().ok()?;
        (identity(&about) == self.identity).then_some(about)
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        if self.about_ours().is_none() {
            leave(self.file.take());
        }
    }
}

/// Whether this is the file that a path names.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let named = std::fs::metadata(path).map(|about| identity(&about));
    let own = file.metadata().map(|about| identity(&about));
    matches!((named, own), (Ok(named), Ok(own)) if named == own)
}

fn identity(about: &Metadata) -> (u64, u64) {
    (about.dev(), about.ino())
}

/// Gives a descriptor up without closing it: its number is not ours any more.
#[expect(clippy::mem_forget, reason = "closing it could close a file of the program")]
fn leave(file: Option<File>) {
    std::mem::forget(file);
}
