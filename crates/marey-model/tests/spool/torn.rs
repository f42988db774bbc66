//! Spools truncated by a kill or damaged on disk.

use marey_model::spool::{Frame, Reader, Torn};

use crate::round_trip::written;
use crate::training;

/// Returns the frames of a file and its torn tail.
fn read(file: &[u8]) -> (Vec<Frame>, Option<Torn>) {
    let mut reader = Reader::new(file).unwrap();
    let frames = reader.by_ref().map(Result::unwrap).collect();
    (frames, reader.torn())
}

/// Returns the start of each frame in the file, and the end of the file.
fn starts(frames: &[Frame]) -> Vec<usize> {
    (0..=frames.len()).map(|count| written(&frames[..count]).len()).collect()
}

#[test]
fn a_file_cut_at_any_byte_gives_every_frame_before_the_cut() {
    let frames = training::frames(40);
    let file = written(&frames);
    let starts = starts(&frames);
    for cut in 0..=file.len() {
        let (read, torn) = read(&file[..cut]);
        let whole = starts.iter().rposition(|&start| start <= cut);
        assert_eq!(read, frames[..whole.unwrap_or(0)], "cut at {cut}");
        let offset = whole.map_or(0, |at| starts[at]);
        let lost_bytes = (cut - offset) as u64;
        let expected = Torn { offset: offset as u64, lost_bytes };
        let is_torn = whole.is_none() || lost_bytes > 0;
        assert_eq!(torn, is_torn.then_some(expected), "cut at {cut}");
    }
}

#[test]
fn a_flipped_bit_drops_the_frame_and_all_later_ones() {
    let frames = training::frames(20);
    let file = written(&frames);
    let starts = starts(&frames);
    for at in starts[0]..file.len() {
        let before = starts.iter().rposition(|&start| start <= at).unwrap();
        for bit in 0..8 {
            let mut damaged = file.clone();
            damaged[at] ^= 1 << bit;
            let (read, torn) = read(&damaged);
            let offset = starts[before] as u64;
            let lost_bytes = file.len() as u64 - offset;
            assert_eq!(torn, Some(Torn { offset, lost_bytes }), "bit {bit} of byte {at}");
            assert!(read == frames[..before], "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn a_flipped_bit_of_the_header_is_an_error() {
    let file = written(&[Frame::End]);
    for at in 0..12 {
        let mut damaged = file.clone();
        damaged[at] ^= 1;
        let message = Reader::new(&*damaged).unwrap_err().to_string();
        let expected = match at {
            0..8 => "not a spool: it does not start with `MAREYSPL`",
            8 => "unsupported spool version 0; this program reads version 1",
            9 => "unsupported spool version 257; this program reads version 1",
            10 => "unsupported spool version 65537; this program reads version 1",
            _ => "unsupported spool version 16777217; this program reads version 1",
        };
        assert_eq!(message, expected, "byte {at}");
    }
}

#[test]
fn noise_after_the_last_frame_is_a_torn_tail() {
    let file = written(&[Frame::End]);
    for noise in [vec![0; 4_096], vec![0xFF; 100_000], b"\x01\0\0\0".to_vec()] {
        let (frames, torn) = read(&[&*file, &noise].concat());
        assert_eq!(frames, [Frame::End]);
        let (offset, lost_bytes) = (file.len() as u64, noise.len() as u64);
        assert_eq!(torn, Some(Torn { offset, lost_bytes }));
    }
}
