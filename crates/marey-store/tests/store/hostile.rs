//! Truncated, corrupted and forged runs give an error, never a panic or bytes from outside the run.

use std::fs::{self, File};
use std::ops::Range;
use std::path::Path;
use std::sync::LazyLock;

use marey_model::table::stored::{ALL, SPANS, STRINGS};
use marey_store::{Run, pack};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::sample;

/// Creates a run with two small tables.
fn small_run() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let parts = [&STRINGS, &SPANS].map(|table| sample::write_part(folder.path(), table, 0, 0..3));
    sample::publish(folder.path(), parts.into());
    folder
}

/// Returns the bytes of a pack of it.
static PACK: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let run = small_run();
    let out = run.path().join("pack");
    pack(run.path(), &out).unwrap();
    fs::read(out).unwrap()
});

/// Returns the range of the part of spans in the pack.
static SPANS_PART: LazyLock<Range<usize>> = LazyLock::new(|| {
    let find = |bytes: &[u8]| PACK.windows(bytes.len()).position(|window| window == bytes).unwrap();
    let start = find(b"PAR1");
    start..find(b"PAR1PK\x03\x04") + 4
});

/// Opens a pack and reads the bytes of its parts.
fn open(bytes: &[u8]) -> Option<(tempfile::NamedTempFile, Run)> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let run = Run::open(file.path()).ok()?;
    for part in ALL.iter().flat_map(|table| run.parts(table)) {
        assert_eq!(part.read_at(0..part.len_bytes()).unwrap().len() as u64, part.len_bytes());
    }
    Some((file, run))
}

#[test]
fn a_truncated_manifest_is_rejected() {
    let run = small_run();
    let path = run.path().join("manifest.json");
    let len_bytes = fs::metadata(&path).unwrap().len();
    assert_no_truncation_opens(&path, len_bytes - 1, run.path());
}

#[test]
fn a_truncated_pack_is_rejected() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &*PACK).unwrap();
    assert_no_truncation_opens(file.path(), PACK.len() as u64, file.path());
}

fn assert_no_truncation_opens(file_path: &Path, len_bytes: u64, run: &Path) {
    Run::open(run).unwrap();
    let file = File::options().write(true).open(file_path).unwrap();
    for len_bytes in (0..len_bytes).rev() {
        file.set_len(len_bytes).unwrap();
        Run::open(run).unwrap_err();
    }
}

#[test]
fn a_flipped_bit_in_the_directory_never_reads_outside_the_parts() {
    let start = PACK.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    for bit in start * 8..PACK.len() * 8 {
        let mut changed = PACK.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        drop(open(&changed));
    }
}

#[test]
fn a_panic_of_the_parquet_library_is_an_error() {
    // The offset of a column in the file, a zigzag varint in the footer, becomes negative.
    let mut errors = SPANS_PART.clone().filter_map(|index| {
        let mut bytes = PACK.clone();
        bytes[index] ^= 1;
        let (_file, run) = open(&bytes).unwrap();
        run.read(&SPANS).err().map(|error| error.to_string())
    });
    assert!(errors.any(|error| error.contains("the Parquet reader failed: ")));
}

proptest! {
    #[test]
    fn corrupt_packs_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = PACK.clone();
        for (position, byte) in changes {
            let index = position.index(bytes.len());
            bytes[index] = byte;
        }
        if let Some((_file, run)) = open(&bytes) {
            drop((run.read(&SPANS), run.read(&STRINGS)));
        }
    }

    #[test]
    fn garbage_after_the_zip_signature_is_rejected(
        garbage in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        prop_assert!(open(&[b"PK\x03\x04", &garbage[..]].concat()).is_none());
    }

    #[test]
    fn garbage_in_place_of_a_part_is_an_error(
        garbage in prop::collection::vec(any::<u8>(), SPANS_PART.len()),
        footer_bytes in prop::option::of(0_u32..2_000),
    ) {
        let mut bytes = PACK.clone();
        let part = &mut bytes[SPANS_PART.clone()];
        part.copy_from_slice(&garbage);
        if let Some(footer_bytes) = footer_bytes {
            let end = [&footer_bytes.to_le_bytes()[..], b"PAR1"].concat();
            let index = part.len() - end.len();
            part[index..].copy_from_slice(&end);
        }
        let (_file, run) = open(&bytes).unwrap();
        prop_assert!(run.read(&SPANS).is_err());
    }
}
