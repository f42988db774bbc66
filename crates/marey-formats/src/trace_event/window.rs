//! The part of a file that is in memory.

use std::io;

use super::lexer::Stop;
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

    /// Where that is in the file.
    pub(super) fn offset(&self) -> u64 {
        self.start + self.at as u64
    }

    /// Takes bytes off the front.
    pub(super) fn take(&mut self, count: usize) {
        self.at += count;
    }

    /// Looks at what comes next until it is all there. `look` says how it ended, and is asked again
    /// when more has been read; at the end of the file it is asked no more.
    pub(super) fn look<T>(
        &mut self,
        mut look: impl FnMut(&[u8]) -> Result<T, Stop>,
    ) -> Result<T, Broken> {
        loop {
            match look(self.rest()) {
                Ok(seen) => return Ok(seen),
                Err(Stop::Bad { at, cause }) => {
                    return Err(Broken::at(self.offset() + at as u64, cause));
                }
                Err(Stop::More) if self.is_at_end => {
                    let end = self.offset() + self.rest().len() as u64;
                    return Err(Broken::at(end, "the file ends early"));
                }
                Err(Stop::More) => self.read_more()?,
            }
        }
    }

    /// The next byte that is not white space; none at the end of the file.
    pub(super) fn peek(&mut self) -> Result<Option<u8>, Broken> {
        loop {
            let space = self.rest().iter().take_while(|byte| **byte <= b' ').count();
            self.take(space);
            match self.rest().first() {
                Some(&byte) => return Ok(Some(byte)),
                None if self.is_at_end => return Ok(None),
                None => self.read_more()?,
            }
        }
    }

    /// Doubles what is there, so that looking again and again costs little in all.
    fn read_more(&mut self) -> Result<(), Broken> {
        let wanted = 2 * self.rest().len();
        if wanted > 2 * MAX_PIECE_BYTES {
            return Err(Broken::at(self.offset(), "a piece of more than 256 MiB"));
        }
        loop {
            if !self.read_chunk()? {
                self.is_at_end = true;
                return Ok(());
            }
            if self.rest().len() >= wanted {
                return Ok(());
            }
        }
    }

    fn read_chunk(&mut self) -> io::Result<bool> {
        let Some(chunk) = self.input.next_chunk()? else { return Ok(false) };
        self.start += self.at as u64;
        self.bytes.drain(..std::mem::take(&mut self.at));
        if self.bytes.is_empty() {
            self.bytes = chunk;
        } else {
            self.bytes.extend_from_slice(&chunk);
        }
        Ok(true)
    }
}
