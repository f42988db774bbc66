//! Hostile files, generated large files, and arbitrary bytes.

use std::fs;
use std::path::{Path, PathBuf};

use marey_formats::hatchet::{self, MAX_DEPTH, ParseError, SyntaxCause};
use proptest::prelude::*;

use crate::round_trip;

/// Every file of `tests/hostile` with its error.
const EXPECTED_ERRORS: &[(&str, &str)] = &[
    ("binary.hatchet_msgpack", "byte 30: expected a value that JSON has too, found byte 0xc4"),
    ("blank.hatchet", "byte 4: the file is empty"),
    (
        "control_line_break.hatchet",
        "line 2, column 24 (byte 25): the text contains the unescaped control character 0x0a",
    ),
    (
        "control_nul.hatchet",
        "line 1, column 22 (byte 21): the text contains the unescaped control character 0x00",
    ),
    (
        "duplicate_children.hatchet",
        "line 2, column 69 (byte 70): `children` appears twice in one map",
    ),
    ("duplicate_device.hatchet", "line 3, column 24 (byte 94): `0` appears twice in one map"),
    (
        "duplicate_device_field.hatchet",
        "line 3, column 37 (byte 107): `num_sms` appears twice in one map",
    ),
    ("duplicate_family.hatchet", "line 3, column 25 (byte 95): `CUDA` appears twice in one map"),
    ("duplicate_frame.hatchet", "line 2, column 53 (byte 54): `frame` appears twice in one map"),
    ("duplicate_frame.hatchet_msgpack", "byte 19: `frame` appears twice in one map"),
    ("duplicate_kind.hatchet", "line 2, column 79 (byte 80): `kind` appears twice in one map"),
    ("duplicate_loss.hatchet", "line 2, column 86 (byte 87): `nodes` appears twice in one map"),
    ("duplicate_marey.hatchet", "line 2, column 66 (byte 67): `marey` appears twice in one map"),
    (
        "duplicate_metric.hatchet",
        "line 2, column 93 (byte 94): `time (ns)` appears twice in one map",
    ),
    ("duplicate_metric.hatchet_msgpack", "byte 31: `a` appears twice in one map"),
    (
        "duplicate_metric_escaped.hatchet",
        r"line 2, column 76 (byte 77): `a\nb` appears twice in one map",
    ),
    (
        "duplicate_metrics.hatchet",
        "line 2, column 68 (byte 69): `metrics` appears twice in one map",
    ),
    ("duplicate_name.hatchet", "line 2, column 52 (byte 53): `name` appears twice in one map"),
    (
        "duplicate_overhead.hatchet",
        "line 2, column 89 (byte 90): `events` appears twice in one map",
    ),
    ("empty.hatchet", "byte 0: the file is empty"),
    ("escape_short.hatchet", "line 1, column 22 (byte 21): the text contains an invalid escape"),
    ("escape_unknown.hatchet", "line 1, column 24 (byte 23): the text contains an invalid escape"),
    ("extension.hatchet_msgpack", "byte 25: expected a value that JSON has too, found byte 0xd4"),
    ("lying_children.hatchet_msgpack", "byte 51: the file ends in the middle of the profile"),
    ("lying_list.hatchet_msgpack", "byte 5: the file ends in the middle of the profile"),
    ("lying_map.hatchet_msgpack", "byte 12: the file ends in the middle of the profile"),
    ("lying_metric_list.hatchet_msgpack", "byte 37: the file ends in the middle of the profile"),
    ("lying_short.hatchet_msgpack", "byte 47: unexpected content after the end of the profile"),
    ("lying_text.hatchet_msgpack", "byte 23: the file ends in the middle of the profile"),
    (
        "map_at_top.hatchet_msgpack",
        "byte 0: the content is neither a JSON nor a MessagePack profile",
    ),
    (
        "not_a_profile_image.hatchet",
        "byte 0: the content is neither a JSON nor a MessagePack profile",
    ),
    (
        "not_a_profile_text.hatchet",
        "byte 0: the content is neither a JSON nor a MessagePack profile",
    ),
    ("number_in_skipped_value.hatchet", "line 2, column 69 (byte 70): the number is out of range"),
    ("number_leading_zero.hatchet", "line 2, column 70 (byte 71): the number is malformed"),
    ("number_minus.hatchet", "line 2, column 70 (byte 71): the number is malformed"),
    ("number_no_exponent.hatchet", "line 2, column 70 (byte 71): the number is malformed"),
    ("number_no_fraction.hatchet", "line 2, column 70 (byte 71): the number is malformed"),
    ("number_plus.hatchet", "line 2, column 70 (byte 71): expected a value, found byte `+`"),
    ("number_real_below_range.hatchet", "line 2, column 70 (byte 71): the number is out of range"),
    ("number_real_beyond_range.hatchet", "line 2, column 70 (byte 71): the number is out of range"),
    ("number_whole_below_range.hatchet", "line 2, column 70 (byte 71): the number is out of range"),
    (
        "number_whole_beyond_range.hatchet",
        "line 2, column 70 (byte 71): the number is out of range",
    ),
    ("number_word.hatchet", "line 2, column 78 (byte 79): expected `-Infinity`, found byte `e`"),
    ("reserved.hatchet_msgpack", "byte 1: expected a value that JSON has too, found byte 0xc1"),
    (
        "schema_child_has_no_frame.hatchet",
        "line 2, column 80 (byte 81): the node that ends here has no frame name",
    ),
    ("schema_child_is_text.hatchet", "line 2, column 66 (byte 67): expected a node, found a text"),
    (
        "schema_children_is_map.hatchet",
        "line 2, column 65 (byte 66): expected the list of children, found a map",
    ),
    (
        "schema_children_is_map.hatchet_msgpack",
        "byte 28: expected the list of children, found a map",
    ),
    (
        "schema_children_is_null.hatchet",
        "line 2, column 65 (byte 66): expected the list of children, found null",
    ),
    (
        "schema_clock_is_text.hatchet",
        "line 3, column 35 (byte 105): expected a whole number from 0, found a text",
    ),
    (
        "schema_device_is_number.hatchet",
        "line 3, column 20 (byte 90): expected a device, found a whole number",
    ),
    (
        "schema_devices_is_list.hatchet",
        "line 3, column 5 (byte 75): expected the map of devices, found a list",
    ),
    (
        "schema_family_is_list.hatchet",
        "line 3, column 14 (byte 84): expected the devices of a family, found a list",
    ),
    (
        "schema_frame_has_no_name.hatchet",
        "line 2, column 51 (byte 52): the node that ends here has no frame name",
    ),
    (
        "schema_frame_is_text.hatchet",
        "line 2, column 15 (byte 16): expected the frame, found a text",
    ),
    (
        "schema_key_is_number.hatchet_msgpack",
        "byte 2: expected a text as key, found a whole number",
    ),
    (
        "schema_map_at_top.hatchet",
        "line 1, column 1 (byte 0): expected the list [ROOT, DEVICES], found a map",
    ),
    (
        "schema_metric_is_list_of_texts.hatchet",
        "line 2, column 74 (byte 75): expected a number, found a text",
    ),
    (
        "schema_metric_is_map.hatchet",
        "line 2, column 78 (byte 79): expected a number, a text or a list of numbers, found a map",
    ),
    (
        "schema_metric_is_true.hatchet",
        "line 2, column 78 (byte 79): expected a number, a text or a list of numbers, found true or false",
    ),
    (
        "schema_metrics_is_list.hatchet",
        "line 2, column 64 (byte 65): expected the map of metrics, found a list",
    ),
    (
        "schema_name_is_number.hatchet",
        "line 2, column 24 (byte 25): expected a text, found a whole number",
    ),
    (
        "schema_num_sms_is_negative.hatchet",
        "line 3, column 32 (byte 102): expected a whole number from 0, found a negative number",
    ),
    (
        "schema_root_is_list.hatchet",
        "line 2, column 5 (byte 6): expected the root node, found a list",
    ),
    (
        "schema_root_is_missing.hatchet",
        "line 1, column 2 (byte 1): expected the root node, found the end of a list",
    ),
    (
        "schema_sketch_is_flat.hatchet",
        "line 2, column 74 (byte 75): expected a pair of bucket and count, found a whole number",
    ),
    (
        "schema_version_is_newer.hatchet",
        "line 2, column 74 (byte 75): the file has version 2, this marey reads versions up to 1",
    ),
    ("surrogate_alone.hatchet", "line 1, column 23 (byte 22): the text contains a lone surrogate"),
    (
        "surrogate_reversed.hatchet",
        "line 1, column 22 (byte 21): the text contains a lone surrogate",
    ),
    (
        "syntax_comma_before_end.hatchet",
        "line 2, column 72 (byte 73): expected a key, found byte `}`",
    ),
    (
        "syntax_comment.hatchet",
        "line 2, column 5 (byte 6): expected a value or `]`, found byte `/`",
    ),
    ("syntax_no_colon.hatchet", "line 2, column 69 (byte 70): expected `:`, found byte `1`"),
    (
        "syntax_no_comma.hatchet",
        r#"line 2, column 72 (byte 73): expected `,` or the end of the list or map, found byte `"`"#,
    ),
    (
        "syntax_no_quote.hatchet",
        "line 2, column 65 (byte 66): expected a key or `}`, found byte `a`",
    ),
    ("syntax_word.hatchet", "line 2, column 71 (byte 72): expected `null`, found byte `i`"),
    (
        "syntax_wrong_bracket.hatchet",
        "line 1, column 27 (byte 26): expected `,` or the end of the list or map, found byte `]`",
    ),
    (
        "trace_of_chrome.hatchet",
        "line 1, column 1 (byte 0): this is a trace (it has `traceEvents`), not a `.hatchet` file",
    ),
    (
        "trace_of_kineto.hatchet",
        "line 2, column 1 (byte 1): this is a trace (it has `traceEvents`), not a `.hatchet` file",
    ),
    (
        "trailing.hatchet",
        "line 5, column 1 (byte 112): unexpected content after the end of the profile",
    ),
    ("trailing.hatchet_msgpack", "byte 32: unexpected content after the end of the profile"),
    ("trailing_root.hatchet", "line 3, column 24 (byte 94): expected a device, found a text"),
    (
        "truncated_before_devices.hatchet",
        "line 2, column 100 (byte 101): the file ends in the middle of the profile",
    ),
    (
        "truncated_before_devices.hatchet_msgpack",
        "byte 31: the file ends in the middle of the profile",
    ),
    (
        "truncated_in_escape.hatchet",
        "line 1, column 24 (byte 23): the file ends in the middle of the profile",
    ),
    ("truncated_in_float.hatchet_msgpack", "byte 33: the file ends in the middle of the profile"),
    (
        "truncated_in_key.hatchet",
        "line 2, column 72 (byte 73): the file ends in the middle of the profile",
    ),
    (
        "truncated_in_number.hatchet",
        "line 2, column 79 (byte 80): the file ends in the middle of the profile",
    ),
    ("truncated_in_text.hatchet_msgpack", "byte 12: the file ends in the middle of the profile"),
    ("utf8.hatchet_msgpack", "byte 18: the text is not UTF-8"),
    ("utf8_in_key.hatchet", "line 1, column 49 (byte 48): the text is not UTF-8"),
    ("utf8_in_name.hatchet", "line 2, column 26 (byte 27): the text is not UTF-8"),
    ("utf8_surrogate.hatchet", "line 1, column 22 (byte 21): the text is not UTF-8"),
];

/// Returns the path of a folder in the repository.
fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn files(path: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder(path)).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    files
}

/// Returns cause and byte offset of the error in `bytes`.
fn fault(bytes: &[u8]) -> (SyntaxCause, u64) {
    match hatchet::parse(bytes) {
        Err(ParseError::Syntax { position, cause }) => (cause, position.byte_offset),
        other => panic!("expected a syntax error, got {other:?}"),
    }
}

#[test]
fn each_hostile_file_gives_its_error() {
    for (name, line) in EXPECTED_ERRORS {
        let path = folder("tests/hostile").join(name);
        let expected = format!("cannot read `{}`: {line}", path.display());
        assert_eq!(hatchet::read(&path).unwrap_err().to_string(), expected);
    }
}

#[test]
fn each_hostile_file_is_listed() {
    let names: Vec<_> = files("tests/hostile")
        .iter()
        .filter_map(|path| path.file_name()?.to_str().map(str::to_owned))
        .filter(|name| name != "README.md")
        .collect();
    assert_eq!(names, EXPECTED_ERRORS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
}

#[test]
fn findings_of_the_fuzzer_stay_fixed() {
    let mut count = 0;
    for path in ["fuzz/corpus/hatchet", "tests/hostile", "crates/marey-formats/tests/data"] {
        for file in files(path) {
            round_trip::check_any_file(&fs::read(&file).unwrap());
            count += 1;
        }
    }
    assert!(count > EXPECTED_ERRORS.len(), "the corpus is empty");
}

/// Returns a chain of `levels` nodes.
fn json_chain(levels: usize) -> Vec<u8> {
    let open = r#"{"frame": {"name": "n"}, "children": ["#;
    format!("[{}{}, {{}}]", open.repeat(levels), "]}".repeat(levels)).into_bytes()
}

/// Returns such a chain in `MessagePack`; the last node has no `children`.
fn msgpack_chain(levels: usize) -> Vec<u8> {
    let open = b"\x82\xa5frame\x81\xa4name\xa1n\xa8children\x91";
    let mut file = [b"\x92".as_slice(), &open.repeat(levels)].concat();
    file.pop();
    file.extend_from_slice(b"\x90\x80");
    file
}

#[test]
fn deep_trees_hit_the_limit_before_the_stack() {
    for (chain, level_bytes) in
        [(json_chain as fn(usize) -> Vec<u8>, 38), (msgpack_chain as fn(usize) -> Vec<u8>, 25)]
    {
        assert_eq!(hatchet::parse(&chain(MAX_DEPTH)).unwrap().nodes.len(), MAX_DEPTH);
        let too_deep =
            (SyntaxCause::TooDeep { limit: MAX_DEPTH }, 1 + level_bytes * MAX_DEPTH as u64);
        assert_eq!(fault(&chain(MAX_DEPTH + 1)), too_deep);
        assert_eq!(fault(&chain(100_000)), too_deep);
    }
}

#[test]
fn the_depth_of_skipped_values_is_bounded() {
    let cause = SyntaxCause::TooDeep { limit: MAX_DEPTH };
    let json = |levels| [br#"[{"later": "#, "[".repeat(levels).as_bytes()].concat();
    assert_eq!(fault(&json(100_000)), (cause.clone(), 11 + MAX_DEPTH as u64));
    assert_eq!(fault(&json(MAX_DEPTH)).0, SyntaxCause::UnexpectedEnd);
    let msgpack = [b"\x92\x81\xa5later".as_slice(), &b"\x91".repeat(100_000)].concat();
    assert_eq!(fault(&msgpack), (cause, 8 + MAX_DEPTH as u64));
}

#[test]
fn a_long_key_is_shortened_to_one_line() {
    let key = "\\n".repeat(1_000);
    let file = format!(r#"[{{"metrics": {{"{key}": 1, "{key}": 1}}}}]"#);
    let line = hatchet::parse(file.as_bytes()).unwrap_err().to_string();
    assert!(line.ends_with("…` appears twice in one map") && line.len() < 300, "{line}");
    assert!(!line.contains('\n'));
}

#[test]
fn every_truncation_is_an_error() {
    for name in ["train.hatchet", "proton.hatchet", "proton.hatchet_msgpack"] {
        let file = fs::read(folder("crates/marey-formats/tests/data").join(name)).unwrap();
        let length =
            if name.ends_with("msgpack") { file.len() } else { file.trim_ascii_end().len() };
        for end in 0..length {
            let (cause, byte) = fault(&file[..end]);
            let is_blank = file[..end].trim_ascii().is_empty();
            let expected = if is_blank { SyntaxCause::Empty } else { SyntaxCause::UnexpectedEnd };
            let is_cut_number = cause == SyntaxCause::BadNumber;
            assert!(cause == expected || is_cut_number, "{name} cut at {end}: {cause}");
            assert!(byte == end as u64 || is_cut_number, "{name} cut at {end}: byte {byte}");
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        round_trip::check_any_file(&bytes);
        round_trip::check_any_file(&[b"[", &*bytes].concat());
        round_trip::check_any_file(&[b"\x92", &*bytes].concat());
    }

    #[test]
    fn damaged_files_never_panic(
        name in prop::sample::select(vec![
            "minimal.hatchet", "minimal.hatchet_msgpack",
            "proton.hatchet", "proton.hatchet_msgpack", "train.hatchet",
        ]),
        position in any::<prop::sample::Index>(),
        cut in 0_usize..8,
        patch in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let file = fs::read(folder("crates/marey-formats/tests/data").join(name)).unwrap();
        let position = position.index(file.len());
        let rest = &file[(position + cut).min(file.len())..];
        round_trip::check_any_file(&[&file[..position], &*patch, rest].concat());
    }
}
