//! The part of a file that is in memory.

use std::mem;

use crate::import::Broken;
use crate::input::Input;

/// What must be in memory as a whole, such as an event, takes no more than this.
const MAX_PIECE_BYTES: usize = 256 << 20;

/// The bytes of a file from a place on, as far as they are read.
pub(super) struct Window<'a> {
    input: &'a mut Input,
    bytes: Vec<u8>,
    /// The next byte that nobody has taken.
    at: usize,
    /// Where the window begins in the file.
    start: u64,
    is_at_end: bool,
}

impl<'a> Window<'a> {
    pub(super) fn new(input: &'a mut Input) -> Self {
        Self { input, bytes: Vec::new(), at: 0, start: 0, is_at_end: false }
    }

    /// What comes next.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Bytes that are taken and still there.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Where that is in the file.
    pub(super) fn offset(&self) -> u64 {
        self.start + self.at as u64
    }

    /// Whether nothing comes behind what is there.
    pub(super) fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    /// Takes bytes off the front.
    pub(super) fn take(&mut self, count: usize) {
        self.at += count;
    }

    /// Gives the memory of the window away, for an empty one; with it go the bytes that were taken,
    /// which begin at this place in the file.
    pub(super) fn split(&mut self, empty: Vec<u8>) -> (u64, Vec<u8>) {
        let (start, bytes) = (self.start, mem::replace(&mut self.bytes, empty));
        self.bytes.extend_from_slice(&bytes[self.at..]);
        self.start += mem::take(&mut self.at) as u64;
        (start, bytes)
    }

    /// Doubles what is there, so that looking again and again costs little in all.
    pub(super) fn read_more(&mut self) -> Result<(), Broken> {
        let wanted = 2 * self.rest().len();
        if wanted > 2 * MAX_PIECE_BYTES {
            return Err(Broken::at(self.offset(), "a piece of more than 256 MiB"));
        }
        self.start += self.at as u64;
        self.bytes.drain(..mem::take(&mut self.at));
        loop {
            if !self.input.append_chunk(&mut self.bytes)? {
                self.is_at_end = true;
                return Ok(());
            }
            if self.bytes.len() >= wanted {
                return Ok(());
            }
        }
    }
}
