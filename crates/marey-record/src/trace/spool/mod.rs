//! The open spool of the process: a buffer of frames, which goes to the file in chunks. The tracer
//! owns it under its lock.
//!
//! [`state`] and [`records`] turn what the process does into frames.

mod records;
mod segment_end;
mod state;

use self::segment_end::SegmentEnd;

use super::activities::ActivityWriter;
use super::clock::TraceClock;
use super::file::{self, Appender, SpoolFile};
use super::frame_buffer::{self, FrameBuffer, FrameChunk};
use super::ring::{self, Ring};
use super::run_directory::RunDirectory;
use super::snapshot::SpoolSnapshot;
use super::texts::SpoolTexts;
use super::thread::{SpoolOutput, ThreadWriter};
use crate::clock::ClockReading;
use crate::device::{self, DeviceInfo};
use crate::error::Error;
use crate::lock::lock;
use crate::metadata;
use crate::number_hash::NumberHash;
use crate::os;
use crate::output::Extent;
use marey_model::loss::LossCause;
use marey_model::profile::Process;
use marey_model::spool::SpoolFrame;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, Weak};

/// An open spool.
#[derive(Debug)]
pub(super) struct Spool {
    file: Arc<SpoolFile>,
    /// The writer at the end of the file. A thread that writes locks it first, and may then take
    /// the tracer's lock.
    appender: Arc<Mutex<Appender>>,
    written_bytes: u64,
    output: SpoolOutput,
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
        let failed = |source| Error::write("write", file.path(), source);
        let output = SpoolOutput {
            clock: TraceClock::starting_at(start),
            texts: SpoolTexts::default(),
            buffer: new_buffer(is_ring).map_err(failed)?,
        };
        let mut spool = Self {
            file: Arc::new(file),
            appender: Arc::new(Mutex::new(appender)),
            written_bytes: 0,
            output,
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
        spool.output.buffer.set_has_space(frame_buffer::has_free_space(spool.file.path()));
        Ok(spool)
    }

    fn write_start(&mut self, now: ClockReading) {
        self.output.buffer.push(&SpoolFrame::Process(describe_process(self.start)));
        self.write_clock(now);
        let notes = self.ring.as_ref().map(|_| ring::limit_notes());
        notes.into_iter().flatten().for_each(|note| self.output.buffer.push(&note));
    }

    /// Returns the file, if this is a ring.
    pub(super) fn ring_file(&self) -> Option<&Arc<SpoolFile>> {
        self.ring.as_ref().map(|_| &self.file)
    }

    /// Returns the name of the next segment of a ring if the current one is full or `must_end`.
    pub(super) fn next_segment_name(&self, must_end: bool) -> Option<String> {
        let ring = self.ring.as_ref()?;
        let is_due = must_end || ring.is_full(&self.output.buffer);
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
        buffer.set_has_space(self.output.buffer.has_space());
        self.write_overhead_and_clock();
        let ended = SegmentEnd {
            file: std::mem::replace(&mut self.file, Arc::new(file)),
            buffer: std::mem::replace(&mut self.output.buffer, buffer),
            appender: std::mem::replace(&mut self.appender, Arc::new(Mutex::new(appender))),
            unneeded: Vec::new(),
        };
        self.output.texts = SpoolTexts::default();
        self.written_bytes = 0;
        self.activities = ActivityWriter::default();
        (self.devices, self.notes) = (Vec::new(), Vec::new());
        self.losses = LossCause::ALL.map(|cause| (cause, 0));
        let ended_file = Arc::clone(&ended.file);
        let unneeded = self.ring.as_mut().map(|ring| ring.add_segment(ended_file, &ended.buffer));
        self.write_start(ClockReading::now());
        for thread in self.threads.values_mut() {
            thread.begin_segment(&mut self.output.buffer);
        }
        Ok(SegmentEnd { unneeded: unneeded.unwrap_or_default(), ..ended })
    }

    /// Returns the files of the ended segments of a ring, oldest first.
    pub(super) fn ended_segments(&self) -> Vec<Arc<SpoolFile>> {
        self.ring.as_ref().map(Ring::ended_segments).unwrap_or_default()
    }

    /// Returns the file and its extent, which includes the buffer.
    pub(super) fn snapshot(&self) -> SpoolSnapshot {
        let bytes = self.output.buffer.position_bytes();
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
        self.output.buffer.should_flush()
    }

    /// Takes the frames to be written next. The caller must have locked the appender.
    pub(super) fn take_chunk(&mut self) -> FrameChunk {
        self.output.buffer.take_chunk()
    }

    /// Handles the result of writing a chunk.
    pub(super) fn finish_chunk(
        &mut self,
        written: io::Result<()>,
        chunk: FrameChunk,
        appender: &Appender,
    ) {
        self.written_bytes = appender.written_bytes();
        match written {
            Ok(()) => self.output.buffer.recycle(chunk),
            Err(_counted) => self.output.buffer.handle_failure(chunk.entries, self.written_bytes),
        }
    }

    /// Adds time spent on writing. Also updates whether the filesystem has enough free space, if
    /// that was checked.
    pub(super) fn add_flushing(&mut self, nanos: u64, has_space: Option<bool>) {
        self.flushing_nanos += nanos;
        if let Some(has_space) = has_space {
            self.output.buffer.set_has_space(has_space);
        }
    }

    /// Drops the spool without its file, which belongs to the parent process.
    pub(super) fn abandon(self) {
        self.file.keep();
    }

    /// Writes the buffer of a spool that the tracer has given up. The caller must not hold the
    /// tracer's lock: this waits for a thread that is writing, which may take that lock.
    pub(super) fn write(&mut self) {
        self.file.run_directory().relock();
        let appender = Arc::clone(&self.appender);
        let mut appender = lock(&appender);
        if appender.has_failed() {
            self.output.buffer.handle_failure(0, appender.written_bytes());
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
        self.output.buffer.push(&SpoolFrame::End);
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

fn new_buffer(is_ring: bool) -> io::Result<FrameBuffer> {
    FrameBuffer::new(if is_ring { ring::max_segment_bytes } else { file::max_spool_bytes })
}

/// Returns the description of this process.
fn describe_process(start: ClockReading) -> Process {
    Process {
        pid: std::process::id().into(),
        rank: metadata::rank().map(u64::from),
        host: os::host_name(),
        argv: os::argv(),
        start_unix_nanos: start.unix_nanos,
        ..Process::default()
    }
}
