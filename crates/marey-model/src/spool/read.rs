//! The reader of a spool, which tolerates a torn end.

use std::io::{self, BufReader, Read};

use super::check::ConsistencyCheck;
use super::decode::decode;
use super::error::SpoolError;
use super::{HEADER_BYTES, MAGIC, MAX_FRAME_BYTES, PREFIX_BYTES, SpoolFrame, VERSION, header};

/// Iterates over the frames of a spool, which may come from any source and be truncated anywhere.
///
/// A truncated frame, or one whose CRC does not match, ends the iteration, and [`torn`](Self::torn)
/// reports it. A frame with a valid CRC and invalid content also ends the iteration, with an error.
/// A file without [`SpoolFrame::End`] was not closed by its process. If the input ends between two
/// frames, the iteration can go on after the input has grown.
#[derive(Debug)]
pub struct SpoolReader<R> {
    input: BufReader<R>,
    /// Offset of the next frame in the file.
    offset: u64,
    /// Kind and payload of the current frame.
    body: Vec<u8>,
    check: ConsistencyCheck,
    torn: Option<TornTail>,
    is_done: bool,
}

/// The unreadable tail of a spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// Offset in the file.
    pub offset: u64,
    /// Size of the tail.
    pub lost_bytes: u64,
}

impl<R: Read> SpoolReader<R> {
    /// Reads the header. A file that ends within the header has no frames and is torn from its
    /// start.
    pub fn new(input: R) -> Result<Self, SpoolError> {
        let mut reader = Self {
            input: BufReader::new(input),
            offset: 0,
            body: Vec::new(),
            check: ConsistencyCheck::default(),
            torn: None,
            is_done: false,
        };
        reader.read_header()?;
        Ok(reader)
    }

    /// Returns the torn tail, which is known once the iteration has ended.
    pub const fn torn(&self) -> Option<TornTail> {
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

    fn read_header(&mut self) -> Result<(), SpoolError> {
        self.fill_body(HEADER_BYTES)?;
        let expected = header();
        if self.body.len() < HEADER_BYTES && expected.starts_with(&self.body) {
            return Ok(self.end_torn(self.body.len())?);
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
    fn read_frame(&mut self) -> Result<Option<SpoolFrame>, SpoolError> {
        self.fill_body(PREFIX_BYTES)?;
        if self.body.is_empty() {
            return Ok(None);
        }
        let Some((length, crc)) = parse_prefix(&self.body) else {
            self.end_torn(self.body.len())?;
            return Ok(None);
        };
        self.fill_body(length)?;
        if self.body.len() < length || crc32fast::hash(&self.body) != crc {
            self.end_torn(PREFIX_BYTES + self.body.len())?;
            return Ok(None);
        }
        let offset = self.offset;
        let frame =
            decode(&self.body).map_err(|reason| SpoolError::Malformed { offset, reason })?;
        self.check
            .check_frame(&frame)
            .map_err(|reason| SpoolError::Inconsistent { offset, reason })?;
        self.offset += (PREFIX_BYTES + length) as u64;
        Ok(Some(frame))
    }

    /// Reads at most `max_bytes` bytes into `body`. The memory grows with the data that was read,
    /// not with the length that a frame announces.
    fn fill_body(&mut self, max_bytes: usize) -> io::Result<()> {
        self.body.clear();
        self.input.by_ref().take(max_bytes as u64).read_to_end(&mut self.body)?;
        Ok(())
    }

    /// Ends the iteration with a torn tail; `read_bytes` bytes of the frame were already read.
    fn end_torn(&mut self, read_bytes: usize) -> io::Result<()> {
        let unread_bytes = io::copy(&mut self.input, &mut io::sink())?;
        self.torn =
            Some(TornTail { offset: self.offset, lost_bytes: read_bytes as u64 + unread_bytes });
        self.is_done = true;
        Ok(())
    }
}

impl<R: Read> Iterator for SpoolReader<R> {
    type Item = Result<SpoolFrame, SpoolError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let frame = self.read_frame().transpose();
        self.is_done |= matches!(frame, Some(Err(_)));
        frame
    }
}

/// Parses the length and CRC of a frame. Returns `None` if the length is out of range.
fn parse_prefix(bytes: &[u8]) -> Option<(usize, u32)> {
    let (length, crc) = bytes.split_first_chunk()?;
    let length = u32::from_le_bytes(*length) as usize;
    let crc = u32::from_le_bytes(*crc.first_chunk()?);
    (1..=MAX_FRAME_BYTES).contains(&length).then_some((length, crc))
}
