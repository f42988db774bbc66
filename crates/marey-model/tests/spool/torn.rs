//! Spools truncated by a kill or damaged on disk.

use marey_model::spool::{SpoolFrame, SpoolReader, TornTail};

use crate::round_trip::encode_file;
use crate::training;

/// Returns the frames of a file and its torn tail.
pub(crate) fn read(file: &[u8]) -> (Vec<SpoolFrame>, Option<TornTail>) {
    let mut reader = SpoolReader::new(file).unwrap();
    let frames = reader.by_ref().map(Result::unwrap).collect();
    (frames, reader.torn())
}

/// Returns the start of each frame in the file, and the end of the file.
fn starts(frames: &[SpoolFrame]) -> Vec<usize> {
    (0..=frames.len()).map(|count| encode_file(&frames[..count]).len()).collect()
}

#[test]
fn a_file_cut_at_any_byte_gives_every_frame_before_the_cut() {
    let frames = training::frames(40);
    let file = encode_file(&frames);
    let starts = starts(&frames);
    for cut in 0..=file.len() {
        let (read, torn) = read(&file[..cut]);
        let complete = starts.iter().rposition(|&start| start <= cut);
        assert_eq!(read, frames[..complete.unwrap_or(0)], "cut at {cut}");
        let offset = complete.map_or(0, |count| starts[count]);
        let lost_bytes = (cut - offset) as u64;
        let expected = TornTail { offset: offset as u64, lost_bytes };
        let is_torn = complete.is_none() || lost_bytes > 0;
        assert_eq!(torn, is_torn.then_some(expected), "cut at {cut}");
    }
}

#[test]
fn a_flipped_bit_drops_the_frame_and_all_later_ones() {
    let frames = training::frames(20);
    let file = encode_file(&frames);
    let starts = starts(&frames);
    for index in starts[0]..file.len() {
        let before = starts.iter().rposition(|&start| start <= index).unwrap();
        for bit in 0..8 {
            let mut damaged = file.clone();
            damaged[index] ^= 1 << bit;
            let (read, torn) = read(&damaged);
            let offset = starts[before] as u64;
            let lost_bytes = file.len() as u64 - offset;
            assert_eq!(torn, Some(TornTail { offset, lost_bytes }), "bit {bit} of byte {index}");
            assert!(read == frames[..before], "bit {bit} of byte {index}");
        }
    }
}

#[test]
fn a_flipped_bit_of_the_header_is_an_error() {
    let file = encode_file(&[SpoolFrame::End]);
    for index in 0..12 {
        let mut damaged = file.clone();
        damaged[index] ^= 1;
        let message = SpoolReader::new(&*damaged).unwrap_err().to_string();
        let expected = match index {
            0..8 => "not a spool: it does not start with `MAREYSPL`",
            8 => "unsupported spool version 0; this program reads version 1",
            9 => "unsupported spool version 257; this program reads version 1",
            10 => "unsupported spool version 65537; this program reads version 1",
            _ => "unsupported spool version 16777217; this program reads version 1",
        };
        assert_eq!(message, expected, "byte {index}");
    }
}

#[test]
fn noise_after_the_last_frame_is_a_torn_tail() {
    let file = encode_file(&[SpoolFrame::End]);
    for noise in [vec![0; 4_096], vec![0xFF; 100_000], b"\x01\0\0\0".to_vec()] {
        let (frames, torn) = read(&[&*file, &noise].concat());
        assert_eq!(frames, [SpoolFrame::End]);
        let (offset, lost_bytes) = (file.len() as u64, noise.len() as u64);
        assert_eq!(torn, Some(TornTail { offset, lost_bytes }));
    }
}
