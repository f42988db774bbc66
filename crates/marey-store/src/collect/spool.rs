//! Collects one spool in two passes: the outline, then the events. Both passes read the same open
//! file up to the length that it had at the start, because the process may still append to it.

use std::fs::File;
use std::io::{BufReader, Read, Seek, Take};
use std::path::{Path, PathBuf};

use marey_model::loss::LossCause;
use marey_model::profile::Process;
use marey_model::spool::{SpoolError, SpoolFrame, SpoolReader};

use super::Sources;
use super::clock::Clock;
use super::events::Events;
use super::meter::Meter;
use super::outline::Outline;
use super::process;
use super::ring;
use super::uncollected::UncollectedSpool;
use super::windows::Windows;
use super::write::{self, References};
use crate::arg_texts::ArgTexts;
use crate::file_id::FileId;
use crate::names::Names;
use crate::parts::Parts;
use crate::sort::SpillFile;
use crate::{ProcessEntry, StoreError};

/// Name and category that torch.profiler gives to arrows from forward operators to autograd nodes.
const AUTOGRAD_FLOW: &str = "fwdbwd";

/// A spool's file, up to the length that it had when the collection began.
#[derive(Clone, Debug)]
pub(super) struct SpoolFile {
    pub(super) path: PathBuf,
    pub(super) len_bytes: u64,
    pub(super) id: FileId,
}

/// The source of a spool's frames.
#[derive(Debug)]
pub(super) struct SpoolInput {
    /// The spool's file, or a temporary file with the joined segments of a ring. One descriptor
    /// serves both passes, because by the second pass the name may belong to another file.
    descriptor: File,
    pub(super) file: SpoolFile,
    /// The segments of a ring before the last one.
    pub(super) older_segments: Vec<SpoolFile>,
    /// The reason why the segments of a ring could be joined only in part, if that happened.
    broken: Option<SpoolError>,
}

impl SpoolInput {
    /// Opens a spool. A ring may have gone on since it was listed, so `spool` is set to its last
    /// segment.
    pub(super) fn open(run: &Path, spool: &mut UncollectedSpool) -> Result<Self, StoreError> {
        if ring::is_segment(&spool.name) {
            let joined = ring::join(run, spool)?;
            let file = SpoolFile { len_bytes: joined.len_bytes, ..spool.file.clone() };
            let ring::JoinedSegments { file: descriptor, older_segments, broken, .. } = joined;
            return Ok(Self { descriptor, file, older_segments, broken });
        }
        let file = spool.file.clone();
        let opened = File::open(&file.path).map_err(StoreError::io("open", &file.path))?;
        Ok(Self { descriptor: opened, file, older_segments: Vec::new(), broken: None })
    }
}

/// The ids of a spool's process and threads.
#[derive(Debug)]
pub(super) struct SpoolIds {
    pub(super) process_id: u32,
    /// Ids of its threads, by position. Before the collection, the ids that an earlier one has
    /// assigned.
    pub(super) thread_ids: Vec<u32>,
    /// The next free thread id.
    pub(super) next_thread_id: u32,
}

/// The result of collecting a spool, besides its parts.
#[derive(Debug)]
pub(super) struct SpoolResult {
    pub(super) process: ProcessEntry,
    pub(super) losses: Vec<(&'static str, u64)>,
    pub(super) events: u64,
    pub(super) read_bytes: u64,
    /// Whether the spool will not grow any more.
    pub(super) is_whole: bool,
    /// The reason why reading stopped before the end, unless the end is just torn.
    pub(super) broken: Option<SpoolError>,
    /// The traces of windows, which were read too.
    pub(super) windows: Vec<SpoolFile>,
}

/// Collects an opened spool and writes its parts.
pub(super) fn collect(
    (spool, input): (&UncollectedSpool, &mut SpoolInput),
    sources: &dyn Sources,
    ids: &mut SpoolIds,
    names: &mut Names,
    args: &mut ArgTexts,
    parts: &mut Parts,
    meter: &mut Meter,
) -> Result<SpoolResult, StoreError> {
    let SpoolInput { descriptor: file, file: spool_file, .. } = &*input;
    meter.begin_spool(spool_file.len_bytes);
    let mut outline = Outline::default();
    let read_end = spool_file.read_frames(file, meter, |frame| {
        outline.add(&frame, names);
        Ok(())
    })?;
    let clock = Clock::new(&outline.clocks);
    let mut windows =
        Windows::read(&spool.windows, (spool_file, file), &mut outline, &clock, names, sources)?;
    let process = process::process_entry(&outline, &clock, spool_file.pid(), ids.process_id);
    ids.assign_threads(outline.threads.len());

    let window_files = std::mem::take(&mut windows.files);
    let spill_file = SpillFile::new(&parts.run);
    let mut events = Events::new(&outline, &clock, process.id, windows, &spill_file, sources);
    spool_file.read_frames(file, meter, |frame| events.add(frame))?;
    let rows = events.finish()?;
    let saturated_nodes =
        rows.totals.iter().filter(|node_totals| node_totals.is_saturated()).count();
    outline.losses.push((LossCause::Unsupported, saturated_nodes as u64));
    let is_whole = spool.is_closed || process.is_complete;
    let owner_id = (!is_whole).then_some(process.id);
    process::write(&outline, &clock, (&process, owner_id), &ids.thread_ids, parts)?;
    let references = References {
        process_id: process.id,
        owner_id,
        start_nanos: process.start_unix_nanos,
        thread_ids: &ids.thread_ids,
        nodes: &outline.nodes,
        autograd_name_id: if rows.sorted.autograd.row_count() == 0 {
            0
        } else {
            names.text_id(AUTOGRAD_FLOW)
        },
    };
    write::write(rows, references, args, parts, meter)?;
    meter.end_spool();
    Ok(SpoolResult {
        process,
        losses: process::losses(&outline).collect(),
        events: outline.event_count,
        // The joined file lacks the torn ends of segments, so its length does not count.
        read_bytes: if ring::is_segment(&spool.name) {
            spool.file.len_bytes
        } else {
            read_end.read_bytes
        },
        is_whole,
        broken: input.broken.take().or(read_end.broken),
        windows: window_files,
    })
}

impl SpoolIds {
    /// Assigns ids to threads until there are `count`.
    fn assign_threads(&mut self, count: usize) {
        while self.thread_ids.len() < count {
            self.thread_ids.push(self.next_thread_id);
            self.next_thread_id += 1;
        }
    }
}

/// The end of a read: its position, and the reason why a frame contradicts an earlier one, if one
/// does.
pub(super) struct ReadEnd {
    read_bytes: u64,
    broken: Option<SpoolError>,
}

impl SpoolFile {
    /// Passes every frame to `on_frame`, up to the length that the file had at the start or up to
    /// the first unreadable frame.
    pub(super) fn read_frames(
        &self,
        file: &File,
        meter: &mut Meter,
        mut on_frame: impl FnMut(SpoolFrame) -> Result<(), StoreError>,
    ) -> Result<ReadEnd, StoreError> {
        let end_with = |read_bytes, error| match error {
            SpoolError::Io(source) => Err(StoreError::io("read", &self.path)(source)),
            error => Ok(ReadEnd { read_bytes, broken: Some(error) }),
        };
        let mut frames = match self.frames(file) {
            Ok(frames) => frames,
            Err(error) => return end_with(0, error),
        };
        let mut counted_bytes = 0;
        while let Some(frame) = frames.next() {
            match frame {
                Ok(frame) => on_frame(frame)?,
                Err(error) => return end_with(frames.offset(), error),
            }
            meter.add_read(frames.offset() - counted_bytes);
            counted_bytes = frames.offset();
        }
        Ok(ReadEnd { read_bytes: frames.offset(), broken: None })
    }

    fn frames<'a>(
        &self,
        mut file: &'a File,
    ) -> Result<SpoolReader<BufReader<Take<&'a File>>>, SpoolError> {
        file.rewind()?;
        SpoolReader::new(BufReader::with_capacity(1 << 16, file.take(self.len_bytes)))
    }

    /// Returns the process that wrote the spool, if the first frame is readable.
    pub(super) fn process(&self) -> Option<Process> {
        let file = File::open(&self.path).ok()?;
        match self.frames(&file).ok()?.next()?.ok()? {
            SpoolFrame::Process(process) => Some(process),
            _ => None,
        }
    }

    /// Returns the process id at the start of the file name.
    pub(super) fn pid(&self) -> Option<u64> {
        self.path.file_name()?.to_str()?.split('-').next()?.parse().ok()
    }
}
