//! Round trips of profiles through runs, and runs exported as profiles.

#[path = "../hatchet/profiles.rs"]
mod profiles;

use std::collections::HashSet;

use marey_formats::{ExportError, Format, LeftOut, TemporaryRun, export, hatchet};
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_model::profile::{NodeId, Profile};
use marey_store::row::{ActivityKind, Device, GpuActivity, Instant, Metric};
use marey_store::{Assembler, NewProcess, Reader, Run, Selection, Slice};
use proptest::prelude::*;

use crate::build::{build_run, kernel, slice};
use crate::dump::{dump, export_bytes, import_bytes, import_data, reader};
use crate::faults::{fault, warnings};

const TRAIN: &str = "train.hatchet";

/// Exports a run as a profile.
fn export_profile(run: &Run) -> Profile {
    let (json, left_out) = export_bytes(run, Format::Hatchet);
    serde_json::from_slice::<serde::de::IgnoredAny>(&json).unwrap();
    let profile = hatchet::parse(&export_bytes(run, Format::HatchetMsgpack).0).unwrap();
    if !left_out.contains_key("infinite values") {
        let as_json = hatchet::parse(&json).unwrap();
        assert_eq!(format!("{as_json:?}"), format!("{profile:?}"));
    }
    profile
}

#[test]
fn infinities_are_left_out_of_json() {
    let node = |name, metrics, children: &str| {
        format!(
            r#"{{"frame": {{"name": "{name}"}}, "metrics": {metrics}, "children": [{children}]}}"#
        )
    };
    let a = node("a", r#"{"m": Infinity, "n": [1.5, -Infinity], "o": null}"#, "");
    let b = node("b", r#"{"m": 2.5}"#, "");
    let file = format!("[{}]", node("ROOT", "{}", &format!("{a}, {b}")));
    let run = import_bytes(file.as_bytes()).unwrap().run;
    let (json, left_out) = export_bytes(&run, Format::Hatchet);
    assert_eq!(left_out, LeftOut::from([("infinite values", 2)]));
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json[0]["children"][0]["metrics"], serde_json::json!({"o": null}));
    assert_eq!(json[0]["children"][1]["metrics"], serde_json::json!({"m": 2.5}));
    let (as_msgpack, left_out) = export_bytes(&run, Format::HatchetMsgpack);
    assert_eq!(left_out, LeftOut::new());
    let m = hatchet::parse(&as_msgpack).unwrap().metric("m").unwrap().get(NodeId(1));
    assert_eq!(m, Some(MetricValue::Float(f64::INFINITY)));
}

#[test]
fn an_empty_window_is_refused() {
    let (_folder, run) = traced();
    let window = Selection { from_nanos: -9, until_nanos: -8, ..Selection::default() };
    let reader = Reader::new(&run, window).unwrap();
    for format in [Format::Hatchet, Format::HatchetMsgpack, Format::Csv, Format::Perfetto] {
        let mut out = Vec::new();
        let exported = export(&reader, format, &mut out);
        assert!(matches!(exported, Err(ExportError::NoData { .. })), "{format:?}: {exported:?}");
        assert!(out.is_empty());
    }
}

fn import_profile(profile: &Profile) -> TemporaryRun {
    let mut file = Vec::new();
    hatchet::write(profile, hatchet::Format::Json, &mut file).unwrap();
    import_bytes(&file).unwrap()
}

#[test]
fn real_files_survive_a_round_trip_byte_for_byte() {
    for name in ["train.hatchet", "minimal.hatchet", "proton.hatchet"] {
        let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
        let content = std::fs::read(path).unwrap();
        let run = import_data(name).run;
        let (file, left_out) = export_bytes(&run, Format::Hatchet);
        let (expected, again) = (hatchet::parse(&content).unwrap(), hatchet::parse(&file).unwrap());
        assert_eq!(format!("{again:?}"), format!("{expected:?}"), "{name}");
        assert_eq!(left_out, LeftOut::new());
    }
    let proton = import_data("proton.hatchet_msgpack").run;
    let content = include_bytes!("../data/proton.hatchet_msgpack");
    assert_eq!(export_bytes(&proton, Format::HatchetMsgpack).0, content);
}

#[test]
fn a_run_has_the_content_of_its_file() {
    let temporary = import_data(TRAIN);
    assert_eq!(temporary.imported.files[0].format, Format::Hatchet);
    let run = &temporary.run;
    let [process] = &run.manifest().processes[..] else { panic!("one process") };
    let named = (process.pid, process.rank, process.host.as_str(), process.is_complete);
    assert_eq!(named, (4242, Some(3), "node7", true));
    assert_eq!(process.argv, ["train.py", "--steps", "100"]);
    assert_eq!(run.manifest().losses["unmatched_exits"], 3);
    let dump = dump(run);
    let attention = "module:blocks.0.attn";
    let line = |name: &str, rest: &str| {
        let is_wanted = |line: &&str| line.contains(attention) && line.contains(name);
        let line = dump.lines().find(is_wanted).unwrap_or_else(|| panic!("{name}"));
        assert!(line.ends_with(rest), "{line}");
    };
    line("\"wall_self (ns)\"", " None 304500000");
    line("\"wall_sketch\"", " None 100 {\"buckets\":[[851,60],[852,40]]}");
}

#[test]
fn devices_have_rows_with_their_properties() {
    let dump = dump(&import_data("minimal.hatchet").run);
    let line = dump.lines().find(|line| line.starts_with("devices ")).unwrap();
    let (_, properties) = line.split_once(" \"\" ").unwrap();
    let properties: serde_json::Value = serde_json::from_str(properties).unwrap();
    let profile = hatchet::parse(include_bytes!("../data/minimal.hatchet")).unwrap();
    assert_eq!(properties["arch"].as_str(), profile.devices[0].arch.as_deref());
    assert_eq!(properties["num_sms"].as_u64(), profile.devices[0].num_sms);
}

#[test]
fn siblings_with_equal_names_are_merged_and_counted() {
    let node = r#"{"frame": {"name": "a"}, "metrics": {"n": 2}, "children": []}"#;
    let root = r#"[{"frame": {"name": "ROOT"}, "metrics": {}, "children": "#;
    let temporary = import_bytes(format!("{root}[{node}, {node}]}}]").as_bytes()).unwrap();
    let expected =
        ["unsupported_events 1 byte 0: siblings with the same name are merged into one node"];
    assert_eq!(warnings(&temporary), expected);
    let profile = export_profile(&temporary.run);
    assert_eq!(profile.metric("n").unwrap().get(NodeId(1)), Some(MetricValue::Int(4)));
}

/// Returns a run in which an operator launches two kernels, one of them twice.
fn traced() -> (tempfile::TempDir, Run) {
    build_run(|run| {
        let process =
            run.add_process(NewProcess { pid: 7, is_complete: true, ..NewProcess::default() });
        let thread = run.add_thread(process, 7, "main");
        let slice = |name_id, start_nanos, duration_nanos, correlation_id, is_open| Slice {
            order: start_nanos as u64,
            kind: NodeKind::Operator,
            is_open,
            correlation_id,
            ..slice(thread, name_id, start_nanos, duration_nanos)
        };
        let [step, launch, gemm, copy] =
            ["step", "launch", "gemm", "copy"].map(|name| run.text_id(name));
        for (start, duration) in [(0, 100), (200, 300)] {
            run.add_slice(&slice(step, start, duration, None, false)).unwrap();
            run.add_slice(&slice(launch, start + 10, 40, Some(start as u64), false)).unwrap();
        }
        run.add_slice(&slice(step, 600, 50, None, true)).unwrap();
        let activity = |name_id, kind, correlation_id, duration_nanos| GpuActivity {
            device: 1,
            kind,
            correlation_id,
            ..kernel(process, name_id, 700, duration_nanos)
        };
        for row in [
            activity(gemm, ActivityKind::Kernel, Some(0), 30),
            activity(gemm, ActivityKind::Kernel, Some(200), 50),
            activity(copy, ActivityKind::Memcpy, None, 5),
            activity(copy, ActivityKind::Sync, None, 1_000),
        ] {
            run.add_gpu_activity(&row).unwrap();
        }
        run.add_device(&Device {
            process_id: process,
            device: 1,
            device_type: "cuda".into(),
            name: "H".into(),
            properties: r#"{"computeMajor": 9, "computeMinor": 0, "numSms": 132}"#.into(),
        })
        .unwrap();
        run.add_instant(&Instant::new(process, step, 5)).unwrap();
        let counter = Metric::new(thread, Assembler::ROOT, gemm, 5, MetricValue::Int(1));
        run.add_metric(&counter.clone()).unwrap();
        for value in [2, 3] {
            let value = MetricValue::Int(value);
            run.add_metric(&Metric { sessions: 1, value, ..counter.clone() }).unwrap();
        }
    })
}

#[test]
fn spans_and_activities_add_up_to_a_tree() {
    let (_folder, run) = traced();
    let profile = hatchet::profile_from_run(&reader(&run)).unwrap();
    assert_eq!(profile.check(), Ok(()));
    let names: Vec<&str> = profile.nodes.iter().map(|node| &*node.name).collect();
    assert_eq!(names, ["ROOT", "step", "launch", "gemm", "copy"]);
    let values = |node: u32| -> Vec<String> {
        let have = profile.metrics.iter();
        let have = have.filter_map(|metric| Some((&metric.key, metric.get(NodeId(node))?)));
        have.map(|(key, value)| match value {
            MetricValue::Int(value) => format!("{key}={value}"),
            other => format!("{key}={other:?}"),
        })
        .collect()
    };
    assert_eq!(values(0), ["gemm=5"]);
    assert_eq!(
        values(1),
        [
            "wall_count=2",
            "wall_total (ns)=450",
            "wall_self (ns)=370",
            "wall_open=1",
            "wall_min (ns)=100",
            "wall_max (ns)=300",
            "wall_p50 (ns)=101",
            "wall_p90 (ns)=300",
            "wall_p99 (ns)=300",
        ]
    );
    let device = [r#"device_id=Text("1")"#, r#"device_type=Text("CUDA")"#];
    assert_eq!(values(3), [&["time (ns)=80", "count=2"], &device[..]].concat());
    assert_eq!(values(4), [&["time (ns)=5", "count=1"], &device[..]].concat());
    let [h] = &profile.devices[..] else { panic!("one device") };
    assert_eq!((h.arch.as_deref(), h.num_sms), (Some("90"), Some(132)));
    assert_eq!(profile.meta.process.as_ref().unwrap().pid, 7);
    // The same holds for the file and for the run imported from it.
    let again = export_profile(&import_profile(&export_profile(&run)).run);
    assert_eq!(format!("{again:?}"), format!("{profile:?}"));
}

#[test]
fn rows_that_a_tree_cannot_hold_are_counted() {
    let (_folder, run) = traced();
    let left_out = export_bytes(&run, Format::Hatchet).1;
    assert_eq!(left_out, LeftOut::from([("instants", 1), ("counter values", 1)]));
}

#[test]
fn ranks_are_summed_and_quantiles_merged() {
    let (first, second) = (import_data(TRAIN), import_data(TRAIN));
    let folder = tempfile::tempdir().unwrap();
    marey_store::merge(&[first.run, second.run], folder.path()).unwrap();
    let both = hatchet::profile_from_run(&reader(&Run::open(folder.path()).unwrap())).unwrap();
    let one = hatchet::parse(include_bytes!("../data/train.hatchet")).unwrap();
    let attention = one.nodes.iter().position(|node| &*node.name == "blocks.0.attn").unwrap();
    let attention = NodeId(attention as u32);
    let value = |profile: &Profile, key: &str| match profile.metric(key)?.get(attention)? {
        MetricValue::Int(value) => Some(value),
        _ => None,
    };
    for (key, times) in
        [("wall_count", 2), ("wall_total (ns)", 2), ("wall_min (ns)", 1), ("wall_max (ns)", 1)]
    {
        assert_eq!(value(&both, key), value(&one, key).map(|value| value * times), "{key}");
    }
    // Computed from the merged buckets: the middle of bucket 851.
    let middle = marey_model::sketch::middle_nanos(851);
    assert_eq!(value(&both, "wall_p50 (ns)"), i64::try_from(middle).ok());
    let sketched = both.sketches.iter().find(|(node, _)| *node == attention).unwrap();
    assert_eq!(*sketched.1, [(851, 120), (852, 80)]);
    assert_eq!(both.meta.process, None);
}

#[test]
fn malformed_files_report_position_and_cause() {
    for (content, message) in [
        (&b"[{\"frame\": {\"name\": 5}}]"[..], "byte 20: expected a text, found a whole number"),
        (b"[{\"frame\": {\"name\": \"a\"", "byte 23: the file ends in the middle of the profile"),
        (b"\x92\x83\xa5frame", "byte 8: the file ends in the middle of the profile"),
        (
            b"[{\"frame\": {\"name\": \"a\"}, \"marey\": {\"version\": 9}}]",
            "byte 47: the file has version 9, this marey reads versions up to 1",
        ),
    ] {
        assert_eq!(fault(content).to_string(), message);
    }
}

#[test]
fn every_truncation_is_an_error_or_a_run() {
    let content = include_bytes!("../data/minimal.hatchet");
    for end in (0..content.len()).step_by(7) {
        let error = import_bytes(&content[..end]).map(|run| run.imported).unwrap_err();
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn a_profile_with_only_a_root_survives_a_round_trip() {
    let temporary = import_bytes(b"[{\"frame\": {\"name\": \"ROOT\"}}]").unwrap();
    assert_eq!(export_profile(&temporary.run).nodes.len(), 1);
}

/// Changes a profile to one that a run can hold: siblings have distinct names or kinds, and either
/// all nodes have a kind or none has.
fn make_storable(mut profile: Profile) -> Profile {
    let are_known = profile.nodes[0].kind.is_some();
    let mut seen = HashSet::new();
    for (index, node) in profile.nodes.iter_mut().enumerate() {
        let known = node.kind.unwrap_or(NodeKind::Module);
        node.kind = are_known.then_some(if index == 0 { NodeKind::Root } else { known });
        if !seen.insert((node.parent, node.kind, node.name.clone())) {
            node.name = format!("{} {index}", node.name).into();
        }
    }
    if let Some(overhead) = &mut profile.meta.overhead
        && overhead.scope_nanos.is_infinite()
    {
        overhead.scope_nanos = f64::NAN;
    }
    profile
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_profile_survives_a_run(profile in profiles::profiles().prop_map(make_storable)) {
        let again = export_profile(&import_profile(&profile).run);
        prop_assert_eq!(format!("{:?}", again), format!("{:?}", profile));
    }

    #[test]
    fn damaged_files_never_panic(
        position in any::<prop::sample::Index>(),
        patch in prop::collection::vec(any::<u8>(), 0..4),
    ) {
        let file = include_bytes!("../data/minimal.hatchet_msgpack");
        let position = position.index(file.len());
        let rest = &file[(position + patch.len()).min(file.len())..];
        if let Ok(temporary) = import_bytes(&[&file[..position], &*patch, rest].concat()) {
            prop_assert_eq!(hatchet::profile_from_run(&reader(&temporary.run)).unwrap().check(), Ok(()));
        }
    }
}
