//! `TFRecord`: messages with their length and checksums around them.

use std::io::{self, Write};

/// Writes a record: its length, the checksum of that, the content, the checksum of that; all of them
/// with the least byte first.
pub(super) fn write(content: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let length = (content.len() as u64).to_le_bytes();
    out.write_all(&length)?;
    out.write_all(&masked(crc32c(&length)).to_le_bytes())?;
    out.write_all(content)?;
    out.write_all(&masked(crc32c(content)).to_le_bytes())
}

/// A checksum turned around and moved on, so that it is no checksum of a content with checksums.
const fn masked(checksum: u32) -> u32 {
    checksum.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The polynomial of Castagnoli, its bits from the least to the highest power turned around.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// What each value of the lowest byte does to a checksum.
const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 { rest >> 1 ^ POLYNOMIAL } else { rest >> 1 };
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
}

fn crc32c(bytes: &[u8]) -> u32 {
    let add = |rest: u32, byte: &u8| rest >> 8 ^ TABLE[usize::from(rest as u8 ^ byte)];
    !bytes.iter().fold(!0, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_rfc_3720() {
        let counting: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&counting), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
    }
}
