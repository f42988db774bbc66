//! The reader of a spool.

use std::io::{self, BufReader, Read};

use super::check::Check;
use super::decode::decode;
use super::error::SpoolError;
use super::{Frame, HEADER_BYTES, MAGIC, MAX_FRAME_BYTES, PREFIX_BYTES, VERSION, header};

/// Reads the frames of a spool, whoever wrote it and wherever it was cut.
///
/// A frame that is short, or whose CRC is not its own, ends the iteration, and
/// [`torn`](Self::torn) says so. A frame that is intact but impossible is an error, after which
/// nothing comes either. A file without [`Frame::End`] was not closed by its process. Where the input ends
/// between two frames, the iteration goes on once it has grown.
#[derive(Debug)]
pub struct Reader<R> {
    input: BufReader<R>,
    /// Where the next frame starts.
    offset: u64,
    /// Kind and payload of the frame that is being read.
    body: Vec<u8>,
    check: Check,
    torn: Option<Torn>,
    done: bool,
}

/// The rest of a spool that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// Where it starts in the file.
    pub offset: u64,
    /// How long it is.
    pub lost_bytes: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the header. A file that ends within it has no frames and is torn from its start.
    pub fn new(input: R) -> Result<Self, SpoolError> {
        let mut reader = Self {
            input: BufReader::new(input),
            offset: 0,
            body: Vec::new(),
            check: Check::default(),
            torn: None,
            done: false,
        };
        reader.header()?;
        Ok(reader)
    }

    /// What was left out at the end; known once the iteration has ended.
    pub const fn torn(&self) -> Option<Torn> {
        self.torn
    }

    /// What the frames are read from, some of it ahead of them.
    pub fn input_mut(&mut self) -> &mut R {
        self.input.get_mut()
    }

    /// Where the next frame starts in the file.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    fn header(&mut self) -> Result<(), SpoolError> {
        self.take(HEADER_BYTES)?;
        let expected = header();
        if self.body.len() < HEADER_BYTES && expected.starts_with(&self.body) {
            return Ok(self.tear(self.body.len())?);
        }
        let Some(version) = self.body.strip_prefix(&MAGIC).and_then(<[u8]>::first_chunk) else {
            return Err(SpoolError::NotASpool);
        };
        let found = u32::from_le_bytes(*version);
        if found != VERSION {
            return Err(SpoolError::Version { found });
        }
        self.offset = HEADER_BYTES as u64;
        Ok(())
    }

    /// The next frame, or `None` at the end of what can be read.
    fn frame(&mut self) -> Result<Option<Frame>, SpoolError> {
        self.take(PREFIX_BYTES)?;
        if self.body.is_empty() {
            return Ok(None);
        }
        let Some((length, crc)) = prefix(&self.body) else {
            self.tear(self.body.len())?;
            return Ok(None);
        };
        self.take(length)?;
        if self.body.len() < length || crc32fast::hash(&self.body) != crc {
            self.tear(PREFIX_BYTES + self.body.len())?;
            return Ok(None);
        }
        let offset = self.offset;
        let frame =
            decode(&self.body).map_err(|reason| SpoolError::Malformed { offset, reason })?;
        self.check.frame(&frame).map_err(|reason| SpoolError::Broken { offset, reason })?;
        self.offset += (PREFIX_BYTES + length) as u64;
        Ok(Some(frame))
    }

    /// Reads up to `bytes` bytes into `body`, which grows with what is there and not with what is
    /// announced.
    fn take(&mut self, bytes: usize) -> io::Result<()> {
        self.body.clear();
        self.input.by_ref().take(bytes as u64).read_to_end(&mut self.body)?;
        Ok(())
    }

    /// Ends the iteration `seen` bytes into a frame that cannot be read.
    fn tear(&mut self, seen: usize) -> io::Result<()> {
        let rest = io::copy(&mut self.input, &mut io::sink())?;
        self.torn = Some(Torn { offset: self.offset, lost_bytes: seen as u64 + rest });
        self.done = true;
        Ok(())
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Frame, SpoolError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.frame().transpose();
        self.done |= matches!(next, Some(Err(_)));
        next
    }
}

/// The length and the CRC that a frame starts with, if it can have them.
fn prefix(bytes: &[u8]) -> Option<(usize, u32)> {
    let (length, crc) = bytes.split_first_chunk()?;
    let length = u32::from_le_bytes(*length) as usize;
    let crc = u32::from_le_bytes(*crc.first_chunk()?);
    (1..=MAX_FRAME_BYTES).contains(&length).then_some((length, crc))
}
