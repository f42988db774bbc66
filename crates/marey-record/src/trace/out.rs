//! Frames on their way to the file.

use super::file::{self, Appender};
use crate::losses;
use crate::os;
use marey_model::loss::LossCause;
use marey_model::spool::{Frame, Writer, encode};
use std::io;
use std::ops::Range;
use std::path::Path;

/// Collects frames, which somebody else appends to the file: collecting takes a lock, and writing may take
/// as long as a disk does.
#[derive(Debug)]
pub(super) struct Out {
    buffer: Vec<u8>,
    /// Scopes, values and counters among the frames of the buffer.
    entries: u64,
    /// Where frames of the buffer are that use nothing which others define.
    alone: Vec<Range<usize>>,
    /// Where the buffer's first frame will be in the file.
    start_bytes: u64,
    max_bytes: u64,
    /// The filesystem has room for others besides.
    has_space: bool,
    /// A write failed: what was defined in it is missing, so nothing may follow that uses it.
    has_failed: bool,
}

/// Frames on their way.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    entries: u64,
}

/// It is time to write as much.
const ENOUGH_BYTES: usize = 1 << 18;

/// So much waits at most for a disk that hangs.
const MOST_BYTES: usize = 1 << 28;

impl Out {
    /// Begins a spool.
    pub(super) fn new() -> io::Result<Self> {
        let mut buffer = Vec::with_capacity(2 * ENOUGH_BYTES);
        Writer::new(&mut buffer)?;
        Ok(Self {
            buffer,
            entries: 0,
            alone: Vec::new(),
            start_bytes: 0,
            max_bytes: file::max_bytes(),
            has_space: true,
            has_failed: false,
        })
    }

    /// Says whether the filesystem has room for others besides.
    pub(super) fn set_space(&mut self, has_space: bool) {
        self.has_space = has_space;
    }

    /// Whether scopes and values are taken.
    pub(super) fn has_room(&self) -> bool {
        self.has_space
            && !self.has_failed
            && self.buffer.len() < MOST_BYTES
            && self.position_bytes() < self.max_bytes
    }

    /// Where the next frame will start in the file.
    pub(super) fn position_bytes(&self) -> u64 {
        self.start_bytes + self.buffer.len() as u64
    }

    /// Whether it is time to write.
    pub(super) fn has_enough(&self) -> bool {
        self.buffer.len() >= ENOUGH_BYTES
    }

    /// Appends a frame.
    pub(super) fn frame(&mut self, frame: &Frame) {
        self.entries(frame, 0);
    }

    /// Appends a frame that holds so many scopes, values or counters.
    pub(super) fn entries(&mut self, frame: &Frame, count: u64) {
        let start = self.buffer.len();
        let is_possible = !self.has_failed || stands_alone(frame);
        if is_possible && encode(frame, &mut self.buffer).is_ok() {
            self.entries += count;
            if stands_alone(frame) {
                self.alone.push(start..self.buffer.len());
            }
        } else {
            losses::add(LossCause::Spool, count);
        }
    }

    /// Takes what is to be written next.
    pub(super) fn take(&mut self) -> Chunk {
        let bytes = std::mem::take(&mut self.buffer);
        self.start_bytes += bytes.len() as u64;
        self.alone.clear();
        Chunk { bytes, entries: std::mem::take(&mut self.entries) }
    }

    /// A chunk is in the file: its memory is used again.
    pub(super) fn written(&mut self, chunk: Chunk) {
        let Chunk { mut bytes, .. } = chunk;
        if self.buffer.capacity() == 0 && bytes.capacity() <= 4 * ENOUGH_BYTES {
            bytes.clear();
            self.buffer = bytes;
        }
    }

    /// A chunk could not be written, after so many bytes of the file. What has been collected since
    /// cannot follow either, but for what stands alone.
    pub(super) fn failed(&mut self, written_bytes: u64) {
        self.has_failed = true;
        self.start_bytes = written_bytes;
        losses::add(LossCause::Spool, std::mem::take(&mut self.entries));
        let buffer = std::mem::take(&mut self.buffer);
        for alone in &mut self.alone {
            let start = self.buffer.len();
            self.buffer.extend_from_slice(buffer.get(alone.clone()).unwrap_or_default());
            *alone = start..self.buffer.len();
        }
    }
}

impl Chunk {
    /// Appends it to the file; what it held is lost if that fails.
    pub(super) fn append_to(&self, file: &mut Appender) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let appended = file.append(&self.bytes);
        if appended.is_err() {
            losses::add(LossCause::Spool, self.entries);
        }
        appended
    }
}

/// Whether the filesystem of a path has room for others besides.
pub(super) fn has_space(path: &Path) -> bool {
    os::space_bytes(path).is_none_or(|(free, all)| free >= least_free_bytes(all))
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
