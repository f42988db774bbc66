//! Protobuf's own layer: the packets of a trace one by one, and the fields of a message.

use std::io::{self, Read};

use super::message::TRACE_PACKET;

/// The longest packet that is read; real ones are no longer than a few MiB.
const MAX_PACKET_BYTES: u64 = 64 << 20;

/// Wire type of a number of variable length.
const VARINT: u64 = 0;
/// Wire type of eight bytes.
const FIXED64: u64 = 1;
/// Wire type of a length and as many bytes.
const BYTES: u64 = 2;
/// Wire type of four bytes.
const FIXED32: u64 = 5;

/// Why there is no further packet.
#[derive(Debug)]
pub(super) enum PacketError {
    /// What follows is no packet: how many bytes were taken before it, and what is wrong.
    Content(u64, String),
    /// The file could not be read.
    Io(io::Error),
}

/// A trace's packets.
#[derive(Debug)]
pub(super) struct Packets<R> {
    source: R,
    taken_bytes: u64,
}

impl<R: Read> Packets<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, taken_bytes: 0 }
    }

    /// Bytes that were taken so far.
    pub(super) fn offset(&self) -> u64 {
        self.taken_bytes
    }

    /// Puts the next packet in place of what `packet` holds; `false` at the end.
    pub(super) fn next(&mut self, packet: &mut Vec<u8>) -> Result<bool, PacketError> {
        loop {
            let start = self.taken_bytes;
            let Some(key) = self.varint(start)? else { return Ok(false) };
            let length = match key & 7 {
                VARINT => self.varint(start)?.map(|_| 0),
                FIXED64 => Some(8),
                BYTES => self.varint(start)?,
                FIXED32 => Some(4),
                other => {
                    return Err(fault(start, format!("wire type {other} where a packet begins")));
                }
            };
            let length = length.ok_or_else(|| cut(start))?;
            if length > MAX_PACKET_BYTES {
                return Err(fault(start, format!("a packet of {length} bytes")));
            }
            packet.clear();
            let read = (&mut self.source).take(length).read_to_end(packet);
            self.taken_bytes += packet.len() as u64;
            read.map_err(|error| of_io(start, error))?;
            if (packet.len() as u64) < length {
                return Err(cut(start));
            }
            if key == u64::from(TRACE_PACKET) << 3 | BYTES {
                return Ok(true);
            }
        }
    }

    /// The next number; `None` where the source ends before its first byte.
    fn varint(&mut self, start: u64) -> Result<Option<u64>, PacketError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            match self.source.read_exact(&mut byte) {
                Ok(()) => self.taken_bytes += 1,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && shift == 0 => {
                    return Ok(None);
                }
                Err(error) => return Err(of_io(start, error)),
            }
            value |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                return Ok(Some(value));
            }
        }
        Err(fault(start, "a number of more than 64 bits".to_owned()))
    }
}

fn fault(offset: u64, cause: String) -> PacketError {
    PacketError::Content(offset, cause)
}

fn cut(offset: u64) -> PacketError {
    fault(offset, "the file ends in the middle of a packet".to_owned())
}

fn of_io(offset: u64, error: io::Error) -> PacketError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => cut(offset),
        _ => PacketError::Io(error),
    }
}

/// The fields of a message with their numbers, as far as it can be read; those that are bytes with
/// them.
pub(super) fn fields(message: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let mut rest = message;
    std::iter::from_fn(move || {
        let key = varint(&mut rest)?;
        let length = match key & 7 {
            VARINT => varint(&mut rest).map(|_| 0)?,
            FIXED64 => 8,
            BYTES => varint(&mut rest)?,
            FIXED32 => 4,
            _ => return None,
        };
        let (value, after) = rest.split_at_checked(length.try_into().ok()?)?;
        rest = after;
        Some(((key >> 3).try_into().ok()?, value))
    })
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
