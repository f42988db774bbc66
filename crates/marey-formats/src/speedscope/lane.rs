//! Writes the spans of a thread or stream as the events of one or more evented profiles.

use std::io::{self, BufWriter, Seek, Write};

use tempfile::SpooledTempFile;

/// The maximum number of profiles for the spans of a thread or stream. Spans that overlap without
/// nesting cannot share a profile.
const MAX_LANES: usize = 8;

/// The size of the events in memory at which they are spilled.
const MAX_MEMORY_BYTES: usize = 1 << 18;

/// A list of JSON values that is kept until it can be written, because data that are not known yet
/// come before it.
pub(super) struct PendingList {
    text: BufWriter<SpooledTempFile>,
    is_empty: bool,
}

impl Default for PendingList {
    fn default() -> Self {
        Self { text: BufWriter::new(SpooledTempFile::new(MAX_MEMORY_BYTES)), is_empty: true }
    }
}

impl PendingList {
    /// Returns the writer for the next value.
    pub(super) fn next(&mut self) -> io::Result<&mut impl Write> {
        self.text.write_all(if self.is_empty { b"\n" } else { b",\n" })?;
        self.is_empty = false;
        Ok(&mut self.text)
    }

    /// Writes the list.
    pub(super) fn write(self, out: &mut dyn Write) -> io::Result<()> {
        let mut text = self.text.into_inner()?;
        text.rewind()?;
        out.write_all(b"[")?;
        io::copy(&mut text, out)?;
        out.write_all(b"]")
    }
}

/// Spans that nest in or follow one another, so that they fit into one profile.
#[derive(Default)]
pub(super) struct Lane {
    pub(super) events: PendingList,
    pub(super) first_nanos: i64,
    pub(super) last_nanos: i64,
    /// The enclosing frames of the next span, with their ends.
    open_frames: Vec<(u32, i64)>,
}

impl Lane {
    /// Adds a span if it nests. Spans arrive in the order of their starts.
    fn try_add(&mut self, frame: u32, start_nanos: i64, end_nanos: i64) -> io::Result<bool> {
        self.close_until(start_nanos)?;
        if self.open_frames.last().is_some_and(|&(_, enclosing_end)| enclosing_end < end_nanos) {
            return Ok(false);
        }
        if self.events.is_empty {
            self.first_nanos = start_nanos;
        }
        write_event(&mut self.events, 'O', frame, start_nanos)?;
        self.open_frames.push((frame, end_nanos));
        Ok(true)
    }

    fn close_until(&mut self, nanos: i64) -> io::Result<()> {
        while let Some((frame, end)) = self.open_frames.pop_if(|&mut (_, end)| end <= nanos) {
            write_event(&mut self.events, 'C', frame, end)?;
            self.last_nanos = end;
        }
        Ok(())
    }
}

fn write_event(events: &mut PendingList, kind: char, frame: u32, at_nanos: i64) -> io::Result<()> {
    write!(events.next()?, r#"{{"type":"{kind}","frame":{frame},"at":{at_nanos}}}"#)
}

/// The spans of a thread or stream.
#[derive(Default)]
pub(super) struct Lanes(Vec<Lane>);

impl Lanes {
    /// Adds a span. Returns `false` if it nests in no lane.
    pub(super) fn add(&mut self, frame: u32, start_nanos: i64, end_nanos: i64) -> io::Result<bool> {
        for lane in &mut self.0 {
            if lane.try_add(frame, start_nanos, end_nanos)? {
                return Ok(true);
            }
        }
        if self.0.len() == MAX_LANES {
            return Ok(false);
        }
        let mut lane = Lane::default();
        lane.try_add(frame, start_nanos, end_nanos)?;
        self.0.push(lane);
        Ok(true)
    }

    /// Closes all spans and returns the lanes.
    pub(super) fn finish(mut self) -> io::Result<Vec<Lane>> {
        for lane in &mut self.0 {
            lane.close_until(i64::MAX)?;
        }
        Ok(self.0)
    }
}
