//! Making a manifest the run's.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use marey_model::run::MANIFEST;

use crate::write::hidden_file;
use crate::{Manifest, StoreError, WrittenPart};

impl Manifest {
    /// Makes this the run's manifest at one stroke: `written` get their names, the manifest is
    /// swapped, and files that it does not list are removed. A process that dies in between leaves
    /// the run as it was or as it shall be, and some files that the next one removes. Afterwards it
    /// is on the disk, so what it was made of can go.
    pub fn publish(&self, run: &Path, written: Vec<WrittenPart>) -> Result<(), StoreError> {
        self.publish_as(run, written, true)
    }

    /// The same; where it need not be durable, nobody waits for the disk.
    pub(crate) fn publish_as(
        &self,
        run: &Path,
        written: Vec<WrittenPart>,
        is_durable: bool,
    ) -> Result<(), StoreError> {
        self.check().map_err(|reason| StoreError::Manifest { path: run.to_owned(), reason })?;
        let mut folders = BTreeSet::new();
        for part in written {
            folders.insert(run.join("tables").join(part.table().name));
            folders.insert(run.join("tables"));
            part.publish(run)?;
        }
        if is_durable {
            folders.iter().try_for_each(|folder| sync(folder))?;
        }
        self.swap(run, is_durable)?;
        if is_durable {
            sync(run)?;
        }
        self.remove_unlisted(run)
    }

    fn swap(&self, run: &Path, is_durable: bool) -> Result<(), StoreError> {
        let mut file = hidden_file(run, MANIFEST)?;
        let json = self.to_json(run)?;
        let mut written = file.write_all(&json);
        if is_durable {
            written = written.and_then(|()| file.as_file().sync_all());
        }
        written.map_err(StoreError::io("write", file.path()))?;
        let path = run.join(MANIFEST);
        file.persist(&path).map_err(|error| StoreError::io("create", &path)(error.error))?;
        Ok(())
    }

    /// Removes parts that are not listed and files that were not finished: what was replaced, and
    /// what a process that died left behind. Only for who has the right to collect, while no part is
    /// in the making.
    pub fn remove_unlisted(&self, run: &Path) -> Result<(), StoreError> {
        let parts = self.tables.values().flatten();
        let listed: HashSet<PathBuf> = parts.map(|part| run.join(&part.file)).collect();
        for folder in folders(&run.join("tables"))? {
            for path in files(&folder, &["part-", ".part-"])? {
                if !listed.contains(&path) {
                    remove(&path)?;
                }
            }
        }
        files(run, &[".manifest.json."])?.iter().try_for_each(|path| remove(path))
    }
}

/// Has the names in a folder on the disk.
fn sync(folder: &Path) -> Result<(), StoreError> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // Some filesystems have nothing to do, and say it so.
        Err(error)
            if !matches!(
                error.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
            ) =>
        {
            Err(StoreError::io("write", folder)(error))
        }
        _ => Ok(()),
    }
}

/// The folders in a folder.
fn folders(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    entries(folder, |entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
}

/// The files of a folder whose names start with one of these.
fn files(folder: &Path, starts: &[&str]) -> Result<Vec<PathBuf>, StoreError> {
    entries(folder, |entry| {
        let name = entry.file_name();
        starts.iter().any(|start| name.as_encoded_bytes().starts_with(start.as_bytes()))
    })
}

/// Some of what lies in a folder; nothing, if the folder is not there.
fn entries(
    folder: &Path,
    is_wanted: impl Fn(&fs::DirEntry) -> bool,
) -> Result<Vec<PathBuf>, StoreError> {
    let list = || -> io::Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if is_wanted(&entry) {
                paths.push(entry.path());
            }
        }
        Ok(paths)
    };
    match list() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        paths => paths.map_err(StoreError::io("list", folder)),
    }
}

fn remove(path: &Path) -> Result<(), StoreError> {
    fs::remove_file(path).map_err(StoreError::io("remove", path))
}
