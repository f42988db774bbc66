//! The temporary files that several assemblies share, such as the traces of many ranks that are
//! imported together.

use std::path::{Path, PathBuf};

use crate::sort::SpillFile;
use crate::write::TemporaryFilePool;

/// Temporary files in a folder, created on demand: one for spilled rows, and one for each part that
/// is being written at the same time. Any number of temporary runs can share them, so that these do
/// not exhaust the process's file descriptors. The files are closed with the last run that uses
/// them.
#[derive(Clone, Debug)]
pub struct TemporaryFiles {
    pub(super) folder: PathBuf,
    pub(super) spill_file: SpillFile,
    pub(super) pool: TemporaryFilePool,
}

impl TemporaryFiles {
    /// Returns the files of `folder`. None is created yet.
    pub fn new(folder: &Path) -> Self {
        let (spill_file, pool) = (SpillFile::new(folder), TemporaryFilePool::default());
        Self { folder: folder.to_owned(), spill_file, pool }
    }
}
