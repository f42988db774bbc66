//! Gives the tokenizers the content of a file through a moving buffer.

use std::fs::File;
use std::io::{self, Read};

use flate2::read::MultiGzDecoder;

use crate::shared::input::GZIP_MAGIC;

/// The size of the buffer, unless a single token is longer.
pub(super) const WINDOW_BYTES: usize = 256 * 1024;

/// A source of bytes.
pub(super) trait ByteInput {
    /// Fills the start of `buffer` and returns the number of bytes, 0 at the end.
    fn fill(&mut self, buffer: &mut [u8]) -> usize;
}

impl ByteInput for &[u8] {
    fn fill(&mut self, buffer: &mut [u8]) -> usize {
        let (copied, remaining) = self.split_at(self.len().min(buffer.len()));
        buffer[..copied.len()].copy_from_slice(copied);
        *self = remaining;
        copied.len()
    }
}

/// A file. An error of a read ends its content, and is kept in `error`.
pub(super) struct FileInput<'a> {
    pub(super) file: Box<dyn Read>,
    /// The number of uncompressed bytes that were read.
    pub(super) read_bytes: u64,
    /// Receives the number of bytes read.
    pub(super) progress: &'a mut dyn FnMut(u64),
    pub(super) error: Option<io::Error>,
}

/// Returns the content of a file, decompressed if necessary.
pub(super) fn open_decompressed(mut file: File) -> io::Result<Box<dyn Read>> {
    let mut magic = Vec::new();
    (&mut file).take(GZIP_MAGIC.len() as u64).read_to_end(&mut magic)?;
    let is_compressed = magic == GZIP_MAGIC;
    let content = io::Cursor::new(magic).chain(file);
    Ok(if is_compressed { Box::new(MultiGzDecoder::new(content)) } else { Box::new(content) })
}

impl ByteInput for FileInput<'_> {
    fn fill(&mut self, buffer: &mut [u8]) -> usize {
        loop {
            match self.file.read(buffer) {
                Ok(count) => {
                    self.read_bytes += count as u64;
                    (self.progress)(self.read_bytes);
                    return count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.error = Some(error);
                    return 0;
                }
            }
        }
    }
}

/// The buffered bytes, and the source of further bytes.
pub(super) struct Source<'a> {
    input: &'a mut dyn ByteInput,
    buffer: Vec<u8>,
    /// Index of the first byte in the buffer that was not consumed yet.
    unread_start: usize,
    /// Index of the end of the filled part of the buffer.
    filled_end: usize,
    /// Byte offset of the buffer in the file.
    buffer_offset: u64,
}

impl<'a> Source<'a> {
    pub(super) fn new(input: &'a mut dyn ByteInput, buffer_bytes: usize) -> Self {
        Self {
            input,
            buffer: vec![0; buffer_bytes],
            unread_start: 0,
            filled_end: 0,
            buffer_offset: 0,
        }
    }

    /// Returns the offset of the first byte that was not consumed yet.
    pub(super) fn offset(&self) -> u64 {
        self.buffer_offset + self.unread_start as u64
    }

    /// Returns the offset of the end of the buffered bytes.
    pub(super) fn end_offset(&self) -> u64 {
        self.buffer_offset + self.filled_end as u64
    }

    /// Returns the buffered bytes that were not consumed yet.
    pub(super) fn buffered(&self) -> &[u8] {
        &self.buffer[self.unread_start..self.filled_end]
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.unread_start += count;
    }

    /// Reads more into [`buffered`](Self::buffered). Returns `false` at the end of the file.
    ///
    /// The buffer grows only when it is full of unconsumed bytes, and only by bytes that were read.
    pub(super) fn read_more(&mut self) -> bool {
        self.buffer.copy_within(self.unread_start..self.filled_end, 0);
        self.buffer_offset += self.unread_start as u64;
        self.filled_end -= self.unread_start;
        self.unread_start = 0;
        if self.filled_end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let count = self.input.fill(&mut self.buffer[self.filled_end..]);
        self.filled_end += count;
        count > 0
    }

    /// Buffers at least `count` bytes. Returns `false` if the file ends before.
    pub(super) fn ensure_buffered(&mut self, count: usize) -> bool {
        while self.buffered().len() < count {
            if !self.read_more() {
                return false;
            }
        }
        true
    }

    /// Returns the byte `distance` bytes after the first buffered one. Reads on if necessary.
    pub(super) fn peek(&mut self, distance: usize) -> Option<u8> {
        self.ensure_buffered(distance + 1);
        self.buffered().get(distance).copied()
    }

    /// Returns the index of the first byte from `from` on that does not match, or of the end.
    pub(super) fn find_end(&mut self, from: usize, matches: impl Fn(u8) -> bool) -> usize {
        let mut search_start = from;
        loop {
            match self.buffered()[search_start..].iter().position(|&byte| !matches(byte)) {
                Some(length) => return search_start + length,
                None => search_start = self.buffered().len(),
            }
            if !self.read_more() {
                return search_start;
            }
        }
    }

    /// Consumes and returns buffered bytes.
    pub(super) fn take(&mut self, count: usize) -> &[u8] {
        let start = self.unread_start;
        self.unread_start += count;
        &self.buffer[start..self.unread_start]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_grows_only_for_long_tokens() {
        let bytes: Vec<u8> = (0..10_000_u32).map(|number| number as u8).collect();
        let mut input = &*bytes;
        let mut source = Source::new(&mut input, 16);
        for number in 0..5_000_u32 {
            assert_eq!(source.peek(0), Some(number as u8));
            source.consume(1);
        }
        assert_eq!((source.offset(), source.buffer.len()), (5_000, 16));
        assert_eq!(source.peek(99), Some(5_099_u32 as u8));
        assert_eq!(source.buffer.len(), 128);
        assert!(!source.ensure_buffered(5_001));
        assert_eq!(source.end_offset(), 10_000);
        assert_eq!(source.take(5_000), &bytes[5_000..]);
    }
}
