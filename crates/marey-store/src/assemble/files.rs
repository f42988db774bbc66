//! The files without names that assemblies use.

use std::path::{Path, PathBuf};

use crate::sort::Room;
use crate::write::Scratches;

/// Files without names in a folder, made as they are needed: one for rows that wait to be sorted, and
/// one for each part of a brief run that is being written. However many runs share them, there are no
/// more. They are gone when the last run is.
#[derive(Clone, Debug)]
pub struct BriefFiles {
    pub(super) folder: PathBuf,
    pub(super) room: Room,
    pub(super) scratches: Scratches,
}

impl BriefFiles {
    /// None as yet.
    pub fn new(folder: &Path) -> Self {
        let (room, scratches) = (Room::new(folder), Scratches::default());
        Self { folder: folder.to_owned(), room, scratches }
    }
}
