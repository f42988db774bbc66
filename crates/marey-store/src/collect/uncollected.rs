//! The spools of a run that its tables do not have yet.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use marey_model::profile::Process;
use marey_model::run::SPOOL;

use super::spool::Source;
use crate::own::{self, FileId};
use crate::{CollectedSpool, Manifest, ProcessEntry, StoreError, is_recording};

/// The spools of a run.
#[derive(Debug, Default)]
pub(super) struct Spools {
    /// Those that are to be collected, by name.
    pub(super) uncollected: Vec<Spool>,
    /// Those that the tables have all of: kept, or left by a collector that died.
    pub(super) done: Vec<Source>,
}

/// A spool that is to be collected.
#[derive(Debug)]
pub(super) struct Spool {
    /// Its file name.
    pub(super) name: String,
    pub(super) source: Source,
    /// The process that it was collected for before, and bytes of it that were.
    pub(super) process_id: Option<u32>,
    collected_bytes: u64,
    /// Whether nobody is there who would append to it.
    pub(super) is_over: bool,
}

/// Whether a run has spools that its tables do not have, or not whole; what is no run has none.
pub fn needs_collecting(run: &Path) -> Result<bool, StoreError> {
    if !run.join(SPOOL).is_dir() {
        return Ok(false);
    }
    own::check(run)?;
    match Manifest::read(run)? {
        Some(manifest) => Ok(!spools(run, &manifest)?.uncollected.is_empty()),
        None => Ok(true),
    }
}

/// Bytes of spools that the tables of a run do not have.
pub(super) fn bytes(run: &Path, manifest: &Manifest) -> Result<u64, StoreError> {
    let spools = spools(run, manifest)?.uncollected.into_iter();
    Ok(spools.map(|spool| spool.source.len_bytes.saturating_sub(spool.collected_bytes)).sum())
}

/// The spools that are there.
pub(super) fn spools(run: &Path, manifest: &Manifest) -> Result<Spools, StoreError> {
    let mut names = spool_names(run)?;
    names.sort_unstable();
    // In this order: if nobody records, nothing of what is listed grows any more.
    let is_over = !is_recording(run)?;
    let mut spools = Spools::default();
    for name in names {
        let path = run.join(SPOOL).join(&name);
        let about = fs::symlink_metadata(&path).map_err(StoreError::io("open", &path))?;
        if !about.is_file() {
            continue;
        }
        let source = Source { path, len_bytes: about.len(), id: FileId::of(&about) };
        match earlier(&name, &source, manifest) {
            Some(earlier) if has_all(earlier, &source, is_over) => {
                if earlier.is_whole && earlier.bytes == source.len_bytes {
                    spools.done.push(source);
                }
            }
            earlier => {
                let process_id = earlier.map(|earlier| earlier.process_id);
                let collected_bytes = earlier.map_or(0, |earlier| earlier.bytes);
                let spool = Spool { name, source, process_id, collected_bytes, is_over };
                spools.uncollected.push(spool);
            }
        }
    }
    Ok(spools)
}

/// Removes a spool, which somebody may have done before; another file that has its name stays.
pub(super) fn remove(spool: &Source) -> Result<(), StoreError> {
    let Source { path, id, .. } = spool;
    if FileId::at(path).map_err(StoreError::io("remove", path))? != Some(*id) {
        return Ok(());
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

fn spool_names(run: &Path) -> Result<Vec<String>, StoreError> {
    let folder = run.join(SPOOL);
    let error = |source| StoreError::io("list", &folder)(source);
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(error)? {
        let name = entry.map_err(error)?.file_name();
        if Path::new(&name).extension() == Some(OsStr::new(SPOOL)) {
            names.extend(name.into_string());
        }
    }
    Ok(names)
}

/// What was collected of this spool before. The name of one that is whole does not say: it may be
/// gone, and another process have its number.
fn earlier<'a>(name: &str, source: &Source, manifest: &'a Manifest) -> Option<&'a CollectedSpool> {
    let spool = manifest.spools.iter().find(|spool| spool.name == name)?;
    let process = manifest.processes.iter().find(|process| process.id == spool.process_id)?;
    let is_same = !spool.is_whole || source.process().is_none_or(|found| is_of(&found, process));
    is_same.then_some(spool)
}

fn is_of(found: &Process, process: &ProcessEntry) -> bool {
    u64::from(process.pid) == found.pid
        && process.start_unix_nanos == i64::try_from(found.start_unix_nanos).unwrap_or(i64::MAX)
}

/// Whether the tables have all of a spool that there will be. One that was whole stays so: its rows may
/// share their parts with those of others, so nothing can be put in their place.
fn has_all(earlier: &CollectedSpool, source: &Source, is_over: bool) -> bool {
    let known_bytes = earlier.bytes.saturating_add(earlier.torn_bytes);
    earlier.is_whole || (known_bytes == source.len_bytes && !is_over)
}
