//! The reader on golden files, on hostile ones, and on noise.

use marey_formats::hatchet::{self, Broken, Cause, MAX_DEPTH, ParseError, Profile};
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue::{Float, Floats, Int, Ints, Text};
use proptest::prelude::*;

const MINIMAL: &[u8] = include_bytes!("data/minimal.hatchet");
const MINIMAL_MSGPACK: &[u8] = include_bytes!("data/minimal.hatchet_msgpack");
const TRAIN: &[u8] = include_bytes!("data/train.hatchet");

fn names(profile: &Profile) -> Vec<&str> {
    profile.nodes.iter().map(|node| &*node.name).collect()
}

/// Cause and byte of the error that `bytes` must give.
fn fault(bytes: &[u8]) -> (Cause, usize) {
    match hatchet::parse(bytes) {
        Err(ParseError::Syntax { place, cause }) => (cause, place.byte),
        other => panic!("expected a syntax error, got {other:?}"),
    }
}

/// A profile whose root has these metrics.
fn with_metrics(metrics: &str) -> Vec<u8> {
    format!(r#"[{{"frame": {{"name": "ROOT"}}, "metrics": {metrics}}}, {{}}]"#).into_bytes()
}

#[test]
fn a_file_of_protons_is_read() {
    let profile = hatchet::parse(MINIMAL).unwrap();
    assert_eq!(names(&profile), ["ROOT", "s", "k"]);
    let kernel = &profile.nodes[2];
    assert_eq!(kernel.parent.map(hatchet::NodeId::index), Some(1));
    let metrics: Vec<_> = kernel.metrics.iter().map(|(key, value)| (&**key, value)).collect();
    assert_eq!(
        metrics,
        [
            ("bytes", &Float(1e6)),
            ("count", &Int(1)),
            ("device_id", &Text("0".into())),
            ("device_type", &Text("CUDA".into())),
            ("flops16", &Float(1e9)),
            ("time (ns)", &Int(1000)),
        ]
    );
    let [device] = &*profile.devices else { panic!("one device: {:?}", profile.devices) };
    assert_eq!((device.family.as_str(), device.id.as_str()), ("CUDA", "0"));
    assert_eq!(device.arch.as_deref(), Some("90"));
    assert_eq!((device.bus_width_bits, device.num_sms), (Some(6144), Some(132)));
    assert_eq!(profile.meta, hatchet::Meta::default());
}

#[test]
fn both_formats_say_the_same() {
    assert_eq!(hatchet::parse(MINIMAL_MSGPACK).unwrap(), hatchet::parse(MINIMAL).unwrap());
}

#[test]
fn what_marey_adds_is_read() {
    let profile = hatchet::parse(TRAIN).unwrap();
    assert_eq!(
        names(&profile),
        ["ROOT", "step", "gpt", "blocks.0.attn", "blocks.0.mlp", "evaluate \"quick\""]
    );
    assert_eq!(profile.nodes[1].kind, Some(NodeKind::Step));
    assert_eq!(profile.nodes[3].sketch, [(851, 60), (852, 40)]);
    assert_eq!(profile.nodes[5].metric("shape"), Some(&Ints(vec![8, 128])));
    let meta = &profile.meta;
    assert_eq!(meta.version, Some(1));
    assert_eq!(meta.losses, [("nodes".into(), 0), ("unmatched_exits".into(), 3)]);
    let overhead = meta.overhead.unwrap();
    assert_eq!((overhead.events, overhead.scope_nanos), (40_302, 200.5));
    let process = meta.process.as_ref().unwrap();
    assert_eq!((process.pid, process.rank, process.complete), (4242, Some(3), true));
    assert_eq!(process.argv, ["train.py", "--steps", "100"]);
}

#[test]
fn metrics_on_the_root_are_rolled_up_and_wall_metrics_are_not() {
    let profile = hatchet::parse(MINIMAL).unwrap();
    assert_eq!(profile.values("time (ns)"), [Some(Int(1000)), Some(Int(1000)), Some(Int(1000))]);
    assert_eq!(profile.values("bytes"), [Some(Float(1e6)), Some(Float(1e6)), Some(Float(1e6))]);
    assert_eq!(profile.values("device_id"), [None, None, Some(Text("0".into()))]);
    let profile = hatchet::parse(TRAIN).unwrap();
    assert_eq!(
        profile.values("tokens")[..3],
        [Some(Int(409_600)), Some(Int(409_600)), Some(Int(409_600))]
    );
    assert_eq!(profile.values("wall_count")[..2], [None, Some(Int(100))]);
}

#[test]
fn values_of_every_type_are_read() {
    let bytes = with_metrics(
        r#"{"a": -1, "b": 18446744073709551615, "c": 1e3, "d": "é\u00e9\n", "e": [1, 2.5, null], "f": []}"#,
    );
    let profile = hatchet::parse(&bytes).unwrap();
    let root = profile.root();
    assert_eq!(root.metric("a"), Some(&Int(-1)));
    assert_eq!(root.metric("b"), Some(&Float(18_446_744_073_709_551_615.0)));
    assert_eq!(root.metric("c"), Some(&Float(1000.0)));
    assert_eq!(root.metric("d"), Some(&Text("éé\n".into())));
    let Some(Floats(list)) = root.metric("e") else { panic!("{:?}", root.metric("e")) };
    assert!(list[..2] == [1.0, 2.5] && list[2].is_nan());
    assert_eq!(root.metric("f"), Some(&Ints(vec![])));
}

#[test]
fn unknown_keys_are_skipped() {
    let bytes = br#"[{"frame": {"name": "ROOT", "line": [[{"x": {}}]]}, "_hatchet_nid": 0,
        "marey": {"kind": "a later kind", "later": [1, {"a": []}]}, "metrics": {}}]"#;
    let profile = hatchet::parse(bytes).unwrap();
    assert_eq!(profile.root().kind, None);
}

#[test]
fn errors_name_place_and_cause() {
    let text = |bytes: &[u8]| hatchet::parse(bytes).unwrap_err().to_string();
    assert_eq!(text(b""), "byte 0: the file is empty");
    assert_eq!(text(b"\x89PNG"), "byte 0: the content is neither JSON nor MessagePack");
    assert_eq!(
        text(b"{\"traceEvents\": []}"),
        "line 1, column 1 (byte 0): expected the list [ROOT, DEVICES], found a map"
    );
    assert_eq!(
        text(b"[\n  {\"frame\": {\"name\": 1}}]"),
        "line 2, column 22 (byte 23): expected a text, found a whole number"
    );
    assert_eq!(
        text(b"[{\"frame\" {}}]"),
        "line 1, column 11 (byte 10): expected `:`, found byte `{`"
    );
    assert_eq!(
        text(b"[{}, {}]"),
        "line 1, column 3 (byte 2): a node ends here that has no frame name"
    );
    assert_eq!(text(b"\x92\xc1"), "byte 1: expected a value that JSON has too, found byte 0xc1");
}

#[test]
fn faults_have_their_cause() {
    assert_eq!(fault(&with_metrics(r#"{"a": "\q"}"#)).0, Cause::BadText);
    assert_eq!(fault(&with_metrics(r#"{"a": 1.}"#)).0, Cause::BadNumber);
    assert_eq!(fault(&with_metrics(r#"{"a": 01}"#)).0, Cause::BadNumber);
    assert_eq!(fault(b"[{\"frame\": {\"name\": \"\xff\"}}]").0, Cause::BadText);
    assert_eq!(fault(&[MINIMAL, b" x"].concat()), (Cause::TrailingBytes, MINIMAL.len() + 1));
    assert_eq!(
        fault(&[MINIMAL_MSGPACK, b"x"].concat()),
        (Cause::TrailingBytes, MINIMAL_MSGPACK.len())
    );
    assert!(matches!(fault(&with_metrics(r#"{"a": true}"#)).0, Cause::UnexpectedValue { .. }));
    assert!(matches!(fault(&with_metrics(r#"{"a": 1,}"#)).0, Cause::UnexpectedByte { .. }));
    assert!(matches!(fault(&with_metrics(r#"{"a": 1 ]"#)).0, Cause::UnexpectedByte { .. }));
    assert!(matches!(fault(&with_metrics(r#"{"a": nul}"#)).0, Cause::UnexpectedByte { .. }));
    assert_eq!(
        fault(br#"[{"frame": {"name": "ROOT"}, "marey": {"version": 2}}]"#).0,
        Cause::NewerVersion { found: 2, known: 1 }
    );
}

#[test]
fn a_metric_may_stand_once() {
    let error = hatchet::parse(&with_metrics(r#"{"a": 1, "a": 2}"#)).unwrap_err();
    let broken = Broken::DuplicateMetric { node: 0, name: "ROOT".into(), key: "a".into() };
    assert_eq!(error, ParseError::Broken(broken));
}

#[test]
fn check_sees_what_no_file_can_hold() {
    let sound = hatchet::parse(MINIMAL).unwrap();
    let mut orphan = sound.clone();
    orphan.nodes[0].children.clear();
    assert_eq!(orphan.check(), Err(Broken::Detached { node: 1 }));
    let mut twice = sound.clone();
    let child = twice.nodes[0].children[0];
    twice.nodes[0].children.push(child);
    assert_eq!(twice.check(), Err(Broken::Detached { node: 1 }));
    let mut empty = sound;
    empty.nodes.clear();
    assert_eq!(empty.check(), Err(Broken::NoRoot));
}

/// A chain of `levels` nodes, as JSON.
fn chain(levels: usize) -> Vec<u8> {
    let open = r#"{"frame": {"name": "n"}, "children": ["#;
    format!("[{}{}, {{}}]", open.repeat(levels), "]}".repeat(levels)).into_bytes()
}

#[test]
fn depth_is_bounded_by_a_limit_and_not_by_the_stack() {
    let profile = hatchet::parse(&chain(MAX_DEPTH)).unwrap();
    assert_eq!(profile.nodes.len(), MAX_DEPTH);
    assert_eq!(fault(&chain(MAX_DEPTH + 1)).0, Cause::TooDeep { limit: MAX_DEPTH });
    let skipped = format!(r#"[{{"later": {}{}"#, "[".repeat(1_000_000), "]".repeat(1_000_000));
    assert_eq!(fault(skipped.as_bytes()).0, Cause::UnexpectedEnd);
}

#[test]
fn lengths_that_lie_cost_nothing() {
    assert_eq!(fault(b"\xdd\xff\xff\xff\xff").0, Cause::UnexpectedEnd);
    assert_eq!(fault(b"\x91\xdf\xff\xff\xff\xff\xdb\xff\xff\xff\xff").0, Cause::UnexpectedEnd);
}

#[test]
fn every_truncation_is_an_error() {
    for whole in [MINIMAL.trim_ascii_end(), TRAIN.trim_ascii_end(), MINIMAL_MSGPACK] {
        for length in 0..whole.len() {
            assert!(hatchet::parse(&whole[..length]).is_err(), "cut at {length}");
        }
    }
}

proptest! {
    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        drop(hatchet::parse(&bytes));
        drop(hatchet::parse(&[b"[", &*bytes].concat()));
        drop(hatchet::parse(&[b"\x92", &*bytes].concat()));
    }

    #[test]
    fn damaged_files_never_panic(
        whole in prop::sample::select(vec![MINIMAL, TRAIN, MINIMAL_MSGPACK]),
        at in any::<prop::sample::Index>(),
        cut in 0_usize..8,
        patch in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let at = at.index(whole.len());
        let rest = &whole[(at + cut).min(whole.len())..];
        let damaged = [&whole[..at], &*patch, rest].concat();
        if let Ok(profile) = hatchet::parse(&damaged) {
            for (key, _) in &profile.root().metrics {
                prop_assert_eq!(profile.values(key).len(), profile.nodes.len());
            }
        }
    }
}
