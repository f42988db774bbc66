//! What is a run's own: which of its files are no way out of its folder, and are still the same.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use marey_model::run::{COLLECTING, RECORDING, SPOOL};
use marey_model::table::stored;

use crate::StoreError;

/// Tells a file from another one that gets its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(crate) fn of(about: &Metadata) -> Self {
        Self { device: about.dev(), inode: about.ino() }
    }

    /// The file that a path names, if there is one.
    pub(crate) fn at(path: &Path) -> io::Result<Option<Self>> {
        Ok(metadata(path)?.as_ref().map(Self::of))
    }
}

/// An error if something that a collector makes, writes into or removes from is a link.
pub(crate) fn check(run: &Path) -> Result<(), StoreError> {
    let names = [COLLECTING, RECORDING, SPOOL, "tables"].map(str::to_owned);
    let tables = stored::ALL.iter().map(|table| format!("tables/{}", table.name));
    for path in names.into_iter().chain(tables).map(|name| run.join(name)) {
        let about = metadata(&path).map_err(StoreError::io("open", &path))?;
        if about.is_some_and(|about| about.is_symlink()) {
            return Err(StoreError::Link { path });
        }
    }
    Ok(())
}

fn metadata(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        about => about.map(Some),
    }
}
