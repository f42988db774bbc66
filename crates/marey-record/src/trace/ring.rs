//! A ring: a trace that keeps only its last records, in a bounded number of bytes.
//!
//! A ring consists of segments, each a complete spool ([`marey_model::spool::join_ring`]). When a
//! segment is full, the ring continues in a new file. It removes the oldest file while the others
//! hold enough records. A reader therefore always finds whole segments, even after the process was
//! killed. Only the thread that drains the logs writes, so the program's threads are not slowed
//! down.

use super::drain::{drain, flush_spool};
use super::file::SpoolFile;
use super::frame_buffer::FrameBuffer;
use super::spool::Spool;
use super::tracer::{TRACER, Tracer};
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
use marey_model::spool::{RING_RECORDS, RING_SECONDS, SpoolFrame};
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The number of segments that the limit is divided into.
const SEGMENTS: u64 = 4;
/// The minimum number of records at which a segment is full.
const MIN_SEGMENT_RECORDS: u64 = 256;
/// The minimum age of a segment that ends because of its age or of a failed write.
const MIN_SEGMENT_SECS: f64 = 1.0;

/// Raised each time that the ring has continued in a new segment.
static CONTINUED: Requests = Requests::new();

/// The segments of the process's ring, besides the current one.
#[derive(Debug)]
pub(super) struct Ring {
    /// The common part of the files' names, without number and extension.
    stem: String,
    /// Number of the current segment.
    number: u64,
    /// Start of the current segment.
    start_ticks: u64,
    /// The segments that have ended, oldest first.
    ended: VecDeque<EndedSegment>,
}

/// A segment that has ended.
#[derive(Debug)]
struct EndedSegment {
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

    /// Whether the segment with this buffer is full. A segment whose writes fail counts as full at
    /// its minimum age, because the next one may have space again.
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

    /// Adds the ended segment with this file and buffer. Returns the files of the segments that are
    /// no longer needed, and counts their records as dropped. A failed segment without records is
    /// not needed itself.
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
        self.ended.push_back(EndedSegment { file, records, bytes, end_ticks });
        let mut unneeded = Vec::new();
        while self.is_oldest_unneeded()
            && let Some(oldest) = self.ended.pop_front()
        {
            losses::add(LossCause::Ring, oldest.records);
            unneeded.push(oldest.file);
        }
        unneeded
    }

    /// Whether the newer segments hold enough without the oldest, or all of them take too many
    /// bytes.
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
        // The other half of the limit is for the current segment.
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

/// Returns the size up to which a segment accepts records: half of the ring's limit.
pub(super) fn max_segment_bytes() -> u64 {
    settings::whole(Setting::RingBytes) / 2
}

/// Returns the ring's limits as notes. Readers leave out the records beyond them.
pub(super) fn limit_notes() -> [SpoolFrame; 2] {
    let secs = settings::value(Setting::RingSeconds);
    let records = if secs > 0.0 { 0 } else { settings::whole(Setting::RingRecords) };
    let note = |key: &str, value: String| SpoolFrame::Note { key: key.to_owned(), value };
    [note(RING_RECORDS, records.to_string()), note(RING_SECONDS, secs.to_string())]
}

/// Continues the ring in another segment if the current one is full.
pub(super) fn continue_if_full() {
    // The next drain tries again after a failure. Lost records are counted already.
    drop(continue_in_next_segment(false));
}

/// Continues the ring in another segment if the current one is full or `must_end`. Creates the new
/// file and completes the old one without the tracer's lock. If the file cannot be created, the
/// current segment goes on up to its maximum size. Also fails if the old segment lacks records
/// because a write has failed.
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
    // The last session may have ended meanwhile, or another thread may have continued the ring.
    let is_next = |spool: &&mut Spool| spool.next_segment_name(true).as_ref() == Some(&name);
    let Some(spool) = spool.as_mut().filter(is_next) else {
        file.remove();
        return Ok(());
    };
    let path = file.path().to_owned();
    let failed = |source| Error::write("write", &path, source);
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

/// Saves the ring, if there is one, as a run of its own, and goes on. Returns the path of the run.
/// Fails if the current segment cannot be ended or written, because the run would lack the last
/// records.
pub(crate) fn save() -> Option<Result<PathBuf, Error>> {
    drain();
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

/// Ends the current segment of the ring, if there is a ring. The child of a fork that has recorded
/// nothing yet first creates the segment.
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

/// Links the segments into a new run directory. Leaves out those that the ring has removed
/// meanwhile.
fn save_as_run(run: &Path, segments: &[Arc<SpoolFile>]) -> Result<PathBuf, Error> {
    let saved = create_run(run)?;
    for segment in segments {
        let path = segment.path();
        let Some(name) = path.file_name() else { continue };
        let target = saved.join(SPOOL).join(name);
        // Copy the file where the filesystem has no hard links.
        let linked = fs::hard_link(path, &target).or_else(|_| fs::copy(path, &target).map(drop));
        match linked {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::write("write", &target, error));
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
            Err(source) => return Err(Error::write("create", &path, source)),
        }
    }
}
