//! A ring: a spool that keeps only its end, in a bounded number of bytes.
//!
//! It consists of segments, each a spool by itself ([`marey_model::spool::join_ring`]). When a segment
//! is full, the ring continues in another file. The oldest files are removed while the others hold
//! enough records. So a reader, and a process that is killed, always find whole segments, and the program's
//! threads notice nothing: only the thread that drains their logs writes.

use super::file::SpoolFile;
use super::frame_buffer::FrameBuffer;
use super::spool::Spool;
use super::{TRACER, Tracer, flush_spool};
use crate::clock::{self, ClockReading};
use crate::error::Error;
use crate::lock::lock;
use crate::losses;
use crate::registry;
use crate::requests::Requests;
use crate::settings;
use marey_model::loss::LossCause;
use marey_model::run::{RING, SPOOL};
use marey_model::setting::Setting;
use marey_model::spool::{Frame, RING_RECORDS, RING_SECONDS};
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The part of the limit after which a segment ends.
const SEGMENTS: u64 = 4;
/// Minimum number of records of a full segment.
const MIN_SEGMENT_RECORDS: u64 = 256;
/// Minimum age of a segment that is full because of its age, or that failed.
const MIN_SEGMENT_SECS: f64 = 1.0;

/// Raised when the ring has continued in another segment.
static CONTINUED: Requests = Requests::new();

/// The segments of the process's ring, besides the current one.
#[derive(Debug)]
pub(super) struct Ring {
    /// Names of files without their number and extension.
    stem: String,
    /// Number of the current segment.
    number: u64,
    /// Start of the current segment.
    start_ticks: u64,
    /// Oldest first.
    ended: VecDeque<Segment>,
}

/// A segment that has ended.
#[derive(Debug)]
struct Segment {
    file: Arc<SpoolFile>,
    records: u64,
    bytes: u64,
    end_ticks: u64,
}

impl Ring {
    pub(super) fn starting_at(start: ClockReading) -> Self {
        let stem = format!("{}-{}", std::process::id(), start.unix_nanos);
        Self { stem, number: 0, start_ticks: start.ticks, ended: VecDeque::new() }
    }

    /// Returns the name of the current segment's file.
    pub(super) fn segment_name(&self) -> String {
        segment_name(&self.stem, self.number)
    }

    /// Returns the name of the next segment's file.
    pub(super) fn next_segment_name(&self) -> String {
        segment_name(&self.stem, self.number + 1)
    }

    /// Whether the segment with this buffer is full. One that accepts no more records after a failed
    /// write is, once it has its minimum age: the next one may have space again.
    pub(super) fn is_full(&self, buffer: &FrameBuffer) -> bool {
        let records = buffer.total_entries();
        let age_secs = clock::nanos_since(self.start_ticks) as f64 / 1e9;
        if buffer.has_failed() {
            return age_secs >= MIN_SEGMENT_SECS;
        }
        let secs = settings::value(Setting::RingSeconds);
        let is_over_limit = if secs > 0.0 {
            age_secs >= (secs / SEGMENTS as f64).max(MIN_SEGMENT_SECS)
        } else {
            records >= (settings::whole(Setting::RingRecords) / SEGMENTS).max(MIN_SEGMENT_RECORDS)
        };
        records > 0 && (is_over_limit || buffer.position_bytes() >= max_segment_bytes() / SEGMENTS)
    }

    /// Adds the segment with this file and buffer, which has ended. Returns the files of segments
    /// that are no longer needed, and counts their records as dropped. A segment without a record is
    /// not needed.
    pub(super) fn add_segment(
        &mut self,
        file: Arc<SpoolFile>,
        buffer: &FrameBuffer,
    ) -> Vec<Arc<SpoolFile>> {
        let end_ticks = clock::ticks();
        self.number += 1;
        self.start_ticks = end_ticks;
        let (records, bytes) = (buffer.total_entries(), buffer.position_bytes());
        if buffer.has_failed() && records == 0 {
            return vec![file];
        }
        self.ended.push_back(Segment { file, records, bytes, end_ticks });
        let mut unneeded = Vec::new();
        while self.is_oldest_unneeded()
            && let Some(oldest) = self.ended.pop_front()
        {
            losses::add(LossCause::Ring, oldest.records);
            unneeded.push(oldest.file);
        }
        unneeded
    }

    /// Whether the segments after the oldest hold enough, or all together take too many bytes.
    fn is_oldest_unneeded(&self) -> bool {
        let Some(oldest) = self.ended.front() else { return false };
        let bytes: u64 = self.ended.iter().map(|segment| segment.bytes).sum();
        let secs = settings::value(Setting::RingSeconds);
        let has_enough = if secs > 0.0 {
            clock::nanos_since(oldest.end_ticks) as f64 / 1e9 > secs
        } else {
            let newer_records: u64 = self.ended.iter().skip(1).map(|segment| segment.records).sum();
            newer_records >= settings::whole(Setting::RingRecords)
        };
        // The other half of the bytes is for the current segment.
        has_enough || bytes > max_segment_bytes()
    }

    /// Returns the files of the ended segments, oldest first.
    pub(super) fn ended_segments(&self) -> Vec<Arc<SpoolFile>> {
        self.ended.iter().map(|segment| Arc::clone(&segment.file)).collect()
    }
}

fn segment_name(stem: &str, number: u64) -> String {
    format!("{stem}.{number:06}.{RING}")
}

/// Returns the size of a segment up to which it accepts records.
pub(super) fn max_segment_bytes() -> u64 {
    settings::whole(Setting::RingBytes) / 2
}

/// Returns the limits of the ring, by which readers leave out records.
pub(super) fn limit_notes() -> [Frame; 2] {
    let secs = settings::value(Setting::RingSeconds);
    let records = if secs > 0.0 { 0 } else { settings::whole(Setting::RingRecords) };
    let note = |key: &str, value: String| Frame::Note { key: key.to_owned(), value };
    [note(RING_RECORDS, records.to_string()), note(RING_SECONDS, secs.to_string())]
}

/// Continues the ring in another segment if the current one is full.
pub(super) fn continue_if_full() {
    // A failure is repeated with the next drain, or its losses are counted.
    drop(continue_in_next_segment(false));
}

/// Continues the ring in another segment. The file is created and the old one is completed without
/// the tracer's lock. If the file cannot be created, the current segment goes on, up to its maximum size. Fails also if
/// the old one lacks records because a write has failed.
fn continue_in_next_segment(must_end: bool) -> Result<(), Error> {
    let next = lock(&TRACER).spool.as_ref().and_then(|spool| {
        let name = spool.next_segment_name(must_end)?;
        let file = spool.ring_file()?;
        Some((name, Arc::clone(file.run_directory()), file.kept_flag()))
    });
    let Some((name, run_directory, is_kept)) = next else { return Ok(()) };
    let (file, appender) = SpoolFile::create_segment(&run_directory, &name, is_kept)?;
    let mut tracer = lock(&TRACER);
    let threads = registry::running_threads();
    let Tracer { sessions, spool, .. } = &mut *tracer;
    // The last session may have ended in between, or another thread may have been faster.
    let is_next = |spool: &&mut Spool| spool.next_segment_name(true).as_ref() == Some(&name);
    let Some(spool) = spool.as_mut().filter(is_next) else {
        file.remove();
        return Ok(());
    };
    let path = file.path().to_owned();
    let failed = |source| Error::Write { action: "write", path, source };
    let ended = spool.continue_in(file, appender).map_err(failed)?;
    for session in sessions {
        spool.write_session_start(session);
    }
    spool.write_state(&threads);
    drop(tracer);
    CONTINUED.add(1);
    let written = ended.write();
    flush_spool();
    written
}

/// Saves the ring, if there is one, as a run of its own, and goes on. Returns the run's path. Fails if
/// the current segment cannot be ended or written: the run would lack the last records.
pub(crate) fn save() -> Option<Result<PathBuf, Error>> {
    super::drain();
    if let Err(error) = end_current_segment() {
        return Some(Err(error));
    }
    let tracer = lock(&TRACER);
    let spool = tracer.spool.as_ref()?;
    let run = spool.ring_file()?.run_directory().path().to_owned();
    let segments = spool.ended_segments();
    drop(tracer);
    Some(save_as_run(&run, &segments))
}

/// Ends the current segment of the ring, if there is a ring. In the child of a fork that has recorded
/// nothing, the segment is created first.
fn end_current_segment() -> Result<(), Error> {
    const ATTEMPTS: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(10);
    let next_name = || {
        let mut tracer = lock(&TRACER);
        let spool = tracer.spool()?;
        Ok::<_, Error>(spool.and_then(|spool| spool.next_segment_name(true)))
    };
    let name = next_name()?;
    let mut ended = Ok(());
    for _ in 0..ATTEMPTS {
        ended = continue_in_next_segment(true);
        let is_other_thread_about_to_continue = matches!(
            &ended,
            Err(Error::Write { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists
        );
        if !is_other_thread_about_to_continue {
            break;
        }
        CONTINUED.wait(Some(PAUSE));
        if next_name()? != name {
            return Ok(());
        }
    }
    ended
}

/// Links segments into a new run directory. A segment that the ring has removed meanwhile is left out.
fn save_as_run(run: &Path, segments: &[Arc<SpoolFile>]) -> Result<PathBuf, Error> {
    let saved = create_run(run)?;
    for segment in segments {
        let path = segment.path();
        let Some(name) = path.file_name() else { continue };
        let target = saved.join(SPOOL).join(name);
        // A file system without hard links gets a copy.
        let linked = fs::hard_link(path, &target).or_else(|_| fs::copy(path, &target).map(drop));
        match linked {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::Write { action: "write", path: target, source: error });
            }
            _ => {}
        }
    }
    Ok(saved)
}

/// Creates a run directory beside another one, with the first free number.
fn create_run(run: &Path) -> Result<PathBuf, Error> {
    let mut number = 1_u32;
    loop {
        let path = super::run_directory::numbered_path(run, number);
        match fs::create_dir(&path).and_then(|()| fs::create_dir(path.join(SPOOL))) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(source) => return Err(Error::Write { action: "create", path, source }),
        }
    }
}
