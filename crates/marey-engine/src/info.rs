//! The manifest of a run as a Python dict, for `Run.info`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use marey_store::{Manifest, OverheadEntry, ProcessEntry, Run};
use pyo3::IntoPyObject;

/// The manifest. Each field becomes a key of the dict.
#[derive(IntoPyObject)]
pub(crate) struct Info<'a> {
    path: &'a OsStr,
    is_pack: bool,
    schema_version: u32,
    writer: &'a str,
    created_nanos: i64,
    world_size: Option<u32>,
    processes: Vec<Process<'a>>,
    tables: BTreeMap<&'a str, Table>,
    losses: &'a BTreeMap<String, u64>,
    torn_bytes: u64,
}

#[derive(IntoPyObject)]
struct Process<'a> {
    id: u32,
    pid: u32,
    rank: Option<u32>,
    host: &'a str,
    argv: &'a [String],
    start_nanos: i64,
    end_nanos: i64,
    is_complete: bool,
    overhead: Option<Overhead>,
}

#[derive(IntoPyObject)]
struct Overhead {
    events: u64,
    scope_nanos: f64,
    recording_nanos: u64,
    flushing_nanos: u64,
}

#[derive(IntoPyObject)]
struct Table {
    rows: u64,
    bytes: u64,
}

impl<'a> Info<'a> {
    pub(crate) fn new(run: &'a Run, path: &'a Path) -> Self {
        let manifest = run.manifest();
        Self {
            path: path.as_os_str(),
            is_pack: run.is_pack(),
            schema_version: manifest.schema_version,
            writer: &manifest.writer,
            created_nanos: manifest.created_unix_nanos,
            world_size: manifest.world_size,
            processes: manifest.processes.iter().map(Process::new).collect(),
            tables: sum_tables(manifest),
            losses: &manifest.losses,
            torn_bytes: manifest.spools.iter().map(|spool| spool.torn_bytes).sum(),
        }
    }
}

impl<'a> Process<'a> {
    fn new(entry: &'a ProcessEntry) -> Self {
        Self {
            id: entry.id,
            pid: entry.pid,
            rank: entry.rank,
            host: &entry.host,
            argv: &entry.argv,
            start_nanos: entry.start_unix_nanos,
            end_nanos: entry.end_unix_nanos,
            is_complete: entry.is_complete,
            overhead: entry.overhead.map(Overhead::new),
        }
    }
}

impl Overhead {
    fn new(entry: OverheadEntry) -> Self {
        let OverheadEntry { events, scope_nanos, recording_nanos, flushing_nanos } = entry;
        Self { events, scope_nanos, recording_nanos, flushing_nanos }
    }
}

fn sum_tables(manifest: &Manifest) -> BTreeMap<&str, Table> {
    let tables = manifest.tables.iter().map(|(name, parts)| {
        let rows = parts.iter().map(|part| part.rows).sum();
        let bytes = parts.iter().map(|part| part.bytes).sum();
        (name.as_str(), Table { rows, bytes })
    });
    tables.collect()
}
