//! Finds the spools that the tables of a run do not contain yet, or contain only in part.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use marey_model::profile::Process;
use marey_model::run::{SPOOL, WINDOW};

use super::ring;
use super::spool::SpoolFile;
use crate::file_id::{self, FileId};
use crate::{CollectedSpool, Manifest, ProcessEntry, StoreError, is_recording};

/// The spools of a run.
#[derive(Debug, Default)]
pub(super) struct Spools {
    /// Spools to collect, by name.
    pub(super) uncollected: Vec<UncollectedSpool>,
    /// Spools that are collected completely. They were kept on purpose, or left by a collector that
    /// died.
    pub(super) collected: Vec<SpoolFile>,
}

/// A spool to collect.
#[derive(Debug)]
pub(super) struct UncollectedSpool {
    /// File name. For a ring, the file name of its last segment.
    pub(super) name: String,
    pub(super) file: SpoolFile,
    /// The id of its process, if it was collected before.
    pub(super) process_id: Option<u32>,
    /// The bytes that were collected before.
    collected_bytes: u64,
    /// Whether no process will append to it.
    pub(super) is_closed: bool,
    /// The traces of windows of the process, or of an earlier one that had its id.
    pub(super) windows: Vec<WindowFile>,
}

/// The trace of a window.
#[derive(Clone, Debug)]
pub(super) struct WindowFile {
    pub(super) number: u64,
    pub(super) file: SpoolFile,
}

/// Whether a run has spools that its tables do not contain completely. False if it is not a run.
pub fn needs_collecting(run: &Path) -> Result<bool, StoreError> {
    if !run.join(SPOOL).is_dir() {
        return Ok(false);
    }
    file_id::reject_links(run)?;
    match Manifest::read(run)? {
        Some(manifest) => Ok(!list_spools(run, &manifest)?.uncollected.is_empty()),
        None => Ok(true),
    }
}

/// Returns the bytes of spools that the tables of a run do not contain.
pub(super) fn uncollected_bytes(run: &Path, manifest: &Manifest) -> Result<u64, StoreError> {
    let spools = list_spools(run, manifest)?.uncollected.into_iter();
    Ok(spools.map(|spool| spool.file.len_bytes.saturating_sub(spool.collected_bytes)).sum())
}

/// Lists the spools of a run, both uncollected and collected ones.
pub(super) fn list_spools(run: &Path, manifest: &Manifest) -> Result<Spools, StoreError> {
    let mut names = list_spool_names(run)?;
    names.sort_unstable();
    // This is checked after listing. If no process records now, the listed spools do not grow any
    // more.
    let is_closed = !is_recording(run)?;
    let mut spools = Spools::default();
    let windows = list_windows(run)?;
    for name in names {
        let Some(spool_file) = regular_file(&run.join(SPOOL).join(&name))? else { continue };
        match find_earlier_collection(&name, &spool_file, manifest) {
            Some(earlier) if is_collected(earlier, &name, &spool_file, is_closed) => {
                if earlier.is_whole && earlier.bytes == spool_file.len_bytes {
                    spools.collected.extend(ring::older_segments(run, &name)?);
                    spools.collected.push(spool_file);
                }
            }
            earlier => {
                let process_id = earlier.map(|earlier| earlier.process_id);
                let collected_bytes = earlier.map_or(0, |earlier| earlier.bytes);
                let mut spool = UncollectedSpool {
                    name,
                    file: spool_file,
                    process_id,
                    collected_bytes,
                    is_closed,
                    windows: Vec::new(),
                };
                let pid = spool.file.pid().unwrap_or_default();
                spool.windows.extend(windows.get(&pid).into_iter().flatten().cloned());
                spools.uncollected.push(spool);
            }
        }
    }
    Ok(spools)
}

/// Removes a spool if it still exists, but not another file with the same name.
pub(super) fn remove_spool(spool: &SpoolFile) -> Result<(), StoreError> {
    let SpoolFile { path, id, .. } = spool;
    if FileId::from_path(path).map_err(StoreError::io("remove", path))? != Some(*id) {
        return Ok(());
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Returns the file at a path, or `None` if it is not a regular file.
pub(super) fn regular_file(path: &Path) -> Result<Option<SpoolFile>, StoreError> {
    let metadata = fs::symlink_metadata(path).map_err(StoreError::io("open", path))?;
    Ok(metadata.is_file().then(|| SpoolFile {
        path: path.to_owned(),
        len_bytes: metadata.len(),
        id: FileId::from_metadata(&metadata),
    }))
}

/// Returns the traces of windows by process id.
fn list_windows(run: &Path) -> Result<BTreeMap<u64, Vec<WindowFile>>, StoreError> {
    let folder = run.join(SPOOL);
    let error = |source| StoreError::io("list", &folder)(source);
    let mut windows: BTreeMap<u64, Vec<WindowFile>> = BTreeMap::new();
    for entry in fs::read_dir(&folder).map_err(error)? {
        let entry = entry.map_err(error)?;
        let name = entry.file_name();
        let Some((pid, number)) = name.to_str().and_then(parse_window_name) else { continue };
        let file = regular_file(&entry.path())?;
        windows.entry(pid).or_default().extend(file.map(|file| WindowFile { number, file }));
    }
    for windows in windows.values_mut() {
        windows.sort_by_key(|window| window.number);
    }
    Ok(windows)
}

/// Returns the process id and the number in the file name of a window.
fn parse_window_name(name: &str) -> Option<(u64, u64)> {
    let (pid, number) = name.strip_suffix(WINDOW)?.split_once('-')?;
    Some((pid.parse().ok()?, number.parse().ok()?))
}

fn list_spool_names(run: &Path) -> Result<Vec<String>, StoreError> {
    let folder = run.join(SPOOL);
    let error = |source| StoreError::io("list", &folder)(source);
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(error)? {
        let name = entry.map_err(error)?.file_name();
        if Path::new(&name).extension() == Some(OsStr::new(SPOOL)) {
            names.extend(name.into_string());
        }
    }
    names.extend(ring::last_segments(run)?);
    Ok(names)
}

/// Returns the earlier collection of this spool. A name alone does not identify a complete spool:
/// it may have been removed and its process id reused.
fn find_earlier_collection<'a>(
    name: &str,
    spool_file: &SpoolFile,
    manifest: &'a Manifest,
) -> Option<&'a CollectedSpool> {
    let key = ring::spool_key(name);
    let spool = manifest.spools.iter().find(|spool| ring::spool_key(&spool.name) == key)?;
    let process = manifest.processes.iter().find(|process| process.id == spool.process_id)?;
    let is_same = !spool.is_whole
        || spool_file.process().is_none_or(|recorded| is_same_process(&recorded, process));
    is_same.then_some(spool)
}

fn is_same_process(recorded: &Process, process: &ProcessEntry) -> bool {
    u64::from(process.pid) == recorded.pid
        && process.start_unix_nanos == i64::try_from(recorded.start_unix_nanos).unwrap_or(i64::MAX)
}

/// Whether the tables contain a spool completely. A complete spool is never collected again,
/// because its rows may share parts with others and cannot be replaced.
fn is_collected(
    earlier: &CollectedSpool,
    name: &str,
    spool_file: &SpoolFile,
    is_closed: bool,
) -> bool {
    let known_bytes = earlier.bytes.saturating_add(earlier.torn_bytes);
    let is_known = earlier.name == name && known_bytes == spool_file.len_bytes;
    earlier.is_whole || (is_known && !is_closed)
}
