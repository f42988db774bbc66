//! The part of a file that is in memory.

use std::mem;

use crate::shared::import::ReaderError;
use crate::shared::input::Input;

/// What must be in memory as a whole, such as an event, takes no more than this.
const MAX_PIECE_BYTES: usize = 256 << 20;

/// The bytes of a file from a place on, as far as they are read.
pub(super) struct Window<'a> {
    input: &'a mut Input,
    bytes: Vec<u8>,
    /// The next byte that nobody has taken.
    at: usize,
    /// Where the window ends in the file.
    end: u64,
    is_at_end: bool,
}

impl<'a> Window<'a> {
    pub(super) fn new(input: &'a mut Input) -> Self {
        Self { input, bytes: Vec::new(), at: 0, end: 0, is_at_end: false }
    }

    /// What comes next.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Where that is among the bytes of the window.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Where that is in the file.
    pub(super) fn offset(&self) -> u64 {
        self.end - self.rest().len() as u64
    }

    /// Where the window ends in the file.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Whether nothing comes behind what is there.
    pub(super) fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    /// Takes bytes off the front.
    pub(super) fn take(&mut self, count: usize) {
        self.at += count;
    }

    /// Reads on; what was not taken is there still. Gives the bytes of the window as it was.
    ///
    /// What is there doubles at least, so that looking again and again costs little in all.
    pub(super) fn read_more(&mut self) -> Result<Vec<u8>, ReaderError> {
        let left = self.rest().len();
        if left > MAX_PIECE_BYTES {
            return Err(ReaderError::at(self.offset(), "a piece of more than 256 MiB"));
        }
        let (bytes, at) = match self.input.next_chunk()? {
            Some((mut chunk, start)) if left <= start => {
                self.end += (chunk.len() - start) as u64;
                chunk[start - left..start].copy_from_slice(self.rest());
                (chunk, start - left)
            }
            next => (self.grown(next)?, 0),
        };
        self.at = at;
        Ok(mem::replace(&mut self.bytes, bytes))
    }

    /// What was not taken, and as much again behind it, if there is so much.
    fn grown(&mut self, mut next: Option<(Vec<u8>, usize)>) -> Result<Vec<u8>, ReaderError> {
        let mut bytes = self.rest().to_vec();
        let wanted = 2 * bytes.len();
        self.is_at_end = next.is_none();
        while let Some((chunk, start)) = next {
            self.end += (chunk.len() - start) as u64;
            bytes.extend_from_slice(&chunk[start..]);
            self.input.reuse(chunk);
            next = if bytes.len() < wanted { self.input.next_chunk()? } else { None };
        }
        Ok(bytes)
    }

    /// Gives the bytes of the window, and where they end in the file: nobody reads on.
    pub(super) fn split_off(&mut self) -> (Vec<u8>, u64) {
        self.at = 0;
        (mem::take(&mut self.bytes), self.end)
    }

    /// Takes back what it gave.
    pub(super) fn reuse(&self, bytes: Vec<u8>) {
        self.input.reuse(bytes);
    }
}
