//! Maps the tracks of a trace to processes and threads of the run.

use std::collections::HashMap;

use marey_store::NewProcess;

use crate::perfetto::message::{
    ProcessDescriptor, ThreadDescriptor, TrackDescriptor, UNIT_BYTES, UNIT_COUNT, UNIT_NANOS,
};
use crate::perfetto::{
    DERIVED_DESCRIPTION, HOST_LABEL_PREFIX, NO_THREAD, PID_LABEL_PREFIX, RANK_LABEL_PREFIX,
    TID_DESCRIPTION_PREFIX,
};
use crate::shared::import::Import;

/// The maximum nesting of tracks. Ancestors beyond it are ignored.
const MAX_TRACK_DEPTH: usize = 32;

/// The tracks of a trace. Ids of processes and threads are those of the run.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    by_uuid: HashMap<u64, Track>,
    /// Number of events on, or below, each track that was not described yet.
    undescribed_event_counts: HashMap<u64, u64>,
    processes: HashMap<i32, u32>,
    threads: HashMap<(i32, i64), u32>,
    /// The process ids in the file.
    file_pids: HashMap<u32, i32>,
    /// The process of each thread.
    processes_of_threads: HashMap<u32, u32>,
    /// The process of events without one.
    unknown_process: Option<u32>,
    /// The thread with the counters of each process.
    counter_threads: HashMap<u32, u32>,
}

#[derive(Clone, Debug, Default)]
struct Track {
    name: Box<str>,
    name_id: u32,
    parent_uuid: Option<u64>,
    process_id: Option<u32>,
    thread_id: Option<u32>,
    counter: Option<Counter>,
}

/// A counter track.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    /// Name with unit.
    pub(super) name: String,
    pub(super) unit_multiplier: i64,
    /// Whether values are relative to the previous value.
    pub(super) is_incremental: bool,
    /// Whether the values repeat data of other events.
    pub(super) is_derived: bool,
}

/// The owner of a track's events.
#[derive(Clone, Debug)]
pub(super) struct TrackOwner {
    pub(super) process_id: u32,
    /// The thread, if the track belongs to a thread.
    pub(super) thread_id: Option<u32>,
    /// The thread, if the track belongs to a thread or is below such a track.
    pub(super) enclosing_thread_id: Option<u32>,
    /// The name of the track, if it belongs to neither a thread nor a process.
    pub(super) name_id: Option<u32>,
    /// Whether the track has no process.
    pub(super) is_global: bool,
}

impl Tracks {
    /// Adds a track descriptor. Returns the number of events of the track that came before it.
    pub(super) fn add_track(&mut self, track: TrackDescriptor, import: &mut Import) -> u64 {
        let uuid = track.uuid.unwrap_or(0);
        let description = track.description.as_deref().unwrap_or_default();
        let os_id = description.strip_prefix(TID_DESCRIPTION_PREFIX).and_then(|id| id.parse().ok());
        let mut new_track = self.by_uuid.remove(&uuid).unwrap_or_default();
        if let Some(process) = &track.process {
            new_track.process_id = Some(self.add_process(process, import));
        }
        if let Some(thread) = &track.thread {
            new_track.thread_id = self.add_thread(thread, os_id, import);
        }
        let name = track.name.or(track.static_name).or(track.atrace_name);
        new_track.name = name.map_or(new_track.name, Into::into);
        new_track.name_id = import.run.text_id(&new_track.name);
        new_track.parent_uuid = track.parent_uuid.or(new_track.parent_uuid);
        if let Some(counter) = track.counter {
            let unit_suffix = match (counter.unit, counter.unit_name) {
                (Some(UNIT_NANOS), _) => " (ns)".to_owned(),
                (Some(UNIT_BYTES), _) => " (bytes)".to_owned(),
                (Some(UNIT_COUNT), _) | (_, None) => String::new(),
                (_, Some(unit)) => format!(" ({unit})"),
            };
            let name = &*new_track.name;
            let has_unit = name.ends_with(unit_suffix.trim_start());
            new_track.counter = Some(Counter {
                name: if has_unit { name.to_owned() } else { format!("{name}{unit_suffix}") },
                unit_multiplier: counter.unit_multiplier.filter(|&factor| factor != 0).unwrap_or(1),
                is_incremental: counter.is_incremental == Some(true),
                is_derived: description == DERIVED_DESCRIPTION,
            });
        }
        self.by_uuid.insert(uuid, new_track);
        self.undescribed_event_counts.remove(&uuid).unwrap_or(0)
    }

    /// Adds a process descriptor. Returns the id of the process.
    pub(super) fn add_process(
        &mut self,
        descriptor: &ProcessDescriptor,
        import: &mut Import,
    ) -> u32 {
        let id = self.process_id(descriptor.pid.unwrap_or(0), import);
        let process = import.run.process_mut(id);
        let name = descriptor.process_name.as_ref();
        process.name = name.cloned().or(process.name.take());
        if !descriptor.cmdline.is_empty() {
            process.argv.clone_from(&descriptor.cmdline);
        }
        for label in &descriptor.process_labels {
            if let Some(rank) =
                label.strip_prefix(RANK_LABEL_PREFIX).and_then(|rank| rank.parse().ok())
            {
                process.rank = Some(rank);
            } else if let Some(host) = label.strip_prefix(HOST_LABEL_PREFIX) {
                host.clone_into(&mut process.host);
            } else if let Some(pid) =
                label.strip_prefix(PID_LABEL_PREFIX).and_then(|id| id.parse().ok())
            {
                process.pid = pid;
            }
        }
        id
    }

    /// Adds a thread descriptor. Returns the id of the thread, `None` if the descriptor has no ids.
    /// `os_id` is the id in the operating system, if the file uses another one.
    pub(super) fn add_thread(
        &mut self,
        descriptor: &ThreadDescriptor,
        os_id: Option<i64>,
        import: &mut Import,
    ) -> Option<u32> {
        let (pid, tid) = (descriptor.pid?, descriptor.tid?);
        let known_id = self.threads.get(&(pid, tid)).copied();
        let id = known_id.unwrap_or_else(|| {
            let process_id = self.process_id(pid, import);
            let id = import.run.add_thread(process_id, os_id.unwrap_or(tid), "");
            self.threads.insert((pid, tid), id);
            self.processes_of_threads.insert(id, process_id);
            id
        });
        if let Some(name) = &descriptor.thread_name {
            import.run.rename_thread(id, name);
        }
        Some(id)
    }

    /// Returns the thread with these ids of the file.
    pub(super) fn thread(&mut self, pid: i32, tid: i64, import: &mut Import) -> Option<u32> {
        let ids =
            ThreadDescriptor { pid: Some(pid), tid: Some(tid), ..ThreadDescriptor::default() };
        self.add_thread(&ids, None, import)
    }

    /// Returns the owner of the events of a track.
    pub(super) fn owner(&mut self, uuid: u64, import: &mut Import) -> TrackOwner {
        let (mut process_id, mut enclosing_thread_id) = (None, None);
        let mut next_uuid = Some(uuid);
        for _ in 0..MAX_TRACK_DEPTH {
            let Some(ancestor_uuid) = next_uuid else { break };
            let Some(track) = self.by_uuid.get(&ancestor_uuid) else {
                if process_id.or(enclosing_thread_id).is_none() {
                    *self.undescribed_event_counts.entry(ancestor_uuid).or_default() += 1;
                }
                break;
            };
            enclosing_thread_id = enclosing_thread_id.or(track.thread_id);
            process_id = process_id.or(track.process_id);
            next_uuid = track.parent_uuid.filter(|&parent| parent != 0);
        }
        let track = self.by_uuid.get(&uuid);
        let thread_id = track.and_then(|track| track.thread_id);
        let has_owner = track.is_some_and(|track| track.thread_id.or(track.process_id).is_some());
        let name_id = track.filter(|_| !has_owner).map(|track| track.name_id);
        let process_id = process_id.or_else(|| {
            enclosing_thread_id.and_then(|thread_id| self.process_of_thread(thread_id))
        });
        TrackOwner {
            process_id: process_id.unwrap_or_else(|| self.unknown_process(import)),
            thread_id,
            enclosing_thread_id,
            name_id,
            is_global: process_id.is_none(),
        }
    }

    /// Returns the owner of the events of a thread.
    pub(super) fn thread_owner(&mut self, thread_id: u32, import: &mut Import) -> TrackOwner {
        let process_id = self.process_of_thread(thread_id);
        TrackOwner {
            process_id: process_id.unwrap_or_else(|| self.unknown_process(import)),
            thread_id: Some(thread_id),
            enclosing_thread_id: Some(thread_id),
            name_id: None,
            is_global: false,
        }
    }

    /// Returns the name of a track, if it belongs to neither a thread nor a process.
    pub(super) fn name(&self, uuid: u64) -> Option<&str> {
        let track =
            self.by_uuid.get(&uuid).filter(|track| track.thread_id.or(track.process_id).is_none());
        track.map(|track| &*track.name).filter(|name| !name.is_empty())
    }

    /// Returns the counter of a track, if it is a counter track.
    pub(super) fn counter(&self, uuid: u64) -> Option<&Counter> {
        self.by_uuid.get(&uuid)?.counter.as_ref()
    }

    /// Returns the thread with the counters of a process.
    pub(super) fn counter_thread(&mut self, process_id: u32, import: &mut Import) -> u32 {
        let create = || import.run.add_thread(process_id, NO_THREAD, "");
        *self.counter_threads.entry(process_id).or_insert_with(create)
    }

    /// Returns the id that a process has in the file.
    pub(super) fn pid(&self, process_id: u32) -> Option<i32> {
        self.file_pids.get(&process_id).copied()
    }

    fn process_id(&mut self, pid: i32, import: &mut Import) -> u32 {
        if let Some(&id) = self.processes.get(&pid) {
            return id;
        }
        let new_process = NewProcess { pid: pid.into(), ..NewProcess::default() };
        let id = import.add_process(new_process);
        self.processes.insert(pid, id);
        self.file_pids.insert(id, pid);
        id
    }

    /// Returns the process of a thread.
    pub(super) fn process_of_thread(&self, thread_id: u32) -> Option<u32> {
        self.processes_of_threads.get(&thread_id).copied()
    }

    fn unknown_process(&mut self, import: &mut Import) -> u32 {
        let create = || import.add_process(NewProcess { pid: -1, ..NewProcess::default() });
        *self.unknown_process.get_or_insert_with(create)
    }
}
