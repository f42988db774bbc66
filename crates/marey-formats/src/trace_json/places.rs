//! Where rows stand in a file: the numbers of its processes and threads.

use std::collections::{HashMap, HashSet};

use marey_store::{Reader, ThreadRow};

use super::Object;
use super::activity::Survey;

/// What is added to the number of a process that something else in the file has already.
const MOVED_PID: i64 = 1_000_000;

/// So many numbers that are said at both ends of something each process has for itself, or each rank.
const NUMBERS_APART: u64 = 1 << 32;

/// A process, or a thread of it, as events name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) pid: i64,
    pub(crate) tid: Option<i64>,
}

impl Place {
    /// Adds what an event says of its place.
    pub(crate) fn write(&self, event: &mut Object) {
        event.value("pid", self.pid);
        if let Some(tid) = self.tid {
            event.value("tid", tid);
        }
    }
}

/// The places of a run's processes and threads.
#[derive(Debug)]
pub(crate) struct Places {
    processes: HashMap<u32, PlacedProcess>,
    threads: HashMap<u32, Place>,
    nowhere: Place,
    is_of_several: bool,
}

#[derive(Debug)]
struct PlacedProcess {
    place: Place,
    first_thread: Option<u32>,
    /// What is added to numbers that it has for itself.
    numbers_from: u64,
    /// What is added to numbers that it shares with its rank.
    flows_from: u64,
}

impl Places {
    /// Of all that the reader sees. A process whose number is `reserved`, or is another process's, gets
    /// one that is free.
    pub(crate) fn new(
        reader: &Reader,
        survey: &Survey,
        reserved: &HashSet<i64>,
        tid: impl Fn(&ThreadRow) -> i64,
    ) -> Self {
        let is_of_several = survey.is_of_several(reader);
        let mut taken = reserved.clone();
        let mut ranks = HashMap::new();
        let mut processes: HashMap<u32, PlacedProcess> = HashMap::new();
        for (process, position) in reader.processes().zip(0_u64..) {
            let mut pid = process.pid;
            while !taken.insert(pid) {
                pid = pid.wrapping_add(MOVED_PID);
            }
            let place = Place { pid, tid: None };
            let numbers_from = position.wrapping_mul(NUMBERS_APART);
            // Whose rank is not known may be of any, beside several.
            let rank = process.rank.ok_or(is_of_several.then_some(process.id));
            let flows_from = *ranks.entry(rank).or_insert(numbers_from);
            let flows_from = if is_of_several { flows_from } else { 0 };
            let placed = PlacedProcess { place, first_thread: None, numbers_from, flows_from };
            processes.insert(process.id, placed);
        }
        let nowhere = Place { pid: -1, tid: None };
        let mut threads = HashMap::new();
        for thread in reader.threads() {
            let mut place = nowhere;
            if let Some(process) = processes.get_mut(&thread.process_id) {
                process.first_thread.get_or_insert(thread.id);
                place = process.place;
            }
            threads.insert(thread.id, Place { tid: Some(tid(thread)), ..place });
        }
        Self { processes, threads, nowhere, is_of_several }
    }

    /// That of a process.
    pub(crate) fn process(&self, id: u32) -> Place {
        self.processes.get(&id).map_or(self.nowhere, |process| process.place)
    }

    /// That of a thread.
    pub(crate) fn thread(&self, id: u32) -> Place {
        self.threads.get(&id).copied().unwrap_or(self.nowhere)
    }

    /// That of the process's first thread, for what is of none: readers make one of it otherwise.
    pub(crate) fn first_thread(&self, process: u32) -> Place {
        let first = self.processes.get(&process).and_then(|process| process.first_thread);
        first.map_or_else(|| self.process(process), |thread| self.thread(thread))
    }

    /// The number of the arrow from a launch to what it launched.
    pub(crate) fn arrow_id(&self, process: u32, correlation: u64) -> u64 {
        let from = self.processes.get(&process).map_or(0, |process| process.numbers_from);
        correlation.wrapping_add(from)
    }

    /// A number that a process's operators, launches and activities share: no other process's, where
    /// several use devices.
    pub(crate) fn launch_number(&self, process: u32, number: u64) -> u64 {
        if self.is_of_several { self.arrow_id(process, number) } else { number }
    }

    /// The number of an arrow of the run's: no other rank's.
    pub(crate) fn flow_id(&self, process: u32, number: u64) -> u64 {
        let from = self.processes.get(&process).map_or(0, |process| process.flows_from);
        number.wrapping_add(from)
    }
}
