//! Reads the rings of a run, which are spools that keep only their last segments. The segments of a
//! ring are joined into a temporary file, which is then collected like any other spool.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use marey_model::run::{RING, SPOOL};
use marey_model::spool::{SpoolError, join_ring};

use super::spool::SpoolFile;
use super::uncollected::{UncollectedSpool, regular_file};
use crate::StoreError;

/// A ring as one spool.
#[derive(Debug)]
pub(super) struct JoinedSegments {
    /// The joined segments, in a temporary file.
    pub(super) file: File,
    pub(super) len_bytes: u64,
    /// The segments before the last one.
    pub(super) older_segments: Vec<SpoolFile>,
    /// The reason why a segment could be read only in part, if that happened.
    pub(super) broken: Option<SpoolError>,
}

/// Parses the name of a segment, `STEM.NUMBER.ring`.
fn parse_name(name: &str) -> Option<(&str, u64)> {
    let (stem, number) = name.strip_suffix(RING)?.strip_suffix('.')?.rsplit_once('.')?;
    Some((stem, number.parse().ok()?))
}

/// Whether a segment of a ring has this file name.
pub(super) fn is_segment(name: &str) -> bool {
    parse_name(name).is_some()
}

/// Returns the part of a spool's name that stays the same while it is recorded.
pub(super) fn spool_key(name: &str) -> &str {
    parse_name(name).map_or(name, |(stem, _)| stem)
}

/// Returns the name of the last segment of each ring.
pub(super) fn last_segments(run: &Path) -> Result<Vec<String>, StoreError> {
    let rings = list_segments(run)?.into_values();
    Ok(rings.filter_map(|mut segments| Some(segments.pop_last()?.1)).collect())
}

/// Returns the segments before the one with this name. Returns none if it is not a segment of a
/// ring.
pub(super) fn older_segments(run: &Path, name: &str) -> Result<Vec<SpoolFile>, StoreError> {
    let Some((stem, last)) = parse_name(name) else { return Ok(Vec::new()) };
    let segments = list_segments(run)?.remove(stem).unwrap_or_default();
    let older = segments.range(..last).map(|(_, name)| existing_file(run, name));
    older.filter_map(Result::transpose).collect()
}

/// Returns the names of the segments of each ring, by stem and number.
fn list_segments(run: &Path) -> Result<BTreeMap<String, BTreeMap<u64, String>>, StoreError> {
    let folder = run.join(SPOOL);
    let error = |source| StoreError::io("list", &folder)(source);
    let mut rings: BTreeMap<String, BTreeMap<u64, String>> = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).map_err(error)? {
        let Ok(name) = entry.map_err(error)?.file_name().into_string() else { continue };
        if let Some((stem, number)) = parse_name(&name) {
            rings.entry(stem.to_owned()).or_default().insert(number, name);
        }
    }
    Ok(rings)
}

/// Returns a segment, or `None` if the ring has removed it.
fn existing_file(run: &Path, name: &str) -> Result<Option<SpoolFile>, StoreError> {
    match regular_file(&run.join(SPOOL).join(name)) {
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found,
    }
}

/// Joins the segments of a ring into a temporary file. The process may write more segments
/// meanwhile, so `spool` is set to the segment that is the last one by then.
pub(super) fn join(run: &Path, spool: &mut UncollectedSpool) -> Result<JoinedSegments, StoreError> {
    let stem = spool_key(&spool.name).to_owned();
    let mut segments = open_segments(run, &stem)?;
    let Some(last) = segments.last() else {
        return Err(StoreError::io("open", &spool.file.path)(io::ErrorKind::NotFound.into()));
    };
    (spool.name, spool.file) = (last.name.clone(), last.file.clone());
    let failed = |source| StoreError::io("write", run)(source);
    let mut file = tempfile::tempfile_in(run.join(SPOOL)).map_err(failed)?;
    let broken = {
        let mut out = io::BufWriter::new(&mut file);
        let broken = join_ring(&segments, RingSegment::read, &mut out);
        out.flush().map_err(failed)?;
        match broken {
            Err(SpoolError::Io(source)) => return Err(failed(source)),
            Err(error) => Some(error),
            Ok(broken) => broken,
        }
    };
    let len_bytes = file.metadata().map_err(failed)?.len();
    segments.pop();
    let older_segments = segments.into_iter().map(|segment| segment.file).collect();
    Ok(JoinedSegments { file, len_bytes, older_segments, broken })
}

/// An open segment.
struct RingSegment {
    name: String,
    file: SpoolFile,
    descriptor: File,
}

impl RingSegment {
    /// Returns a reader of the bytes that the segment had when it was listed.
    fn read(&self) -> io::Result<impl Read + use<>> {
        let mut descriptor = self.descriptor.try_clone()?;
        descriptor.rewind()?;
        Ok(descriptor.take(self.file.len_bytes))
    }
}

/// Opens the segments of a ring and returns them oldest first. They are opened from the last one
/// backwards, because the process removes the oldest ones. If even the last one is gone, the ring
/// is listed again.
fn open_segments(run: &Path, stem: &str) -> Result<Vec<RingSegment>, StoreError> {
    const ATTEMPTS: u32 = 100;
    for _ in 0..ATTEMPTS {
        let mut segments = Vec::new();
        let listed = list_segments(run)?.remove(stem).unwrap_or_default();
        for name in listed.into_values().rev() {
            let Some(file) = existing_file(run, &name)? else { break };
            match File::open(&file.path) {
                Ok(descriptor) => segments.push(RingSegment { name, file, descriptor }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(StoreError::io("open", &file.path)(error)),
            }
        }
        if !segments.is_empty() {
            segments.reverse();
            return Ok(segments);
        }
    }
    Ok(Vec::new())
}
