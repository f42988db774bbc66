//! One spool: its two passes, and the parts that come of it.

use std::fs::File;
use std::io::{BufReader, Read, Seek, Take};
use std::path::PathBuf;

use marey_model::loss::LossCause;
use marey_model::profile::Process;
use marey_model::spool::{Frame, Reader, SpoolError};

use super::about;
use super::clock::Clock;
use super::events::Events;
use super::meter::Meter;
use super::outline::Outline;
use super::write::{self, Refs};
use crate::arg_texts::ArgTexts;
use crate::names::Names;
use crate::own::FileId;
use crate::parts::Parts;
use crate::sort::Room;
use crate::{ProcessEntry, StoreError};

/// A spool's file, as far as it is collected.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) len_bytes: u64,
    pub(super) id: FileId,
}

/// The ids of a spool's process and threads.
#[derive(Debug)]
pub(super) struct Ids {
    pub(super) process: u32,
    /// Of its threads, by their positions: those that have been collected before, then all.
    pub(super) threads: Vec<u32>,
    /// The next one of a thread that is free.
    pub(super) next_thread: u32,
}

/// What came of a spool, beside its parts.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) process: ProcessEntry,
    pub(super) losses: Vec<(&'static str, u64)>,
    pub(super) events: u64,
    pub(super) read_bytes: u64,
    /// Whether nothing will follow.
    pub(super) is_whole: bool,
    /// Why reading ended before the end, where the rest is not just torn.
    pub(super) broken: Option<SpoolError>,
}

/// Writes the parts of a spool; `is_over` says that nobody is there who would append to it.
pub(super) fn collect(
    source: &Source,
    is_over: bool,
    ids: &mut Ids,
    names: &mut Names,
    args: &mut ArgTexts,
    parts: &mut Parts,
    meter: &mut Meter,
) -> Result<Taken, StoreError> {
    meter.begin_spool(source.len_bytes);
    // Read twice, and by its name only once: that may be another file's by then.
    let file = File::open(&source.path).map_err(StoreError::io("open", &source.path))?;
    let mut outline = Outline::default();
    let end = source.pass(&file, meter, |frame| {
        outline.add(&frame, names);
        Ok(())
    })?;
    let clock = Clock::new(&outline.clocks);
    let process = about::process(&outline, &clock, source.pid(), ids.process);
    ids.name_threads(outline.threads.len());

    let mut events = Events::new(&outline, &clock, process.id, &Room::new(&parts.run));
    source.pass(&file, meter, |frame| events.add(frame))?;
    let gathered = events.finish()?;
    let saturated = gathered.wholes.iter().filter(|whole| whole.is_saturated()).count();
    outline.losses.push((LossCause::Unsupported, saturated as u64));
    let is_whole = is_over || process.is_complete;
    let owner = (!is_whole).then_some(process.id);
    about::write(&outline, &clock, (&process, owner), &ids.threads, parts)?;
    let refs = Refs {
        process: process.id,
        owner,
        start_nanos: process.start_unix_nanos,
        threads: &ids.threads,
        places: &outline.places,
    };
    write::write(gathered, refs, args, parts, meter)?;
    meter.end_spool();
    Ok(Taken {
        process,
        losses: about::losses(&outline).collect(),
        events: outline.events,
        read_bytes: end.read_bytes,
        is_whole,
        broken: end.broken,
    })
}

impl Ids {
    /// Gives so many threads an id.
    fn name_threads(&mut self, count: usize) {
        while self.threads.len() < count {
            self.threads.push(self.next_thread);
            self.next_thread += 1;
        }
    }
}

/// How far a pass came.
struct PassEnd {
    read_bytes: u64,
    broken: Option<SpoolError>,
}

impl Source {
    /// Gives every frame to `each`, up to the length that the file had, or to what cannot be read.
    fn pass(
        &self,
        file: &File,
        meter: &mut Meter,
        mut each: impl FnMut(Frame) -> Result<(), StoreError>,
    ) -> Result<PassEnd, StoreError> {
        let error = |source| StoreError::io("read", &self.path)(source);
        let broken = |read_bytes, found| match found {
            SpoolError::Io(source) => Err(error(source)),
            found => Ok(PassEnd { read_bytes, broken: Some(found) }),
        };
        let mut frames = match self.frames(file) {
            Ok(frames) => frames,
            Err(found) => return broken(0, found),
        };
        let mut counted_bytes = 0;
        while let Some(frame) = frames.next() {
            match frame {
                Ok(frame) => each(frame)?,
                Err(found) => return broken(frames.offset(), found),
            }
            meter.read(frames.offset() - counted_bytes);
            counted_bytes = frames.offset();
        }
        Ok(PassEnd { read_bytes: frames.offset(), broken: None })
    }

    fn frames<'a>(
        &self,
        mut file: &'a File,
    ) -> Result<Reader<BufReader<Take<&'a File>>>, SpoolError> {
        file.rewind()?;
        Reader::new(BufReader::with_capacity(1 << 16, file.take(self.len_bytes)))
    }

    /// The process that wrote the spool, if its first frame can be read.
    pub(super) fn process(&self) -> Option<Process> {
        let file = File::open(&self.path).ok()?;
        match self.frames(&file).ok()?.next()?.ok()? {
            Frame::Process(process) => Some(process),
            _ => None,
        }
    }

    /// The number of the process that the file's name begins with.
    fn pid(&self) -> Option<u64> {
        self.path.file_name()?.to_str()?.split('-').next()?.parse().ok()
    }
}
