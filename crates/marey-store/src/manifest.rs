//! [`Manifest`], the list of the parts of a run and the state of its collection. It is untrusted
//! input, so every reader checks its invariants.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use marey_model::profile::Overhead;
use marey_model::run::MANIFEST;
use marey_model::table::stored::SCHEMA_VERSION;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::migrate::check_version;
use crate::write::{WrittenPart, part_name};

/// Maximum length of a manifest. Longer ones are rejected.
const MAX_BYTES: u64 = 64 << 20;

/// The largest next id in a valid manifest. A merge or a collection may add up to as many ids
/// again.
const MAX_NEXT: u32 = u32::MAX / 2;

/// The contents of a run, and the state from which a later collection continues. Files that are not
/// listed here are not part of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the table declarations.
    pub schema_version: u32,
    /// Program and version that wrote it.
    pub writer: String,
    /// When the run was first collected, in nanoseconds since 1970.
    pub created_unix_nanos: i64,
    /// Number of processes of the distributed job, if it was one.
    #[serde(default)]
    pub world_size: Option<u32>,
    /// The processes that were recorded, by id.
    pub processes: Vec<ProcessEntry>,
    /// Losses in all processes, by cause.
    pub losses: BTreeMap<String, u64>,
    /// The spools that were collected, in order.
    pub spools: Vec<CollectedSpool>,
    /// The parts of each table, in order.
    pub tables: BTreeMap<String, Vec<PartEntry>>,
    /// The next free ids.
    pub next: NextIds,
}

/// A recorded process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessEntry {
    /// Id in the tables.
    pub id: u32,
    /// System id.
    pub pid: u32,
    /// Rank in a distributed job.
    #[serde(default)]
    pub rank: Option<u32>,
    /// Host name.
    pub host: String,
    /// Command line, with secrets redacted.
    pub argv: Vec<String>,
    /// Start of the recording, in nanoseconds since 1970.
    pub start_unix_nanos: i64,
    /// The last recorded timestamp.
    pub end_unix_nanos: i64,
    /// The first and last pair of clock readings: `[monotonic, since 1970]`, in nanoseconds.
    pub clocks: Vec<[i64; 2]>,
    /// Whether the recording ended properly.
    pub is_complete: bool,
    /// Overhead of the recording. It is missing if the process was killed in its first second.
    #[serde(default)]
    pub overhead: Option<OverheadEntry>,
}

/// The overhead of a recording. [`Overhead`] describes how it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverheadEntry {
    /// Number of events of all threads. A scope is two events, a value is one.
    pub events: u64,
    /// Cost of entering and leaving one scope.
    pub scope_nanos: f64,
    /// Estimated cost of all events.
    pub recording_nanos: u64,
    /// Time spent writing the spool, mostly on a background thread.
    pub flushing_nanos: u64,
}

impl From<Overhead> for OverheadEntry {
    fn from(overhead: Overhead) -> Self {
        let Overhead { events, scope_nanos, recording_nanos, flushing_nanos } = overhead;
        Self { events, scope_nanos, recording_nanos, flushing_nanos }
    }
}

/// A spool that was collected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectedSpool {
    /// File name.
    pub name: String,
    /// Bytes collected.
    pub bytes: u64,
    /// Bytes that could not be read.
    pub torn_bytes: u64,
    /// Whether the spool will not grow any more. Otherwise it is collected again when it has grown.
    pub is_whole: bool,
    /// The process that wrote it. Until the spool is complete, the parts with this id hold its
    /// rows.
    pub process_id: u32,
}

/// A Parquet file of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartEntry {
    /// Path in the run: `tables/<table>/part-<number>.parquet`.
    pub file: String,
    /// Number of rows.
    pub rows: u64,
    /// Length of the file.
    pub bytes: u64,
    /// The only process of its rows, if they may be collected again. The new collection then
    /// replaces this part.
    #[serde(default)]
    pub process_id: Option<u32>,
}

/// The next free ids. All larger ids are free too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextIds {
    /// Next id of a text.
    pub strings: u32,
    /// Next id of a context.
    pub contexts: u32,
    /// Next id of a thread.
    pub threads: u32,
    /// Next id of a process.
    pub processes: u32,
    /// Next number of a part, shared by all tables.
    pub part: u32,
    /// Next id of an argument text. It is missing in runs of older versions.
    #[serde(default)]
    pub args: u32,
}

impl NextIds {
    fn by_name(self) -> [(&'static str, u32); 6] {
        let Self { strings, contexts, threads, processes, part, args } = self;
        [
            ("strings", strings),
            ("contexts", contexts),
            ("threads", threads),
            ("processes", processes),
            ("part", part),
            ("args", args),
        ]
    }
}

impl Manifest {
    /// Creates the manifest of an empty run.
    #[expect(clippy::new_without_default, reason = "it has the current time, which is no default")]
    pub fn new() -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            writer: concat!("marey ", env!("CARGO_PKG_VERSION")).to_owned(),
            created_unix_nanos: unix_nanos(),
            world_size: None,
            processes: Vec::new(),
            losses: BTreeMap::new(),
            spools: Vec::new(),
            tables: BTreeMap::new(),
            next: NextIds::default(),
        }
    }

    /// Reads the manifest of a run's folder, or returns `None` before the first collection.
    pub fn read(run: &Path) -> Result<Option<Self>, StoreError> {
        let path = run.join(MANIFEST);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::io("open", &path)(error)),
        };
        Self::from_reader(file, run).map(Some)
    }

    /// Reads a manifest. Messages call it `run`.
    pub(crate) fn from_reader(reader: impl Read, run: &Path) -> Result<Self, StoreError> {
        let to_error = |reason| StoreError::Manifest { path: run.to_owned(), reason };
        let mut json = Vec::new();
        reader.take(MAX_BYTES + 1).read_to_end(&mut json).map_err(StoreError::io("read", run))?;
        if json.len() as u64 > MAX_BYTES {
            return Err(to_error(format!("it is longer than {MAX_BYTES} bytes")));
        }
        let json_error = |error: serde_json::Error| to_error(error.to_string());
        let version: VersionOnly = serde_json::from_slice(&json).map_err(json_error)?;
        check_version(version.schema_version, run)?;
        let manifest: Self = serde_json::from_slice(&json).map_err(json_error)?;
        manifest.check().map_err(to_error)?;
        Ok(manifest)
    }

    /// Checks the invariants. The error is the first violation, without a full stop.
    pub fn check(&self) -> Result<(), String> {
        let mut ids = HashSet::new();
        for process in &self.processes {
            let id = process.id;
            if id >= self.next.processes {
                return Err(format!("process {id} is not below `next.processes`"));
            }
            if !ids.insert(id) {
                return Err(format!("process {id} is listed twice"));
            }
        }
        if let Some((name, id)) = self.next.by_name().into_iter().find(|&(_, id)| id > MAX_NEXT) {
            return Err(format!("`next.{name}` is {id}, which leaves no free ids"));
        }
        let mut spools = HashSet::new();
        for CollectedSpool { name, process_id, .. } in &self.spools {
            if !ids.contains(process_id) {
                return Err(format!("spool `{name}` has the unknown process {process_id}"));
            }
            if !is_spool_name(name) {
                return Err(format!("`{name}` is not the name of a spool"));
            }
            if !spools.insert(name) {
                return Err(format!("spool `{name}` is listed twice"));
            }
        }
        let mut parts = HashSet::new();
        for (table, entries) in &self.tables {
            for entry in entries {
                self.check_part(table, entry, &ids)?;
                if !parts.insert(&entry.file) {
                    return Err(format!("part `{}` is listed twice", entry.file));
                }
            }
        }
        Ok(())
    }

    fn check_part(&self, table: &str, part: &PartEntry, ids: &HashSet<u32>) -> Result<(), String> {
        let file = &part.file;
        let number = part_number(table, file)
            .ok_or_else(|| format!("`{file}` is not the name of a part of `{table}`"))?;
        if number >= self.next.part {
            return Err(format!("the number of part `{file}` is not below `next.part`"));
        }
        match part.process_id {
            Some(id) if !ids.contains(&id) => {
                Err(format!("part `{file}` has the unknown process {id}"))
            }
            _ => Ok(()),
        }
    }

    /// Appends a part to the list of its table. `process_id` is the only process of its rows, if
    /// they may be collected again.
    pub fn list(&mut self, part: &WrittenPart, process_id: Option<u32>) {
        let entry = PartEntry {
            file: part.name().to_owned(),
            rows: part.row_count(),
            bytes: part.len_bytes(),
            process_id,
        };
        self.tables.entry(part.table().name.to_owned()).or_default().push(entry);
    }

    /// Removes the parts of a process from the list, so that new ones can replace them.
    pub fn unlist(&mut self, process_id: u32) {
        for parts in self.tables.values_mut() {
            parts.retain(|part| part.process_id != Some(process_id));
        }
    }

    pub(crate) fn to_json(&self, run: &Path) -> Result<Vec<u8>, StoreError> {
        let mut json = serde_json::to_vec_pretty(self)
            .map_err(|error| StoreError::io("write the manifest of", run)(error.into()))?;
        json.push(b'\n');
        Ok(json)
    }
}

/// The field that manifests of all versions share.
#[derive(Deserialize)]
struct VersionOnly {
    schema_version: u32,
}

/// Returns the number in a part's name, if it is a name in this table.
fn part_number(table: &str, file: &str) -> Option<u32> {
    let is_name =
        !table.is_empty() && table.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let start = format!("tables/{table}/part-");
    let number = file.strip_prefix(&start)?.strip_suffix(".parquet")?.parse().ok()?;
    // The name is compared with the canonical one, because `+1` and `01` can be parsed too.
    (is_name && file == part_name(table, number)).then_some(number)
}

/// Whether this is the name of a file directly in the spool folder.
fn is_spool_name(name: &str) -> bool {
    let stem = name.strip_suffix(".spool").or_else(|| name.strip_suffix(".ring"));
    stem.is_some_and(|stem| !stem.is_empty() && !name.contains('/'))
}

fn unix_nanos() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
