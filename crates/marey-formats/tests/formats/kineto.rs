//! Runs exported as traces of torch.profiler.

pub(crate) mod scene;

use marey_formats::{ExportError, Format, LeftOut};
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_store::row::{
    Args, Device, Flow, FlowPoint, GpuActivity, MemoryAction, MemoryEvent, Metadata, Metric,
};
use marey_store::{Assembler, NewProcess, Reader, Run, Selection, Slice};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::build::{self, build_run};
use crate::dump::{dump, export_bytes, import_bytes, import_data};

/// Start of the runs in these tests: 7 ns after the start of a quarter.
const START: i64 = 1_711_964_646_000_000_000 + 7;

fn export(run: &Run) -> (String, Json, LeftOut) {
    let (bytes, left_out) = export_bytes(run, Format::Kineto);
    let text = String::from_utf8(bytes).unwrap();
    let json = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    (text, json, left_out)
}

/// Removes the lines of a dump that every file of the format has.
fn without_header_lines(dump: &str) -> String {
    let is_kept =
        |line: &&str| !line.ends_with("schemaVersion=1") && !line.ends_with("Unit=\"ms\"");
    dump.lines().filter(is_kept).collect::<Vec<_>>().join("\n") + "\n"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn every_run_survives_a_round_trip(base in scene::bases(), rows in scene::random_rows()) {
        let (_folder, run) = scene::run(base, &rows);
        let (text, _, left_out) = export(&run);
        prop_assert_eq!(left_out, LeftOut::new());
        let again = import_bytes(text.as_bytes()).unwrap();
        prop_assert_eq!(without_header_lines(&dump(&again.run)), dump(&run), "{}", text);
    }
}

#[test]
fn real_traces_survive_a_round_trip() {
    for name in [
        "cpu-only-gloo",
        "critical-path-alexnet",
        "cuda-event-sync",
        "mi250-rocm",
        "triton-kernel-args",
    ] {
        let before = import_data(&format!("trace_event/{name}.json.gz"));
        let (text, _, left_out) = export(&before.run);
        assert_eq!(left_out, LeftOut::new(), "{name}");
        let after = import_bytes(text.as_bytes()).unwrap();
        let (before, after) = (dump(&before.run), dump(&after.run));
        for (before, after) in
            without_header_lines(&before).lines().zip(without_header_lines(&after).lines())
        {
            assert_eq!(before, after, "{name}");
        }
        assert_eq!(
            without_header_lines(&before).len(),
            without_header_lines(&after).len(),
            "{name}"
        );
    }
}

/// Returns a run with a process, whose rows `add_rows` adds.
fn build_process(
    process: NewProcess,
    add_rows: impl FnOnce(&mut Assembler, u32),
) -> (TempDir, Run) {
    build_run(|run| {
        let process = run.add_process(process);
        add_rows(run, process);
    })
}

fn slice(
    run: &mut Assembler,
    thread_id: u32,
    kind: NodeKind,
    name: &str,
    times: (i64, i64),
) -> Slice {
    let slice = build::slice(thread_id, run.text_id(name), START + times.0, times.1 - times.0);
    Slice { kind, ..slice }
}

fn kernel(run: &mut Assembler, process_id: u32, start: i64, correlation: u64) -> GpuActivity {
    GpuActivity {
        correlation_id: Some(correlation),
        grid: Some([4, 1, 1]),
        block: Some([128, 1, 1]),
        registers: Some(32),
        shared_bytes: Some(0),
        ..build::kernel(process_id, run.text_id("gemm"), START + start, 10)
    }
}

/// Returns a run like one of marey's recorder, with a device.
pub(crate) fn recorded() -> (TempDir, Run) {
    let process = NewProcess {
        pid: 4321,
        rank: Some(3),
        host: "node \"1\"".to_owned(),
        argv: vec!["/usr/bin/python3".to_owned(), "train.py".to_owned()],
        ..NewProcess::default()
    };
    build_process(process, |run, process| {
        let thread = run.add_thread(process, 4321, "MainThread");
        let mut add = |kind, name, times, correlation_id, is_open| {
            let slice = slice(run, thread, kind, name, times);
            run.add_slice(&Slice { correlation_id, is_open, ..slice }).unwrap();
        };
        add(NodeKind::Step, "step", (0, 100), None, false);
        add(NodeKind::Module, "Linear_0", (10, 90), None, false);
        add(NodeKind::Frame, "train.py:7@forward", (11, 80), None, false);
        add(NodeKind::Operator, "aten::mm", (12, 70), None, false);
        add(NodeKind::Runtime, "cudaGraphLaunch", (20, 30), Some(5), false);
        add(NodeKind::Runtime, "cudaStreamSynchronize", (40, 50), Some(6), false);
        add(NodeKind::Step, "step", (100, 200), None, false);
        add(NodeKind::Scope, "loss", (110, 120), None, false);
        add(NodeKind::State, "warm", (130, 200), None, true);
        for (start, correlation) in [(60, 5), (75, 5), (90, 9)] {
            let kernel = kernel(run, process, start, correlation);
            run.add_gpu_activity(&kernel).unwrap();
        }
        let (step, loss) = (run.text_id("step"), run.text_id("loss"));
        let step = run.context_id(Assembler::ROOT, NodeKind::Step, step);
        let context_id = run.context_id(step, NodeKind::Scope, loss);
        for (value, name) in
            [(MetricValue::Float(0.5), "loss"), (MetricValue::Text("nothing".into()), "note")]
        {
            let row = Metric::new(thread, context_id, run.text_id(name), START + 115, value);
            run.add_metric(&Metric { sessions: 1, ..row }).unwrap();
        }
    })
}

#[test]
fn recorded_runs_use_the_vocabulary_of_kineto() {
    let (_folder, run) = recorded();
    let (text, _, left_out) = export(&run);
    assert_eq!(text, include_str!("../data/kineto/recorded.json"));
    let lost = [("metric scopes", 2), ("values that are not numbers", 1)];
    assert_eq!(left_out, lost.into_iter().collect());
}

#[test]
fn kinds_survive_a_round_trip() {
    let (_folder, run) = recorded();
    let again = import_bytes(export(&run).0.as_bytes()).unwrap();
    let dump = dump(&again.run);
    for path in [
        "/step:step/module:nn.Module: Linear_0/frame:train.py:7@forward/operator:aten::mm/runtime:cudaGraphLaunch ",
        "/step:step/scope:loss",
        "/step:step/scope:warm",
        "at=Some(\"/step:step/module:nn.Module: Linear_0/frame:train.py:7@forward/operator:aten::mm\")",
    ] {
        assert!(dump.contains(path), "{path}\n{dump}");
    }
    let steps: Vec<_> = dump.lines().filter(|line| line.starts_with("steps ")).collect();
    assert!(steps[0].ends_with("/step:step 0") && steps[1].ends_with("/step:step 1"), "{steps:?}");
    assert!(dump.contains("rank=Some(3) host=\"node \\\"1\\\"\""), "{dump}");
}

#[test]
fn the_rank_is_written_where_analysers_search_for_it() {
    for (stored, expected) in [
        (None, r#""distributedInfo": {"rank": 3},"#),
        (Some(r#"{"rank":3,"world_size":4}"#), r#""distributedInfo": {"rank": 3,"world_size":4},"#),
        (
            Some(r#"{"backend": "nccl", "rank": 3}"#),
            r#""distributedInfo": {"backend": "nccl", "rank": 3},"#,
        ),
        (Some("null"), r#""distributedInfo": {"rank": 3},"#),
    ] {
        let process = NewProcess { pid: 99, rank: Some(3), ..NewProcess::default() };
        let (_folder, run) = build_process(process, |run, process| {
            let thread = run.add_thread(process, 99, "");
            let slice = slice(run, thread, NodeKind::Scope, "a", (0, 1));
            run.add_slice(&slice).unwrap();
            if let Some(value) = stored {
                run.add_metadata(&Metadata::new(process, "distributedInfo", value)).unwrap();
            }
        });
        let (text, ..) = export(&run);
        assert!(text.lines().any(|line| line == expected), "{text}");
    }
}

#[test]
fn process_ids_never_equal_device_numbers() {
    for (pid, device, moved) in [(0, 0, 1_000_000), (7, 7, 1_000_007), (7, 0, 7)] {
        let process = NewProcess { pid, ..NewProcess::default() };
        let (_folder, run) = build_process(process, |run, process| {
            let thread = run.add_thread(process, pid, "main");
            let slice = slice(run, thread, NodeKind::Operator, "a", (0, 1));
            run.add_slice(&slice).unwrap();
            let kernel = GpuActivity { device, ..kernel(run, process, 5, 1) };
            run.add_gpu_activity(&kernel).unwrap();
        });
        let (_, json, _) = export(&run);
        let events = json["traceEvents"].as_array().unwrap();
        let pid_of =
            |category| &events.iter().find(|event| event["cat"] == category).unwrap()["pid"];
        assert_eq!(*pid_of("cpu_op"), moved);
        assert_eq!(*pid_of("kernel"), device);
        let named =
            events.iter().find(|event| event["name"] == "process_name" && event["pid"] == moved);
        let os_id = named.map(|event| event["args"]["os_id"].clone());
        assert_eq!(os_id, (pid != moved).then(|| json!(pid)));
    }
}

/// Returns a run of ranks whose processes, devices, launches and flows have equal ids.
pub(crate) fn ranks(ranks: &[u32]) -> (TempDir, Run) {
    build_run(|run| {
        for &rank in ranks {
            let process_id =
                run.add_process(NewProcess { pid: 50, rank: Some(rank), ..NewProcess::default() });
            let thread_id = run.add_thread(process_id, 50, "");
            let operator = slice(run, thread_id, NodeKind::Operator, "aten::mm", (0, 9));
            run.add_slice(&Slice { external_id: Some(4), ..operator }).unwrap();
            let call = slice(run, thread_id, NodeKind::Runtime, "cudaLaunchKernel", (1, 3));
            let call = Slice { correlation_id: Some(1), external_id: Some(4), order: 1, ..call };
            run.add_slice(&call).unwrap();
            let kernel = kernel(run, process_id, 5, 1);
            run.add_gpu_activity(&GpuActivity { external_id: Some(4), ..kernel }).unwrap();
            let name_id = run.text_id("fwdbwd");
            for (time_nanos, point) in [(START, FlowPoint::Start), (START + 2, FlowPoint::End)] {
                run.add_flow(&Flow {
                    time_nanos,
                    thread_id,
                    flow_id: 3,
                    point,
                    is_enclosing: true,
                    name_id,
                    category_id: Some(name_id),
                    args: Args::default(),
                })
                .unwrap();
            }
            for (key, value) in [("schemaVersion", "1"), ("of", &*rank.to_string())] {
                run.add_metadata(&Metadata::new(process_id, key, value)).unwrap();
            }
            run.add_device(&Device {
                process_id,
                device: 0,
                device_type: "CUDA".into(),
                name: format!("of {rank}").as_str().into(),
                properties: "{}".into(),
            })
            .unwrap();
        }
    })
}

/// Returns the values of a key or argument in the events of a phase and category.
fn values(json: &Json, (phase, category): (&str, &str), key: &str) -> Vec<Json> {
    let events = json["traceEvents"].as_array().unwrap().iter();
    let events = events.filter(|event| event["ph"] == phase && event["cat"] == category);
    let value = |event: &Json| event.get(key).unwrap_or(&event["args"][key]).clone();
    events.map(value).collect()
}

#[test]
fn a_file_has_the_devices_of_one_rank() {
    let (_folder, run) = ranks(&[1, 0, 1]);
    let (text, json, left_out) = export(&run);
    assert!(text.contains("\"distributedInfo\": {\"rank\": 1}"));
    assert!(
        text.contains(
            r#"[
{"id":0,"name":"of 1"}]"#
                .replace("\\n", "\n")
                .as_str()
        ),
        "{text}"
    );
    let expected = [
        ("device activities of other processes", 2),
        ("devices", 2),
        ("metadata entries", 1),
        ("ranks", 1),
    ];
    assert_eq!(left_out, expected.into_iter().collect());
    let values_of = |event, key| values(&json, event, key);
    assert_eq!(values_of(("X", "cuda_runtime"), "pid"), [50, 1_000_050, 2_000_050]);
    assert_eq!(values_of(("X", "kernel"), "correlation"), [1]);
    assert_eq!(values_of(("X", "kernel"), "External id"), [4]);
    let apart = |number: u64| [number, (1 << 32) + number, (2 << 32) + number];
    assert_eq!(
        values_of(("X", "cuda_runtime"), "correlation"),
        apart(1),
        "no launches of the kernel"
    );
    assert_eq!(values_of(("X", "cuda_runtime"), "External id"), apart(4));
    assert_eq!(values_of(("X", "cpu_op"), "External id"), apart(4));
    assert_eq!(
        (values_of(("s", "ac2g"), "id"), values_of(("f", "ac2g"), "id")),
        (vec![json!(1)], vec![json!(1)])
    );
    // Both ends of a flow may be in different processes of a rank.
    let mut arrows: Vec<u64> =
        values_of(("s", "fwdbwd"), "id").iter().map(|id| id.as_u64().unwrap()).collect();
    arrows.sort_unstable();
    assert_eq!(arrows, [3, 3, (1 << 32) + 3]);
    let names = json["traceEvents"].as_array().unwrap().iter();
    let ranks: Vec<_> = names.filter_map(|event| event["args"].get("rank")).collect();
    assert_eq!(ranks, [1, 0, 1]);
}

#[test]
fn devices_of_other_ranks_are_left_out() {
    let (_folder, run) = build_run(|run| {
        let mut process = |pid, rank| {
            let process =
                run.add_process(NewProcess { pid, rank: Some(rank), ..NewProcess::default() });
            let thread = run.add_thread(process, pid, "");
            let slice = slice(run, thread, NodeKind::Operator, "a", (0, 1));
            run.add_slice(&slice).unwrap();
            process
        };
        let (_, other) = (process(10, 0), process(11, 1));
        let kernel = kernel(run, other, 5, 1);
        run.add_gpu_activity(&kernel).unwrap();
    });
    let (text, json, left_out) = export(&run);
    assert!(text.contains("\"distributedInfo\": {\"rank\": 0}"));
    assert_eq!(values(&json, ("X", "kernel"), "name"), Vec::<Json>::new());
    let expected = [("device activities of other processes", 1), ("ranks", 1)];
    assert_eq!(left_out, expected.into_iter().collect());
}

#[test]
fn metadata_that_the_format_cannot_hold_is_counted() {
    let (_folder, run) =
        build_process(NewProcess { pid: 9, ..NewProcess::default() }, |run, process_id| {
            let thread = run.add_thread(process_id, 9, "");
            let slice = slice(run, thread, NodeKind::Scope, "a", (0, 1));
            run.add_slice(&slice).unwrap();
            let other = run.add_process(NewProcess { pid: 10, ..NewProcess::default() });
            for (process_id, thread_id, key, value) in [
                (process_id, None, "a", "1"),
                (process_id, None, "a", "2"),
                (process_id, Some(thread), "b", "3"),
                (process_id, Some(thread), "thread_labels", "{\"labels\":\"x\"}"),
                (other, None, "c", "4"),
                (other, None, "a", "1"),
            ] {
                let row = Metadata::new(process_id, key, value);
                run.add_metadata(&Metadata { thread_id, ..row }).unwrap();
            }
        });
    let (_, json, left_out) = export(&run);
    assert_eq!(left_out, [("metadata entries", 3)].into_iter().collect());
    assert_eq!((&json["a"], &json["b"], &json["c"]), (&json!(1), &Json::Null, &Json::Null));
}

#[test]
fn events_have_each_argument_once() {
    let odd = r#"{"traceEvents": [
{"ph":"X","cat":"kernel","name":"k","pid":2,"tid":7,"ts":1,"dur":1,"args":{"device":"x","stream":"y","correlation":3,"grid":"z"}},
{"ph":"X","cat":"cpu_op","name":"o","pid":1,"tid":1,"ts":0,"dur":3,"args":{"External id":"no"}},
{"ph":"i","name":"[memory]","pid":1,"tid":1,"ts":2,"s":"t","args":{"Bytes":8,"Device Id":"w","Device Type":1}}],
"schemaVersion": 1}"#;
    let before = import_bytes(odd.as_bytes()).unwrap();
    for format in [Format::Kineto, Format::ChromeTrace] {
        let text = String::from_utf8(export_bytes(&before.run, format).0).unwrap();
        for key in ["device", "stream", "External id", "Device Id"] {
            assert_eq!(text.matches(&format!("\"{key}\":")).count(), 1, "{key}: {text}");
        }
        for member in ["\"device\":\"x\"", "\"stream\":\"y\"", "\"Device Id\":\"w\""] {
            assert!(text.contains(member), "{text}");
        }
    }
}

#[test]
fn memory_events_have_a_stream_and_no_call_stack() {
    let (_folder, run) =
        build_process(NewProcess { pid: 9, ..NewProcess::default() }, |run, process_id| {
            let frame = run.text_id("f");
            let context_id = Some(run.context_id(Assembler::ROOT, NodeKind::Frame, frame));
            run.add_thread(process_id, 9, "");
            // With a thread, readers find the context node again by the spans around it.
            let row = MemoryEvent::new(process_id, "cuda".into(), MemoryAction::Alloc, START, 8);
            let (device, stream) = (Some(1), Some(u64::MAX));
            run.add_memory_event(&MemoryEvent { device, stream, context_id, ..row }).unwrap();
        });
    let (_, json, left_out) = export(&run);
    assert_eq!(values(&json, ("i", "cpu_instant_event"), "Stream"), [u64::MAX]);
    assert_eq!(left_out, [("call stacks of memory events", 1)].into_iter().collect());
}

#[test]
fn an_empty_window_is_refused() {
    let (_folder, run) = recorded();
    for format in [Format::Kineto, Format::ChromeTrace] {
        let export = |from_nanos| {
            let window = Selection { from_nanos, ..Selection::default() };
            marey_formats::export(&Reader::new(&run, window).unwrap(), format, &mut Vec::new())
        };
        let is_nothing = matches!(export(START + 1000), Err(ExportError::NoData { .. }));
        assert!(is_nothing, "{format:?}");
        assert!(export(START + 150).is_ok(), "{format:?}");
    }
}

#[test]
fn times_of_the_longest_runs_do_not_overflow() {
    let (_folder, run) =
        build_process(NewProcess { pid: 20, ..NewProcess::default() }, |run, process| {
            let thread = run.add_thread(process, 20, "");
            for (start_nanos, duration_nanos) in [(i64::MIN, 3), (-5, 10), (i64::MAX - 9, 9)] {
                let slice = slice(run, thread, NodeKind::Scope, "a", (0, 1));
                run.add_slice(&Slice { start_nanos, duration_nanos, ..slice }).unwrap();
            }
        });
    let (text, ..) = export(&run);
    for time in ["-9223372036854775.808,\"dur\":0.003", "-0.005", "9223372036854775.798"] {
        assert!(text.contains(&format!("\"ts\":{time}")), "{text}");
    }
}
