//! Golden files of trees as a recorder writes them.

use super::{Contents, Format, TreeDocument};
use crate::column::WallTimes;
use crate::device::{self, DeviceInfo};
use crate::merged::{MergedTree, ROOT};
use crate::names::intern;
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::{MetricName, MetricValue};
use marey_model::profile::{Meta, Overhead, Process};
use std::sync::Arc;

/// The first of the devices of these tests, which no other test has.
const FIRST_DEVICE: u32 = 70;

fn tree() -> MergedTree {
    let mut tree = MergedTree::default();
    let outer = tree.child(ROOT, intern("outer \"q\" \\ \n\u{8}\u{c}\r\u{1}é"), NodeKind::Scope);
    let kernels = tree.child(outer, intern("launch"), NodeKind::Operator);
    let bare = tree.child(outer, intern("bare"), NodeKind::Frame);
    let state = tree.child(outer, intern("warm"), NodeKind::State);
    let other_state = tree.child(ROOT, intern("cold"), NodeKind::State);
    let times = WallTimes {
        count: 3,
        total_nanos: 70_000,
        self_nanos: 70_000,
        min_nanos: 130,
        max_nanos: 40_000,
        buckets: vec![(200, 1), (400, 2)],
        ..WallTimes::default()
    };
    tree.add_kernel(kernels, intern("kernel"), FIRST_DEVICE, &times);
    tree.add_kernel(kernels, intern("kernel"), FIRST_DEVICE + 1, &times);
    for node in [outer, state, other_state] {
        tree.node_mut(node).wall = WallTimes {
            count: 2,
            open_count: u64::from(node == outer),
            total_nanos: 300,
            self_nanos: 70_000,
            min_nanos: 100,
            max_nanos: u64::MAX,
            buckets: [(128, 1), (130, 70_000)].into(),
        };
    }
    let values = [
        ("ints", MetricValue::Ints(vec![-1, 0, 127, 128, 70_000])),
        ("floats", MetricValue::Floats(vec![0.1, f64::NAN, f64::INFINITY, 1e300])),
        ("none", MetricValue::Ints(Vec::new())),
        ("loss", MetricValue::Float(f64::NEG_INFINITY)),
        ("whole", MetricValue::Float(2.0)),
        ("low", MetricValue::Int(-40_000)),
        ("tile (pty)", MetricValue::Text("t".repeat(300).into())),
        ("wait (ns)(exc)", MetricValue::Int(255)),
    ];
    let values = values.map(|(name, value)| (Arc::new(MetricName::parse(name)), value));
    tree.node_mut(bare).metrics = values.into();
    for index in 0..20 {
        let child = tree.child(bare, intern(&format!("child {index}")), NodeKind::Step);
        tree.node_mut(child).wall.open_count = 1;
    }
    tree
}

fn meta(losses: &[(LossCause, u64)], notes: Vec<(String, String)>) -> Meta {
    Meta {
        version: Some(1),
        process: Some(Process {
            pid: 4321,
            rank: losses.first().map(|_| 3),
            argv: Vec::new(),
            host: "host \"a\"".to_owned(),
            start_unix_nanos: 1_700_000_000_000_000_000,
            duration_nanos: 200,
            is_complete: losses.is_empty(),
        }),
        overhead: Some(Overhead {
            events: 65_536,
            scope_nanos: 20.5,
            recording_nanos: 31,
            flushing_nanos: 0,
        }),
        losses: losses.iter().map(|(cause, count)| (cause.as_str().to_owned(), *count)).collect(),
        notes,
    }
}

fn written(format: Format) -> Vec<u8> {
    let mut written = Vec::new();
    let notes = [("activities", "from \"CUPTI\""), ("clock", "")]
        .map(|(key, note)| (key.to_owned(), note.to_owned()));
    for (tree, meta) in [
        (tree(), meta(&[(LossCause::Names, 7), (LossCause::MetricRefused, 1)], notes.into())),
        (MergedTree::default(), meta(&[], Vec::new())),
    ] {
        let document = TreeDocument { tree: &tree, meta: &meta };
        let mut contents = match format {
            Format::HatchetMsgpack => Contents::HatchetMsgpack(document),
            _ => Contents::Hatchet(document),
        };
        contents.write(&mut written).unwrap();
    }
    written
}

#[test]
fn trees_have_the_same_bytes_as_the_golden_files() {
    device::announce(DeviceInfo {
        number: FIRST_DEVICE,
        device_type: "CUDA".to_owned(),
        arch: "90".to_owned(),
        name: "H200".to_owned(),
        bus_width_bits: 6144,
        clock_khz: 1_980_000,
        memory_clock_khz: 3_201_000,
        multiprocessors: 132,
        properties: Vec::new(),
    });
    let json = written(Format::Hatchet);
    let golden = include_bytes!("../../tests/data/tree.hatchet");
    assert_eq!(String::from_utf8_lossy(&json), String::from_utf8_lossy(golden));
    let packed = written(Format::HatchetMsgpack);
    assert_eq!(packed, include_bytes!("../../tests/data/tree.hatchet_msgpack"));
}
