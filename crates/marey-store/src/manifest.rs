//! The manifest: what a run consists of.

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

/// A manifest that is longer is not read.
const MAX_BYTES: u64 = 64 << 20;

/// The largest id that may be the next: who goes on with a run needs as many again.
const MAX_NEXT: u32 = u32::MAX / 2;

/// What a run consists of, and what a collector needs to go on with it. Files that it does not
/// list are no part of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the tables' declarations.
    pub schema_version: u32,
    /// Program and version that wrote it.
    pub writer: String,
    /// When the run was first collected, in nanoseconds since 1970.
    pub created_unix_nanos: i64,
    /// Processes of the distributed job, if it was one.
    #[serde(default)]
    pub world_size: Option<u32>,
    /// The processes that were recorded, by id.
    pub processes: Vec<ProcessEntry>,
    /// What was lost in all processes, by cause.
    pub losses: BTreeMap<String, u64>,
    /// The spools that were collected, in order.
    pub spools: Vec<CollectedSpool>,
    /// The parts of each table, in order.
    pub tables: BTreeMap<String, Vec<PartEntry>>,
    /// The ids that are free.
    pub next: NextIds,
}

/// A recorded process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessEntry {
    /// Its id in the tables.
    pub id: u32,
    /// Its id in the system.
    pub pid: u32,
    /// Its rank in a distributed job.
    #[serde(default)]
    pub rank: Option<u32>,
    /// The host that it ran on.
    pub host: String,
    /// Its command line, with secrets blotted out.
    pub argv: Vec<String>,
    /// When recording began, in nanoseconds since 1970.
    pub start_unix_nanos: i64,
    /// The last moment of which there is a record.
    pub end_unix_nanos: i64,
    /// The first and the last reading of both clocks: `[monotonic, since 1970]`, in nanoseconds.
    pub clocks: Vec<[i64; 2]>,
    /// Whether the recording was ended properly.
    pub is_complete: bool,
    /// What recording cost it; a process that was killed in its first second has none.
    #[serde(default)]
    pub overhead: Option<OverheadEntry>,
}

/// What recording cost a process; [`Overhead`] says how that is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverheadEntry {
    /// Events of all threads: a scope is two, a value one.
    pub events: u64,
    /// Cost of entering and leaving one scope.
    pub scope_nanos: f64,
    /// Cost of all events, estimated.
    pub recording_nanos: u64,
    /// Time that went into writing the spool, most of it on a thread of its own.
    pub flushing_nanos: u64,
}

impl From<Overhead> for OverheadEntry {
    fn from(overhead: Overhead) -> Self {
        let Overhead { events, scope_nanos, recording_nanos, flushing_nanos } = overhead;
        Self { events, scope_nanos, recording_nanos, flushing_nanos }
    }
}

/// A spool of which the tables have the content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectedSpool {
    /// Its file name.
    pub name: String,
    /// Bytes of it that were collected.
    pub bytes: u64,
    /// Bytes of it that could not be read.
    pub torn_bytes: u64,
    /// Whether nothing will follow; if not, it is collected anew when it has grown.
    pub is_whole: bool,
    /// The process that wrote it; as long as it is not whole, the parts with its id have the content.
    pub process_id: u32,
}

/// A file with rows of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartEntry {
    /// Its path in the run: `tables/<table>/part-<number>.parquet`.
    pub file: String,
    /// Its rows.
    pub rows: u64,
    /// Its length.
    pub bytes: u64,
    /// The process that all of its rows are of, if that may be collected anew: then they go.
    #[serde(default)]
    pub process_id: Option<u32>,
}

/// The ids that are free: all from these on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextIds {
    /// Of texts.
    pub strings: u32,
    /// Of contexts.
    pub contexts: u32,
    /// Of threads.
    pub threads: u32,
    /// Of processes.
    pub processes: u32,
    /// Of the numbers of parts, which all tables share.
    pub part: u32,
    /// Of texts of arguments; runs from before they had any lack it.
    #[serde(default)]
    pub args: u32,
}

impl NextIds {
    fn named(self) -> [(&'static str, u32); 6] {
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
    /// The manifest of a run without content.
    #[expect(clippy::new_without_default, reason = "it is of this moment, which is no default")]
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

    /// Reads the manifest of a run's folder; none is there before the first collection.
    pub fn read(run: &Path) -> Result<Option<Self>, StoreError> {
        let path = run.join(MANIFEST);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::io("open", &path)(error)),
        };
        Self::from_reader(file, run).map(Some)
    }

    /// Reads a manifest; `run` is for messages.
    pub(crate) fn from_reader(reader: impl Read, run: &Path) -> Result<Self, StoreError> {
        let broken = |reason| StoreError::Manifest { path: run.to_owned(), reason };
        let mut json = Vec::new();
        reader.take(MAX_BYTES + 1).read_to_end(&mut json).map_err(StoreError::io("read", run))?;
        if json.len() as u64 > MAX_BYTES {
            return Err(broken(format!("it is longer than {MAX_BYTES} bytes")));
        }
        let json_error = |error: serde_json::Error| broken(error.to_string());
        let version: VersionOnly = serde_json::from_slice(&json).map_err(json_error)?;
        check_version(version.schema_version, run)?;
        let manifest: Self = serde_json::from_slice(&json).map_err(json_error)?;
        manifest.check().map_err(broken)?;
        Ok(manifest)
    }

    /// States the first invariant that does not hold, in a sentence without its full stop.
    pub fn check(&self) -> Result<(), String> {
        let mut ids = HashSet::new();
        for process in &self.processes {
            let id = process.id;
            if id >= self.next.processes {
                return Err(format!("the process {id} is not below `next.processes`"));
            }
            if !ids.insert(id) {
                return Err(format!("the process {id} stands twice"));
            }
        }
        if let Some((name, id)) = self.next.named().into_iter().find(|&(_, id)| id > MAX_NEXT) {
            return Err(format!("`next.{name}` is {id}, which leaves no ids"));
        }
        let mut spools = HashSet::new();
        for CollectedSpool { name, process_id, .. } in &self.spools {
            if !ids.contains(process_id) {
                return Err(format!("the spool `{name}` is of the unknown process {process_id}"));
            }
            if !is_spool_name(name) {
                return Err(format!("`{name}` is no name of a spool"));
            }
            if !spools.insert(name) {
                return Err(format!("the spool `{name}` stands twice"));
            }
        }
        let mut parts = HashSet::new();
        for (table, entries) in &self.tables {
            for entry in entries {
                self.check_part(table, entry, &ids)?;
                if !parts.insert(&entry.file) {
                    return Err(format!("the part `{}` stands twice", entry.file));
                }
            }
        }
        Ok(())
    }

    fn check_part(&self, table: &str, part: &PartEntry, ids: &HashSet<u32>) -> Result<(), String> {
        let file = &part.file;
        let number = part_number(table, file)
            .ok_or_else(|| format!("`{file}` is no name of a part of `{table}`"))?;
        if number >= self.next.part {
            return Err(format!("the number of `{file}` is not below `next.part`"));
        }
        match part.process_id {
            Some(id) if !ids.contains(&id) => {
                Err(format!("the part `{file}` is of the unknown process {id}"))
            }
            _ => Ok(()),
        }
    }

    /// Lists a part, after those of its table that are listed; `process_id` is the process that all
    /// of its rows are of, if they are of one.
    pub fn list(&mut self, part: &WrittenPart, process_id: Option<u32>) {
        let entry = PartEntry {
            file: part.name().to_owned(),
            rows: part.rows(),
            bytes: part.len_bytes(),
            process_id,
        };
        self.tables.entry(part.table().name.to_owned()).or_default().push(entry);
    }

    /// Takes the parts of a process off the list, to put others in their place.
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

/// The part of a manifest that all versions share.
#[derive(Deserialize)]
struct VersionOnly {
    schema_version: u32,
}

/// The number in a part's name, if it is one of this table.
fn part_number(table: &str, file: &str) -> Option<u32> {
    let is_name = !table.is_empty() && table.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let start = format!("tables/{table}/part-");
    let number = file.strip_prefix(&start)?.strip_suffix(".parquet")?.parse().ok()?;
    // Written back: `+1` and `01` are numbers too.
    (is_name && file == part_name(table, number)).then_some(number)
}

/// Whether it names a file of the spool folder itself.
fn is_spool_name(name: &str) -> bool {
    name.strip_suffix(".spool").is_some_and(|stem| !stem.is_empty() && !name.contains('/'))
}

fn unix_nanos() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
