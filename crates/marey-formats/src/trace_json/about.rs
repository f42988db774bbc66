//! What a run says of itself beside its events.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use marey_store::row::{Device, Metadata};
use marey_store::{ProcessRow, Reader, StoreError};

use super::{Document, Trace, object};
use crate::export::{ExportError, LeftOut};

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
    /// Reads all of it. What is of other processes and of threads has a place in objects only, and a
    /// key has one value.
    pub(crate) fn of(reader: &Reader, left_out: &mut LeftOut) -> Result<Self, StoreError> {
        let rows = reader.rows::<Metadata>()?.collect::<Result<Vec<_>, _>>()?;
        let has_keys = rows.iter().find(|row| row.thread_id.is_none() && !is_object(row));
        let real = || reader.processes().find(|process| process.pid >= 0);
        let first = || real().or_else(|| reader.processes().next()).map(|process| process.id);
        let host = has_keys.map(|row| row.process_id).or_else(first);
        let is_label = |row: &Metadata| {
            let is_of_host = Some(row.process_id) == host && row.thread_id.is_none();
            is_object(row) && (!is_of_host || row.key.starts_with("process_"))
        };
        let (labels, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_label);
        let is_of_host = |row: &Metadata| Some(row.process_id) == host && row.thread_id.is_none();
        let (mut keys, mut others): (Vec<_>, Vec<_>) = others.into_iter().partition(is_of_host);
        let mut values = HashMap::new();
        let entries = keys.len();
        keys.retain(|row| match values.entry(row.key.clone()) {
            Entry::Vacant(value) => {
                value.insert(row.value.clone());
                true
            }
            Entry::Occupied(_) => false,
        });
        // Of several files each says the same of how it is written.
        others.retain(|row| row.thread_id.is_some() || values.get(&row.key) != Some(&row.value));
        *left_out.entry("entries of metadata").or_default() +=
            (entries - keys.len() + others.len()) as u64;
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

/// The devices as a JSON list, each number once: that of the process whose devices the file is of, if
/// there is one.
pub(crate) fn device_properties(
    reader: &Reader,
    user: Option<u32>,
    left_out: &mut LeftOut,
) -> Result<String, StoreError> {
    let mut list = String::from("[");
    let mut numbers = HashSet::new();
    let mut rows = reader.rows::<Device>()?.collect::<Result<Vec<_>, _>>()?;
    rows.sort_by_key(|row| user.is_some() && Some(row.process_id) != user);
    for row in rows {
        if !numbers.insert(row.device) {
            *left_out.entry("devices").or_default() += 1;
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
