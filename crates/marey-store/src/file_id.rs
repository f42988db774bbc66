//! Guards a collection against symbolic links and replaced files in the run's folder, so that it
//! never writes or removes a file outside.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use marey_model::run::{COLLECTING, RECORDING, SPOOL};
use marey_model::table::stored;

use crate::StoreError;

/// The identity of a file, so that another file with the same name is not taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(crate) fn from_metadata(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    /// Returns the identity of the file at a path, if one exists.
    pub(crate) fn from_path(path: &Path) -> io::Result<Option<Self>> {
        Ok(metadata(path)?.as_ref().map(Self::from_metadata))
    }
}

/// Fails if a path that a collection creates, writes or removes is a symbolic link.
pub(crate) fn reject_links(run: &Path) -> Result<(), StoreError> {
    let names = [COLLECTING, RECORDING, SPOOL, "tables"].map(str::to_owned);
    let tables = stored::ALL.iter().map(|table| format!("tables/{}", table.name));
    for path in names.into_iter().chain(tables).map(|name| run.join(name)) {
        let metadata = metadata(&path).map_err(StoreError::io("open", &path))?;
        if metadata.is_some_and(|metadata| metadata.is_symlink()) {
            return Err(StoreError::Link { path });
        }
    }
    Ok(())
}

fn metadata(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        metadata => metadata.map(Some),
    }
}
