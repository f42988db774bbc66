//! Writes `TFRecord`, the container of event files: messages framed by their length and checksums.

use std::io::{self, Write};

use crc32c::crc32c;

/// Writes a record: the length, its checksum, the content and its checksum, all little-endian.
pub(super) fn write(content: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let length = (content.len() as u64).to_le_bytes();
    out.write_all(&length)?;
    out.write_all(&mask_checksum(crc32c(&length)).to_le_bytes())?;
    out.write_all(content)?;
    out.write_all(&mask_checksum(crc32c(content)).to_le_bytes())
}

/// Masks a checksum as `TFRecord` demands. A checksum of data that contain plain checksums is weak.
const fn mask_checksum(checksum: u32) -> u32 {
    checksum.rotate_right(15).wrapping_add(0xa282_ead8)
}
