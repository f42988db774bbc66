use marey_model::loss::LossCause;
use proptest::prelude::*;

use crate::dump::{dump, import_bytes};
use crate::faults::{damaged, losses};

const PICKLE: &[u8] = include_bytes!("../../data/flight_recorder/nccl_trace_rank_0");
const JSON: &[u8] = include_bytes!("../../data/flight_recorder/rank_0.json");

#[test]
fn bad_dumps_are_refused() {
    let cases: [(&[u8], &str); 5] = [
        (
            b"\x80\x02}(X\x07\0\0\0entriescos\nsystem\n.",
            "byte 16: the pickle would import `os.system`, which is never done",
        ),
        (b"\x80\x02}(X\x07\0\0\0entries](", "byte 18: the pickle ends early"),
        (
            b"{\"entries\": 7}",
            "byte 14: invalid type: integer `7`, expected a list of entries at line 1 column 14",
        ),
        (b"{\"entries\": [", "byte 13: EOF while parsing a list at line 1 column 13"),
        (b"{\"pg_config\": {}} x", "byte 19: trailing characters at line 1 column 19"),
    ];
    for (content, expected) in cases {
        let error = import_bytes(content).unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
    }
}

#[test]
fn malformed_entries_are_counted() {
    let good = "{\"profiling_name\": \"nccl:barrier\", \"time_created_ns\": 5}";
    let cases = [
        ("7", "an element of `entries`: it is not a dict, or it was used before"),
        (
            "{\"profiling_name\": \"nccl:barrier\"}",
            "an element of `entries`: a required field is missing",
        ),
        (
            "{\"profiling_name\": \"b\", \"time_created_ns\": 5, \"frames\": 1}",
            "an element of `entries`: its call stack contains something other than frames",
        ),
    ];
    for (entry, cause) in cases {
        let json = format!("{{\"entries\": [{good}, {entry}]}}");
        let imported = import_bytes(json.as_bytes()).unwrap();
        assert_eq!(losses(&imported), [format!("unreadable_events 1 {cause}")]);
        // A number ends before the next opcode.
        let end = json.len() as u64 - 2;
        let position = imported.imported.files[0].warnings[0].first.offset;
        assert!((end..=end + 1).contains(&position));
    }
}

/// Out-of-range numbers do not wrap.
#[test]
fn extreme_numbers_are_kept_or_left_out() {
    let json = br#"{"entries": [{"profiling_name": "x", "time_created_ns": 9223372036854775807,
        "time_discovered_started_ns": 9223372036854775807, "time_discovered_completed_ns": 1,
        "collective_seq_id": 18446744073709551615, "input_sizes": [[9223372036854775807, 2]],
        "output_sizes": [[-3], "a"], "state": "odd", "process_group": [1, 2]}]}"#;
    let dump = dump(&import_bytes(json).unwrap().run);
    let line = dump.lines().find(|line| line.starts_with("collectives")).unwrap();
    let expected = "collectives 9223372036854775807+Some(0) created=Some(9223372036854775807) p-1 device=None stream=None \"x\" group=\"\" ranks=None size=None sequence=None dtype=None in=None out=None Completed p2p=false at=None ";
    assert!(line.starts_with(expected), "{line}");
    for kept in [
        "\"collective_seq_id\":\"18446744073709551615\"",
        "\"state\":\"odd\"",
        "\"process_group\":[1,2]",
        "\"output_sizes\":[[-3],\"a\"]",
    ] {
        assert!(line.contains(kept), "{kept}: {line}");
    }
}

#[test]
fn a_truncated_dump_keeps_earlier_entries() {
    for content in [PICKLE, JSON] {
        for end in (0..content.len()).step_by(37) {
            match import_bytes(&content[..end]) {
                Ok(imported) => {
                    let warnings = &imported.imported.files[0].warnings;
                    assert!(warnings.iter().any(|warning| warning.loss == LossCause::Truncated));
                    assert!(imported.imported.events > 0);
                }
                Err(error) => {
                    let error = error.to_string();
                    let words = ["ends early", "no known format", "EOF while", "as a "];
                    assert!(words.iter().any(|word| error.contains(word)), "{error}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn damaged_files_are_read_or_refused(
        content in prop_oneof![damaged(JSON.to_vec()), damaged(PICKLE.to_vec())],
    ) {
        if let Ok(imported) = import_bytes(&content) {
            dump(&imported.run);
        }
    }
}
