//! The bytes of a pickle, one after the other.

use crate::import::Broken;
use crate::input::Input;

/// Bytes of a line that are shown of it.
const MAX_LINE_BYTES: usize = 200;

/// The content of a file and how far it is read.
#[derive(Debug)]
pub(super) struct Bytes<'a> {
    input: &'a mut Input,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(input: &'a mut Input) -> Self {
        Self { input }
    }

    /// Bytes that were read.
    pub(super) fn offset(&self) -> u64 {
        self.input.offset()
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Broken> {
        let mut array = [0; N];
        let mut filled = 0;
        while filled < N {
            let part = self.part(N - filled)?;
            array[filled..filled + part.len()].copy_from_slice(part);
            filled += part.len();
        }
        Ok(array)
    }

    /// So many bytes, which take memory as they come and not as they are announced.
    pub(super) fn vec(&mut self, count: u64) -> Result<Vec<u8>, Broken> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < count {
            let missing = count - bytes.len() as u64;
            let part = self.part(usize::try_from(missing).unwrap_or(usize::MAX))?;
            bytes.extend_from_slice(part);
        }
        Ok(bytes)
    }

    /// A line without its end, as far as it is worth to be shown.
    pub(super) fn line(&mut self) -> Result<String, Broken> {
        let mut line = Vec::new();
        while line.len() < MAX_LINE_BYTES {
            match self.array()? {
                [b'\n'] => break,
                [byte] => line.push(byte),
            }
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    /// Some of the next bytes: at least one, at most so many.
    fn part(&mut self, max: usize) -> Result<&[u8], Broken> {
        let offset = self.input.offset();
        let part = self.input.part(max)?;
        if part.is_empty() { Err(Broken::at(offset, "the pickle ends early")) } else { Ok(part) }
    }
}
