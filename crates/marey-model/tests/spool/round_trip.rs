//! Invariants of reading any bytes, shared by the fuzzer and the tests.

use marey_model::spool::{SpoolError, SpoolFrame, SpoolReader, SpoolWriter};

/// Bytes of a file before its first frame.
const HEADER_BYTES: usize = 12;
/// Bytes of a frame before the part that its CRC covers.
const PREFIX_BYTES: usize = 8;

/// Checks the invariants for a file of these bytes, and for the file with corrected CRCs.
pub(crate) fn check_any_file(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    check_file(&bytes);
    correct_crcs(&mut bytes);
    check_file(&bytes);
}

/// Checks that reading returns an error, or frames that together with the torn tail account for
/// every byte, and that the frames survive a round trip.
fn check_file(file: &[u8]) {
    let Ok(mut reader) = SpoolReader::new(file) else { return };
    let mut frames = Vec::new();
    let mut error: Option<SpoolError> = None;
    for frame in reader.by_ref() {
        match frame {
            Ok(frame) => frames.push(frame),
            Err(found) => error = Some(found),
        }
    }
    if error.is_none() {
        let lost_bytes = reader.torn().map_or(0, |torn| torn.lost_bytes);
        assert_eq!(reader.offset() + lost_bytes, file.len() as u64);
    }
    let again: Vec<SpoolFrame> =
        SpoolReader::new(&*encode_file(&frames)).unwrap().map(Result::unwrap).collect();
    assert_eq!(format!("{again:?}"), format!("{frames:?}"));
}

/// Returns a file with these frames.
pub(crate) fn encode_file(frames: &[SpoolFrame]) -> Vec<u8> {
    let mut writer = SpoolWriter::new(Vec::new()).unwrap();
    for frame in frames {
        writer.write_frame(frame).unwrap();
    }
    writer.get_ref().clone()
}

/// Corrects the CRC of each frame.
pub(crate) fn correct_crcs(file: &mut [u8]) {
    let Some(mut rest) = file.get_mut(HEADER_BYTES..) else { return };
    while let Some((prefix, frames)) = rest.split_at_mut_checked(PREFIX_BYTES) {
        let (length, crc) = prefix.split_at_mut(4);
        let length = u32::from_le_bytes((&*length).try_into().unwrap()) as usize;
        let Some((body, next)) = frames.split_at_mut_checked(length) else { return };
        crc.copy_from_slice(&crc32fast::hash(body).to_le_bytes());
        rest = next;
    }
}
