//! Reads the packets of a trace from a stream, one at a time.

use std::io::{self, Read};

use super::message::TRACE_PACKET;
use crate::shared::protobuf::{FIXED32, FIXED64, LENGTH_DELIMITED, VARINT, wire_type};

/// The maximum length of a packet. Real packets have a few MiB at most.
const MAX_PACKET_BYTES: u64 = 64 << 20;

/// Why the next packet cannot be read.
#[derive(Debug)]
pub(super) enum PacketError {
    /// The content is damaged. Has the byte offset and the cause.
    Content(u64, String),
    /// The file could not be read.
    Io(io::Error),
}

/// The packets of a trace.
#[derive(Debug)]
pub(super) struct Packets<R> {
    source: R,
    offset: u64,
}

impl<R: Read> Packets<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, offset: 0 }
    }

    /// Returns the number of bytes read.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Replaces the content of `packet` by the next packet. Returns `false` at the end.
    pub(super) fn next(&mut self, packet: &mut Vec<u8>) -> Result<bool, PacketError> {
        loop {
            let packet_offset = self.offset;
            let Some(key) = self.read_varint(packet_offset)? else { return Ok(false) };
            let length = match wire_type(key) {
                VARINT => self.read_varint(packet_offset)?.map(|_| 0),
                FIXED64 => Some(8),
                LENGTH_DELIMITED => self.read_varint(packet_offset)?,
                FIXED32 => Some(4),
                unknown => {
                    return Err(content_error(
                        packet_offset,
                        format!("wire type {unknown} where a packet begins"),
                    ));
                }
            };
            let length = length.ok_or_else(|| truncated(packet_offset))?;
            if length > MAX_PACKET_BYTES {
                return Err(content_error(packet_offset, format!("a packet of {length} bytes")));
            }
            packet.clear();
            let result = (&mut self.source).take(length).read_to_end(packet);
            self.offset += packet.len() as u64;
            result.map_err(|error| io_error(packet_offset, error))?;
            if (packet.len() as u64) < length {
                return Err(truncated(packet_offset));
            }
            if key == u64::from(TRACE_PACKET) << 3 | LENGTH_DELIMITED {
                return Ok(true);
            }
        }
    }

    /// Reads a varint. Returns `None` if the source ends before its first byte.
    fn read_varint(&mut self, packet_offset: u64) -> Result<Option<u64>, PacketError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            match self.source.read_exact(&mut byte) {
                Ok(()) => self.offset += 1,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && shift == 0 => {
                    return Ok(None);
                }
                Err(error) => return Err(io_error(packet_offset, error)),
            }
            value |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                return Ok(Some(value));
            }
        }
        Err(content_error(packet_offset, "a number of more than 64 bits".to_owned()))
    }
}

fn content_error(offset: u64, cause: String) -> PacketError {
    PacketError::Content(offset, cause)
}

fn truncated(offset: u64) -> PacketError {
    content_error(offset, "the file ends in the middle of a packet".to_owned())
}

fn io_error(offset: u64, error: io::Error) -> PacketError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => truncated(offset),
        _ => PacketError::Io(error),
    }
}
