//! Proton's Chrome trace of one session, streamed from a spool.
//!
//! The spool is read twice: the first time for what must be known before the first event is written
//! ([`outline`]), the second time for the events. Texts and nodes stay in memory, and what a thread
//! needs to place the next event ([`thread`]); events do not, so a long trace takes no more memory
//! than a short one.
//!
//! A scope is a complete event (`"ph": "X"`) on a lane of its thread. Events of one lane nest: where
//! scopes of a thread overlap without nesting, as those of coroutines do, the thread gets more lanes.

mod event;
mod lanes;
mod metrics;
mod numbered;
mod outline;
mod thread;

#[cfg(test)]
mod tests;

use self::event::Events;
use self::numbered::Numbered;
use self::outline::Outline;
use self::thread::Thread;
use crate::control::bit;
use marey_model::loss::LossCause;
use marey_model::spool::{Frame, Reader, SessionEvent, SpoolError};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Take};
use std::path::Path;

/// Writes the events of a session, or those of one of its phases, as a Chrome trace.
///
/// An event belongs to the phase in which it ended. A torn tail of the spool is left out, and the
/// trace says how long it was. `losses` are the process's, where it still runs: of each cause the
/// larger count is told.
pub(crate) fn write(
    spool: &Path,
    session: u32,
    phase: Option<u32>,
    losses: &[(LossCause, u64)],
    out: &mut dyn io::Write,
) -> io::Result<()> {
    // Other sessions may still be recording: both passes end where the spool ends now.
    let bytes = std::fs::metadata(spool)?.len();
    let mut outline = Outline::read(open(spool, bytes)?, session, phase)?;
    outline.add_losses(losses);
    let mut trace = Trace::new(&outline, session, out)?;
    for frame in open(spool, bytes)? {
        trace.add(frame.map_err(into_io)?)?;
    }
    trace.finish()
}

fn open(spool: &Path, bytes: u64) -> io::Result<Reader<BufReader<Take<File>>>> {
    let file = File::open(spool)?.take(bytes);
    Reader::new(BufReader::with_capacity(1 << 16, file)).map_err(into_io)
}

fn into_io(error: SpoolError) -> io::Error {
    match error {
        SpoolError::Io(error) => error,
        error => io::Error::new(io::ErrorKind::InvalidData, error),
    }
}

/// The second pass.
struct Trace<'a> {
    outline: &'a Outline,
    session: u32,
    /// The session has ended: what is open from here on is not its business.
    is_over: bool,
    texts: Numbered<String>,
    threads: BTreeMap<u32, Thread>,
    events: Events<'a>,
}

impl<'a> Trace<'a> {
    fn new(outline: &'a Outline, session: u32, out: &'a mut dyn io::Write) -> io::Result<Self> {
        Ok(Self {
            outline,
            session,
            is_over: false,
            texts: Numbered::default(),
            threads: BTreeMap::new(),
            events: Events::begin(outline, out)?,
        })
    }

    fn add(&mut self, frame: Frame) -> io::Result<()> {
        let window = &self.outline.window;
        match frame {
            Frame::Strings { first, texts } => self.texts.extend(first, texts),
            Frame::Thread { thread, os_id, name } => {
                let (state, events, _) = self.parts(thread);
                state.introduce(os_id, name, events)?;
            }
            Frame::Nodes { thread, first, nodes } => {
                self.parts(thread).0.nodes.extend(first, nodes);
            }
            Frame::Open { thread, spans } if !self.is_over => self.parts(thread).0.open = spans,
            Frame::Session { session, event, .. } if session == self.session => {
                self.is_over = event == SessionEvent::Finalized;
            }
            Frame::Spans { thread, sessions, spans } => {
                let (is_over, is_ours) = (self.is_over, self.is_ours(sessions));
                let (state, events, texts) = self.parts(thread);
                for span in spans {
                    if !is_over {
                        state.forget_open(&span);
                    }
                    if is_ours && window.contains(&span.end_nanos) {
                        state.write_scope(&span, false, texts, events)?;
                    }
                }
            }
            Frame::Values { thread, sessions, values } if self.is_ours(sessions) => {
                let (state, events, texts) = self.parts(thread);
                for value in values {
                    if window.contains(&value.time_nanos) {
                        state.add_value(value, texts, events)?;
                    }
                }
            }
            // The outline has seen these, or they are others'.
            Frame::Open { .. }
            | Frame::Values { .. }
            | Frame::Process(_)
            | Frame::Clock { .. }
            | Frame::Session { .. }
            | Frame::Losses(_)
            | Frame::End => {}
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        for thread in self.threads.values_mut() {
            thread.finish(self.outline, &self.texts, &mut self.events)?;
        }
        self.events.end()
    }

    fn is_ours(&self, sessions: u64) -> bool {
        sessions & bit(self.session) != 0
    }

    /// A thread, and what it takes to write its events.
    fn parts(&mut self, thread: u32) -> (&mut Thread, &mut Events<'a>, &Numbered<String>) {
        let thread = self.threads.entry(thread).or_insert_with(|| Thread::new(thread));
        (thread, &mut self.events, &self.texts)
    }
}
