//! Writes the metadata of a run: the entries of the file, the labels of processes and threads, and
//! the properties of devices.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use marey_model::json::object;
use marey_model::trace_json::Document;
use marey_store::row::{Device, Metadata};
use marey_store::{ProcessRow, Reader, StoreError};

use super::TraceWriter;
use crate::shared::export::{ExportError, LeftOut};

/// The keys that the writers write at fixed places or compute.
const PLACED_KEYS: [&str; 6] = [
    "schemaVersion",
    "displayTimeUnit",
    "baseTimeNanoseconds",
    "deviceProperties",
    "traceEvents",
    "traceName",
];

/// The metadata of a run, its processes and its threads.
pub(crate) struct RunMetadata {
    /// The process that the file's own entries come from. A trace file is mainly of one process.
    main_process: Option<u32>,
    /// Entries of the file with JSON values, each key once.
    entries: Vec<Metadata>,
    /// Labels of processes and threads, as JSON objects.
    labels: Vec<Metadata>,
    /// Processes, and threads of processes, whose labels contain a sort index.
    with_sort_index: HashSet<(u32, Option<u32>)>,
}

impl RunMetadata {
    /// Reads the metadata. Each key of the file keeps one value. Entries of other processes and of
    /// threads are kept if they are objects, and counted in `left_out` otherwise.
    pub(crate) fn read(reader: &Reader, left_out: &mut LeftOut) -> Result<Self, StoreError> {
        let rows = reader.rows::<Metadata>()?.collect::<Result<Vec<_>, _>>()?;
        let own_entry = rows.iter().find(|row| row.thread_id.is_none() && !is_object(row));
        let real_processes = || reader.processes().find(|process| process.pid >= 0);
        let first_process =
            || real_processes().or_else(|| reader.processes().next()).map(|process| process.id);
        let main_process = own_entry.map(|row| row.process_id).or_else(first_process);
        let is_label = |row: &Metadata| {
            let is_of_main = Some(row.process_id) == main_process && row.thread_id.is_none();
            is_object(row) && (!is_of_main || row.key.starts_with("process_"))
        };
        let (labels, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_label);
        let is_of_main =
            |row: &Metadata| Some(row.process_id) == main_process && row.thread_id.is_none();
        let (mut entries, mut others): (Vec<_>, Vec<_>) = others.into_iter().partition(is_of_main);
        let mut values = HashMap::new();
        let entry_count = entries.len();
        entries.retain(|row| match values.entry(row.key.clone()) {
            Entry::Vacant(value) => {
                value.insert(row.value.clone());
                true
            }
            Entry::Occupied(_) => false,
        });
        // Several imported files repeat the same entries about their recording. These are not lost.
        others.retain(|row| row.thread_id.is_some() || values.get(&row.key) != Some(&row.value));
        *left_out.entry("metadata entries").or_default() +=
            (entry_count - entries.len() + others.len()) as u64;
        let sort_indices = labels.iter().filter(|row| row.key.ends_with("_sort_index"));
        let with_sort_index = sort_indices.map(|row| (row.process_id, row.thread_id)).collect();
        Ok(Self { main_process, entries, labels, with_sort_index })
    }

    /// Returns the process that the file's own entries come from.
    pub(crate) fn main_process<'r>(&self, reader: &'r Reader) -> Option<&'r ProcessRow> {
        self.main_process.and_then(|id| reader.process(id))
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.entries.iter().find(|row| *row.key == *key).map(|row| &*row.value)
    }

    /// Writes the entries, except those that are written elsewhere or listed in `excluded`.
    pub(crate) fn write_entries(&self, excluded: &[&str], document: &mut Document) {
        let is_placed = |key: &str| PLACED_KEYS.contains(&key) || excluded.contains(&key);
        for row in self.entries.iter().filter(|row| !is_placed(&row.key)) {
            document.member(&row.key, &*row.value);
        }
    }

    /// Whether a label contains the sort index of a process or thread.
    pub(crate) fn has_sort_index(&self, process_id: u32, thread_id: Option<u32>) -> bool {
        self.with_sort_index.contains(&(process_id, thread_id))
    }

    /// Writes the labels of processes and threads.
    pub(crate) fn write_labels(&self, writer: &mut TraceWriter) -> Result<(), ExportError> {
        for row in &self.labels {
            let thread = row.thread_id.map(|thread| writer.tracks.thread(thread));
            let track = thread.unwrap_or_else(|| writer.tracks.process(row.process_id));
            writer.describe(&row.key, track, |args| args.members(&row.value))?;
        }
        Ok(())
    }
}

fn is_object(row: &Metadata) -> bool {
    row.value.trim_ascii_start().starts_with('{')
}

/// Returns the devices as a JSON list, each number once. If several devices have the
/// same number, the device of the process `gpu_process_id` has precedence.
pub(crate) fn device_properties(
    reader: &Reader,
    gpu_process_id: Option<u32>,
    left_out: &mut LeftOut,
) -> Result<Vec<u8>, StoreError> {
    let mut list = b"[".to_vec();
    let mut numbers = HashSet::new();
    let mut rows = reader.rows::<Device>()?.collect::<Result<Vec<_>, _>>()?;
    rows.sort_by_key(|row| gpu_process_id.is_some() && Some(row.process_id) != gpu_process_id);
    for row in rows {
        if !numbers.insert(row.device) {
            *left_out.entry("devices").or_default() += 1;
            continue;
        }
        list.extend_from_slice(if numbers.len() == 1 { b"\n" } else { b",\n" });
        if row.properties.len() > "{}".len() {
            list.extend_from_slice(row.properties.as_bytes());
        } else {
            object(&mut list, |device| {
                device.value("id", row.device);
                device.text("name", &row.name);
            });
        }
    }
    list.push(b']');
    Ok(list)
}
