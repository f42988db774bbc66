//! Maps the process and thread ids of a file to the processes and threads of the run.

use std::collections::{BTreeMap, BTreeSet};

use marey_store::NewProcess;

use super::event::Event;
use super::number::{parse_integer, trim_quotes};
use super::text::unescape;
use crate::shared::import::Import;

/// The id of a process or thread in the file: a number, or the index of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FileId {
    Number(i64),
    Text(u32),
}

/// A thread of the run and its process.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadIds {
    pub(super) process_id: u32,
    pub(super) thread_id: u32,
}

/// The processes and threads that were found so far.
#[derive(Debug, Default)]
pub(super) struct Threads {
    texts: Vec<Box<str>>,
    text_ids: BTreeMap<Box<str>, u32>,
    processes: BTreeMap<FileId, u32>,
    ids_by_file_ids: BTreeMap<(FileId, FileId), ThreadIds>,
    last_thread: Option<((FileId, FileId), ThreadIds)>,
    /// Process and thread of the last event, as JSON.
    last_json: (String, String),
    last_ids: Option<(FileId, FileId)>,
    /// Ids in the operating system of threads that have not occurred yet.
    os_ids: BTreeMap<(FileId, FileId), i64>,
    /// The process that uses the devices.
    device_process: Option<u32>,
    /// Whether the device process is final.
    is_device_process_final: bool,
    /// Whether the device process is a placeholder, because it got rows before any process was
    /// known.
    has_placeholder: bool,
    /// Ids of devices that are listed among the processes.
    devices: BTreeSet<FileId>,
    last_device: Option<FileId>,
}

impl Threads {
    /// Returns the id in a JSON value. A number may be written as a string. A missing value is 0.
    fn parse_id(&mut self, json: &str) -> FileId {
        if json.is_empty() {
            return FileId::Number(0);
        }
        if let Some(number) = parse_integer(json) {
            return FileId::Number(number);
        }
        let text = unescape(trim_quotes(json));
        if let Some(&existing_id) = self.text_ids.get(&*text) {
            return FileId::Text(existing_id);
        }
        let id = self.texts.len() as u32;
        self.texts.push(text.as_ref().into());
        self.text_ids.insert(text.into(), id);
        FileId::Text(id)
    }

    /// Returns the thread with these ids. Adds it if it is new.
    pub(super) fn thread(&mut self, ids: (FileId, FileId), import: &mut Import) -> ThreadIds {
        if let Some((last_ids, owner)) = self.last_thread
            && last_ids == ids
        {
            return owner;
        }
        let owner = self.ids_by_file_ids.get(&ids).copied();
        let owner = owner.unwrap_or_else(|| self.add_thread(ids, import));
        self.last_thread = Some((ids, owner));
        owner
    }

    /// Returns the ids of an event's process and thread.
    pub(super) fn ids(&mut self, event: &Event) -> (FileId, FileId) {
        let (process, thread) = (event.process(), event.thread());
        if let Some(ids) = self.last_ids
            && *self.last_json.0 == *process
            && *self.last_json.1 == *thread
        {
            return ids;
        }
        process.clone_into(&mut self.last_json.0);
        thread.clone_into(&mut self.last_json.1);
        let ids = (self.parse_id(process), self.parse_id(thread));
        self.last_ids = Some(ids);
        ids
    }

    /// Returns the thread of an event.
    pub(super) fn event_thread(&mut self, event: &Event, import: &mut Import) -> ThreadIds {
        let ids = self.ids(event);
        self.thread(ids, import)
    }

    /// Returns the process of an event without a thread.
    pub(super) fn event_process(&mut self, event: &Event, import: &mut Import) -> u32 {
        let id = self.parse_id(event.process());
        self.process(id, import)
    }

    fn add_thread(&mut self, ids: (FileId, FileId), import: &mut Import) -> ThreadIds {
        let process_id = self.process(ids.0, import);
        let os_id = self.os_ids.get(&ids).copied();
        let os_id = os_id.unwrap_or_else(|| to_os_id(ids.1));
        let thread_id =
            import.run.add_thread(process_id, os_id, self.id_text(ids.1).unwrap_or_default());
        let owner = ThreadIds { process_id, thread_id };
        self.ids_by_file_ids.insert(ids, owner);
        owner
    }

    /// Returns the thread if it is known.
    pub(super) fn known_thread(&self, ids: (FileId, FileId)) -> Option<ThreadIds> {
        self.ids_by_file_ids.get(&ids).copied()
    }

    /// Returns the process if it is known.
    pub(super) fn known_process(&self, id: FileId) -> Option<u32> {
        self.processes.get(&id).copied()
    }

    /// Returns the process with this id. Adds it if it is new.
    pub(super) fn process(&mut self, id: FileId, import: &mut Import) -> u32 {
        if let Some(known_id) = self.known_process(id) {
            return known_id;
        }
        let pid = to_os_id(id);
        let process_id = if self.has_placeholder && is_os_id(id) {
            self.has_placeholder = false;
            let device_process = self.device_process(import);
            import.run.process_mut(device_process).pid = pid;
            device_process
        } else {
            let name = self.id_text(id).map(str::to_owned);
            import.add_process(NewProcess { pid, name, ..NewProcess::default() })
        };
        if self.device_process.is_none() && is_os_id(id) {
            self.device_process = Some(process_id);
        }
        self.processes.insert(id, process_id);
        process_id
    }

    /// Records that a process has operators or calls of a device runtime.
    pub(super) fn set_device_process(&mut self, process: u32) {
        if !self.is_device_process_final {
            (self.device_process, self.is_device_process_final) = (Some(process), true);
        }
    }

    /// Returns the process that uses the devices. Files do not state it, so it is the first one
    /// with operators or runtime calls. If device activities come before those, it is the first one
    /// with an id in the operating system.
    pub(super) fn device_process(&mut self, import: &mut Import) -> u32 {
        self.is_device_process_final = true;
        *self.device_process.get_or_insert_with(|| {
            self.has_placeholder = true;
            import.add_process(NewProcess { pid: -1, ..NewProcess::default() })
        })
    }

    /// Records a device that is listed among the processes.
    pub(super) fn add_device(&mut self, id: FileId) {
        if self.last_device != Some(id) {
            self.devices.insert(id);
            self.last_device = Some(id);
        }
    }

    pub(super) fn is_device(&self, id: FileId) -> bool {
        self.devices.contains(&id)
    }

    /// Sets the id in the operating system of a thread that has not occurred yet.
    pub(super) fn set_os_id(&mut self, ids: (FileId, FileId), os_id: i64) {
        self.os_ids.insert(ids, os_id);
    }

    /// Returns the processes with ids in the operating system.
    pub(super) fn os_processes(&self) -> impl Iterator<Item = u32> {
        let listed = self.processes.iter().filter(|(id, _)| is_os_id(**id)).map(|(_, row)| *row);
        listed.chain(self.device_process.filter(|_| self.has_placeholder))
    }

    /// Returns all processes.
    pub(super) fn all_processes(&self) -> impl Iterator<Item = u32> {
        let listed = self.processes.values().copied();
        listed.chain(self.device_process.filter(|_| self.has_placeholder))
    }

    fn id_text(&self, id: FileId) -> Option<&str> {
        match id {
            FileId::Number(_) => None,
            FileId::Text(text) => self.texts.get(text as usize).map(|text| &**text),
        }
    }
}

/// Whether the id can be one of the operating system.
fn is_os_id(id: FileId) -> bool {
    matches!(id, FileId::Number(0..))
}

/// Returns the id in the operating system. An id that only the file has becomes a negative one.
fn to_os_id(id: FileId) -> i64 {
    match id {
        FileId::Number(number) => number,
        FileId::Text(text) => -2 - i64::from(text), // Kineto uses -1 for its own overhead
    }
}
