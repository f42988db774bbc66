//! What is written is read back, and looks as Proton's files do.

use std::io;

use marey_formats::hatchet::{self, Format, MAX_DEPTH};
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_model::profile::{
    Device, Meta, Metric, Node, NodeId, Overhead, Process, Profile, Sketch,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use crate::round_trip;

fn written(profile: &Profile, format: Format) -> Vec<u8> {
    let mut file = Vec::new();
    hatchet::write(profile, format, &mut file).unwrap();
    file
}

/// A root with this metric.
fn with_metric(key: &str, value: MetricValue) -> Profile {
    let mut metric = Metric::new(key.into());
    metric.push(NodeId::ROOT, value);
    let root = Node { name: "ROOT".into(), kind: None, parent: None };
    Profile { nodes: vec![root], metrics: vec![metric], ..Profile::default() }
}

#[test]
fn a_file_of_protons_is_given_back_to_the_byte() {
    for (file, format) in [
        (include_bytes!("../data/proton.hatchet").as_slice(), Format::Json),
        (include_bytes!("../data/proton.hatchet_msgpack"), Format::Msgpack),
    ] {
        let again = written(&hatchet::parse(file).unwrap(), format);
        assert!(again == file, "{}", String::from_utf8_lossy(&again));
    }
}

#[test]
fn what_marey_adds_is_given_back() {
    let profile = hatchet::parse(include_bytes!("../data/train.hatchet")).unwrap();
    round_trip::assert_is_given_back(&profile);
    let file = String::from_utf8(written(&profile, Format::Json)).unwrap();
    assert!(file.contains(
        r#"
                "marey": {"kind": "step", "sketch": [[930, 100]]},
                "metrics": {
                    "wall_count": 100,"#
    ));
}

#[test]
fn a_profile_without_mareys_part_gets_none() {
    let file = written(&with_metric("a", MetricValue::Int(1)), Format::Json);
    assert!(!String::from_utf8(file).unwrap().contains("marey"));
}

#[test]
fn reals_without_a_number_have_pythons_words() {
    for (value, word) in
        [(f64::NAN, "null"), (f64::INFINITY, "Infinity"), (f64::NEG_INFINITY, "-Infinity")]
    {
        let file = written(&with_metric("a", MetricValue::Float(value)), Format::Json);
        let line = format!("\n            \"a\": {word}\n");
        assert!(String::from_utf8(file).unwrap().contains(&line), "{word}");
    }
}

#[test]
fn broken_profiles_are_refused() {
    let error = hatchet::write(&Profile::default(), Format::Json, &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert_eq!(error.to_string(), "the profile has no root");
}

#[test]
fn the_deepest_tree_is_given_back_and_has_bounded_margins() {
    let node = |depth: usize| Node {
        name: "n".into(),
        kind: None,
        parent: depth.checked_sub(1).map(|above| NodeId(above as u32)),
    };
    let profile = Profile { nodes: (0..MAX_DEPTH).map(node).collect(), ..Profile::default() };
    round_trip::assert_is_given_back(&profile);
    assert!(written(&profile, Format::Json).len() < 300 * MAX_DEPTH);
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[a-c]", r#"["\\\n/\x00-\x1f]{1,4}"#, ".{30,40}"]
}

fn reals() -> impl Strategy<Value = f64> {
    prop_oneof![
        prop::num::f64::ANY,
        Just(0.5),
        Just(-0.0),
        Just(1.0),
        any::<i16>().prop_map(f64::from)
    ]
}

fn wholes() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), -40..40_i64, any::<i32>().prop_map(i64::from)]
}

fn values() -> impl Strategy<Value = MetricValue> {
    prop_oneof![
        4 => wholes().prop_map(MetricValue::Int),
        4 => reals().prop_map(MetricValue::Float),
        1 => texts().prop_map(|text| MetricValue::Text(text.into())),
        1 => vec(wholes(), 0..20).prop_map(MetricValue::Ints),
        1 => vec(reals(), 1..20).prop_map(MetricValue::Floats),
    ]
}

/// Nodes in pre-order: each hangs below one of the path to the node before it.
fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let node = (texts(), of(prop::sample::select(&NodeKind::ALL)), any::<prop::sample::Index>());
    vec(node, 1..30).prop_map(|nodes| {
        let mut path: Vec<NodeId> = Vec::new();
        let mut all = Vec::new();
        for (name, kind, above) in nodes {
            path.truncate(if path.is_empty() { 0 } else { above.index(path.len()) + 1 });
            let parent = path.last().copied();
            path.push(NodeId(all.len() as u32));
            all.push(Node { name: name.into(), kind, parent });
        }
        all
    })
}

/// Metrics of the first nodes, in the order in which a walk meets them.
fn metrics(node_count: usize) -> impl Strategy<Value = Vec<Metric>> {
    let keys = prop::collection::btree_set(texts(), 0..5).prop_map(Vec::from_iter).prop_shuffle();
    (keys, vec(vec(of(values()), node_count), 5)).prop_map(|(keys, columns)| {
        let metric = |(key, column): (String, Vec<Option<MetricValue>>)| {
            let mut metric = Metric::new(key.into());
            for (node, value) in column.into_iter().enumerate() {
                if let Some(value) = value {
                    metric.push(NodeId(node as u32), value);
                }
            }
            metric.values.settle();
            metric
        };
        let mut metrics: Vec<Metric> = keys.into_iter().zip(columns).map(metric).collect();
        metrics.retain(|metric| !metric.nodes.is_empty());
        metrics.sort_by_key(|metric| metric.nodes[0]);
        metrics
    })
}

fn sketches(node_count: usize) -> impl Strategy<Value = Vec<(NodeId, Sketch)>> {
    vec(of(vec((wholes(), any::<u64>()), 0..20)), node_count).prop_map(|sketches| {
        let of_node = |(node, sketch): (usize, Option<Vec<_>>)| {
            Some((NodeId(node as u32), Sketch::from(sketch?)))
        };
        sketches.into_iter().enumerate().filter_map(of_node).collect()
    })
}

fn devices() -> impl Strategy<Value = Vec<Device>> {
    let fields =
        (of(texts()), of(any::<u64>()), of(any::<u64>()), of(any::<u64>()), of(any::<u64>()));
    let family = prop::collection::btree_map(texts(), fields, 1..4);
    prop::collection::btree_map(texts(), family, 0..3).prop_map(|families| {
        let mut devices = Vec::new();
        for (family, members) in families {
            for (id, (arch, bus_width_bits, clock, memory_clock, num_sms)) in members {
                devices.push(Device {
                    family: family.clone(),
                    id,
                    arch,
                    bus_width_bits,
                    clock_rate_khz: clock,
                    memory_clock_rate_khz: memory_clock,
                    num_sms,
                });
            }
        }
        devices
    })
}

fn meta() -> impl Strategy<Value = Meta> {
    let overhead = (any::<u64>(), reals(), any::<u64>(), any::<u64>()).prop_map(
        |(events, scope_nanos, recording_nanos, flushing_nanos)| Overhead {
            events,
            scope_nanos,
            recording_nanos,
            flushing_nanos,
        },
    );
    let losses = prop::collection::btree_map(texts(), any::<u64>(), 0..3).prop_map(Vec::from_iter);
    let process = (
        any::<u64>(),
        of(any::<u64>()),
        texts(),
        vec(texts(), 0..3),
        any::<[u64; 2]>(),
        any::<bool>(),
    )
        .prop_map(|(pid, rank, host, argv, [start, duration], complete)| Process {
            pid,
            rank,
            host,
            argv,
            start_unix_nanos: start,
            duration_nanos: duration,
            complete,
        });
    (of(0..=hatchet::FORMAT_VERSION), of(overhead), losses, of(process)).prop_map(
        |(version, overhead, losses, process)| Meta { version, overhead, losses, process },
    )
}

fn profiles() -> impl Strategy<Value = Profile> {
    nodes().prop_flat_map(|nodes| {
        let (metrics, sketches) = (metrics(nodes.len()), sketches(nodes.len()));
        (Just(nodes), metrics, sketches, devices(), meta()).prop_map(
            |(nodes, metrics, sketches, devices, meta)| Profile {
                nodes,
                metrics,
                sketches,
                devices,
                meta,
            },
        )
    })
}

proptest! {
    #[test]
    fn every_profile_is_given_back(profile in profiles()) {
        prop_assert_eq!(profile.check(), Ok(()));
        round_trip::assert_is_given_back(&profile);
    }
}
