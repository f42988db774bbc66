//! Tracks: where events are shown, and slices that must not cross on one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::io;

use marey_store::{ProcessRow, Reader, ThreadRow};

use super::packets::Packets;
use crate::perfetto::message::{
    CounterDescriptor, ProcessDescriptor, SLICE_BEGIN, SLICE_END, ThreadDescriptor,
    TrackDescriptor, TrackEvent, UNIT_BYTES, UNIT_NANOS,
};
use crate::perfetto::{DERIVED, HOST_LABEL, NO_THREAD, PID_LABEL, RANK_LABEL, TID_LABEL};

/// Ids in the system that the file must make up begin here: above what Linux gives.
const FIRST_MADE_UP: i32 = 1 << 30;

/// What a track is for. Ids are those of the run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Place {
    Process(u32),
    Thread(u32),
    /// A stream of a device of a process.
    Stream(u32, u32, u32),
    /// Spans of a process that are one thing going on.
    Async(u32, u32),
    /// A counter of a thread.
    Counter(u32, u32),
    /// A counter of a device, or of none, that a process has read.
    DeviceCounter(u32, Option<u32>, u32),
    /// Samples of a process, on a thread if it is known.
    Samples(u32, Option<u32>),
    /// A device's memory, as a process uses it.
    Memory(u32, String),
    /// A count of bytes of such memory.
    MemoryCounter(u32, String),
}

/// The tracks of a trace.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    uuids: HashMap<Place, u64>,
    last_uuid: u64,
    pids: HashMap<u32, i32>,
    threads: HashMap<u32, Ids>,
    lanes: BTreeMap<Place, Lanes>,
}

/// The ids that a thread has in the file.
#[derive(Clone, Copy, Debug)]
struct Ids {
    pid: i32,
    tid: i64,
}

/// Slices of a place that are on tracks.
#[derive(Debug, Default)]
struct Lanes {
    /// When those end that are open on the place's own track, outermost first.
    open: Vec<i64>,
    /// The tracks beside it, by when they are free.
    beside: BinaryHeap<Reverse<(i64, u64)>>,
}

impl Tracks {
    /// Gives every process and thread an id in the system that no other has, and declares them.
    pub(super) fn declare_all(&mut self, packets: &mut Packets) -> io::Result<()> {
        let reader = packets.reader;
        let mut taken = HashSet::new();
        for process in reader.processes() {
            let pid = own_or_made_up(process.pid, process.id, |pid| taken.insert(pid));
            self.pids.insert(process.id, pid);
        }
        let mut taken = HashSet::new();
        for thread in reader.threads() {
            let pid = self.pid(thread.process_id);
            let tid = own_or_made_up(thread.os_id, thread.id, |tid| taken.insert((pid, tid)));
            self.threads.insert(thread.id, Ids { pid, tid: tid.into() });
        }
        for process in reader.processes() {
            self.uuid(&Place::Process(process.id), packets)?;
        }
        for thread in reader.threads().filter(|thread| !is_made_by_readers(thread)) {
            self.uuid(&Place::Thread(thread.id), packets)?;
        }
        Ok(())
    }

    /// The id in the system that a process has in the file.
    pub(super) fn pid(&self, process_id: u32) -> i32 {
        self.pids.get(&process_id).copied().unwrap_or_default()
    }

    /// The track for something, which is declared if it is new.
    pub(super) fn uuid(&mut self, place: &Place, packets: &mut Packets) -> io::Result<u64> {
        if let Some(&uuid) = self.uuids.get(place) {
            return Ok(uuid);
        }
        let uuid = self.declare(place, packets)?;
        self.uuids.insert(place.clone(), uuid);
        Ok(uuid)
    }

    /// Begins a slice and has it end in time, on a track where it crosses no other. `event` makes its
    /// event, given whether that is the place's own track.
    pub(super) fn slice<'a>(
        &mut self,
        place: &Place,
        (start_nanos, duration_nanos): (i64, i64),
        packets: &mut Packets<'a>,
        event: impl FnOnce(&mut Packets<'a>, bool) -> TrackEvent,
    ) -> io::Result<()> {
        let own = self.uuid(place, packets)?;
        let end_nanos = start_nanos.saturating_add(duration_nanos);
        let lanes = self.lanes.entry(place.clone()).or_default();
        while let Some(&end) = lanes.open.last().filter(|&&end| end <= start_nanos) {
            packets.event(end, end_on(own))?;
            lanes.open.pop();
        }
        let is_own = lanes.open.last().is_none_or(|&end| end >= end_nanos);
        let track_uuid = if is_own {
            lanes.open.push(end_nanos);
            own
        } else {
            self.beside(place, start_nanos, end_nanos, packets)?
        };
        let event = event(packets, is_own);
        let begin = TrackEvent { r#type: Some(SLICE_BEGIN), track_uuid: Some(track_uuid), ..event };
        packets.event(start_nanos, begin)?;
        if is_own { Ok(()) } else { packets.event(end_nanos, end_on(track_uuid)) }
    }

    /// Ends all slices that are open.
    pub(super) fn end_all(&mut self, packets: &mut Packets) -> io::Result<()> {
        for (place, lanes) in std::mem::take(&mut self.lanes) {
            let own = self.uuid(&place, packets)?;
            for end in lanes.open.into_iter().rev() {
                packets.event(end, end_on(own))?;
            }
        }
        Ok(())
    }

    /// A track beside that of a place which is free for a while.
    fn beside(
        &mut self,
        place: &Place,
        start_nanos: i64,
        end_nanos: i64,
        packets: &mut Packets,
    ) -> io::Result<u64> {
        let beside = &mut self.lanes.entry(place.clone()).or_default().beside;
        let uuid = match beside.peek() {
            Some(&Reverse((free_nanos, uuid))) if free_nanos <= start_nanos => {
                beside.pop();
                uuid
            }
            _ => self.declare(place, packets)?,
        };
        let lanes = self.lanes.entry(place.clone()).or_default();
        lanes.beside.push(Reverse((end_nanos, uuid)));
        Ok(uuid)
    }

    fn declare(&mut self, place: &Place, packets: &mut Packets) -> io::Result<u64> {
        let reader = packets.reader;
        let mut track = match place {
            Place::Process(id) => self.process(*id, reader),
            Place::Thread(id) if !self.uuids.contains_key(place) => self.thread(*id, reader),
            Place::Thread(id) => named(&thread(*id, reader).name),
            &Place::Stream(_, device, u32::MAX) => named(&format!("GPU {device}")),
            Place::Stream(_, device, stream) => named(&format!("GPU {device} stream {stream}")),
            &Place::Async(_, name_id) => named(reader.text(name_id)),
            &Place::Counter(_, name_id) => counter(reader.text(name_id)),
            &Place::DeviceCounter(_, device, name_id) => {
                let name = reader.text(name_id);
                counter(&device.map_or(name.to_owned(), |device| format!("GPU {device} {name}")))
            }
            Place::Samples(..) => named("samples"),
            Place::Memory(_, memory) => named(memory),
            Place::MemoryCounter(_, name) => {
                TrackDescriptor { description: Some(DERIVED.to_owned()), ..counter(name) }
            }
        };
        track.parent_uuid = match place {
            Place::Process(_) => None,
            Place::Thread(_) if track.thread.is_some() => None,
            Place::Thread(id) => Some(self.uuid(&Place::Thread(*id), packets)?),
            Place::Stream(process, ..)
            | Place::Async(process, _)
            | Place::DeviceCounter(process, ..)
            | Place::Samples(process, None)
            | Place::Memory(process, _)
            | Place::MemoryCounter(process, _) => {
                Some(self.uuid(&Place::Process(*process), packets)?)
            }
            Place::Counter(id, _) | Place::Samples(_, Some(id)) => {
                let thread = thread(*id, reader);
                let parent = if is_of_process(thread) {
                    Place::Process(thread.process_id)
                } else {
                    Place::Thread(*id)
                };
                Some(self.uuid(&parent, packets)?)
            }
        };
        self.last_uuid += 1;
        track.uuid = Some(self.last_uuid);
        packets.track(track)?;
        Ok(self.last_uuid)
    }

    fn process(&self, id: u32, reader: &Reader) -> TrackDescriptor {
        let Some(process) = reader.process(id) else { return TrackDescriptor::default() };
        let ProcessRow { pid, rank, host, argv, name, .. } = process;
        let file_pid = self.pid(id);
        let mut labels: Vec<String> = Vec::new();
        labels.extend(rank.map(|rank| format!("{RANK_LABEL}{rank}")));
        labels.extend((!host.is_empty()).then(|| format!("{HOST_LABEL}{host}")));
        labels.extend((*pid != i64::from(file_pid)).then(|| format!("{PID_LABEL}{pid}")));
        let process = ProcessDescriptor {
            pid: Some(file_pid),
            cmdline: serde_json::from_str(argv).unwrap_or_default(),
            process_name: name.clone(),
            process_labels: labels,
        };
        TrackDescriptor { process: Some(process), ..TrackDescriptor::default() }
    }

    fn thread(&self, id: u32, reader: &Reader) -> TrackDescriptor {
        let thread = thread(id, reader);
        let Ids { pid, tid } = self.threads.get(&id).copied().unwrap_or(Ids { pid: 0, tid: 0 });
        let is_made_up = tid != thread.os_id;
        let descriptor = ThreadDescriptor {
            pid: Some(pid),
            tid: Some(tid),
            thread_name: (!thread.name.is_empty()).then(|| thread.name.clone()),
            ..ThreadDescriptor::default()
        };
        TrackDescriptor {
            thread: Some(descriptor),
            description: is_made_up.then(|| format!("{TID_LABEL}{}", thread.os_id)),
            ..TrackDescriptor::default()
        }
    }
}

/// Its id in the system, if the format can hold it and nobody else has it, or else one of the file.
fn own_or_made_up(os_id: i64, id: u32, mut take: impl FnMut(i32) -> bool) -> i32 {
    let own = i32::try_from(os_id).ok().filter(|&own| 0 < own && own < FIRST_MADE_UP);
    let made_up = || FIRST_MADE_UP.saturating_add_unsigned(id);
    own.filter(|&own| take(own)).unwrap_or_else(made_up)
}

/// Whether a thread only has the counters of its process.
fn is_of_process(thread: &ThreadRow) -> bool {
    thread.os_id == NO_THREAD && thread.name.is_empty()
}

/// Whether it may be a thread that readers of files make for what is of none: its track is declared
/// only if something is on it, and readers make it again.
fn is_made_by_readers(thread: &ThreadRow) -> bool {
    matches!(thread.os_id, NO_THREAD | 0) && thread.name.is_empty()
}

fn thread<'r>(id: u32, reader: &'r Reader) -> &'r ThreadRow {
    static NONE: ThreadRow =
        ThreadRow { id: 0, process_id: 0, os_id: NO_THREAD, name: String::new() };
    reader.thread(id).unwrap_or(&NONE)
}

fn named(name: &str) -> TrackDescriptor {
    TrackDescriptor { name: Some(name.to_owned()), ..TrackDescriptor::default() }
}

fn counter(name: &str) -> TrackDescriptor {
    let unit = match name {
        _ if name.ends_with("(bytes)") => Some(UNIT_BYTES),
        _ if name.ends_with("(ns)") => Some(UNIT_NANOS),
        _ => None,
    };
    let counter = CounterDescriptor { unit, ..CounterDescriptor::default() };
    TrackDescriptor { counter: Some(counter), ..named(name) }
}

fn end_on(track_uuid: u64) -> TrackEvent {
    TrackEvent { r#type: Some(SLICE_END), track_uuid: Some(track_uuid), ..TrackEvent::default() }
}
