//! Publishes a manifest and its parts atomically, so that a run is complete at any time.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use marey_model::run::MANIFEST;

use crate::write::hidden_file;
use crate::{Manifest, StoreError, WrittenPart};

impl Manifest {
    /// Replaces the run's manifest atomically. Renames the `written` parts, swaps the manifest, and
    /// removes the files that the new manifest does not list. A crash leaves the old or the new
    /// run, and perhaps files that the next publish removes. Everything is fsynced, so the source
    /// of the parts can be removed afterwards.
    pub fn publish(&self, run: &Path, written: Vec<WrittenPart>) -> Result<(), StoreError> {
        self.publish_with(run, written, true)
    }

    /// Like [`Self::publish`], but fsyncs only if `is_durable`.
    pub(crate) fn publish_with(
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
            folders.iter().try_for_each(|folder| sync_folder(folder))?;
        }
        self.replace_manifest(run, is_durable)?;
        if is_durable {
            sync_folder(run)?;
        }
        self.remove_unlisted(run)
    }

    fn replace_manifest(&self, run: &Path, is_durable: bool) -> Result<(), StoreError> {
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

    /// Removes unlisted parts and unfinished files, which were replaced or left by a crash. Call
    /// this only with the collection lock and while no part is being written.
    pub fn remove_unlisted(&self, run: &Path) -> Result<(), StoreError> {
        let parts = self.tables.values().flatten();
        let listed: HashSet<PathBuf> = parts.map(|part| run.join(&part.file)).collect();
        for folder in list_folders(&run.join("tables"))? {
            for path in list_files(&folder, &["part-", ".part-"])? {
                if !listed.contains(&path) {
                    remove_file(&path)?;
                }
            }
        }
        list_files(run, &[".manifest.json."])?.iter().try_for_each(|path| remove_file(path))
    }
}

/// Fsyncs a folder, so that the names in it are durable.
fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // Some filesystems cannot fsync a folder, and need not.
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

/// Lists the folders in a folder.
fn list_folders(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    list_entries(folder, |entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
}

/// Lists the entries of a folder whose names have one of these prefixes.
fn list_files(folder: &Path, prefixes: &[&str]) -> Result<Vec<PathBuf>, StoreError> {
    list_entries(folder, |entry| {
        let name = entry.file_name();
        prefixes.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
    })
}

/// Lists the entries of a folder that satisfy a condition. Lists none if the folder does not exist.
fn list_entries(
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

fn remove_file(path: &Path) -> Result<(), StoreError> {
    fs::remove_file(path).map_err(StoreError::io("remove", path))
}
