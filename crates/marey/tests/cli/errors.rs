//! Errors of `marey view` name the file and the cause, with exit code 2.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use marey_formats::{Format, recognise_file};

use crate::{DATA, Folder, marey, refusal, view};

#[test]
fn an_unknown_metric_suggests_similar_names_or_lists_all() {
    assert_snapshot!(refusal(&view("-m time,flop minimal.hatchet")), @r"
    error: `minimal.hatchet` has no metric `flop`
    hint: did you mean `flops16`, `flop16/s`, `gflop16/s`?
    ");
    assert_snapshot!(refusal(&view("-m time,xyz minimal.hatchet")), @r"
    error: `minimal.hatchet` has no metric `xyz`
    hint: available: `bytes`, `count`, `flops16`, `time`, `device_id`, `device_type`, `total`, `self`, `calls`, `util`
    ");
    assert_snapshot!(refusal(&view("-m time, minimal.hatchet")), @r"
    error: `minimal.hatchet` has no metric ``
    hint: available: `bytes`, `count`, `flops16`, `time`, `device_id`, `device_type`, `total`, `self`, `calls`, `util`
    ");
}

#[test]
fn comparing_a_text_metric_is_an_error() {
    assert_snapshot!(
        refusal(&view("-m device_type -t 1 minimal.hatchet")),
        @"error: `minimal.hatchet`: `device_type` is not a number"
    );
    assert_snapshot!(
        refusal(&view("-m device_type/% minimal.hatchet")),
        @"error: `minimal.hatchet`: `device_type` is not a number"
    );
    assert_snapshot!(refusal(&view("-m time/h minimal.hatchet")), @r"
    error: `minimal.hatchet`: `time (ns)` cannot be shown in the unit `h`
    hint: only times with a unit in their name can be shown in s, ms, us and ns, and numbers in %
    ");
}

#[test]
fn a_filter_that_removes_all_nodes_is_an_error() {
    assert_snapshot!(
        refusal(&view("-m time -i nothing minimal.hatchet")),
        @"error: the filters remove all nodes of `minimal.hatchet`: no name matches `nothing`"
    );
    assert_snapshot!(
        refusal(&view("-m time -e .* minimal.hatchet")),
        @"error: the filters remove all nodes of `minimal.hatchet`: `.*` matches every root"
    );
    assert_snapshot!(
        refusal(&view("-m time -t 1e9 minimal.hatchet")),
        @"error: the filters remove all nodes of `minimal.hatchet`: no time (ns) (inc) reaches 1000000000"
    );
    assert_snapshot!(
        refusal(&view("-t inf minimal.hatchet minimal.hatchet_msgpack")),
        @"error: the filters remove all nodes of `minimal.hatchet`: no time (ns) (inc) reaches inf"
    );
}

#[test]
fn an_invalid_pattern_is_an_error() {
    assert_snapshot!(
        refusal(&view("-i a)(b minimal.hatchet")),
        @"error: invalid pattern `a)(b`: Parsing error at position 1: General parsing error: end of string not reached"
    );
    assert_snapshot!(
        refusal(&view("-e [ minimal.hatchet")),
        @"error: invalid pattern `[`: Parsing error at position 1: Invalid character class"
    );
}

#[test]
fn errors_on_truncated_files_have_offset_and_cause() {
    let torn = |name: &str| {
        let file_bytes = fs::read(Path::new(DATA).join(name)).unwrap();
        Folder::new(&[(name, &file_bytes[..200])]).view(name)
    };
    assert_snapshot!(
        refusal(&torn("minimal.hatchet")),
        @"error: cannot read `minimal.hatchet`: line 3, column 5 (byte 200): the file ends in the middle of the profile"
    );
    assert_snapshot!(
        refusal(&torn("minimal.hatchet_msgpack")),
        @"error: cannot read `minimal.hatchet_msgpack`: byte 200: the file ends in the middle of the profile"
    );
}

#[test]
fn errors_on_other_files_have_offset_and_cause() {
    let view = |name: &str, content: &[u8]| Folder::new(&[(name, content)]).view(name);
    assert_snapshot!(view("trace.json", b"{\"traceEvents\": []}"), @r"
    exit code: 0
    --- stdout ---
    trace.json
    name
    ROOT
    --- stderr ---
    warning: `trace.json`: no events found (a Chrome trace)
    ");
    assert_snapshot!(
        refusal(&view("empty.hatchet", b"")),
        @"error: cannot read `empty.hatchet`: byte 0: the file is empty"
    );
    assert_snapshot!(refusal(&view("picture.hatchet", b"\x89PNG")), @r"
    error: cannot read `picture.hatchet`: byte 0: the content is neither a JSON nor a MessagePack profile
    hint: marey reads its own runs and packs, and kineto, chrome-trace, perfetto, speedscope, pprof, collapsed, hatchet, hatchet-msgpack, memory-snapshot, flight-recorder
    ");
    let later = br#"[{"frame": {"name": "ROOT"}, "marey": {"version": 9}}]"#;
    assert_snapshot!(refusal(&view("later.hatchet", later)), @r"
    error: cannot read `later.hatchet`: line 1, column 51 (byte 50): the file has version 9, this marey reads versions up to 1
    hint: upgrade marey
    ");
}

#[test]
fn every_hostile_file_gives_one_line_with_its_name_and_an_offset() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hostile");
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let format = path.is_file().then(|| recognise_file(&path).unwrap());
        // A JSON object is recognised as a trace.
        if !matches!(format, Some(None | Some(Format::Hatchet | Format::HatchetMsgpack))) {
            continue;
        }
        let name = path.file_name().unwrap().to_str().unwrap();
        if name == "README.md" {
            continue;
        }
        count += 1;
        let output = marey(&format!("view {name}")).current_dir(&folder).output().unwrap();
        assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]), "{name}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        let (error, hints) = stderr.split_once('\n').unwrap();
        let reason = error.strip_prefix(&format!("error: cannot read `{name}`: "));
        assert!(reason.is_some_and(|reason| reason.contains("byte ")), "{stderr}");
        assert!(hints.lines().all(|line| line.starts_with("hint: ")), "{stderr}");
    }
    assert!(count > 80, "{count}");
}

#[test]
fn only_an_unrecognised_file_gets_the_hint_with_all_formats() {
    let view = |content: &[u8]| Folder::new(&[("f", content)]).view("f");
    for content in [&b"  true"[..], b"name,value", b"\x81\xa1a\x01"] {
        let output = view(content);
        assert!(output.contains("\nhint: marey reads its own runs and packs, and "), "{output}");
    }
    for content in [&b"[{\"frame\": 5}]"[..], b"[{\"metrics\": {\"t\": true}}]"] {
        let output = view(content);
        assert!(output.contains("error: ") && !output.contains("hint: "), "{output}");
    }
}

#[test]
fn a_missing_source_is_named_with_the_metric_that_needs_it() {
    let content = br#"[{"frame": {"name": "ROOT"}, "metrics": {"flops8": 0}, "children": [
        {"frame": {"name": "gemm"}, "metrics": {"flops8": 5}, "children": []}]}]"#;
    let folder = Folder::new(&[("f.hatchet", content)]);
    assert_snapshot!(refusal(&folder.view("-m util f.hatchet")), @r"
    error: `util` needs `time`, which `f.hatchet` does not have
    hint: available: `flops8`
    ");
    assert_snapshot!(refusal(&view("-m time/ms train.hatchet")), @r"
    error: `time/ms` needs `time`, which `train.hatchet` does not have
    hint: did you mean `total`, `self`?
    ");
}

#[test]
fn a_file_name_cannot_move_the_cursor() {
    assert!(view("no\u{1b}[2Jfile").contains("error: cannot read `no\\u{1b}[2Jfile`: "));
}
