//! The in-memory buffer of spool frames. The tracer fills it under its lock, and a thread that may
//! wait for the disk writes it to the file without that lock.

use super::file::Appender;
use crate::losses;
use crate::os;
use marey_model::loss::LossCause;
use marey_model::spool::{SpoolFrame, SpoolWriter, encode};
use std::io;
use std::ops::Range;
use std::path::Path;

/// The buffer of the frames that are not yet in the file. Filling it needs the tracer's lock, so
/// the write, which may take as long as the disk does, is a separate step.
#[derive(Debug)]
pub(super) struct FrameBuffer {
    buffer: Vec<u8>,
    /// The number of scopes, values and counters in the buffer.
    buffered_entries: u64,
    /// The ranges of the buffer with self-contained frames.
    self_contained_ranges: Vec<Range<usize>>,
    /// The number of scopes, values and counters in the file and the buffer, without lost ones.
    total_entries: u64,
    /// The position of the buffer's first frame in the file.
    start_bytes: u64,
    /// Returns the size of the file beyond which scopes and values are refused.
    max_bytes: fn() -> u64,
    /// Whether the filesystem has enough free space.
    has_space: bool,
    /// Whether a write has failed. The definitions in it are missing from the file, so no frame
    /// that uses them may follow.
    has_failed: bool,
}

/// Frames taken from the buffer to be written.
#[derive(Debug)]
pub(super) struct FrameChunk {
    pub(super) bytes: Vec<u8>,
    pub(super) entries: u64,
}

/// The size at which the buffer is due to be written.
const FLUSH_BYTES: usize = 1 << 18;

/// The maximum size of the buffer, which it reaches only if the disk hangs.
const MAX_BYTES: usize = 1 << 28;

impl FrameBuffer {
    /// Creates a buffer that begins with the header of a spool. `max_bytes` limits the file.
    pub(super) fn new(max_bytes: fn() -> u64) -> io::Result<Self> {
        let mut buffer = Vec::with_capacity(2 * FLUSH_BYTES);
        SpoolWriter::new(&mut buffer)?;
        Ok(Self {
            buffer,
            buffered_entries: 0,
            self_contained_ranges: Vec::new(),
            total_entries: 0,
            start_bytes: 0,
            max_bytes,
            has_space: true,
            has_failed: false,
        })
    }

    /// Whether the filesystem has enough free space.
    pub(super) fn has_space(&self) -> bool {
        self.has_space
    }

    /// Sets whether the filesystem has enough free space.
    pub(super) fn set_has_space(&mut self, has_space: bool) {
        self.has_space = has_space;
    }

    /// Whether a write has failed, after which the file accepts no more scopes and values.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Whether scopes and values are accepted.
    pub(super) fn has_room(&self) -> bool {
        self.has_space
            && !self.has_failed
            && self.buffer.len() < MAX_BYTES
            && self.position_bytes() < (self.max_bytes)()
    }

    /// Returns the position of the next frame in the file.
    pub(super) fn position_bytes(&self) -> u64 {
        self.start_bytes + self.buffer.len() as u64
    }

    /// Returns the number of scopes, values and counters in the file and the buffer, without lost
    /// ones.
    pub(super) fn total_entries(&self) -> u64 {
        self.total_entries
    }

    /// Whether the buffer should be written.
    pub(super) fn should_flush(&self) -> bool {
        self.buffer.len() >= FLUSH_BYTES
    }

    /// Appends a frame.
    pub(super) fn push(&mut self, frame: &SpoolFrame) {
        self.push_entries(frame, 0);
    }

    /// Appends a frame that contains `entry_count` scopes, values or counters.
    pub(super) fn push_entries(&mut self, frame: &SpoolFrame, entry_count: u64) {
        let frame_start = self.buffer.len();
        let is_allowed = !self.has_failed || is_self_contained(frame);
        if is_allowed && encode(frame, &mut self.buffer).is_ok() {
            self.buffered_entries += entry_count;
            self.total_entries += entry_count;
            if is_self_contained(frame) {
                self.self_contained_ranges.push(frame_start..self.buffer.len());
            }
        } else {
            losses::add(LossCause::Spool, entry_count);
        }
    }

    /// Takes the frames to be written next.
    pub(super) fn take_chunk(&mut self) -> FrameChunk {
        let bytes = std::mem::take(&mut self.buffer);
        self.start_bytes += bytes.len() as u64;
        self.self_contained_ranges.clear();
        FrameChunk { bytes, entries: std::mem::take(&mut self.buffered_entries) }
    }

    /// Keeps the memory of a written chunk for the next frames.
    pub(super) fn recycle(&mut self, chunk: FrameChunk) {
        let FrameChunk { mut bytes, .. } = chunk;
        if self.buffer.capacity() == 0 && bytes.capacity() <= 4 * FLUSH_BYTES {
            bytes.clear();
            self.buffer = bytes;
        }
    }

    /// Handles the failure to write a chunk of `lost_entries` entries, already counted as lost, at
    /// the position `written_bytes` of the file. Also drops the frames that were buffered since
    /// then, except self-contained ones.
    pub(super) fn handle_failure(&mut self, lost_entries: u64, written_bytes: u64) {
        self.has_failed = true;
        self.start_bytes = written_bytes;
        let dropped_entries = std::mem::take(&mut self.buffered_entries);
        losses::add(LossCause::Spool, dropped_entries);
        self.total_entries = self.total_entries.saturating_sub(lost_entries + dropped_entries);
        let buffer = std::mem::take(&mut self.buffer);
        for range in &mut self.self_contained_ranges {
            let frame_start = self.buffer.len();
            self.buffer.extend_from_slice(buffer.get(range.clone()).unwrap_or_default());
            *range = frame_start..self.buffer.len();
        }
    }
}

impl FrameChunk {
    /// Appends the chunk to the file. Counts its entries as lost if that fails.
    pub(super) fn append_to(&self, appender: &mut Appender) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let result = appender.append(&self.bytes);
        if result.is_err() {
            losses::add(LossCause::Spool, self.entries);
        }
        result
    }
}

/// Whether the filesystem of a path has enough free space.
pub(super) fn has_free_space(path: &Path) -> bool {
    os::space_bytes(path)
        .is_none_or(|(free_bytes, total_bytes)| free_bytes >= reserved_bytes(total_bytes))
}

/// Returns the space that a spool leaves free on a filesystem of this size: a twentieth, but at
/// most 1 GiB.
fn reserved_bytes(total_bytes: u64) -> u64 {
    (total_bytes / 20).min(1 << 30)
}

/// Whether a frame uses no definition of another frame. Such a frame may be written even after a
/// failure; it then reports the losses and the end of the recording.
fn is_self_contained(frame: &SpoolFrame) -> bool {
    match frame {
        SpoolFrame::Process(_)
        | SpoolFrame::Clock { .. }
        | SpoolFrame::Session { .. }
        | SpoolFrame::Device(_)
        | SpoolFrame::Note { .. }
        | SpoolFrame::Losses(_)
        | SpoolFrame::Overhead(_)
        | SpoolFrame::End => true,
        SpoolFrame::Strings { .. }
        | SpoolFrame::Thread { .. }
        | SpoolFrame::Nodes { .. }
        | SpoolFrame::Launches { .. }
        | SpoolFrame::Autograd { .. }
        | SpoolFrame::SpanArgs { .. }
        | SpoolFrame::ArgsOfSpans { .. }
        | SpoolFrame::Shapes { .. }
        | SpoolFrame::Activities { .. }
        | SpoolFrame::Spans { .. }
        | SpoolFrame::Values { .. }
        | SpoolFrame::Counters(_)
        | SpoolFrame::Collectives(_)
        | SpoolFrame::Samples { .. }
        | SpoolFrame::Variables(_)
        | SpoolFrame::Open { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_filesystem_keeps_a_gibibyte_and_a_small_one_a_twentieth() {
        assert_eq!(reserved_bytes(4 << 40), 1 << 30);
        assert_eq!(reserved_bytes(20 << 20), 1 << 20);
        let (free_bytes, total_bytes) = os::space_bytes(Path::new("/")).unwrap();
        assert!(0 < total_bytes && free_bytes <= total_bytes);
        assert_eq!(os::space_bytes(Path::new("/no such path")), None);
    }
}
