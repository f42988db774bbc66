//! Golden files, and every type of value.

use std::path::Path;

use marey_formats::hatchet::{self, ReadError};
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue::{self, Float, Floats, Int, Ints, Text};
use marey_model::profile::{Meta, NodeId, Profile, Values};

const MINIMAL: &[u8] = include_bytes!("../data/minimal.hatchet");
const MINIMAL_MSGPACK: &[u8] = include_bytes!("../data/minimal.hatchet_msgpack");
const TRAIN: &[u8] = include_bytes!("../data/train.hatchet");

fn names(profile: &Profile) -> Vec<&str> {
    profile.nodes.iter().map(|node| &*node.name).collect()
}

fn keys(profile: &Profile) -> Vec<&str> {
    profile.metrics.iter().map(|metric| &*metric.key).collect()
}

fn value(profile: &Profile, node: u32, key: &str) -> Option<MetricValue> {
    profile.metric(key)?.get(NodeId(node))
}

/// Returns a profile whose root has these metrics.
fn with_metrics(metrics: &str) -> Profile {
    let file = format!(r#"[{{"frame": {{"name": "ROOT"}}, "metrics": {metrics}}}, {{}}]"#);
    hatchet::parse(file.as_bytes()).unwrap()
}

#[test]
fn a_file_of_proton_is_read() {
    let profile = hatchet::parse(MINIMAL).unwrap();
    assert_eq!(names(&profile), ["ROOT", "s", "k"]);
    assert_eq!(profile.nodes[2].parent, Some(NodeId(1)));
    for (key, expected) in [
        ("bytes", Float(1e6)),
        ("count", Int(1)),
        ("device_id", Text("0".into())),
        ("device_type", Text("CUDA".into())),
        ("flops16", Float(1e9)),
        ("time (ns)", Int(1000)),
    ] {
        assert_eq!(value(&profile, 2, key), Some(expected), "{key}");
    }
    let [device] = &*profile.devices else { panic!("one device: {:?}", profile.devices) };
    assert_eq!((device.family.as_str(), device.id.as_str()), ("CUDA", "0"));
    assert_eq!(device.arch.as_deref(), Some("90"));
    assert_eq!((device.bus_width_bits, device.num_sms), (Some(6144), Some(132)));
    assert_eq!((profile.meta, profile.sketches), (Meta::default(), Vec::new()));
}

#[test]
fn both_encodings_give_the_same_profile() {
    assert_eq!(hatchet::parse(MINIMAL_MSGPACK).unwrap(), hatchet::parse(MINIMAL).unwrap());
}

#[test]
fn extras_of_marey_are_read() {
    let profile = hatchet::parse(TRAIN).unwrap();
    assert_eq!(
        names(&profile),
        ["ROOT", "step", "gpt", "blocks.0.attn", "blocks.0.mlp", "evaluate \"quick\""]
    );
    assert_eq!(profile.nodes[1].kind, Some(NodeKind::Step));
    let nodes: Vec<_> = profile.sketches.iter().map(|(node, _)| node.0).collect();
    assert_eq!(nodes, [1, 2, 3, 4, 5]);
    assert_eq!(&*profile.sketches[2].1, [(851, 60), (852, 40)]);
    assert_eq!(value(&profile, 5, "shape"), Some(Ints(vec![8, 128])));
    let meta = &profile.meta;
    assert_eq!(meta.version, Some(1));
    assert_eq!(meta.losses, [("nodes".into(), 0), ("unmatched_exits".into(), 3)]);
    let overhead = meta.overhead.unwrap();
    assert_eq!((overhead.events, overhead.scope_nanos), (40_302, 200.5));
    let process = meta.process.as_ref().unwrap();
    assert_eq!((process.pid, process.rank, process.is_complete), (4242, Some(3), true));
    assert_eq!(process.argv, ["train.py", "--steps", "100"]);
}

#[test]
fn notes_of_the_root_are_read() {
    let file = br#"[{"children": [
        {"children": [], "frame": {"name": "a"}, "marey": {"notes": {"x": "not the root's"}}, "metrics": {}}
    ], "frame": {"name": "ROOT"}, "marey": {"notes": {"gpu": "a \"b\"", "overhead": "1 %"}},
    "metrics": {}}, {}]"#;
    let profile = hatchet::parse(file).unwrap();
    let note = |key: &str, text: &str| (key.to_owned(), text.to_owned());
    assert_eq!(profile.meta.notes, [note("gpu", "a \"b\""), note("overhead", "1 %")]);
}

#[test]
fn states_with_only_times_become_children() {
    let file = br#"[{"children": [
        {"children": [{"children": [], "frame": {"name": "b"}, "metrics": {"m": 1}}],
            "frame": {"name": "a"},
            "marey": {"kind": "scope", "states": [
                {"metrics": {"wall_count": 2}, "name": "warm", "sketch": [[851, 2]]},
                {"metrics": {"wall_count": 1}, "name": "cold"}]},
            "metrics": {"wall_count": 1}},
        {"children": [], "frame": {"name": "c"}, "metrics": {"wall_count": 5}}
    ], "frame": {"name": "ROOT"}, "metrics": {}}, {}]"#;
    let profile = hatchet::parse(file).unwrap();
    assert_eq!(names(&profile), ["ROOT", "a", "b", "warm", "cold", "c"]);
    let parents: Vec<_> = profile.nodes.iter().map(|node| node.parent.map(|id| id.0)).collect();
    assert_eq!(parents, [None, Some(0), Some(1), Some(1), Some(1), Some(0)]);
    assert_eq!(profile.nodes[3].kind, Some(NodeKind::State));
    assert_eq!(value(&profile, 3, "wall_count"), Some(Int(2)));
    assert_eq!(value(&profile, 4, "wall_count"), Some(Int(1)));
    assert_eq!(profile.sketches.len(), 1);
    assert_eq!((profile.sketches[0].0, &*profile.sketches[0].1), (NodeId(3), &[(851, 2)][..]));
}

#[test]
fn a_state_with_only_times_needs_a_name() {
    let file = br#"[{"children": [], "frame": {"name": "ROOT"}, "metrics": {},
        "marey": {"kind": "root", "states": [{"metrics": {}}]}}, {}]"#;
    let error = hatchet::parse(file).unwrap_err().to_string();
    assert_eq!(error, "line 2, column 60 (byte 119): the node that ends here has no frame name");
}

#[test]
fn metrics_are_in_the_order_of_their_first_occurrence() {
    // Children are written first, as in JSON, with each node's own order of keys.
    let file = br#"[{"children": [
        {"children": [], "frame": {"name": "a"}, "metrics": {"late": 1, "y": 2, "first": 3}},
        {"children": [], "frame": {"name": "b"}, "metrics": {"last": 1, "late": 2}}
    ], "frame": {"name": "ROOT"}, "metrics": {"z": 0, "first": 0}}, {}]"#;
    let profile = hatchet::parse(file).unwrap();
    assert_eq!(keys(&profile), ["z", "first", "late", "y", "last"]);
    let first = profile.metric("first").unwrap();
    assert_eq!(
        (&*first.nodes, &first.values),
        (&[NodeId(0), NodeId(1)][..], &Values::Ints(vec![0, 3]))
    );
}

#[test]
fn values_of_every_type_are_read() {
    let profile = with_metrics(
        r#"{"a": -1, "b": 18446744073709551615, "c": 1e3, "d": "\u00e9\n", "e": [1, 2.5, null],
            "f": [], "g": null, "h": NaN, "i": -Infinity, "j": [Infinity, 18446744073709551615]}"#,
    );
    let value = |key| value(&profile, 0, key).unwrap();
    assert_eq!(value("a"), Int(-1));
    assert_eq!(value("b"), Float(18_446_744_073_709_551_615.0));
    assert_eq!(value("c"), Float(1000.0));
    assert_eq!(value("d"), Text("é\n".into()));
    let Floats(list) = value("e") else { panic!("{:?}", value("e")) };
    assert!(list[..2] == [1.0, 2.5] && list[2].is_nan());
    assert_eq!(value("f"), Ints(vec![]));
    for key in ["g", "h"] {
        assert!(matches!(value(key), Float(real) if real.is_nan()), "{key}");
    }
    assert_eq!(value("i"), Float(f64::NEG_INFINITY));
    assert_eq!(value("j"), Floats(vec![f64::INFINITY, 18_446_744_073_709_551_615.0]));
}

#[test]
fn optional_keys_may_be_missing_and_unknown_ones_present() {
    let file = br#"
        [{"frame": {"name": "ROOT", "line": [[{"x": {}}]], "line": 1}, "_hatchet_nid": 0,
          "marey": {"kind": "a later kind", "later": [1, {"a": []}]},
          "children": [{"marey": {"version": 9}, "frame": {"name": "s"}}]}]
    "#;
    let profile = hatchet::parse(file).unwrap();
    assert_eq!(names(&profile), ["ROOT", "s"]);
    assert_eq!((profile.nodes[0].kind, profile.meta), (None, Meta::default()));
}

#[test]
fn equal_names_share_one_text() {
    let file = br#"[{"frame": {"name": "n"}, "children": [{"frame": {"name": "\u006e"}}]}]"#;
    let profile = hatchet::parse(file).unwrap();
    assert!(std::sync::Arc::ptr_eq(&profile.nodes[0].name, &profile.nodes[1].name));
}

#[test]
fn tokens_longer_than_the_window_are_read() {
    let name = "n".repeat(1_000_000);
    let number = "1".repeat(400_000);
    let file = format!(
        r#"[{{"frame": {{"name": "{name}"}}, "metrics": {{"a": 0.{number}, "{name}": "\n{name}"}}}}]"#
    );
    let profile = hatchet::parse(file.as_bytes()).unwrap();
    assert_eq!(*profile.nodes[0].name, *name);
    assert_eq!(value(&profile, 0, "a"), Some(Float(1.0 / 9.0)));
    assert_eq!(value(&profile, 0, &name), Some(Text(format!("\n{name}").into())));
}

#[test]
fn a_file_gives_the_same_profile_as_its_content() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let read = hatchet::read(&data.join("train.hatchet")).unwrap();
    assert_eq!(read, hatchet::parse(TRAIN).unwrap());
}

#[test]
fn a_missing_file_is_an_io_error() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    for path in [data.clone(), data.join("absent.hatchet")] {
        let error = hatchet::read(&path).unwrap_err();
        assert!(matches!(error, ReadError::Io { .. }), "{error}");
        assert!(error.to_string().starts_with(&format!("cannot read `{}`: ", path.display())));
    }
}
