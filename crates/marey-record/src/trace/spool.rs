//! The process's spool while it is open.

use super::activities::{ActivityWriter, homeless};
use super::clock::TraceClock;
use super::file::{Appender, SpoolFile};
use super::out::{self, Chunk, Out};
use super::run::RunDirectory;
use super::texts::Texts;
use super::thread::{OpenScope, Shared, ThreadWriter};
use super::{PERIOD, Recorded, Traced};
use crate::account;
use crate::api::Counter;
use crate::clock::{self, Pair};
use crate::control::{CONTROL, bit};
use crate::device::{self, DeviceInfo, Joined, Threads};
use crate::error::Error;
use crate::local;
use crate::lock::lock;
use crate::losses;
use crate::number_hash::NumberHash;
use crate::os;
use crate::output::{Extent, json_string};
use crate::thread::{OpenFrame, ThreadTree};
use marey_model::loss::LossCause;
use marey_model::profile::Process;
use marey_model::spool::{self, Detail, Device, Frame, SessionEvent};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// A spool that is written to.
#[derive(Debug)]
pub(super) struct Spool {
    file: Arc<SpoolFile>,
    /// The file's end. Whoever holds it writes, and may take the tracer's lock meanwhile.
    appender: Arc<Mutex<Appender>>,
    written_bytes: u64,
    shared: Shared,
    /// By the generation of their trees.
    threads: HashMap<u64, ThreadWriter, NumberHash>,
    /// Threads so far, ended ones included.
    thread_count: u32,
    activities: ActivityWriter,
    /// What was said of devices and of the recording.
    devices: Vec<DeviceInfo>,
    notes: Vec<(&'static str, String)>,
    losses: [(LossCause, u64); LossCause::COUNT],
    last_clock_ticks: u64,
    /// Time that went into taking over logs and writing them.
    flushing_nanos: u64,
}

impl Spool {
    /// Makes a spool in a run directory.
    pub(super) fn create(run: &Arc<RunDirectory>) -> Result<Self, Error> {
        let (file, appender) = SpoolFile::create(run)?;
        let failed =
            |source| Error::Write { action: "write", path: file.path().to_owned(), source };
        let now = Pair::now();
        let shared = Shared {
            clock: TraceClock::starting(now),
            texts: Texts::default(),
            out: Out::new().map_err(failed)?,
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

    /// The file, as far as it is written.
    pub(super) fn recorded(&self) -> Recorded {
        let extent = Extent { bytes: self.written_bytes, threads: self.thread_count };
        Recorded { file: Arc::clone(&self.file), extent }
    }

    /// The file, and its end.
    pub(super) fn file(&self) -> (Arc<SpoolFile>, Arc<Mutex<Appender>>) {
        (Arc::clone(&self.file), Arc::clone(&self.appender))
    }

    /// Whether this is its file.
    pub(super) fn is_in(&self, file: &Arc<SpoolFile>) -> bool {
        Arc::ptr_eq(&self.file, file)
    }

    /// Whether it is time to write.
    pub(super) fn has_enough(&self) -> bool {
        self.shared.out.has_enough()
    }

    /// What is to be written next. The caller holds the file's end.
    pub(super) fn take_chunk(&mut self) -> Chunk {
        self.shared.out.take()
    }

    /// A chunk was written, or could not be, to a file that has so many bytes now.
    pub(super) fn chunk_was(&mut self, written: io::Result<()>, chunk: Chunk, file: &Appender) {
        self.written_bytes = file.written_bytes();
        match written {
            Ok(()) => self.shared.out.written(chunk),
            Err(_counted) => self.shared.out.failed(self.written_bytes),
        }
    }

    /// Time went into writing, after which the filesystem has room for others besides or not.
    pub(super) fn add_writing(&mut self, nanos: u64, has_space: Option<bool>) {
        self.flushing_nanos += nanos;
        if let Some(has_space) = has_space {
            self.shared.out.set_space(has_space);
        }
    }

    /// Keeps the file, which is another process's.
    pub(super) fn leave(self) {
        self.file.keep();
    }

    /// A session starts, or goes on in this process.
    pub(super) fn start(&mut self, session: &mut Traced) {
        let Traced { slot, base, started_ticks, phase, is_active, changed_ticks, .. } = session;
        let mut told = self.note(*slot, SessionEvent::Started, base, *started_ticks);
        if *phase > 0 {
            told = self.note(*slot, SessionEvent::Phase(*phase), base, *changed_ticks);
        }
        if !*is_active {
            told = self.note(*slot, SessionEvent::Deactivated, base, *changed_ticks);
        }
        session.part_start = Some(told.end);
    }

    /// Something happens to a session. Returns the bytes of the spool that say so.
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

    /// Takes over what the threads have logged.
    pub(super) fn drain(&mut self, threads: &[Arc<ThreadTree>]) {
        for thread in threads {
            self.drain_thread(thread);
        }
        self.write_state(threads);
    }

    /// Writes what there is to say beside what threads have logged.
    pub(super) fn write_state(&mut self, threads: &[Arc<ThreadTree>]) {
        let began = clock::ticks();
        self.write_open(threads, None);
        self.write_losses();
        self.write_said();
        let since_clock = clock::ticks().saturating_sub(self.last_clock_ticks);
        if clock::nanos(since_clock) >= CLOCK_PERIOD_NANOS {
            self.write_overhead_and_clock();
        }
        self.flushing_nanos += account::elapsed_nanos(began);
    }

    /// Takes over what a thread has logged.
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

    /// Takes over what devices did.
    pub(super) fn add_activities(
        &mut self,
        threads: &Threads,
        joined: &[Joined],
        details: &[(Detail, u64)],
    ) {
        let began = clock::ticks();
        if !self.shared.out.has_room() {
            losses::add(LossCause::Spool, joined.len() as u64);
            return;
        }
        let mut places = Vec::new();
        for activity in joined {
            let own_details = details.get(activity.details.clone()).unwrap_or_default();
            let launch = activity
                .launched
                .and_then(|(thread, launch)| Some((threads.tree(thread)?, launch)));
            places.clear();
            match launch {
                Some((tree, launch)) => {
                    let (thread, shared) = self.writer(tree);
                    thread.launch_places(tree, &launch, activity.site, shared, &mut places);
                }
                None => places.push(homeless()),
            }
            self.activities.add(activity, own_details, &places, &mut self.shared);
        }
        let Shared { texts, out, .. } = &mut self.shared;
        self.activities.write(texts, out);
        self.flushing_nanos += account::elapsed_nanos(began);
    }

    /// Writes what was said of devices and of the recording since the last time.
    fn write_said(&mut self) {
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
            let (key, value) = (note.0.to_owned(), json_string(&note.1));
            self.shared.out.frame(&Frame::Note { key, value });
        }
        (self.devices, self.notes) = (devices, notes);
    }

    /// Counters of the machine have been read.
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
        texts.take_fresh().iter().for_each(|texts| out.frame(texts));
        out.entries(&frame, count);
    }

    /// A thread is over, which has left all of its scopes.
    pub(super) fn end_thread(&mut self, tree: &ThreadTree) {
        self.drain_thread(tree);
        if let Some(thread) = self.threads.get_mut(&tree.generation) {
            thread.write_open(tree, &[], &mut self.shared);
        }
        // Devices may tell of what it launched for a while.
        if tree.launches().is_none() {
            self.threads.remove(&tree.generation);
        }
    }

    /// Nothing will be told any more of the thread with this tree.
    pub(super) fn forget_thread(&mut self, generation: u64) {
        self.threads.remove(&generation);
    }

    /// Writes which scopes are open on the threads, as one session sees it or all of them do.
    pub(super) fn write_open(&mut self, threads: &[Arc<ThreadTree>], slot: Option<u32>) {
        let sessions = slot.map_or_else(|| CONTROL.trace.load(Ordering::Relaxed), bit);
        for tree in threads {
            let frames = tree.open_frames();
            let open: Vec<_> = frames.iter().filter_map(|frame| scope(frame, sessions)).collect();
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

    /// Without the first pair: what a scope costs is measured once the session has begun.
    pub(super) fn write_overhead_and_clock(&mut self) {
        self.shared.out.frame(&Frame::Overhead(account::overhead(self.flushing_nanos)));
        self.write_clock(Pair::now());
    }

    fn write_clock(&mut self, now: Pair) {
        self.last_clock_ticks = now.ticks;
        self.shared.out.frame(&Frame::Clock {
            monotonic_nanos: self.shared.clock.nanos_at(now.ticks),
            unix_nanos: now.unix_nanos.cast_signed(),
        });
    }

    /// Nothing follows. The tracer is not locked: somebody may be writing.
    pub(super) fn end(mut self) {
        let appender = Arc::clone(&self.appender);
        let mut appender = lock(&appender);
        if appender.has_failed() {
            self.shared.out.failed(appender.written_bytes());
        }
        self.write_rest(&mut appender);
        self.write_losses();
        self.write_said();
        self.write_overhead_and_clock();
        self.shared.out.frame(&Frame::End);
        self.write_rest(&mut appender);
    }

    fn write_rest(&mut self, appender: &mut Appender) {
        let chunk = self.take_chunk();
        let written = chunk.append_to(appender);
        self.chunk_was(written, chunk, appender);
    }
}

/// With the time between two drains, a second.
const CLOCK_PERIOD_NANOS: u64 = 1_000_000_000 - PERIOD.as_nanos() as u64;

/// An entered scope, if one of the sessions sees it and will see its end.
fn scope(frame: &OpenFrame, sessions: u64) -> Option<OpenScope> {
    let seen = frame.sessions & sessions;
    if seen == 0 || !local::is_running_entry(frame) {
        return None;
    }
    let shadow = seen & !CONTROL.python.load(Ordering::Relaxed);
    let (node, sessions) =
        if shadow == 0 { (frame.python_node, seen) } else { (frame.shadow_node, shadow) };
    Some(OpenScope { node, start_ticks: frame.start_ticks, sessions })
}

/// This process.
fn process(now: Pair) -> Process {
    Process {
        pid: std::process::id().into(),
        rank: account::rank().map(u64::from),
        host: os::host_name(),
        argv: os::argv(),
        start_unix_nanos: now.unix_nanos,
        ..Process::default()
    }
}
