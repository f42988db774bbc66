//! Opened and closed frames of a profile to be written.

use std::io::{self, BufWriter, Seek, Write};

use tempfile::SpooledTempFile;

/// Profiles that spans of one thread or stream may take: those that overlap without one being around
/// the other cannot be in one.
const MAX_LANES: usize = 8;

/// Bytes that wait in memory before they wait in a file.
const MEMORY_BYTES: usize = 1 << 18;

/// A list of JSON values in the making, which waits until what stands before it is known.
pub(super) struct Waiting {
    text: BufWriter<SpooledTempFile>,
    is_empty: bool,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { text: BufWriter::new(SpooledTempFile::new(MEMORY_BYTES)), is_empty: true }
    }
}

impl Waiting {
    /// Where the next value is to be written.
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

/// Spans that lie inside or after one another.
#[derive(Default)]
pub(super) struct Lane {
    pub(super) events: Waiting,
    pub(super) first_nanos: i64,
    pub(super) last_nanos: i64,
    /// Those around the next one: frames, and when they end.
    open: Vec<(u32, i64)>,
}

impl Lane {
    /// Takes a span that does not start before those it has, if it lies inside or after them.
    fn takes(&mut self, frame: u32, start_nanos: i64, end_nanos: i64) -> io::Result<bool> {
        self.close_until(start_nanos)?;
        if self.open.last().is_some_and(|&(_, around_end)| around_end < end_nanos) {
            return Ok(false);
        }
        if self.events.is_empty {
            self.first_nanos = start_nanos;
        }
        event(&mut self.events, 'O', frame, start_nanos)?;
        self.open.push((frame, end_nanos));
        Ok(true)
    }

    fn close_until(&mut self, nanos: i64) -> io::Result<()> {
        while let Some((frame, end)) = self.open.pop_if(|&mut (_, end)| end <= nanos) {
            event(&mut self.events, 'C', frame, end)?;
            self.last_nanos = end;
        }
        Ok(())
    }
}

fn event(events: &mut Waiting, kind: char, frame: u32, at_nanos: i64) -> io::Result<()> {
    write!(events.next()?, r#"{{"type":"{kind}","frame":{frame},"at":{at_nanos}}}"#)
}

/// The spans of a thread or stream.
#[derive(Default)]
pub(super) struct Lanes(Vec<Lane>);

impl Lanes {
    /// Adds a span, by start; whether there was a place.
    pub(super) fn add(&mut self, frame: u32, start_nanos: i64, end_nanos: i64) -> io::Result<bool> {
        for lane in &mut self.0 {
            if lane.takes(frame, start_nanos, end_nanos)? {
                return Ok(true);
            }
        }
        if self.0.len() == MAX_LANES {
            return Ok(false);
        }
        let mut lane = Lane::default();
        lane.takes(frame, start_nanos, end_nanos)?;
        self.0.push(lane);
        Ok(true)
    }

    /// The lanes, all closed.
    pub(super) fn finish(mut self) -> io::Result<Vec<Lane>> {
        for lane in &mut self.0 {
            lane.close_until(i64::MAX)?;
        }
        Ok(self.0)
    }
}
