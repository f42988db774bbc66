//! The open spool of the process: turns logs, activities, samples and session events into frames in
//! the buffer, and hands the buffer to the file. [`super`] owns it under the tracer's lock.

use super::activities::{ActivityWriter, location_without_launch};
use super::clock::TraceClock;
use super::drain::PERIOD;
use super::file::{self, Appender, SpoolFile};
use super::frame_buffer::{self, Chunk, FrameBuffer};
use super::ring::{self, Ring};
use super::run_directory::RunDirectory;
use super::snapshot::SpoolSnapshot;
use super::texts::Texts;
use super::thread::{Shared, ThreadWriter, VisibleScope};
use super::tracer::TraceSession;
use crate::api::{Collective, CounterSample, LineVariables, StackSample};
use crate::clock::{self, ClockReading};
use crate::control::{CONTROL, bit};
use crate::device::{self, DeviceInfo, JoinedActivity, Threads};
use crate::error::Error;
use crate::local;
use crate::lock::lock;
use crate::losses;
use crate::metadata;
use crate::number_hash::NumberHash;
use crate::os;
use crate::output::Extent;
use crate::scope_frame::OpenScope;
use crate::thread::ThreadTree;
use marey_model::json::quoted;
use marey_model::loss::LossCause;
use marey_model::profile::Process;
use marey_model::spool::{self, Detail, Device, SampleCause, SessionEvent, SpoolFrame};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};

/// An open spool.
#[derive(Debug)]
pub(super) struct Spool {
    file: Arc<SpoolFile>,
    /// The writer at the end of the file. A thread that writes locks it first, and may then take
    /// the tracer's lock.
    appender: Arc<Mutex<Appender>>,
    written_bytes: u64,
    shared: Shared,
    /// By the generation of the thread's tree.
    threads: HashMap<u64, ThreadWriter, NumberHash>,
    /// The number of threads so far, including ended ones.
    thread_count: u32,
    activities: ActivityWriter,
    /// The devices and notes that were written last.
    devices: Vec<DeviceInfo>,
    notes: Vec<device::Note>,
    losses: [(LossCause, u64); LossCause::COUNT],
    last_clock_ticks: u64,
    /// The time spent on draining logs and writing the file, which the spool reports as overhead.
    flushing_nanos: u64,
    /// The start of the spool, which all segments of a ring have.
    start: ClockReading,
    ring: Option<Ring>,
}

impl Spool {
    /// Creates a spool in a run directory.
    pub(super) fn create(run_directory: &Arc<RunDirectory>, is_ring: bool) -> Result<Self, Error> {
        let start = ClockReading::now();
        let ring = is_ring.then(|| Ring::starting_at(start));
        let (file, appender) = match &ring {
            Some(ring) => {
                SpoolFile::create_segment(run_directory, &ring.segment_name(), Arc::default())?
            }
            None => SpoolFile::create(run_directory)?,
        };
        let failed =
            |source| Error::Write { action: "write", path: file.path().to_owned(), source };
        let shared = Shared {
            clock: TraceClock::starting_at(start),
            texts: Texts::default(),
            buffer: new_buffer(is_ring).map_err(failed)?,
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
            start,
            ring,
        };
        spool.write_start(start);
        spool.shared.buffer.set_has_space(frame_buffer::has_free_space(spool.file.path()));
        Ok(spool)
    }

    fn write_start(&mut self, now: ClockReading) {
        self.shared.buffer.push(&SpoolFrame::Process(describe_process(self.start)));
        self.write_clock(now);
        let notes = self.ring.as_ref().map(|_| ring::limit_notes());
        notes.into_iter().flatten().for_each(|note| self.shared.buffer.push(&note));
    }

    /// Returns the file, if this is a ring.
    pub(super) fn ring_file(&self) -> Option<&Arc<SpoolFile>> {
        self.ring.as_ref().map(|_| &self.file)
    }

    /// Returns the name of the next segment of a ring if the current one is full or `must_end`.
    pub(super) fn next_segment_name(&self, must_end: bool) -> Option<String> {
        let ring = self.ring.as_ref()?;
        let is_due = must_end || ring.is_full(&self.shared.buffer);
        is_due.then(|| ring.next_segment_name())
    }

    /// Continues in the next segment of the ring. Returns the end of the current segment and the
    /// files that the ring no longer needs. The caller writes and removes them without the tracer's
    /// lock.
    pub(super) fn continue_in(
        &mut self,
        file: SpoolFile,
        appender: Appender,
    ) -> io::Result<SegmentEnd> {
        // If this file stayed, every later attempt to create the segment would fail.
        let mut buffer = new_buffer(true).inspect_err(|_| file.remove())?;
        buffer.set_has_space(self.shared.buffer.has_space());
        self.write_overhead_and_clock();
        let ended = SegmentEnd {
            file: std::mem::replace(&mut self.file, Arc::new(file)),
            buffer: std::mem::replace(&mut self.shared.buffer, buffer),
            appender: std::mem::replace(&mut self.appender, Arc::new(Mutex::new(appender))),
            unneeded: Vec::new(),
        };
        self.shared.texts = Texts::default();
        self.written_bytes = 0;
        self.activities = ActivityWriter::default();
        (self.devices, self.notes) = (Vec::new(), Vec::new());
        self.losses = LossCause::ALL.map(|cause| (cause, 0));
        let ended_file = Arc::clone(&ended.file);
        let unneeded = self.ring.as_mut().map(|ring| ring.add_segment(ended_file, &ended.buffer));
        self.write_start(ClockReading::now());
        for thread in self.threads.values_mut() {
            thread.begin_segment(&mut self.shared.buffer);
        }
        Ok(SegmentEnd { unneeded: unneeded.unwrap_or_default(), ..ended })
    }

    /// Returns the files of the ended segments of a ring, oldest first.
    pub(super) fn ended_segments(&self) -> Vec<Arc<SpoolFile>> {
        self.ring.as_ref().map(Ring::ended_segments).unwrap_or_default()
    }

    /// Returns the file and its extent, which includes the buffer.
    pub(super) fn snapshot(&self) -> SpoolSnapshot {
        let bytes = self.shared.buffer.position_bytes();
        let extent = Extent { bytes, threads: self.thread_count };
        let (file, appender) = (Arc::clone(&self.file), Arc::clone(&self.appender));
        SpoolSnapshot { file, appender, extent }
    }

    /// Returns the file and its appender.
    pub(super) fn file_and_appender(&self) -> (Weak<SpoolFile>, Arc<Mutex<Appender>>) {
        (Arc::downgrade(&self.file), Arc::clone(&self.appender))
    }

    /// Whether `file` is this spool's file.
    pub(super) fn has_file(&self, file: &Arc<SpoolFile>) -> bool {
        Arc::ptr_eq(&self.file, file)
    }

    /// Whether the buffer should be written.
    pub(super) fn should_flush(&self) -> bool {
        self.shared.buffer.should_flush()
    }

    /// Takes the frames to be written next. The caller must have locked the appender.
    pub(super) fn take_chunk(&mut self) -> Chunk {
        self.shared.buffer.take_chunk()
    }

    /// Handles the result of writing a chunk.
    pub(super) fn finish_chunk(
        &mut self,
        written: io::Result<()>,
        chunk: Chunk,
        appender: &Appender,
    ) {
        self.written_bytes = appender.written_bytes();
        match written {
            Ok(()) => self.shared.buffer.recycle(chunk),
            Err(_counted) => self.shared.buffer.handle_failure(chunk.entries, self.written_bytes),
        }
    }

    /// Adds time spent on writing. Also updates whether the filesystem has enough free space, if
    /// that was checked.
    pub(super) fn add_flushing(&mut self, nanos: u64, has_space: Option<bool>) {
        self.flushing_nanos += nanos;
        if let Some(has_space) = has_space {
            self.shared.buffer.set_has_space(has_space);
        }
    }

    /// Drops the spool without its file, which belongs to the parent process.
    pub(super) fn abandon(self) {
        self.file.keep();
    }

    /// Writes the start of a session, or its state if it continues in this process.
    pub(super) fn write_session_start(&mut self, session: &mut TraceSession) {
        let TraceSession { slot, base, start_ticks, phase, is_active, changed_ticks, .. } = session;
        let mut range = self.write_event(*slot, SessionEvent::Started, base, *start_ticks);
        if *phase > 0 {
            range = self.write_event(*slot, SessionEvent::Phase(*phase), base, *changed_ticks);
        }
        if !*is_active {
            range = self.write_event(*slot, SessionEvent::Deactivated, base, *changed_ticks);
        }
        session.phase_start = Some(range.end);
    }

    /// Writes an event of a session. Returns the range of its frame in the spool.
    pub(super) fn write_event(
        &mut self,
        slot: u32,
        event: SessionEvent,
        base: &str,
        ticks: u64,
    ) -> Range<u64> {
        let Shared { clock, buffer, .. } = &mut self.shared;
        let (time_nanos, name) = (clock.nanos_at(ticks), base.to_owned());
        let start = buffer.position_bytes();
        buffer.push(&SpoolFrame::Session { session: slot, event, name, time_nanos });
        start..buffer.position_bytes()
    }

    /// Drains the logs of these threads, and writes the process's state.
    pub(super) fn drain(&mut self, threads: &[Arc<ThreadTree>]) {
        for thread in threads {
            self.drain_thread(thread);
        }
        self.write_state(threads);
    }

    /// Writes the open scopes, losses, devices and notes that have changed. From time to time also
    /// writes the clock.
    pub(super) fn write_state(&mut self, threads: &[Arc<ThreadTree>]) {
        let start_ticks = clock::ticks();
        self.write_open(threads, None);
        self.write_losses();
        self.write_devices_and_notes();
        let since_clock = clock::ticks().saturating_sub(self.last_clock_ticks);
        if clock::nanos(since_clock) >= CLOCK_PERIOD_NANOS {
            self.write_overhead_and_clock();
        }
        self.flushing_nanos += clock::nanos_since(start_ticks);
    }

    /// Drains the log of a thread.
    pub(super) fn drain_thread(&mut self, tree: &ThreadTree) {
        if let Some(log) = tree.log().filter(|log| !log.is_empty()) {
            let start_ticks = clock::ticks();
            let (thread, shared) = self.thread_writer(tree);
            thread.drain(tree, log, shared);
            self.flushing_nanos += clock::nanos_since(start_ticks);
        }
    }

    fn thread_writer(&mut self, tree: &ThreadTree) -> (&mut ThreadWriter, &mut Shared) {
        let Self { threads, thread_count, shared, .. } = self;
        let thread = threads.entry(tree.generation).or_insert_with(|| {
            *thread_count += 1;
            ThreadWriter::new(*thread_count - 1, tree, &mut shared.buffer)
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
        let start_ticks = clock::ticks();
        if !self.shared.buffer.has_room() {
            losses::add(LossCause::Spool, joined.len() as u64);
            return;
        }
        let mut locations = Vec::new();
        for activity in joined {
            let activity_details = details.get(activity.details.clone()).unwrap_or_default();
            let launch = activity
                .launched
                .and_then(|(thread, launch)| Some((threads.tree(thread)?, launch)));
            locations.clear();
            match launch {
                Some((tree, launch)) => {
                    let (thread, shared) = self.thread_writer(tree);
                    thread.launch_locations(tree, &launch, activity.site, shared, &mut locations);
                }
                None => locations.push(location_without_launch()),
            }
            self.activities.add(activity, activity_details, &locations, &mut self.shared);
        }
        let Shared { texts, buffer, .. } = &mut self.shared;
        self.activities.write_batch(texts, buffer);
        self.flushing_nanos += clock::nanos_since(start_ticks);
    }

    /// Writes devices and notes that are new since the last call.
    fn write_devices_and_notes(&mut self) {
        let (devices, notes) = (device::devices(), device::notes());
        for device in devices.iter().filter(|device| !self.devices.contains(device)) {
            self.shared.buffer.push(&SpoolFrame::Device(Device {
                number: device.number,
                device_type: device.device_type.clone(),
                name: device.name.clone(),
                properties: device::device_json(device),
            }));
        }
        for note in notes.iter().filter(|note| !self.notes.contains(note)) {
            let (key, value) = (note.0.clone().into_owned(), quoted(&note.1));
            self.shared.buffer.push(&SpoolFrame::Note { key, value });
        }
        (self.devices, self.notes) = (devices, notes);
    }

    /// Writes samples of counters.
    pub(super) fn write_counters(&mut self, samples: &[CounterSample]) {
        self.write_records(samples.len(), |clock, texts| {
            let counters = samples.iter().map(|sample| spool::Counter {
                time_nanos: clock.nanos_at(sample.time_ticks),
                name: texts.scope_name(sample.name),
                device: sample.device,
                value: sample.value,
            });
            SpoolFrame::Counters(counters.collect())
        });
    }

    /// Writes samples of call stacks, whose nodes are in `tree`.
    pub(super) fn write_samples(
        &mut self,
        tree: &ThreadTree,
        samples: &[StackSample],
        cause: SampleCause,
    ) {
        let now_ticks = clock::ticks();
        let (thread, shared) = self.thread_writer(tree);
        thread.write_samples(tree, samples, cause, now_ticks, shared);
    }

    /// Writes the values of watched variables when a line began.
    pub(super) fn write_variables(&mut self, line: &LineVariables<'_>) {
        self.write_records(line.variables.len(), |clock, texts| {
            let time_nanos = clock.nanos_at(clock::ticks());
            let thread_name = texts.scope_name(line.thread_name);
            let (file, function) = (texts.scope_name(line.file), texts.scope_name(line.function));
            let variables = line.variables.iter().map(|variable| spool::Variable {
                time_nanos,
                os_id: line.os_id,
                thread_name,
                file,
                function,
                line: line.line,
                name: texts.scope_name(variable.name),
                value_type: texts.scope_name(variable.value_type),
                value: variable.value.clone(),
            });
            SpoolFrame::Variables(variables.collect())
        });
    }

    /// Writes collectives, whose texts are interned name ids.
    pub(super) fn write_collectives(&mut self, collectives: Vec<Collective>) {
        self.write_records(collectives.len(), |_, texts| {
            let collectives = collectives
                .into_iter()
                .map(|collective| collective.with_texts(|name| texts.scope_name(name)));
            SpoolFrame::Collectives(collectives.collect())
        });
    }

    /// Writes a frame of this number of records, after the texts that it refers to. If the buffer
    /// has no room, counts the records as lost.
    fn write_records(
        &mut self,
        count: usize,
        frame: impl FnOnce(&TraceClock, &mut Texts) -> SpoolFrame,
    ) {
        let Shared { clock, texts, buffer } = &mut self.shared;
        let count = count as u64;
        if !buffer.has_room() {
            losses::add(LossCause::Spool, count);
            return;
        }
        let frame = frame(clock, texts);
        texts.take_unwritten().for_each(|texts| buffer.push(&texts));
        buffer.push_entries(&frame, count);
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

    /// Removes the thread with this tree. Nothing more will be written about it.
    pub(super) fn remove_thread(&mut self, generation: u64) {
        self.threads.remove(&generation);
    }

    /// Writes the open scopes of the threads, as seen by the session in `slot` or else by all trace
    /// sessions.
    pub(super) fn write_open(&mut self, threads: &[Arc<ThreadTree>], slot: Option<u32>) {
        let sessions = slot.map_or_else(|| CONTROL.trace.load(Ordering::Relaxed), bit);
        for tree in threads {
            let scopes = tree.open_scopes();
            let open: Vec<_> =
                scopes.iter().filter_map(|scope| visible_scope(scope, sessions)).collect();
            if !open.is_empty() || self.threads.contains_key(&tree.generation) {
                let (thread, shared) = self.thread_writer(tree);
                thread.write_open(tree, &open, shared);
            }
        }
    }

    fn write_losses(&mut self) {
        let losses = losses::snapshot();
        if losses != self.losses {
            let nonzero = losses.iter().copied().filter(|&(_, count)| count > 0).collect();
            self.shared.buffer.push(&SpoolFrame::Losses(nonzero));
            self.losses = losses;
        }
    }

    /// Writes the overhead and the clock. The start of the spool does not call this, because the
    /// cost of a scope is measured only after the session has begun.
    pub(super) fn write_overhead_and_clock(&mut self) {
        self.shared.buffer.push(&SpoolFrame::Overhead(metadata::overhead(self.flushing_nanos)));
        self.write_clock(ClockReading::now());
    }

    fn write_clock(&mut self, now: ClockReading) {
        self.last_clock_ticks = now.ticks;
        self.shared.buffer.push(&SpoolFrame::Clock {
            monotonic_nanos: self.shared.clock.nanos_at(now.ticks),
            unix_nanos: now.unix_nanos.cast_signed(),
        });
    }

    /// Writes the buffer of a spool that the tracer has given up. The caller must not hold the
    /// tracer's lock: this waits for a thread that is writing, which may take that lock.
    pub(super) fn write(&mut self) {
        self.file.run_directory().relock();
        let appender = Arc::clone(&self.appender);
        let mut appender = lock(&appender);
        if appender.has_failed() {
            self.shared.buffer.handle_failure(0, appender.written_bytes());
        }
        self.write_buffer(&mut appender);
    }

    /// Ends the spool. Its devices, notes and losses are not written here: they were written when
    /// its last session ended, and a new session may have changed them since.
    pub(super) fn end(mut self) {
        self.write();
        let appender = Arc::clone(&self.appender);
        let mut appender = lock(&appender);
        if appender.has_failed() {
            self.write_losses();
        }
        self.shared.buffer.push(&SpoolFrame::End);
        self.write_buffer(&mut appender);
        if let Some(ring) = &self.ring {
            self.file.set_older(ring.ended_segments());
        }
        // Drop the spool before unlocking the appender, as `flush_spool` drops its reference: the
        // run directory is then unlocked when the appender is.
        drop(self);
    }

    fn write_buffer(&mut self, appender: &mut Appender) {
        let chunk = self.take_chunk();
        let written = chunk.append_to(appender);
        self.finish_chunk(written, chunk, appender);
    }
}

/// The end of a ring's segment that is not in its file yet.
pub(super) struct SegmentEnd {
    file: Arc<SpoolFile>,
    buffer: FrameBuffer,
    appender: Arc<Mutex<Appender>>,
    /// The files of segments that the ring no longer needs.
    unneeded: Vec<Arc<SpoolFile>>,
}

impl SegmentEnd {
    /// Writes the end of the segment, and removes the files that the ring no longer needs. Fails if
    /// this write or an earlier write to the segment has failed. The records that the segment lacks
    /// are counted as lost.
    pub(super) fn write(mut self) -> Result<(), Error> {
        let mut appender = lock(&self.appender);
        let has_failed_before = appender.has_failed();
        if has_failed_before {
            self.buffer.handle_failure(0, appender.written_bytes());
        }
        let mut written = self.buffer.take_chunk().append_to(&mut appender);
        if has_failed_before {
            written = written.and(Err(io::Error::other("an earlier write to it has failed")));
        }
        self.unneeded.iter().for_each(|file| file.remove());
        let failed =
            |source| Error::Write { action: "write", path: self.file.path().to_owned(), source };
        written.map_err(failed)
    }
}

fn new_buffer(is_ring: bool) -> io::Result<FrameBuffer> {
    FrameBuffer::new(if is_ring { ring::max_segment_bytes } else { file::max_spool_bytes })
}

/// The time between two writes of the clock, without the time between two drains. Together they
/// make one second.
const CLOCK_PERIOD_NANOS: u64 = 1_000_000_000 - PERIOD.as_nanos() as u64;

/// Returns an open scope, if one of these sessions sees it and the program will exit it here.
fn visible_scope(scope: &OpenScope, sessions: u64) -> Option<VisibleScope> {
    let seen = scope.sessions & sessions;
    if seen == 0 || !local::is_entered_by_program(scope) {
        return None;
    }
    let shadow = seen & !CONTROL.python.load(Ordering::Relaxed);
    let (node, sessions) =
        if shadow == 0 { (scope.python_node, seen) } else { (scope.shadow_node, shadow) };
    Some(VisibleScope { node, start_ticks: scope.start_ticks, sessions })
}

/// Returns the description of this process.
fn describe_process(now: ClockReading) -> Process {
    Process {
        pid: std::process::id().into(),
        rank: metadata::rank().map(u64::from),
        host: os::host_name(),
        argv: os::argv(),
        start_unix_nanos: now.unix_nanos,
        ..Process::default()
    }
}
