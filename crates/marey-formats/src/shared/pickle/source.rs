//! Reads the bytes of a pickle, with bounds on the memory that announced lengths can take.

use crate::shared::import::ReaderError;
use crate::shared::input::Input;

/// The maximum number of bytes of a line that messages show.
const MAX_LINE_BYTES: usize = 200;

/// The content of a file, and the position in it.
#[derive(Debug)]
pub(super) struct ByteReader<'a> {
    input: &'a mut Input,
}

impl<'a> ByteReader<'a> {
    pub(super) fn new(input: &'a mut Input) -> Self {
        Self { input }
    }

    /// Returns the number of bytes read.
    pub(super) fn offset(&self) -> u64 {
        self.input.offset()
    }

    pub(super) fn read_array<const N: usize>(&mut self) -> Result<[u8; N], ReaderError> {
        let mut array = [0; N];
        let mut filled = 0;
        while filled < N {
            let part = self.read_part(N - filled)?;
            array[filled..filled + part.len()].copy_from_slice(part);
            filled += part.len();
        }
        Ok(array)
    }

    /// Reads `count` bytes. Memory grows with the bytes that arrive, and not with the announced
    /// count.
    pub(super) fn read_vec(&mut self, count: u64) -> Result<Vec<u8>, ReaderError> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < count {
            let missing = count - bytes.len() as u64;
            let part = self.read_part(usize::try_from(missing).unwrap_or(usize::MAX))?;
            bytes.extend_from_slice(part);
        }
        Ok(bytes)
    }

    /// Reads a line without its end, and at most [`MAX_LINE_BYTES`] of it.
    pub(super) fn read_line(&mut self) -> Result<String, ReaderError> {
        let mut line = Vec::new();
        while line.len() < MAX_LINE_BYTES {
            match self.read_array()? {
                [b'\n'] => break,
                [byte] => line.push(byte),
            }
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    /// Reads at least one and at most `max_bytes` bytes.
    fn read_part(&mut self, max_bytes: usize) -> Result<&[u8], ReaderError> {
        let offset = self.input.offset();
        let part = self.input.consume(max_bytes)?;
        if part.is_empty() {
            Err(ReaderError::content(offset, "the pickle ends early"))
        } else {
            Ok(part)
        }
    }
}
