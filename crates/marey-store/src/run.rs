//! [`Run`], a collected run that is open for reading: a folder, a pack, or a temporary run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use marey_model::run::SPOOL;
use marey_model::table::Table;

use crate::manifest::PartEntry;
use crate::pack::{self, Pack};
use crate::part::{Part, PartSource};
use crate::{Found, Manifest, StoreError, WrittenPart, read};

/// Number of parts above which a run opens a file for each read. A process may have only about a
/// thousand files open.
const MAX_OPEN_FILES: usize = 256;

/// A collected run: its manifest, and the parts of its tables. Another collection does not change
/// an open run, unless it has more than 256 parts, whose files are not kept open.
#[derive(Debug)]
pub struct Run {
    path: PathBuf,
    manifest: Manifest,
    parts: BTreeMap<String, Vec<Part>>,
    is_pack: bool,
    pub(crate) uncollected_bytes: u64,
}

impl Run {
    /// Opens a run's folder or a pack, which is recognised by its content, without collecting.
    /// Checks that every listed part exists in full length, but reads none. If a collector replaces
    /// parts meanwhile, opens the newer ones.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let metadata = fs::metadata(path).map_err(StoreError::io("open", path))?;
        if metadata.is_dir() { Self::open_folder(path) } else { Self::open_file(path) }
    }

    fn open_folder(path: &Path) -> Result<Self, StoreError> {
        let mut manifest = Manifest::read(path)?.ok_or_else(|| no_manifest(path))?;
        loop {
            match folder_parts(path, &manifest) {
                Ok(parts) => {
                    return Ok(Self::new(path, manifest, parts, false));
                }
                Err(error) => {
                    // A collector may have replaced parts since the manifest was read.
                    let newer = Manifest::read(path)?.ok_or_else(|| no_manifest(path))?;
                    if newer == manifest {
                        return Err(error);
                    }
                    manifest = newer;
                }
            }
        }
    }

    fn open_file(path: &Path) -> Result<Self, StoreError> {
        let file = File::open(path).map_err(StoreError::io("open", path))?;
        let mut first_bytes = Vec::new();
        (&file).take(4096).read_to_end(&mut first_bytes).map_err(StoreError::io("read", path))?;
        if !first_bytes.starts_with(pack::MAGIC) {
            let found = recognise(path, &first_bytes);
            return Err(StoreError::NotARun { path: path.to_owned(), found });
        }
        let pack = Pack::open(file, path)?;
        let manifest = pack.manifest()?;
        let parts = open_parts(&manifest, |entry| pack.part(entry))?;
        Ok(Self::new(path, manifest, parts, true))
    }

    /// Opens a run of temporary parts, which exist as long as it is open.
    pub(crate) fn from_parts<'a>(
        path: &Path,
        manifest: Manifest,
        written: impl Iterator<Item = &'a WrittenPart>,
    ) -> Result<Self, StoreError> {
        let mut parts: BTreeMap<String, Vec<Part>> = BTreeMap::new();
        for part in written {
            parts.entry(part.table().name.to_owned()).or_default().push(part.open()?);
        }
        Ok(Self::new(path, manifest, parts, false))
    }

    fn new(
        path: &Path,
        manifest: Manifest,
        parts: BTreeMap<String, Vec<Part>>,
        is_pack: bool,
    ) -> Self {
        Self { path: path.to_owned(), manifest, parts, is_pack, uncollected_bytes: 0 }
    }

    /// Returns the path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Whether it is a pack.
    pub fn is_pack(&self) -> bool {
        self.is_pack
    }

    /// Returns the number of bytes of spools that are not in the tables because [`crate::open`]
    /// found the folder not writable, otherwise 0.
    pub fn uncollected_bytes(&self) -> u64 {
        self.uncollected_bytes
    }

    /// Returns the parts of a table, in order.
    pub fn parts(&self, table: &Table) -> &[Part] {
        self.parts.get(table.name).map_or(&[], Vec::as_slice)
    }

    /// Returns the parts of all tables, by table name.
    pub(crate) fn all_parts(&self) -> impl Iterator<Item = &Part> {
        self.parts.values().flatten()
    }

    /// Reads a whole table with its declared columns. Use it for small tables.
    pub fn read(&self, table: &'static Table) -> Result<RecordBatch, StoreError> {
        read::read_table(&self.path, table, self.parts(table))
    }

    /// Reads a table in batches with its declared columns. Use it for tables whose texts may exceed
    /// the limit of one batch.
    pub fn batches(
        &self,
        table: &'static Table,
    ) -> impl Iterator<Item = Result<RecordBatch, StoreError>> {
        read::read_batches(&self.path, table, self.parts(table))
    }
}

fn no_manifest(path: &Path) -> StoreError {
    let path = path.to_owned();
    if path.join(SPOOL).is_dir() {
        StoreError::Uncollected { path }
    } else {
        StoreError::NotARun { path, found: Found::Folder }
    }
}

fn folder_parts(
    run: &Path,
    manifest: &Manifest,
) -> Result<BTreeMap<String, Vec<Part>>, StoreError> {
    let count: usize = manifest.tables.values().map(Vec::len).sum();
    let keeps_open = count <= MAX_OPEN_FILES;
    open_parts(manifest, |entry| folder_part(run, entry, keeps_open))
}

fn open_parts(
    manifest: &Manifest,
    open: impl Fn(&PartEntry) -> Result<Part, StoreError>,
) -> Result<BTreeMap<String, Vec<Part>>, StoreError> {
    let tables = manifest.tables.iter();
    tables
        .map(|(table, entries)| {
            Ok((table.clone(), entries.iter().map(&open).collect::<Result<_, _>>()?))
        })
        .collect()
}

fn folder_part(run: &Path, entry: &PartEntry, keeps_open: bool) -> Result<Part, StoreError> {
    let part_error = |reason: String| StoreError::part(run, &entry.file, reason);
    // Neither the file nor a folder on its path may be a link out of the run.
    let mut path = run.to_owned();
    for component in entry.file.split('/') {
        path.push(component);
        let metadata = fs::symlink_metadata(&path).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                part_error("it is missing".to_owned())
            } else {
                StoreError::io("open", &path)(error)
            }
        })?;
        if metadata.is_symlink() {
            return Err(part_error(format!("`{}` is a symbolic link", path.display())));
        }
    }
    let metadata = fs::metadata(&path).map_err(StoreError::io("open", &path))?;
    if !metadata.is_file() {
        return Err(part_error("it is not a file".to_owned()));
    }
    if metadata.len() != entry.bytes {
        return Err(part_error(length_mismatch(metadata.len(), entry.bytes)));
    }
    let source = if keeps_open {
        let file = File::open(&path).map_err(StoreError::io("open", &path))?;
        PartSource::Open(Arc::new(file), 0)
    } else {
        PartSource::Path(path)
    };
    Ok(Part { name: entry.file.clone(), rows: entry.rows, len_bytes: entry.bytes, source })
}

pub(crate) fn length_mismatch(found_bytes: u64, listed_bytes: u64) -> String {
    format!("it has {found_bytes} bytes instead of {listed_bytes}")
}

/// Recognises a file by its first bytes, else by its name.
fn recognise(path: &Path, first_bytes: &[u8]) -> Found {
    let contains = |word: &[u8]| first_bytes.windows(word.len()).any(|window| window == word);
    let is_named_profile =
        || path.extension().is_some_and(|ending| ending.as_encoded_bytes().starts_with(b"hatchet"));
    match first_bytes.trim_ascii_start() {
        text if text.starts_with(&marey_model::spool::MAGIC) => Found::Spool,
        text if text.starts_with(b"PAR1") => Found::Parquet,
        text if text.starts_with(b"[") && contains(b"\"frame\"") => Found::Profile,
        text if text.starts_with(b"{") && contains(b"\"traceEvents\"") => Found::ChromeTrace,
        text if text.starts_with(b"{") && contains(b"\"schema_version\"") => Found::Manifest,
        _ if is_named_profile() => Found::Profile,
        _ => Found::File,
    }
}
