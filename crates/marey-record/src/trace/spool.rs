//! The open spool of the process.

use super::activities::{ActivityWriter, unattributed};
use super::clock::TraceClock;
use super::file::{Appender, SpoolFile};
use super::out::{self, Chunk, FrameBuffer};
use super::run::RunDirectory;
use super::texts::Texts;
use super::thread::{OpenScope, Shared, ThreadWriter};
use super::{PERIOD, SpoolSnapshot, TraceSession};
use crate::account;
use crate::api::Counter;
use crate::clock::{self, ClockReading};
use crate::control::{CONTROL, bit};
use crate::device::{self, DeviceInfo, JoinedActivity, Threads};
use crate::error::Error;
use crate::local;
use crate::lock::lock;
use crate::losses;
use crate::number_hash::NumberHash;
use crate::os;
use crate::output::Extent;
use crate::thread::{OpenFrame, ThreadTree};
use marey_model::json::quoted;
use marey_model::loss::LossCause;
use marey_model::profile::Process;
use marey_model::spool::{self, Detail, Device, Frame, SessionEvent};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// An open spool.
#[derive(Debug)]
pub(super) struct Spool {
    file: Arc<SpoolFile>,
    /// The writer at the end of the file. The thread that locks it writes, and may then take the
    /// tracer's lock.
    appender: Arc<Mutex<Appender>>,
    written_bytes: u64,
    shared: Shared,
    /// By the generation of their trees.
    threads: HashMap<u64, ThreadWriter, NumberHash>,
    /// The number of threads so far, ended ones included.
    thread_count: u32,
    activities: ActivityWriter,
    /// The devices and notes that were written last.
    devices: Vec<DeviceInfo>,
    notes: Vec<(&'static str, String)>,
    losses: [(LossCause, u64); LossCause::COUNT],
    last_clock_ticks: u64,
    /// The time spent on draining logs and writing them.
    flushing_nanos: u64,
}

impl Spool {
    /// Creates a spool in a run directory.
    pub(super) fn create(run: &Arc<RunDirectory>) -> Result<Self, Error> {
        let (file, appender) = SpoolFile::create(run)?;
        let failed =
            |source| Error::Write { action: "write", path: file.path().to_owned(), source };
        let now = ClockReading::now();
        let shared = Shared {
            clock: TraceClock::starting(now),
            texts: Texts::default(),
            out: FrameBuffer::new().map_err(failed)?,
        };
        let mut spool = Self {
            file: Arc::new(file),
            appender: Arc::new(Mutex::new(appender)),
            written_bytes: 0,
            shared,
            threads: HashMap::default(),
            thread_count: 0,
            activities: ActivityWriter::default(),
            devices: Vec::new(),
            notes: Vec::new(),
            losses: LossCause::ALL.map(|cause| (cause, 0)),
            last_clock_ticks: 0,
            flushing_nanos: 0,
        };
        spool.shared.out.frame(&Frame::Process(process(now)));
        spool.write_clock(now);
        spool.shared.out.set_space(out::has_space(spool.file.path()));
        Ok(spool)
    }

    /// Returns the file and its written extent.
    pub(super) fn snapshot(&self) -> SpoolSnapshot {
        let extent = Extent { bytes: self.written_bytes, threads: self.thread_count };
        SpoolSnapshot { file: Arc::clone(&self.file), extent }
    }

    /// Returns the file and its appender.
    pub(super) fn file(&self) -> (Arc<SpoolFile>, Arc<Mutex<Appender>>) {
        (Arc::clone(&self.file), Arc::clone(&self.appender))
    }

    /// Whether this is the spool's file.
    pub(super) fn has_file(&self, file: &Arc<SpoolFile>) -> bool {
        Arc::ptr_eq(&self.file, file)
    }

    /// Whether the buffer should be written.
    pub(super) fn should_flush(&self) -> bool {
        self.shared.out.should_flush()
    }

    /// Takes the frames to be written next. The caller has locked the appender.
    pub(super) fn take_chunk(&mut self) -> Chunk {
        self.shared.out.take()
    }

    /// Handles the result of writing a chunk.
    pub(super) fn finish_chunk(&mut self, written: io::Result<()>, chunk: Chunk, file: &Appender) {
        self.written_bytes = file.written_bytes();
        match written {
            Ok(()) => self.shared.out.written(chunk),
            Err(_counted) => self.shared.out.failed(self.written_bytes),
        }
    }

    /// Adds time spent on writing, and updates whether the filesystem has enough free space.
    pub(super) fn add_flushing(&mut self, nanos: u64, has_space: Option<bool>) {
        self.flushing_nanos += nanos;
        if let Some(has_space) = has_space {
            self.shared.out.set_space(has_space);
        }
    }

    /// Drops the spool without its file, which belongs to the parent process.
    pub(super) fn abandon(self) {
        self.file.keep();
    }

    /// Writes the start of a session, or its state if it continues in this process.
    pub(super) fn start(&mut self, session: &mut TraceSession) {
        let TraceSession { slot, base, started_ticks, phase, is_active, changed_ticks, .. } =
            session;
        let mut range = self.note(*slot, SessionEvent::Started, base, *started_ticks);
        if *phase > 0 {
            range = self.note(*slot, SessionEvent::Phase(*phase), base, *changed_ticks);
        }
        if !*is_active {
            range = self.note(*slot, SessionEvent::Deactivated, base, *changed_ticks);
        }
        session.phase_start = Some(range.end);
    }

    /// Writes an event of a session. Returns the range of its frame in the spool.
    pub(super) fn note(
        &mut self,
        slot: u32,
        event: SessionEvent,
        base: &str,
        ticks: u64,
    ) -> Range<u64> {
        let Shared { clock, out, .. } = &mut self.shared;
        let (time_nanos, name) = (clock.nanos_at(ticks), base.to_owned());
        let start = out.position_bytes();
        out.frame(&Frame::Session { session: slot, event, name, time_nanos });
        start..out.position_bytes()
    }

    /// Drains the logs of these threads, and writes the process's state.
    pub(super) fn drain(&mut self, threads: &[Arc<ThreadTree>]) {
        for thread in threads {
            self.drain_thread(thread);
        }
        self.write_state(threads);
    }

    /// Writes open scopes, losses, devices and notes that have changed, and from time to time the
    /// clock.
    pub(super) fn write_state(&mut self, threads: &[Arc<ThreadTree>]) {
        let began = clock::ticks();
        self.write_open(threads, None);
        self.write_losses();
        self.write_devices_and_notes();
        let since_clock = clock::ticks().saturating_sub(self.last_clock_ticks);
        if clock::nanos(since_clock) >= CLOCK_PERIOD_NANOS {
            self.write_overhead_and_clock();
        }
        self.flushing_nanos += account::elapsed_nanos(began);
    }

    /// Drains the log of a thread.
    pub(super) fn drain_thread(&mut self, tree: &ThreadTree) {
        if let Some(log) = tree.log().filter(|log| !log.is_empty()) {
            let began = clock::ticks();
            let (thread, shared) = self.writer(tree);
            thread.drain(tree, log, shared);
            self.flushing_nanos += account::elapsed_nanos(began);
        }
    }

    fn writer(&mut self, tree: &ThreadTree) -> (&mut ThreadWriter, &mut Shared) {
        let Self { threads, thread_count, shared, .. } = self;
        let thread = threads.entry(tree.generation).or_insert_with(|| {
            *thread_count += 1;
            ThreadWriter::new(*thread_count - 1, tree, &mut shared.out)
        });
        (thread, shared)
    }

    /// Adds activities, whose details are ranges of `details`.
    pub(super) fn add_activities(
        &mut self,
        threads: &Threads,
        joined: &[JoinedActivity],
        details: &[(Detail, u64)],
    ) {
        let began = clock::ticks();
        if !self.shared.out.has_room() {
            losses::add(LossCause::Spool, joined.len() as u64);
            return;
        }
        let mut locations = Vec::new();
        for activity in joined {
            let own_details = details.get(activity.details.clone()).unwrap_or_default();
            let launch = activity
                .launched
                .and_then(|(thread, launch)| Some((threads.tree(thread)?, launch)));
            locations.clear();
            match launch {
                Some((tree, launch)) => {
                    let (thread, shared) = self.writer(tree);
                    thread.launch_locations(tree, &launch, activity.site, shared, &mut locations);
                }
                None => locations.push(unattributed()),
            }
            self.activities.add(activity, own_details, &locations, &mut self.shared);
        }
        let Shared { texts, out, .. } = &mut self.shared;
        self.activities.write(texts, out);
        self.flushing_nanos += account::elapsed_nanos(began);
    }

    /// Writes devices and notes that are new since the last call.
    fn write_devices_and_notes(&mut self) {
        let (devices, notes) = (device::devices(), device::notes());
        for device in devices.iter().filter(|device| !self.devices.contains(device)) {
            self.shared.out.frame(&Frame::Device(Device {
                number: device.number,
                device_type: device.device_type.clone(),
                name: device.name.clone(),
                properties: device::device_json(device),
            }));
        }
        for note in notes.iter().filter(|note| !self.notes.contains(note)) {
            let (key, value) = (note.0.to_owned(), quoted(&note.1));
            self.shared.out.frame(&Frame::Note { key, value });
        }
        (self.devices, self.notes) = (devices, notes);
    }

    /// Writes samples of counters.
    pub(super) fn write_counters(&mut self, counters: &[Counter]) {
        let count = counters.len() as u64;
        if !self.shared.out.has_room() {
            losses::add(LossCause::Spool, count);
            return;
        }
        let Shared { clock, texts, out } = &mut self.shared;
        let counters = counters.iter().map(|counter| spool::Counter {
            time_nanos: clock.nanos_at(counter.time_ticks),
            name: texts.scope(counter.name),
            device: counter.device,
            value: counter.value,
        });
        let frame = Frame::Counters(counters.collect());
        texts.take_unwritten().iter().for_each(|texts| out.frame(texts));
        out.entries(&frame, count);
    }

    /// Drains the log of a thread that has ended and exited all of its scopes.
    pub(super) fn end_thread(&mut self, tree: &ThreadTree) {
        self.drain_thread(tree);
        if let Some(thread) = self.threads.get_mut(&tree.generation) {
            thread.write_open(tree, &[], &mut self.shared);
        }
        // Devices may still report activities that the thread launched.
        if tree.launches().is_none() {
            self.threads.remove(&tree.generation);
        }
    }

    /// Removes the thread with this tree, about which nothing more will be written.
    pub(super) fn remove_thread(&mut self, generation: u64) {
        self.threads.remove(&generation);
    }

    /// Writes the open scopes of the threads, as seen by one session or by all trace sessions.
    pub(super) fn write_open(&mut self, threads: &[Arc<ThreadTree>], slot: Option<u32>) {
        let sessions = slot.map_or_else(|| CONTROL.trace.load(Ordering::Relaxed), bit);
        for tree in threads {
            let frames = tree.open_frames();
            let open: Vec<_> =
                frames.iter().filter_map(|frame| open_scope(frame, sessions)).collect();
            if !open.is_empty() || self.threads.contains_key(&tree.generation) {
                let (thread, shared) = self.writer(tree);
                thread.write_open(tree, &open, shared);
            }
        }
    }

    fn write_losses(&mut self) {
        let losses = losses::snapshot();
        if losses != self.losses {
            let some = losses.iter().copied().filter(|&(_, count)| count > 0).collect();
            self.shared.out.frame(&Frame::Losses(some));
            self.losses = losses;
        }
    }

    /// Writes overhead and clock. Not at the start of the spool: the cost of a scope is measured
    /// after the session has begun.
    pub(super) fn write_overhead_and_clock(&mut self) {
        self.shared.out.frame(&Frame::Overhead(account::overhead(self.flushing_nanos)));
        self.write_clock(ClockReading::now());
    }

    fn write_clock(&mut self, now: ClockReading) {
        self.last_clock_ticks = now.ticks;
        self.shared.out.frame(&Frame::Clock {
            monotonic_nanos: self.shared.clock.nanos_at(now.ticks),
            unix_nanos: now.unix_nanos.cast_signed(),
        });
    }

    /// Ends the spool. The caller must not hold the tracer's lock, because another thread may be
    /// writing.
    pub(super) fn end(mut self) {
        let appender = Arc::clone(&self.appender);
        let mut appender = lock(&appender);
        if appender.has_failed() {
            self.shared.out.failed(appender.written_bytes());
        }
        self.write_buffer(&mut appender);
        self.write_losses();
        self.write_devices_and_notes();
        self.write_overhead_and_clock();
        self.shared.out.frame(&Frame::End);
        self.write_buffer(&mut appender);
    }

    fn write_buffer(&mut self, appender: &mut Appender) {
        let chunk = self.take_chunk();
        let written = chunk.append_to(appender);
        self.finish_chunk(written, chunk, appender);
    }
}

/// Together with the time between two drains: one second.
const CLOCK_PERIOD_NANOS: u64 = 1_000_000_000 - PERIOD.as_nanos() as u64;

/// Returns an open scope, if one of the sessions sees it and will see its end.
fn open_scope(frame: &OpenFrame, sessions: u64) -> Option<OpenScope> {
    let seen = frame.sessions & sessions;
    if seen == 0 || !local::is_running_entry(frame) {
        return None;
    }
    let shadow = seen & !CONTROL.python.load(Ordering::Relaxed);
    let (node, sessions) =
        if shadow == 0 { (frame.python_node, seen) } else { (frame.shadow_node, shadow) };
    Some(OpenScope { node, start_ticks: frame.start_ticks, sessions })
}

/// Returns the description of this process.
fn process(now: ClockReading) -> Process {
    Process {
        pid: std::process::id().into(),
        rank: account::rank().map(u64::from),
        host: os::host_name(),
        argv: os::argv(),
        start_unix_nanos: now.unix_nanos,
        ..Process::default()
    }
}
