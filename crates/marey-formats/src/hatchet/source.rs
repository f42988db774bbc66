//! A file as a window that moves over it.

use std::fs::File;
use std::io::{self, Read};

use flate2::read::MultiGzDecoder;

use crate::shared::input::GZIP;

/// Bytes of a file in memory at a time, where no single word is longer.
pub(super) const WINDOW_BYTES: usize = 256 * 1024;

/// Where bytes come from.
pub(super) trait Input {
    /// Puts bytes at the start of `space` and says how many; none at the end.
    fn fill(&mut self, space: &mut [u8]) -> usize;
}

impl Input for &[u8] {
    fn fill(&mut self, space: &mut [u8]) -> usize {
        let (now, later) = self.split_at(self.len().min(space.len()));
        space[..now.len()].copy_from_slice(now);
        *self = later;
        now.len()
    }
}

/// A file that ends where it cannot be read, and says so afterwards.
pub(super) struct FileInput<'a> {
    pub(super) file: Box<dyn Read>,
    /// Bytes read so far, unpacked.
    pub(super) bytes: u64,
    /// Who is told of them.
    pub(super) watch: &'a mut dyn FnMut(u64),
    pub(super) error: Option<io::Error>,
}

/// The content of a file, which may be compressed.
pub(super) fn unpacked(mut file: File) -> io::Result<Box<dyn Read>> {
    let mut magic = Vec::new();
    (&mut file).take(GZIP.len() as u64).read_to_end(&mut magic)?;
    let is_packed = magic == GZIP;
    let content = io::Cursor::new(magic).chain(file);
    Ok(if is_packed { Box::new(MultiGzDecoder::new(content)) } else { Box::new(content) })
}

impl Input for FileInput<'_> {
    fn fill(&mut self, space: &mut [u8]) -> usize {
        loop {
            match self.file.read(space) {
                Ok(count) => {
                    self.bytes += count as u64;
                    (self.watch)(self.bytes);
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

/// The bytes that have been read and not consumed, and the way to more.
pub(super) struct Source<'a> {
    input: &'a mut dyn Input,
    window: Vec<u8>,
    /// The first byte of the window that is not consumed.
    at: usize,
    /// The first byte of the window that is not filled.
    end: usize,
    /// Bytes of the file before the window.
    before: u64,
}

impl<'a> Source<'a> {
    pub(super) fn new(input: &'a mut dyn Input, window_bytes: usize) -> Self {
        Self { input, window: vec![0; window_bytes], at: 0, end: 0, before: 0 }
    }

    /// Bytes of the file that are consumed.
    pub(super) fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    /// Bytes of the file that are consumed or in memory; at its end, its length.
    pub(super) fn end_offset(&self) -> u64 {
        self.before + self.end as u64
    }

    /// What is in memory and not consumed.
    pub(super) fn rest(&self) -> &[u8] {
        &self.window[self.at..self.end]
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.at += count;
    }

    /// Makes [`rest`](Self::rest) longer; false at the end of the file.
    ///
    /// The window grows only when it is full of what is not consumed, by what there really is.
    pub(super) fn more(&mut self) -> bool {
        self.window.copy_within(self.at..self.end, 0);
        self.before += self.at as u64;
        self.end -= self.at;
        self.at = 0;
        if self.end == self.window.len() {
            self.window.resize(self.window.len() * 2, 0);
        }
        let count = self.input.fill(&mut self.window[self.end..]);
        self.end += count;
        count > 0
    }

    /// Reads on until the rest has `count` bytes; false where the file ends before.
    pub(super) fn has(&mut self, count: usize) -> bool {
        while self.rest().len() < count {
            if !self.more() {
                return false;
            }
        }
        true
    }

    /// A byte of the rest.
    pub(super) fn peek(&mut self, ahead: usize) -> Option<u8> {
        self.has(ahead + 1);
        self.rest().get(ahead).copied()
    }

    /// Position in the rest of the first byte from `from` that does not belong, or of the end.
    pub(super) fn run(&mut self, from: usize, belongs: impl Fn(u8) -> bool) -> usize {
        let mut at = from;
        loop {
            match self.rest()[at..].iter().position(|&byte| !belongs(byte)) {
                Some(length) => return at + length,
                None => at = self.rest().len(),
            }
            if !self.more() {
                return at;
            }
        }
    }

    /// Consumes bytes that are in memory, and gives them until more are read.
    pub(super) fn take(&mut self, count: usize) -> &[u8] {
        let start = self.at;
        self.at += count;
        &self.window[start..self.at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_grows_for_one_long_word_and_for_nothing_else() {
        let bytes: Vec<u8> = (0..10_000_u32).map(|number| number as u8).collect();
        let mut input = &*bytes;
        let mut source = Source::new(&mut input, 16);
        for number in 0..5_000_u32 {
            assert_eq!(source.peek(0), Some(number as u8));
            source.consume(1);
        }
        assert_eq!((source.offset(), source.window.len()), (5_000, 16));
        assert_eq!(source.peek(99), Some(5_099_u32 as u8));
        assert_eq!(source.window.len(), 128);
        assert!(!source.has(5_001));
        assert_eq!(source.end_offset(), 10_000);
        assert_eq!(source.take(5_000), &bytes[5_000..]);
    }
}
