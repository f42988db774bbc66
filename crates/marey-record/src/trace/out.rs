//! Frames on their way to the file.

use super::file::{self, Appender};
use crate::losses;
use crate::os;
use marey_model::loss::LossCause;
use marey_model::spool::{Frame, Writer, encode};
use std::io;
use std::path::Path;

/// Collects frames and appends them to the file.
#[derive(Debug)]
pub(super) struct Out {
    file: Appender,
    buffer: Vec<u8>,
    /// Scopes, values and counters among the frames of the buffer.
    entries: u64,
    max_bytes: u64,
    /// The filesystem has room for others besides.
    has_space: bool,
    /// A write failed: what was defined in it is missing, so nothing may follow that uses it.
    has_failed: bool,
}

/// The buffer is written when it is as long as this.
const BUFFER_BYTES: usize = 1 << 18;

impl Out {
    /// Begins a spool.
    pub(super) fn new(file: Appender) -> io::Result<Self> {
        let mut buffer = Vec::with_capacity(2 * BUFFER_BYTES);
        Writer::new(&mut buffer)?;
        Ok(Self {
            file,
            buffer,
            entries: 0,
            max_bytes: file::max_bytes(),
            has_space: true,
            has_failed: false,
        })
    }

    /// Looks how full the filesystem is.
    pub(super) fn look_for_space(&mut self, path: &Path) {
        self.has_space =
            os::space_bytes(path).is_none_or(|(free, all)| free >= least_free_bytes(all));
    }

    /// Whether scopes and values are taken.
    pub(super) fn has_room(&self) -> bool {
        self.has_space && !self.has_failed && self.position_bytes() < self.max_bytes
    }

    /// Where the next frame will start in the file.
    pub(super) fn position_bytes(&self) -> u64 {
        self.file.written_bytes() + self.buffer.len() as u64
    }

    /// Appends a frame.
    pub(super) fn frame(&mut self, frame: &Frame) {
        self.entries(frame, 0);
    }

    /// Appends a frame that holds so many scopes, values or counters.
    pub(super) fn entries(&mut self, frame: &Frame, count: u64) {
        let is_possible = !self.has_failed || stands_alone(frame);
        if is_possible && encode(frame, &mut self.buffer).is_ok() {
            self.entries += count;
        } else {
            losses::add(LossCause::Spool, count);
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
        if self.file.append(&self.buffer).is_err() {
            self.has_failed = true;
            losses::add(LossCause::Spool, self.entries);
        }
        self.entries = 0;
        self.buffer.clear();
    }
}

/// What stays free for others on a filesystem of this size: a twentieth, but no more than a gibibyte.
fn least_free_bytes(all_bytes: u64) -> u64 {
    (all_bytes / 20).min(1 << 30)
}

/// Whether a frame uses nothing that others define. Such frames may still tell what was lost, and
/// that the recording was ended.
fn stands_alone(frame: &Frame) -> bool {
    match frame {
        Frame::Process(_)
        | Frame::Clock { .. }
        | Frame::Session { .. }
        | Frame::Device(_)
        | Frame::Note { .. }
        | Frame::Losses(_)
        | Frame::Overhead(_)
        | Frame::End => true,
        Frame::Strings { .. }
        | Frame::Thread { .. }
        | Frame::Nodes { .. }
        | Frame::Launches { .. }
        | Frame::Shapes { .. }
        | Frame::Activities { .. }
        | Frame::Spans { .. }
        | Frame::Values { .. }
        | Frame::Counters(_)
        | Frame::Open { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_filesystem_keeps_a_gibibyte_and_a_small_one_a_twentieth() {
        assert_eq!(least_free_bytes(4 << 40), 1 << 30);
        assert_eq!(least_free_bytes(20 << 20), 1 << 20);
        let (free, all) = os::space_bytes(Path::new("/")).unwrap();
        assert!(0 < all && free <= all);
        assert_eq!(os::space_bytes(Path::new("/no such path")), None);
    }
}
