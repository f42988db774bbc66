//! Assigns the process and thread ids of rows in a file, and makes the ids of several processes
//! distinct.

use std::collections::{HashMap, HashSet};

use marey_model::json::Object;
use marey_store::{Reader, ThreadRow};

use super::activity::Survey;

/// The number that is added to a process id that another process has in the file.
const PID_OFFSET: i64 = 1_000_000;

/// The distance between the offsets of the correlation ids of two processes, or of the flow ids of
/// two ranks.
const IDS_PER_PROCESS: u64 = 1 << 32;

/// A process, or one of its threads, by the ids in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Track {
    pub(crate) pid: i64,
    pub(crate) tid: Option<i64>,
}

impl Track {
    /// Adds the ids to an event.
    pub(crate) fn write(&self, event: &mut Object) {
        event.value("pid", self.pid);
        if let Some(tid) = self.tid {
            event.value("tid", tid);
        }
    }
}

/// The tracks of a run's processes and threads.
#[derive(Debug)]
pub(crate) struct Tracks {
    processes: HashMap<u32, ProcessTrack>,
    threads: HashMap<u32, Track>,
    unknown_track: Track,
    ids_may_collide: bool,
}

#[derive(Debug)]
struct ProcessTrack {
    track: Track,
    first_thread_id: Option<u32>,
    /// The number that is added to the correlation ids of the process.
    correlation_offset: u64,
    /// The number that is added to flow ids, which the processes of a rank share.
    flow_offset: u64,
}

impl Tracks {
    /// Assigns the tracks. A process whose id is `reserved` or used by another process gets a
    /// free one.
    pub(crate) fn new(
        reader: &Reader,
        survey: &Survey,
        reserved: &HashSet<i64>,
        tid: impl Fn(&ThreadRow) -> i64,
    ) -> Self {
        let ids_may_collide = survey.ids_may_collide(reader);
        let mut used_pids = reserved.clone();
        let mut ranks = HashMap::new();
        let mut processes: HashMap<u32, ProcessTrack> = HashMap::new();
        for (process, position) in reader.processes().zip(0_u64..) {
            let mut pid = process.pid;
            while !used_pids.insert(pid) {
                pid = pid.wrapping_add(PID_OFFSET);
            }
            let track = Track { pid, tid: None };
            let correlation_offset = position.wrapping_mul(IDS_PER_PROCESS);
            // A process of unknown rank may belong to any of several ranks.
            let rank = process.rank.ok_or(ids_may_collide.then_some(process.id));
            let flow_offset = *ranks.entry(rank).or_insert(correlation_offset);
            let flow_offset = if ids_may_collide { flow_offset } else { 0 };
            let process_track =
                ProcessTrack { track, first_thread_id: None, correlation_offset, flow_offset };
            processes.insert(process.id, process_track);
        }
        let unknown_track = Track { pid: -1, tid: None };
        let mut threads = HashMap::new();
        for thread in reader.threads() {
            let mut track = unknown_track;
            if let Some(process) = processes.get_mut(&thread.process_id) {
                process.first_thread_id.get_or_insert(thread.id);
                track = process.track;
            }
            threads.insert(thread.id, Track { tid: Some(tid(thread)), ..track });
        }
        Self { processes, threads, unknown_track, ids_may_collide }
    }

    /// Returns the track of a process.
    pub(crate) fn process(&self, id: u32) -> Track {
        self.processes.get(&id).map_or(self.unknown_track, |process| process.track)
    }

    /// Returns the track of a thread.
    pub(crate) fn thread(&self, id: u32) -> Track {
        self.threads.get(&id).copied().unwrap_or(self.unknown_track)
    }

    /// Returns the track of the first thread of a process. Events without a thread go there,
    /// because readers would invent a thread for them.
    pub(crate) fn first_thread(&self, process_id: u32) -> Track {
        let first = self.processes.get(&process_id).and_then(|process| process.first_thread_id);
        first.map_or_else(|| self.process(process_id), |thread| self.thread(thread))
    }

    /// Returns the id of the flow from a launch to its activity.
    pub(crate) fn launch_flow_id(&self, process_id: u32, correlation_id: u64) -> u64 {
        let offset =
            self.processes.get(&process_id).map_or(0, |process| process.correlation_offset);
        correlation_id.wrapping_add(offset)
    }

    /// Returns an id that the operators, launches and activities of a process share. It is distinct
    /// from the ids of other processes if several use devices.
    pub(crate) fn correlation_id(&self, process_id: u32, number: u64) -> u64 {
        if self.ids_may_collide { self.launch_flow_id(process_id, number) } else { number }
    }

    /// Returns the id of a flow of the run. It is distinct from the ids of other ranks.
    pub(crate) fn flow_id(&self, process_id: u32, number: u64) -> u64 {
        let offset = self.processes.get(&process_id).map_or(0, |process| process.flow_offset);
        number.wrapping_add(offset)
    }
}
