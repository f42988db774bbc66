use marey_model::loss::LossCause;
use proptest::prelude::*;

use crate::dump::{dump, import_bytes, import_named};
use crate::faults::{damaged, losses};

const SNAPSHOT: &[u8] = include_bytes!("../../data/memory_snapshot/snapshot_protocol_4.pickle");

/// A pickle that executes a command elsewhere is refused.
#[test]
fn pickled_commands_are_never_executed() {
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("it_ran");
    let command = format!("touch {}", marker.display());
    let reduce = [b"\x8c", &[command.len() as u8][..], command.as_bytes(), b"\x85R."].concat();
    let global = [b"\x80\x02}(\x8c\x08segmentscposix\nsystem\n", &reduce[..]].concat();
    let stack_global =
        [b"\x80\x04}(\x8c\x08segments\x8c\x05posix\x8c\x06system\x93", &reduce[..]].concat();
    for (content, offset) in [(global, 14), (stack_global, 29)] {
        let error = import_named("evil.pickle", &content).unwrap_err().to_string();
        let expected = format!(
            "as a PyTorch memory snapshot: byte {offset}: the pickle would import `posix.system`, which is never done"
        );
        assert!(error.ends_with(&expected), "{error}");
        assert!(!marker.exists());
    }
}

#[test]
fn a_truncated_snapshot_keeps_earlier_entries() {
    for end in (0..SNAPSHOT.len()).step_by(23) {
        match import_bytes(&SNAPSHOT[..end]) {
            Ok(imported) => {
                let warnings = &imported.imported.files[0].warnings;
                let cut = warnings.iter().find(|warning| warning.loss == LossCause::Truncated);
                let cut = cut.unwrap_or_else(|| panic!("{end}: no warning"));
                assert_eq!(cut.first.to_string(), format!("byte {end}: the pickle ends early"));
                assert!(imported.imported.events > 0);
            }
            Err(error) => {
                let error = error.to_string();
                let is_expected =
                    error.ends_with("ends early") || error.ends_with("no known format");
                assert!(is_expected, "{error}");
            }
        }
    }
    // In one half, the blocks of the segments are complete and have the time of the last event.
    let half = dump(&import_bytes(&SNAPSHOT[..1400]).unwrap().run);
    assert_eq!(half.lines().filter(|line| line.starts_with("memory_snapshots ")).count(), 4);
}

/// One malformed element among valid ones.
#[test]
fn malformed_entries_are_counted() {
    let event = b"}(\x8c\x06action\x8c\x05alloc\x8c\x04sizeK\x08u";
    let cases: [(&[u8], &[u8], &str); 8] = [
        (
            b"\x8c\x0ddevice_traces",
            b"](K\x07]e",
            "an element of `device_traces`: it is not a dict, or it was used before",
        ),
        (
            b"\x8c\x0ddevice_traces",
            b"](}K\x01K\x02se",
            "an element of `device_traces`: a required field is missing",
        ),
        (
            b"\x8c\x0ddevice_traces",
            b"](}(\x8c\x06framesK\x01\x8c\x06action\x8c\x05alloc\x8c\x04sizeK\x08ue",
            "an element of `device_traces`: its call stack contains something other than frames",
        ),
        (
            b"\x8c\x0ddevice_traces",
            b"](}(\x8c\x01a]q\x00h\x00a\x8c\x06action\x8c\x05alloc\x8c\x04sizeK\x08ue",
            "an element of `device_traces`: values are nested too deeply",
        ),
        (
            b"\x8c\x08segments",
            b"K\x01",
            "an element of `segments`: it is not a dict, or it was used before",
        ),
        (
            b"\x8c\x08segments",
            b"}(\x8c\x06blocks]u",
            "an element of `segments`: a required field is missing",
        ),
        (
            b"\x8c\x14external_annotations",
            b"}(\x8c\x04nameK\x01u",
            "an element of `external_annotations`: a required field is missing",
        ),
        (
            b"\x8c\x0dhost_segments",
            b"}(\x8c\x04sizeK\x01u",
            "a segment of pinned host memory, which runs have no table for",
        ),
    ];
    for (key, element, cause) in cases {
        let good = [&b"\x8c\x0bhost_traces]("[..], event, b"e"].concat();
        let content = [b"\x80\x04}(", &good[..], key, b"](", element, b"eu."].concat();
        let imported = import_bytes(&content).unwrap_or_else(|error| panic!("{cause}: {error}"));
        let warnings: Vec<_> =
            imported.imported.files[0].warnings.iter().map(|w| &*w.first.cause).collect();
        assert_eq!(warnings, [cause]);
    }
}

/// Each malformed block is counted.
#[test]
fn malformed_blocks_are_counted_individually() {
    let segment = b"}(\x8c\x07addressK\x01\x8c\x0atotal_sizeK\x02\x8c\x06blocks](NN}(\x8c\x04sizeK\x02\x8c\x05state\x8c\x01xueu";
    let content = [b"\x80\x04}(\x8c\x08segments](", &segment[..], b"eu."].concat();
    let imported = import_bytes(&content).unwrap();
    let cause =
        "unreadable_events 2 an element of `blocks`: it is not a dict, or it was used before";
    assert_eq!(losses(&imported), [cause]);
    assert_eq!(imported.imported.events, 1);
}

/// Segments that share their blocks: 3,000 of each would be 9 million rows.
#[test]
fn shared_blocks_do_not_multiply() {
    let block = b"}(\x8c\x04sizeK\x02\x8c\x05state\x8c\x01xu";
    let segment = |blocks: &[u8]| {
        [b"}(\x8c\x07addressK\x01\x8c\x0atotal_sizeK\x02\x8c\x06blocks", blocks, b"u"].concat()
    };
    let first = segment(&[b"]q\x01(", &block.repeat(3_000)[..], b"e"].concat());
    let others = segment(b"h\x01").repeat(3_000);
    let content = [b"\x80\x04}(\x8c\x08segments](", &first[..], &others, b"eu."].concat();
    let imported = import_bytes(&content).unwrap();
    assert!((3_000..200_000).contains(&imported.imported.events));
    let lost: u64 = imported.imported.files[0].warnings.iter().map(|warning| warning.count).sum();
    assert!(lost > 2_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn damaged_files_are_read_or_refused(content in damaged(SNAPSHOT.to_vec())) {
        if let Ok(imported) = import_bytes(&content) {
            dump(&imported.run);
        }
    }
}
