//! Holds the part of a file that is in memory, for the scanning thread.

use std::mem;

use crate::shared::import::ReaderError;
use crate::shared::input::Input;

/// The maximum size of a value that must be in memory as a whole, such as an event.
const MAX_PIECE_BYTES: usize = 256 << 20;

/// The unread bytes of a file, as far as they are in memory.
pub(super) struct Buffer<'a> {
    input: &'a mut Input,
    bytes: Vec<u8>,
    /// Position of the first unread byte.
    position: usize,
    /// File offset of the end of the buffer.
    end_offset: u64,
    is_at_end: bool,
}

impl<'a> Buffer<'a> {
    pub(super) fn new(input: &'a mut Input) -> Self {
        Self { input, bytes: Vec::new(), position: 0, end_offset: 0, is_at_end: false }
    }

    /// Returns the unread bytes.
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.position..]
    }

    /// Returns the position of the first unread byte in the buffer.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// Returns the file offset of the first unread byte.
    pub(super) fn offset(&self) -> u64 {
        self.end_offset - self.unread().len() as u64
    }

    /// Returns the file offset of the end of the buffer.
    pub(super) fn end_offset(&self) -> u64 {
        self.end_offset
    }

    /// Whether the buffer ends at the end of the file.
    pub(super) fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    /// Consumes bytes.
    pub(super) fn consume(&mut self, count: usize) {
        self.position += count;
    }

    /// Reads more and keeps the unread bytes. Returns the previous bytes of the buffer.
    ///
    /// The unread part at least doubles, so repeated attempts at a long value take linear time in
    /// total.
    pub(super) fn read_more(&mut self) -> Result<Vec<u8>, ReaderError> {
        let unread_len = self.unread().len();
        if unread_len > MAX_PIECE_BYTES {
            return Err(ReaderError::content(self.offset(), "a piece of more than 256 MiB"));
        }
        let (bytes, position) = match self.input.next_chunk()? {
            Some((mut chunk, start)) if unread_len <= start => {
                self.end_offset += (chunk.len() - start) as u64;
                chunk[start - unread_len..start].copy_from_slice(self.unread());
                (chunk, start - unread_len)
            }
            next_chunk => (self.read_doubled(next_chunk)?, 0),
        };
        self.position = position;
        Ok(mem::replace(&mut self.bytes, bytes))
    }

    /// Returns the unread bytes, followed by at least as many new ones if the file has them.
    fn read_doubled(
        &mut self,
        mut next_chunk: Option<(Vec<u8>, usize)>,
    ) -> Result<Vec<u8>, ReaderError> {
        let mut bytes = self.unread().to_vec();
        let min_len = 2 * bytes.len();
        self.is_at_end = next_chunk.is_none();
        while let Some((chunk, start)) = next_chunk {
            self.end_offset += (chunk.len() - start) as u64;
            bytes.extend_from_slice(&chunk[start..]);
            self.input.recycle(chunk);
            next_chunk = if bytes.len() < min_len { self.input.next_chunk()? } else { None };
        }
        Ok(bytes)
    }

    /// Returns the bytes of the buffer and the file offset of their end. Called at the end of the
    /// reading.
    pub(super) fn take_bytes(&mut self) -> (Vec<u8>, u64) {
        self.position = 0;
        (mem::take(&mut self.bytes), self.end_offset)
    }

    /// Recycles bytes of an earlier buffer.
    pub(super) fn recycle(&self, bytes: Vec<u8>) {
        self.input.recycle(bytes);
    }
}
