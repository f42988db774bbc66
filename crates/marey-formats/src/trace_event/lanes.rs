//! The processes and threads of a file, by what it calls them.

use std::collections::{BTreeMap, BTreeSet};

use marey_store::NewProcess;

use super::event::Event;
use super::number::{unquoted, whole};
use super::text::unescaped;
use crate::shared::import::Import;

/// What a file calls a process or a thread: a number, or a text by its place among the texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Id {
    Number(i64),
    Text(u32),
}

/// A thread of the run and its process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    pub(super) process: u32,
    pub(super) thread: u32,
}

/// The processes and threads so far.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    texts: Vec<Box<str>>,
    text_ids: BTreeMap<Box<str>, u32>,
    processes: BTreeMap<Id, u32>,
    threads: BTreeMap<(Id, Id), Lane>,
    last: Option<((Id, Id), Lane)>,
    /// What the last event calls its process and its thread, as JSON.
    last_names: (String, String),
    last_ids: Option<(Id, Id)>,
    /// Ids in the system that threads will have which come later.
    os_ids: BTreeMap<(Id, Id), i64>,
    /// The process that uses the devices.
    host: Option<u32>,
    /// Whether another process may prove to be the host.
    is_host_sure: bool,
    /// Whether the host got a row before anything was known of it.
    is_host_unknown: bool,
    /// What devices are called where processes stand.
    devices: BTreeSet<Id>,
    last_device: Option<Id>,
}

impl Lanes {
    /// What JSON calls a process or a thread. A number may stand in a text; where nothing stands, it
    /// is 0.
    fn id(&mut self, json: &str) -> Id {
        if json.is_empty() {
            return Id::Number(0);
        }
        if let Some(number) = whole(json) {
            return Id::Number(number);
        }
        let text = unescaped(unquoted(json));
        if let Some(&known) = self.text_ids.get(&*text) {
            return Id::Text(known);
        }
        let id = self.texts.len() as u32;
        self.texts.push(text.as_ref().into());
        self.text_ids.insert(text.into(), id);
        Id::Text(id)
    }

    /// The thread with these names.
    pub(super) fn lane(&mut self, ids: (Id, Id), import: &mut Import) -> Lane {
        if let Some((known, lane)) = self.last
            && known == ids
        {
            return lane;
        }
        let lane = self.threads.get(&ids).copied();
        let lane = lane.unwrap_or_else(|| self.add_lane(ids, import));
        self.last = Some((ids, lane));
        lane
    }

    /// What an event calls its process and its thread.
    pub(super) fn ids(&mut self, event: &Event) -> (Id, Id) {
        let (process, thread) = (event.process(), event.thread());
        if let Some(ids) = self.last_ids
            && *self.last_names.0 == *process
            && *self.last_names.1 == *thread
        {
            return ids;
        }
        process.clone_into(&mut self.last_names.0);
        thread.clone_into(&mut self.last_names.1);
        let ids = (self.id(process), self.id(thread));
        self.last_ids = Some(ids);
        ids
    }

    /// The thread of an event.
    pub(super) fn lane_of(&mut self, event: &Event, import: &mut Import) -> Lane {
        let ids = self.ids(event);
        self.lane(ids, import)
    }

    /// The process of an event that is of no thread.
    pub(super) fn process_of(&mut self, event: &Event, import: &mut Import) -> u32 {
        let id = self.id(event.process());
        self.process(id, import)
    }

    fn add_lane(&mut self, ids: (Id, Id), import: &mut Import) -> Lane {
        let process = self.process(ids.0, import);
        let os_id = self.os_ids.get(&ids).copied();
        let os_id = os_id.unwrap_or_else(|| system_id(ids.1));
        let thread = import.run.thread(process, os_id, self.text(ids.1).unwrap_or_default());
        let lane = Lane { process, thread };
        self.threads.insert(ids, lane);
        lane
    }

    /// The thread, if it is known already.
    pub(super) fn known_lane(&self, ids: (Id, Id)) -> Option<Lane> {
        self.threads.get(&ids).copied()
    }

    /// The process, if it is known already.
    pub(super) fn known_process(&self, id: Id) -> Option<u32> {
        self.processes.get(&id).copied()
    }

    /// The process.
    pub(super) fn process(&mut self, id: Id, import: &mut Import) -> u32 {
        if let Some(known) = self.known_process(id) {
            return known;
        }
        let pid = system_id(id);
        let process = if self.is_host_unknown && is_real(id) {
            self.is_host_unknown = false;
            let host = self.host(import);
            import.run.process_mut(host).pid = pid;
            host
        } else {
            let name = self.text(id).map(str::to_owned);
            import.process(NewProcess { pid, name, ..NewProcess::default() })
        };
        if self.host.is_none() && is_real(id) {
            self.host = Some(process);
        }
        self.processes.insert(id, process);
        process
    }

    /// Says that a process has operators or calls of a device's runtime.
    pub(super) fn set_host(&mut self, process: u32) {
        if !self.is_host_sure {
            (self.host, self.is_host_sure) = (Some(process), true);
        }
    }

    /// The process that uses the devices, which files do not say: the first that has operators or calls
    /// of a runtime; if a device did something before these, the first with a number in the system.
    pub(super) fn host(&mut self, import: &mut Import) -> u32 {
        self.is_host_sure = true;
        *self.host.get_or_insert_with(|| {
            self.is_host_unknown = true;
            import.process(NewProcess { pid: -1, ..NewProcess::default() })
        })
    }

    /// A device that stands where processes do.
    pub(super) fn add_device(&mut self, id: Id) {
        if self.last_device != Some(id) {
            self.devices.insert(id);
            self.last_device = Some(id);
        }
    }

    pub(super) fn is_device(&self, id: Id) -> bool {
        self.devices.contains(&id)
    }

    /// Says what a thread's id in the system is, if it has not come yet.
    pub(super) fn set_os_id(&mut self, ids: (Id, Id), os_id: i64) {
        self.os_ids.insert(ids, os_id);
    }

    /// The processes that the system knows.
    pub(super) fn real_processes(&self) -> impl Iterator<Item = u32> {
        let named = self.processes.iter().filter(|(id, _)| is_real(**id)).map(|(_, row)| *row);
        named.chain(self.host.filter(|_| self.is_host_unknown))
    }

    /// All processes.
    pub(super) fn all_processes(&self) -> impl Iterator<Item = u32> {
        let named = self.processes.values().copied();
        named.chain(self.host.filter(|_| self.is_host_unknown))
    }

    fn text(&self, id: Id) -> Option<&str> {
        match id {
            Id::Number(_) => None,
            Id::Text(text) => self.texts.get(text as usize).map(|text| &**text),
        }
    }
}

/// Whether a process's id is one of the system.
fn is_real(id: Id) -> bool {
    matches!(id, Id::Number(0..))
}

/// What only the file has gets a number below 0.
fn system_id(id: Id) -> i64 {
    match id {
        Id::Number(number) => number,
        Id::Text(text) => -2 - i64::from(text), // -1 is the number of Kineto's own overhead
    }
}
