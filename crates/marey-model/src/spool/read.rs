//! The reader of a spool.

use std::io::{self, BufReader, Read};

use super::check::Check;
use super::decode::decode;
use super::error::SpoolError;
use super::{Frame, HEADER_BYTES, MAGIC, MAX_FRAME_BYTES, PREFIX_BYTES, VERSION, header};

/// Iterates over the frames of a spool, which may come from any source and be truncated anywhere.
///
/// A truncated frame, or one whose CRC does not match, ends the iteration, and [`torn`](Self::torn)
/// reports it. A frame with a valid CRC and invalid content is an error, and ends the iteration
/// too. A file without [`Frame::End`] was not closed by its process. After reaching the end of the
/// input between two frames, the iteration can be resumed when the input has grown.
#[derive(Debug)]
pub struct Reader<R> {
    input: BufReader<R>,
    /// Offset of the next frame in the file.
    offset: u64,
    /// Kind and payload of the current frame.
    body: Vec<u8>,
    check: Check,
    torn: Option<Torn>,
    done: bool,
}

/// The unreadable tail of a spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// Offset in the file.
    pub offset: u64,
    /// Size of the tail.
    pub lost_bytes: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the header. A file that ends within the header has no frames and is torn from its
    /// start.
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

    /// Returns the torn tail, which is known once the iteration has ended.
    pub const fn torn(&self) -> Option<Torn> {
        self.torn
    }

    /// Returns the input, of which the reader may have buffered a part ahead.
    pub fn input_mut(&mut self) -> &mut R {
        self.input.get_mut()
    }

    /// Returns the offset of the next frame in the file.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    fn header(&mut self) -> Result<(), SpoolError> {
        self.fill_body(HEADER_BYTES)?;
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

    /// Reads the next frame. Returns `None` at the end of the readable part.
    fn frame(&mut self) -> Result<Option<Frame>, SpoolError> {
        self.fill_body(PREFIX_BYTES)?;
        if self.body.is_empty() {
            return Ok(None);
        }
        let Some((length, crc)) = prefix(&self.body) else {
            self.tear(self.body.len())?;
            return Ok(None);
        };
        self.fill_body(length)?;
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

    /// Reads up to `bytes` bytes into `body`, which grows with the data read, not with the
    /// announced length.
    fn fill_body(&mut self, bytes: usize) -> io::Result<()> {
        self.body.clear();
        self.input.by_ref().take(bytes as u64).read_to_end(&mut self.body)?;
        Ok(())
    }

    /// Ends the iteration with a torn tail; `seen` bytes of the frame were already read.
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

/// Parses the length and CRC of a frame. Returns `None` if the length is out of range.
fn prefix(bytes: &[u8]) -> Option<(usize, u32)> {
    let (length, crc) = bytes.split_first_chunk()?;
    let length = u32::from_le_bytes(*length) as usize;
    let crc = u32::from_le_bytes(*crc.first_chunk()?);
    (1..=MAX_FRAME_BYTES).contains(&length).then_some((length, crc))
}
