//! Declares the tracks of the events, and assigns additional tracks to slices that do not nest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::io;

use marey_store::row::GpuActivity;
use marey_store::{ProcessRow, Reader, ThreadRow};

use super::packets::Packets;
use crate::perfetto::message::{
    CounterDescriptor, ProcessDescriptor, TYPE_SLICE_BEGIN, TYPE_SLICE_END, ThreadDescriptor,
    TrackDescriptor, TrackEvent, UNIT_BYTES, UNIT_NANOS,
};
use crate::perfetto::{
    DERIVED_DESCRIPTION, HOST_LABEL_PREFIX, NO_THREAD, PID_LABEL_PREFIX, RANK_LABEL_PREFIX,
    TID_DESCRIPTION_PREFIX,
};

/// The first id for processes and threads whose own id cannot be used. It is above the ids of
/// Linux.
const FIRST_SYNTHETIC_ID: i32 = 1 << 30;

/// The owner of a track, by ids of the run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum TrackKey {
    Process(u32),
    Thread(u32),
    /// A stream of a device of a process.
    Stream(u32, u32, u32),
    /// Asynchronous spans of a process, by track name.
    Async(u32, u32),
    /// A counter of a thread.
    Counter(u32, u32),
    /// A counter of a device, or of none, that a process has read.
    DeviceCounter(u32, Option<u32>, u32),
    /// Samples of a process, on a thread if it is known.
    Samples(u32, Option<u32>),
    /// The memory of a device that a process uses.
    Memory(u32, String),
    /// A counter of such memory, in bytes.
    MemoryCounter(u32, String),
}

/// The tracks of a trace.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    uuids: HashMap<TrackKey, u64>,
    last_uuid: u64,
    pids: HashMap<u32, i32>,
    threads: HashMap<u32, FileThreadIds>,
    lanes: BTreeMap<TrackKey, Lanes>,
}

/// The ids of a thread in the file.
#[derive(Clone, Copy, Debug)]
struct FileThreadIds {
    pid: i32,
    tid: i64,
}

/// The open slices of a track and of its additional tracks.
#[derive(Debug, Default)]
struct Lanes {
    /// Ends of the open slices on the main track, outermost first.
    open_end_nanos: Vec<i64>,
    /// The additional tracks, each with the time from which it is free.
    additional_tracks: BinaryHeap<Reverse<(i64, u64)>>,
}

impl Tracks {
    /// Assigns unique process and thread ids, and declares their tracks.
    pub(super) fn declare_all(&mut self, packets: &mut Packets) -> io::Result<()> {
        let reader = packets.reader;
        let mut used_ids = HashSet::new();
        for process in reader.processes() {
            let pid = usable_id(process.pid, process.id, |pid| used_ids.insert(pid));
            self.pids.insert(process.id, pid);
        }
        let mut used_ids = HashSet::new();
        for thread in reader.threads() {
            let pid = self.pid(thread.process_id);
            let tid = usable_id(thread.os_id, thread.id, |tid| used_ids.insert((pid, tid)));
            self.threads.insert(thread.id, FileThreadIds { pid, tid: tid.into() });
        }
        for process in reader.processes() {
            self.uuid(&TrackKey::Process(process.id), packets)?;
        }
        for thread in reader.threads().filter(|thread| !may_be_synthetic(thread)) {
            self.uuid(&TrackKey::Thread(thread.id), packets)?;
        }
        Ok(())
    }

    /// Returns the id that a process has in the file.
    pub(super) fn pid(&self, process_id: u32) -> i32 {
        self.pids.get(&process_id).copied().unwrap_or_default()
    }

    /// Returns the track of an owner. Declares it if it is new.
    pub(super) fn uuid(&mut self, key: &TrackKey, packets: &mut Packets) -> io::Result<u64> {
        if let Some(&uuid) = self.uuids.get(key) {
            return Ok(uuid);
        }
        let uuid = self.declare(key, packets)?;
        self.uuids.insert(key.clone(), uuid);
        Ok(uuid)
    }

    /// Begins a slice on a track where it nests, and schedules its end. `event` makes the event of
    /// the slice, and is told whether it is on the main track.
    pub(super) fn write_slice<'a>(
        &mut self,
        key: &TrackKey,
        (start_nanos, duration_nanos): (i64, i64),
        packets: &mut Packets<'a>,
        event: impl FnOnce(&mut Packets<'a>, bool) -> TrackEvent,
    ) -> io::Result<()> {
        let main_uuid = self.uuid(key, packets)?;
        let end_nanos = start_nanos.saturating_add(duration_nanos);
        let lanes = self.lanes.entry(key.clone()).or_default();
        while let Some(&open_end_nanos) =
            lanes.open_end_nanos.last().filter(|&&open_end_nanos| open_end_nanos <= start_nanos)
        {
            packets.write_event(open_end_nanos, slice_end_event(main_uuid))?;
            lanes.open_end_nanos.pop();
        }
        let is_main =
            lanes.open_end_nanos.last().is_none_or(|&open_end_nanos| open_end_nanos >= end_nanos);
        let track_uuid = if is_main {
            lanes.open_end_nanos.push(end_nanos);
            main_uuid
        } else {
            self.free_additional_track(key, start_nanos, end_nanos, packets)?
        };
        let event = event(packets, is_main);
        let begin =
            TrackEvent { r#type: Some(TYPE_SLICE_BEGIN), track_uuid: Some(track_uuid), ..event };
        packets.write_event(start_nanos, begin)?;
        if is_main { Ok(()) } else { packets.write_event(end_nanos, slice_end_event(track_uuid)) }
    }

    /// Ends all open slices.
    pub(super) fn end_all(&mut self, packets: &mut Packets) -> io::Result<()> {
        for (key, lanes) in std::mem::take(&mut self.lanes) {
            let main_uuid = self.uuid(&key, packets)?;
            for end_nanos in lanes.open_end_nanos.into_iter().rev() {
                packets.write_event(end_nanos, slice_end_event(main_uuid))?;
            }
        }
        Ok(())
    }

    /// Returns an additional track that is free for the slice.
    fn free_additional_track(
        &mut self,
        key: &TrackKey,
        start_nanos: i64,
        end_nanos: i64,
        packets: &mut Packets,
    ) -> io::Result<u64> {
        let additional_tracks = &mut self.lanes.entry(key.clone()).or_default().additional_tracks;
        let uuid = match additional_tracks.peek() {
            Some(&Reverse((free_nanos, uuid))) if free_nanos <= start_nanos => {
                additional_tracks.pop();
                uuid
            }
            _ => self.declare(key, packets)?,
        };
        let lanes = self.lanes.entry(key.clone()).or_default();
        lanes.additional_tracks.push(Reverse((end_nanos, uuid)));
        Ok(uuid)
    }

    fn declare(&mut self, key: &TrackKey, packets: &mut Packets) -> io::Result<u64> {
        let reader = packets.reader;
        let mut track = match key {
            TrackKey::Process(id) => self.process_track(*id, reader),
            TrackKey::Thread(id) if !self.uuids.contains_key(key) => self.thread_track(*id, reader),
            TrackKey::Thread(id) => named_track(&thread_or_default(*id, reader).name),
            &TrackKey::Stream(_, device, GpuActivity::NO_STREAM) => {
                named_track(&format!("GPU {device}"))
            }
            TrackKey::Stream(_, device, stream) => {
                named_track(&format!("GPU {device} stream {stream}"))
            }
            &TrackKey::Async(_, name_id) => named_track(reader.text(name_id)),
            &TrackKey::Counter(_, name_id) => counter_track(reader.text(name_id)),
            &TrackKey::DeviceCounter(_, device, name_id) => {
                let name = reader.text(name_id);
                counter_track(
                    &device.map_or(name.to_owned(), |device| format!("GPU {device} {name}")),
                )
            }
            TrackKey::Samples(..) => named_track("samples"),
            TrackKey::Memory(_, memory) => named_track(memory),
            TrackKey::MemoryCounter(_, name) => TrackDescriptor {
                description: Some(DERIVED_DESCRIPTION.to_owned()),
                ..counter_track(name)
            },
        };
        track.parent_uuid = match key {
            TrackKey::Process(_) => None,
            TrackKey::Thread(_) if track.thread.is_some() => None,
            TrackKey::Thread(id) => Some(self.uuid(&TrackKey::Thread(*id), packets)?),
            TrackKey::Stream(process, ..)
            | TrackKey::Async(process, _)
            | TrackKey::DeviceCounter(process, ..)
            | TrackKey::Samples(process, None)
            | TrackKey::Memory(process, _)
            | TrackKey::MemoryCounter(process, _) => {
                Some(self.uuid(&TrackKey::Process(*process), packets)?)
            }
            TrackKey::Counter(id, _) | TrackKey::Samples(_, Some(id)) => {
                let thread = thread_or_default(*id, reader);
                let parent = if is_counter_thread(thread) {
                    TrackKey::Process(thread.process_id)
                } else {
                    TrackKey::Thread(*id)
                };
                Some(self.uuid(&parent, packets)?)
            }
        };
        self.last_uuid += 1;
        track.uuid = Some(self.last_uuid);
        packets.write_track(track)?;
        Ok(self.last_uuid)
    }

    fn process_track(&self, id: u32, reader: &Reader) -> TrackDescriptor {
        let Some(process) = reader.process(id) else { return TrackDescriptor::default() };
        let ProcessRow { pid, rank, host, argv, name, .. } = process;
        let file_pid = self.pid(id);
        let mut labels: Vec<String> = Vec::new();
        labels.extend(rank.map(|rank| format!("{RANK_LABEL_PREFIX}{rank}")));
        labels.extend((!host.is_empty()).then(|| format!("{HOST_LABEL_PREFIX}{host}")));
        labels.extend((*pid != i64::from(file_pid)).then(|| format!("{PID_LABEL_PREFIX}{pid}")));
        let process = ProcessDescriptor {
            pid: Some(file_pid),
            cmdline: serde_json::from_str(argv).unwrap_or_default(),
            process_name: name.clone(),
            process_labels: labels,
        };
        TrackDescriptor { process: Some(process), ..TrackDescriptor::default() }
    }

    fn thread_track(&self, id: u32, reader: &Reader) -> TrackDescriptor {
        let thread = thread_or_default(id, reader);
        let FileThreadIds { pid, tid } =
            self.threads.get(&id).copied().unwrap_or(FileThreadIds { pid: 0, tid: 0 });
        let is_synthetic = tid != thread.os_id;
        let descriptor = ThreadDescriptor {
            pid: Some(pid),
            tid: Some(tid),
            thread_name: (!thread.name.is_empty()).then(|| thread.name.clone()),
            ..ThreadDescriptor::default()
        };
        TrackDescriptor {
            thread: Some(descriptor),
            description: is_synthetic.then(|| format!("{TID_DESCRIPTION_PREFIX}{}", thread.os_id)),
            ..TrackDescriptor::default()
        }
    }
}

/// Returns the id in the operating system if the format can hold it and it is not taken, or else a
/// made-up one.
fn usable_id(os_id: i64, id: u32, mut reserve: impl FnMut(i32) -> bool) -> i32 {
    let own_id = i32::try_from(os_id).ok().filter(|&id| 0 < id && id < FIRST_SYNTHETIC_ID);
    let synthetic = || FIRST_SYNTHETIC_ID.saturating_add_unsigned(id);
    own_id.filter(|&id| reserve(id)).unwrap_or_else(synthetic)
}

/// Whether a thread has only the counters of its process.
fn is_counter_thread(thread: &ThreadRow) -> bool {
    thread.os_id == NO_THREAD && thread.name.is_empty()
}

/// Whether a reader may have made up the thread for events without one. The track of such a thread
/// is declared only with its first event, because readers make the thread up again.
fn may_be_synthetic(thread: &ThreadRow) -> bool {
    matches!(thread.os_id, NO_THREAD | 0) && thread.name.is_empty()
}

fn thread_or_default<'r>(id: u32, reader: &'r Reader) -> &'r ThreadRow {
    static NO_THREAD_ROW: ThreadRow =
        ThreadRow { id: 0, process_id: 0, os_id: NO_THREAD, name: String::new() };
    reader.thread(id).unwrap_or(&NO_THREAD_ROW)
}

fn named_track(name: &str) -> TrackDescriptor {
    TrackDescriptor { name: Some(name.to_owned()), ..TrackDescriptor::default() }
}

fn counter_track(name: &str) -> TrackDescriptor {
    let unit = match name {
        _ if name.ends_with("(bytes)") => Some(UNIT_BYTES),
        _ if name.ends_with("(ns)") => Some(UNIT_NANOS),
        _ => None,
    };
    let counter = CounterDescriptor { unit, ..CounterDescriptor::default() };
    TrackDescriptor { counter: Some(counter), ..named_track(name) }
}

fn slice_end_event(track_uuid: u64) -> TrackEvent {
    TrackEvent {
        r#type: Some(TYPE_SLICE_END),
        track_uuid: Some(track_uuid),
        ..TrackEvent::default()
    }
}
