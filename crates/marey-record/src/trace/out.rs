//! Frames on their way to the file.

use super::file::{self, Appender};
use crate::losses;
use marey_model::loss::LossCause;
use marey_model::spool::{Frame, Writer, encode};
use std::io;

/// Collects frames and appends them to the file.
#[derive(Debug)]
pub(super) struct Out {
    file: Appender,
    buffer: Vec<u8>,
    /// Scopes and values among the frames of the buffer.
    entries: u64,
    max_bytes: u64,
    /// A write failed: what was defined in it is missing, so nothing may follow.
    has_failed: bool,
}

/// The buffer is written when it is as long as this.
const BUFFER_BYTES: usize = 1 << 18;

impl Out {
    /// Begins a spool.
    pub(super) fn new(file: Appender) -> io::Result<Self> {
        let mut buffer = Vec::with_capacity(2 * BUFFER_BYTES);
        Writer::new(&mut buffer)?;
        Ok(Self { file, buffer, entries: 0, max_bytes: file::max_bytes(), has_failed: false })
    }

    /// Whether scopes and values are still taken; once they are not, they never are again.
    pub(super) fn has_room(&self) -> bool {
        !self.has_failed && self.file.written_bytes() + (self.buffer.len() as u64) < self.max_bytes
    }

    /// Appends a frame.
    pub(super) fn frame(&mut self, frame: &Frame) {
        self.entries(frame, 0);
    }

    /// Appends a frame that holds so many scopes or values.
    pub(super) fn entries(&mut self, frame: &Frame, count: u64) {
        match encode(frame, &mut self.buffer) {
            Ok(()) => self.entries += count,
            Err(_too_long) => losses::add(LossCause::Spool, count),
        }
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    /// Hands everything to the system.
    pub(super) fn flush(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        self.has_failed = self.has_failed || self.file.append(&self.buffer).is_err();
        if self.has_failed {
            losses::add(LossCause::Spool, self.entries);
        }
        self.entries = 0;
        self.buffer.clear();
    }
}
