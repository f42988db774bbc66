//! Proton's Chrome trace of one session, streamed from a spool.
//!
//! The spool is read once, phase after phase ([`Playback`]). Texts and nodes stay in memory, and
//! the state of each thread that places the next event ([`thread`]). Events do not stay, so a long
//! trace takes no more memory than a short one.
//!
//! A scope is a complete event (`"ph": "X"`) in a lane of its thread. The events of one lane nest.
//! Where scopes of a thread overlap without nesting, as scopes of coroutines do, the thread gets
//! more lanes.

mod activities;
mod event;
mod growing_file;
mod lanes;
mod metrics;
mod session_state;
mod thread;

#[cfg(test)]
mod tests;

use self::activities::Activities;
use self::event::Events;
use self::growing_file::GrowingFile;
use self::session_state::SessionState;
use self::thread::ThreadPlayback;
use crate::control::bit;
use marey_model::loss::LossCause;
use marey_model::memory::parse_reading_name;
use marey_model::spool::{IdMap, RecordedValue, SpoolError, SpoolFrame, SpoolReader};
use std::collections::BTreeMap;
use std::io::{self, BufReader};
use std::ops::Range;
use std::path::Path;

/// The readable extent of a spool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// The current end, between two frames.
    pub(crate) bytes: u64,
    /// The number of threads up to there. All thread numbers are lower.
    pub(crate) threads: u32,
}

/// A reader of the spool for one session, which keeps its position between phases.
#[derive(Debug)]
pub(crate) struct Playback {
    session: u32,
    spool: SpoolReader<BufReader<GrowingFile>>,
    state: SessionState,
    texts: IdMap<String>,
    threads: BTreeMap<u32, ThreadPlayback>,
    activities: Activities,
    /// The launches among the next spans of each thread: index of the span and correlation id.
    launches: BTreeMap<u32, Vec<(u32, u32)>>,
}

impl Playback {
    /// Opens a spool at its first frame.
    pub(crate) fn new(spool: &Path, session: u32, extent: Extent) -> io::Result<Self> {
        let tail = BufReader::with_capacity(1 << 16, GrowingFile::open(spool, extent.bytes)?);
        Ok(Self {
            session,
            spool: SpoolReader::new(tail).map_err(into_io)?,
            state: SessionState::new(session),
            texts: IdMap::default(),
            threads: BTreeMap::new(),
            activities: Activities::default(),
            launches: BTreeMap::new(),
        })
    }

    /// Writes the trace of a range of the spool. The range lies between two frames, and none of it
    /// was read before. A range without an end also contains the scopes that are open at the end of
    /// the session or of the spool.
    ///
    /// A torn tail is left out, and its length is in the trace. `losses` are the losses of the
    /// process if it still runs; for each cause the larger count is written.
    pub(crate) fn write(
        &mut self,
        range: &Range<u64>,
        extent: Extent,
        losses: &[(LossCause, u64)],
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        self.spool.input_mut().get_mut().limit_bytes = extent.bytes;
        while self.spool.offset() < range.start
            && let Some(frame) = self.next()?
        {
            self.add(frame, None)?;
        }
        self.threads.values_mut().for_each(ThreadPlayback::begin_trace);
        self.activities.begin_trace();
        let mut events = Events::begin(&self.state, extent.threads, out)?;
        while self.spool.offset() < range.end
            && !self.state.is_over()
            && let Some(frame) = self.next()?
        {
            self.add(frame, Some(&mut events))?;
        }
        for thread in self.threads.values_mut() {
            if range.end == u64::MAX {
                thread.write_open(&self.state, &self.texts, &mut events)?;
            }
            thread.write_unmatched(&self.texts, &mut events)?;
        }
        let torn_bytes = self.spool.torn().map_or(0, |torn| torn.lost_bytes);
        events.end(&self.state, losses, torn_bytes)
    }

    fn next(&mut self) -> io::Result<Option<SpoolFrame>> {
        self.spool.next().transpose().map_err(into_io)
    }

    /// Adds a frame to the state, and writes its events if `events` is given.
    fn add(&mut self, frame: SpoolFrame, mut events: Option<&mut Events>) -> io::Result<()> {
        self.state.add(&frame);
        let is_of_session = |sessions: u64| sessions & bit(self.session) != 0;
        let threads = &mut self.threads;
        match frame {
            SpoolFrame::Strings { first_id, texts } => self.texts.extend(first_id, texts),
            SpoolFrame::Thread { thread, os_id, name } => {
                thread_playback(threads, thread).set_name(os_id, name, events)?;
            }
            SpoolFrame::Nodes { thread, first_id, nodes } => {
                thread_playback(threads, thread).nodes.extend(first_id, nodes);
            }
            SpoolFrame::Open { thread, spans } => {
                thread_playback(threads, thread).open_scopes = spans;
            }
            SpoolFrame::Spans { thread, sessions, spans } => {
                let launches = self.launches.remove(&thread).unwrap_or_default();
                let mut launches = launches.into_iter().peekable();
                let thread = thread_playback(threads, thread);
                for (index, span) in (0..).zip(spans) {
                    let launch = launches.next_if(|&(span_index, _)| span_index == index);
                    thread.remove_open(&span);
                    if let Some(events) = events.as_deref_mut().filter(|_| is_of_session(sessions))
                    {
                        let lane = thread.write_scope(&span, false, &self.texts, events)?;
                        if let Some((_, correlation_id)) = launch {
                            events.launch(lane, &span, correlation_id)?;
                        }
                    }
                }
            }
            SpoolFrame::Launches { thread, launches } => {
                self.launches.insert(thread, launches);
            }
            SpoolFrame::Shapes { first_id, shapes } => {
                self.activities.shapes.extend(first_id, shapes);
            }
            SpoolFrame::Activities { sessions, activities } => {
                let Some(events) = events.filter(|_| is_of_session(sessions)) else {
                    return Ok(());
                };
                for activity in &activities {
                    self.activities.write(activity, threads, &self.texts, events)?;
                }
            }
            SpoolFrame::Values { thread, sessions, values } => {
                let Some(events) = events.filter(|_| is_of_session(sessions)) else {
                    return Ok(());
                };
                let thread = thread_playback(threads, thread);
                for value in values {
                    if !is_reading(&value, &self.texts) {
                        thread.add_value(value, &self.texts, events)?;
                    }
                }
            }
            // The session state has read these frames. Proton's traces have neither counters nor
            // links of autograd nor arguments of operators nor collectives.
            SpoolFrame::Counters(_)
            | SpoolFrame::Collectives(_)
            | SpoolFrame::Samples { .. }
            | SpoolFrame::Variables(_)
            | SpoolFrame::Autograd { .. }
            | SpoolFrame::SpanArgs { .. }
            | SpoolFrame::ArgsOfSpans { .. }
            | SpoolFrame::Process(_)
            | SpoolFrame::Clock { .. }
            | SpoolFrame::Device(_)
            | SpoolFrame::Note { .. }
            | SpoolFrame::Session { .. }
            | SpoolFrame::Losses(_)
            | SpoolFrame::Overhead(_)
            | SpoolFrame::End => {}
        }
        Ok(())
    }
}

fn thread_playback(
    threads: &mut BTreeMap<u32, ThreadPlayback>,
    number: u32,
) -> &mut ThreadPlayback {
    threads.entry(number).or_insert_with(|| ThreadPlayback::new(number))
}

/// Whether a value is a reading of memory, which a trace of Proton cannot represent. The growth of
/// the scope is a metric of its own.
fn is_reading(value: &RecordedValue, texts: &IdMap<String>) -> bool {
    texts.get(value.name_id).is_some_and(|name| parse_reading_name(name).is_some())
}

fn into_io(error: SpoolError) -> io::Error {
    match error {
        SpoolError::Io(error) => error,
        error => io::Error::new(io::ErrorKind::InvalidData, error),
    }
}
