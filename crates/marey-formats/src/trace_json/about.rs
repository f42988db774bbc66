//! What a run says of itself beside its events.

use std::collections::HashSet;

use marey_store::row::{Device, Metadata};
use marey_store::{ProcessRow, Reader, StoreError};

use super::{Document, Trace, object};
use crate::export::ExportError;

/// Keys that writers place or count themselves.
const PLACED: [&str; 6] = [
    "schemaVersion",
    "displayTimeUnit",
    "baseTimeNanoseconds",
    "deviceProperties",
    "traceEvents",
    "traceName",
];

/// What a run says of itself, and of its processes and threads.
pub(crate) struct About {
    /// Whose words are the file's, as it is of one process in the main.
    host: Option<u32>,
    /// Keys of the file and values as JSON, each key once.
    keys: Vec<Metadata>,
    /// What is said of processes and threads, as JSON objects.
    labels: Vec<Metadata>,
    /// Processes, and threads of them, whose labels say where they stand.
    sorted: HashSet<(u32, Option<u32>)>,
}

impl About {
    /// Reads all of it.
    pub(crate) fn of(reader: &Reader) -> Result<Self, StoreError> {
        let rows = reader.rows::<Metadata>()?.collect::<Result<Vec<_>, _>>()?;
        let has_keys = rows.iter().find(|row| row.thread_id.is_none() && !is_object(row));
        let real = || reader.processes().find(|process| process.pid >= 0);
        let first = || real().or_else(|| reader.processes().next()).map(|process| process.id);
        let host = has_keys.map(|row| row.process_id).or_else(first);
        let is_label = |row: &Metadata| {
            let is_of_host = Some(row.process_id) == host && row.thread_id.is_none();
            is_object(row) && (!is_of_host || row.key.starts_with("process_"))
        };
        let (labels, mut keys): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_label);
        let mut seen = HashSet::new();
        keys.retain(|row| Some(row.process_id) == host && seen.insert(row.key.clone()));
        let sorting = labels.iter().filter(|row| row.key.ends_with("_sort_index"));
        let sorted = sorting.map(|row| (row.process_id, row.thread_id)).collect();
        Ok(Self { host, keys, labels, sorted })
    }

    /// The process whose words are the file's.
    pub(crate) fn host<'r>(&self, reader: &'r Reader) -> Option<&'r ProcessRow> {
        self.host.and_then(|host| reader.process(host))
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.keys.iter().find(|row| *row.key == *key).map(|row| &*row.value)
    }

    /// Writes the keys that are not placed, nor among `others`.
    pub(crate) fn write_rest(&self, others: &[&str], document: &mut Document) {
        let is_placed = |key: &str| PLACED.contains(&key) || others.contains(&key);
        for row in self.keys.iter().filter(|row| !is_placed(&row.key)) {
            document.member(&row.key, &row.value);
        }
    }

    /// Whether it is said where a thread, or a process, stands among others.
    pub(crate) fn is_sorted(&self, process: u32, thread: Option<u32>) -> bool {
        self.sorted.contains(&(process, thread))
    }

    /// Writes what is said of processes and threads beside their names.
    pub(crate) fn write_labels(&self, trace: &mut Trace) -> Result<(), ExportError> {
        for row in &self.labels {
            let thread = row.thread_id.map(|thread| trace.places.thread(thread));
            let place = thread.unwrap_or_else(|| trace.places.process(row.process_id));
            trace.describe(&row.key, place, |args| args.members(&row.value))?;
        }
        Ok(())
    }
}

fn is_object(row: &Metadata) -> bool {
    row.value.trim_ascii_start().starts_with('{')
}

/// The devices as a JSON list, each number once.
pub(crate) fn device_properties(reader: &Reader) -> Result<String, StoreError> {
    let mut list = String::from("[");
    let mut numbers = HashSet::new();
    for row in reader.rows::<Device>()? {
        let row = row?;
        if !numbers.insert(row.device) {
            continue;
        }
        list.push_str(if numbers.len() == 1 { "\n" } else { ",\n" });
        if row.properties.len() > "{}".len() {
            list.push_str(&row.properties);
        } else {
            object(&mut list, |device| {
                device.value("id", row.device);
                device.text("name", &row.name);
            });
        }
    }
    list.push(']');
    Ok(list)
}
