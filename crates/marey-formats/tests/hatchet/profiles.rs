//! Random profiles.

use marey_formats::hatchet;
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_model::profile::{
    Device, Meta, Metric, Node, NodeId, Overhead, Process, Profile, Sketch,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

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

/// Nodes in pre-order: the parent of each is on the path to the previous node.
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

/// Metrics of the first nodes, in the order of their first occurrence.
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
            metric.values.normalise();
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
        .prop_map(|(pid, rank, host, argv, [start, duration], is_complete)| Process {
            pid,
            rank,
            host,
            argv,
            start_unix_nanos: start,
            duration_nanos: duration,
            is_complete,
        });
    (of(0..=hatchet::FORMAT_VERSION), of(overhead), losses, of(process)).prop_map(
        |(version, overhead, losses, process)| Meta {
            version,
            overhead,
            losses,
            notes: Vec::new(),
            process,
        },
    )
}

/// Any profile in the form that readers produce.
pub(crate) fn profiles() -> impl Strategy<Value = Profile> {
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
