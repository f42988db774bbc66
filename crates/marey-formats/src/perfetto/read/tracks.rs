//! Tracks: which process and thread events are of.

use std::collections::HashMap;

use marey_store::NewProcess;

use crate::perfetto::message::{
    ProcessDescriptor, ThreadDescriptor, TrackDescriptor, UNIT_BYTES, UNIT_COUNT, UNIT_NANOS,
};
use crate::perfetto::{DERIVED, HOST_LABEL, NO_THREAD, PID_LABEL, RANK_LABEL, TID_LABEL};
use crate::shared::import::Import;

/// Tracks lie in each other no deeper than this; what is further out is not looked at.
const MAX_DEPTH: usize = 32;

/// The tracks of a trace. Ids of processes and threads are those of the run.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    by_uuid: HashMap<u64, Track>,
    /// How many events came on tracks, or on some below them, that nothing is known of yet.
    early: HashMap<u64, u64>,
    processes: HashMap<i32, u32>,
    threads: HashMap<(i32, i64), u32>,
    /// The ids in the system that processes have in the file.
    pids: HashMap<u32, i32>,
    /// The processes of threads.
    processes_of_threads: HashMap<u32, u32>,
    /// The process of what is of none.
    nobody: Option<u32>,
    /// By process, the thread that has its counters.
    counter_threads: HashMap<u32, u32>,
}

#[derive(Clone, Debug, Default)]
struct Track {
    name: Box<str>,
    name_id: u32,
    parent: Option<u64>,
    process: Option<u32>,
    thread: Option<u32>,
    counter: Option<Counter>,
}

/// A track of values.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    /// What is counted, with its unit.
    pub(super) name: String,
    pub(super) factor: i64,
    /// Whether each value is the difference from the one before.
    pub(super) is_incremental: bool,
    /// Whether other events say the same.
    pub(super) is_derived: bool,
}

/// Where events of a track belong.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) process: u32,
    /// The thread whose own track it is.
    pub(super) thread: Option<u32>,
    /// The thread whose track it is, or lies below.
    pub(super) around: Option<u32>,
    /// Name of a track that is neither a thread's nor a process's.
    pub(super) name_id: Option<u32>,
    /// Whether it is of no process.
    pub(super) is_global: bool,
}

impl Tracks {
    /// Takes what a packet says of a track; how many events came too early to be of it.
    pub(super) fn describe(&mut self, track: TrackDescriptor, import: &mut Import) -> u64 {
        let uuid = track.uuid.unwrap_or(0);
        let description = track.description.as_deref().unwrap_or_default();
        let os_id = description.strip_prefix(TID_LABEL).and_then(|id| id.parse().ok());
        let mut known = self.by_uuid.remove(&uuid).unwrap_or_default();
        if let Some(process) = &track.process {
            known.process = Some(self.describe_process(process, import));
        }
        if let Some(thread) = &track.thread {
            known.thread = self.describe_thread(thread, os_id, import);
        }
        let name = track.name.or(track.static_name).or(track.atrace_name);
        known.name = name.map_or(known.name, Into::into);
        known.name_id = import.run.text(&known.name);
        known.parent = track.parent_uuid.or(known.parent);
        if let Some(counter) = track.counter {
            let suffix = match (counter.unit, counter.unit_name) {
                (Some(UNIT_NANOS), _) => " (ns)".to_owned(),
                (Some(UNIT_BYTES), _) => " (bytes)".to_owned(),
                (Some(UNIT_COUNT), _) | (_, None) => String::new(),
                (_, Some(unit)) => format!(" ({unit})"),
            };
            let name = &*known.name;
            let has_unit = name.ends_with(suffix.trim_start());
            known.counter = Some(Counter {
                name: if has_unit { name.to_owned() } else { format!("{name}{suffix}") },
                factor: counter.unit_multiplier.filter(|&factor| factor != 0).unwrap_or(1),
                is_incremental: counter.is_incremental == Some(true),
                is_derived: description == DERIVED,
            });
        }
        self.by_uuid.insert(uuid, known);
        self.early.remove(&uuid).unwrap_or(0)
    }

    /// Takes what is said of a process; its id.
    pub(super) fn describe_process(
        &mut self,
        descriptor: &ProcessDescriptor,
        import: &mut Import,
    ) -> u32 {
        let id = self.process(descriptor.pid.unwrap_or(0), import);
        let process = import.run.process_mut(id);
        let name = descriptor.process_name.as_ref();
        process.name = name.cloned().or(process.name.take());
        if !descriptor.cmdline.is_empty() {
            process.argv.clone_from(&descriptor.cmdline);
        }
        for label in &descriptor.process_labels {
            if let Some(rank) = label.strip_prefix(RANK_LABEL).and_then(|rank| rank.parse().ok()) {
                process.rank = Some(rank);
            } else if let Some(host) = label.strip_prefix(HOST_LABEL) {
                host.clone_into(&mut process.host);
            } else if let Some(pid) = label.strip_prefix(PID_LABEL).and_then(|id| id.parse().ok()) {
                process.pid = pid;
            }
        }
        id
    }

    /// Takes what is said of a thread; its id. `os_id` is its id in the system if the file uses
    /// another one. `None` if it has no ids.
    pub(super) fn describe_thread(
        &mut self,
        descriptor: &ThreadDescriptor,
        os_id: Option<i64>,
        import: &mut Import,
    ) -> Option<u32> {
        let (pid, tid) = (descriptor.pid?, descriptor.tid?);
        let known = self.threads.get(&(pid, tid)).copied();
        let id = known.unwrap_or_else(|| {
            let process = self.process(pid, import);
            let id = import.run.thread(process, os_id.unwrap_or(tid), "");
            self.threads.insert((pid, tid), id);
            self.processes_of_threads.insert(id, process);
            id
        });
        if let Some(name) = &descriptor.thread_name {
            import.run.rename_thread(id, name);
        }
        Some(id)
    }

    /// The thread with ids of the file.
    pub(super) fn thread(&mut self, pid: i32, tid: i64, import: &mut Import) -> Option<u32> {
        let ids =
            ThreadDescriptor { pid: Some(pid), tid: Some(tid), ..ThreadDescriptor::default() };
        self.describe_thread(&ids, None, import)
    }

    /// Where a track's events belong.
    pub(super) fn place(&mut self, uuid: u64, import: &mut Import) -> Place {
        let (mut process, mut around) = (None, None);
        let mut at = Some(uuid);
        for _ in 0..MAX_DEPTH {
            let Some(up) = at else { break };
            let Some(track) = self.by_uuid.get(&up) else {
                if process.or(around).is_none() {
                    *self.early.entry(up).or_default() += 1;
                }
                break;
            };
            around = around.or(track.thread);
            process = process.or(track.process);
            at = track.parent.filter(|&parent| parent != 0);
        }
        let track = self.by_uuid.get(&uuid);
        let thread = track.and_then(|track| track.thread);
        let is_own = track.is_some_and(|track| track.thread.or(track.process).is_some());
        let name_id = track.filter(|_| !is_own).map(|track| track.name_id);
        let process = process.or_else(|| around.and_then(|thread| self.process_of(thread)));
        Place {
            process: process.unwrap_or_else(|| self.nobody(import)),
            thread,
            around,
            name_id,
            is_global: process.is_none(),
        }
    }

    /// Where events of a thread belong.
    pub(super) fn place_of_thread(&mut self, thread: u32, import: &mut Import) -> Place {
        let process = self.process_of(thread);
        Place {
            process: process.unwrap_or_else(|| self.nobody(import)),
            thread: Some(thread),
            around: Some(thread),
            name_id: None,
            is_global: false,
        }
    }

    /// The name of a track that is neither a thread's nor a process's, if it has one.
    pub(super) fn name(&self, uuid: u64) -> Option<&str> {
        let track =
            self.by_uuid.get(&uuid).filter(|track| track.thread.or(track.process).is_none());
        track.map(|track| &*track.name).filter(|name| !name.is_empty())
    }

    /// The counter of a track, if it is one.
    pub(super) fn counter(&self, uuid: u64) -> Option<&Counter> {
        self.by_uuid.get(&uuid)?.counter.as_ref()
    }

    /// The thread that has the counters of a process.
    pub(super) fn counter_thread(&mut self, process: u32, import: &mut Import) -> u32 {
        let new = || import.run.thread(process, NO_THREAD, "");
        *self.counter_threads.entry(process).or_insert_with(new)
    }

    /// The id in the system that a process has in the file.
    pub(super) fn pid(&self, process: u32) -> Option<i32> {
        self.pids.get(&process).copied()
    }

    fn process(&mut self, pid: i32, import: &mut Import) -> u32 {
        if let Some(&id) = self.processes.get(&pid) {
            return id;
        }
        let new = NewProcess { pid: pid.into(), ..NewProcess::default() };
        let id = import.process(new);
        self.processes.insert(pid, id);
        self.pids.insert(id, pid);
        id
    }

    /// The process of a thread.
    pub(super) fn process_of(&self, thread: u32) -> Option<u32> {
        self.processes_of_threads.get(&thread).copied()
    }

    fn nobody(&mut self, import: &mut Import) -> u32 {
        let new = || import.process(NewProcess { pid: -1, ..NewProcess::default() });
        *self.nobody.get_or_insert_with(new)
    }
}
