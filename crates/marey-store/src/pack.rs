//! Writes and opens packs. A pack is a run as one file: a zip of its manifest and parts without
//! further compression.
//!
//! The members are contiguous from the start of the file to the directory at its end, so they
//! cannot overlap, and no bytes are hidden between them.

mod directory;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use marey_model::run::MANIFEST;

use crate::manifest::PartEntry;
use crate::part::{Part, PartSource};
use crate::run::length_mismatch;
use crate::write::{hidden_file, is_device_or_pipe};
use crate::{Manifest, Run, StoreError, temp_dir};
use directory::DirectoryError;

/// The first bytes of a zip with at least one member.
pub(crate) const MAGIC: &[u8] = b"PK\x03\x04";

/// Bytes copied at a time.
const COPY_BYTES: u64 = 1 << 20;

/// Writes a run as one file. Returns its length. Equal runs give equal bytes. An existing file is
/// replaced atomically, but a device or a pipe is written to. Uncollected spools are left out.
pub fn pack(run: &Path, out: &Path) -> Result<u64, StoreError> {
    let run = Run::open(run)?;
    if is_device_or_pipe(out) {
        // The directory of a zip needs the positions of its members, so the zip is written to a
        // file first.
        let mut file = tempfile::tempfile_in(temp_dir()).map_err(StoreError::io("write", out))?;
        write_zip(&run, &mut file, out)?;
        file.rewind().map_err(StoreError::io("write", out))?;
        let mut special =
            File::options().write(true).open(out).map_err(StoreError::io("write", out))?;
        return io::copy(&mut file, &mut special).map_err(StoreError::io("write", out));
    }
    let folder = match out.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut file = hidden_file(folder, "pack")?;
    write_zip(&run, file.as_file_mut(), out)?;
    let len_bytes = file.as_file().metadata().map_err(StoreError::io("write", out))?.len();
    file.persist(out).map_err(|error| StoreError::io("create", out)(error.error))?;
    Ok(len_bytes)
}

/// Writes a run to a file, which does not have its final name `out` yet.
fn write_zip(run: &Run, file: &mut File, out: &Path) -> Result<(), StoreError> {
    let write_error = |error: ZipError| StoreError::io("write", out)(error.into());
    let mut zip = ZipWriter::new(BufWriter::new(file));
    let json = run.manifest().to_json(run.path())?;
    zip.start_file(MANIFEST, file_options(json.len() as u64)).map_err(write_error)?;
    zip.write_all(&json).map_err(StoreError::io("write", out))?;
    for part in run.all_parts() {
        zip.start_file(part.name(), file_options(part.len_bytes())).map_err(write_error)?;
        copy_part(part, &mut zip).map_err(StoreError::io("write", out))?;
    }
    let mut file_writer = zip.finish().map_err(write_error)?;
    file_writer.flush().map_err(StoreError::io("write", out))
}

fn file_options(len_bytes: u64) -> SimpleFileOptions {
    SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .last_modified_time(DateTime::default())
        .unix_permissions(0o644)
        .large_file(len_bytes >= u64::from(u32::MAX))
}

fn copy_part(part: &Part, out: &mut impl Write) -> io::Result<()> {
    let mut start = 0;
    while start < part.len_bytes() {
        let end = part.len_bytes().min(start + COPY_BYTES);
        out.write_all(&part.read_at(start..end)?)?;
        start = end;
    }
    Ok(())
}

/// The members of a pack.
pub(crate) struct Pack {
    path: PathBuf,
    file: Arc<File>,
    members: BTreeMap<String, Range<u64>>,
}

impl Pack {
    /// Reads the directory of a pack.
    pub(crate) fn open(file: File, path: &Path) -> Result<Self, StoreError> {
        let members = directory::members(&file).map_err(|error| match error {
            DirectoryError::Io(source) => StoreError::io("read", path)(source),
            DirectoryError::Broken(reason) => StoreError::Pack { path: path.to_owned(), reason },
        })?;
        Ok(Self { path: path.to_owned(), file: Arc::new(file), members })
    }

    pub(crate) fn manifest(&self) -> Result<Manifest, StoreError> {
        let Some(range) = self.members.get(MANIFEST) else {
            let reason = format!("it has no `{MANIFEST}`");
            return Err(StoreError::Pack { path: self.path.clone(), reason });
        };
        let mut file = &*self.file;
        file.seek(SeekFrom::Start(range.start)).map_err(StoreError::io("read", &self.path))?;
        Manifest::from_reader(file.take(range.end - range.start), &self.path)
    }

    /// Returns the part of a manifest entry, as a slice of the file.
    pub(crate) fn part(&self, entry: &PartEntry) -> Result<Part, StoreError> {
        let part_error = |reason: String| StoreError::part(&self.path, &entry.file, reason);
        let Some(range) = self.members.get(&entry.file) else {
            return Err(part_error("it is missing".to_owned()));
        };
        let len_bytes = range.end - range.start;
        if len_bytes != entry.bytes {
            return Err(part_error(length_mismatch(len_bytes, entry.bytes)));
        }
        let source = PartSource::Open(Arc::clone(&self.file), range.start);
        Ok(Part { name: entry.file.clone(), rows: entry.rows, len_bytes, source })
    }
}
