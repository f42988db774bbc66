//! JSON lines.

use marey_formats::{Format, LeftOut, export};
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_store::row::{Device, Metadata, Metric, Sample};
use marey_store::{Assembler, NewProcess, Reader, Run, Selection};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::csv::SPECIAL_CHARACTERS;
use crate::build::build_run;
use crate::dump::{export_bytes, import_data};

fn lines(run: &Run) -> Vec<Value> {
    parse(&export_bytes(run, Format::Json).0)
}

fn parse(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    assert!(text.ends_with('\n'));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

#[test]
fn every_table_is_written() {
    let (_folder, run) = super::csv::run("relu");
    let mut expected = [
        json!({"table": "processes", "id": 0, "pid": 7, "rank": 3, "host": "h", "argv": [],
            "start_nanos": 100, "end_nanos": 150, "is_complete": false, "clock_drift_nanos": 0}),
        json!({"table": "threads", "id": 0, "process_id": 0, "process": 7, "rank": 3, "os_id": 70,
            "name": "main, \"it\""}),
        json!({"table": "steps", "start_nanos": 100, "duration_nanos": 50, "process_id": 0,
            "process": 7, "rank": 3, "thread_id": 0, "thread": 70, "thread_name": "main, \"it\"",
            "kind": "step", "path": ["step"], "number": 9}),
        json!({"table": "spans", "start_nanos": 100, "duration_nanos": 50, "children_nanos": 20,
            "thread_id": 0, "thread": 70, "thread_name": "main, \"it\"", "process_id": 0,
            "process": 7, "rank": 3, "kind": "step", "path": ["step"], "name": "step",
            "sessions": 0, "phase": 0, "is_open": false}),
        json!({"table": "spans", "start_nanos": 110, "duration_nanos": 20, "children_nanos": 0,
            "thread_id": 0, "thread": 70, "thread_name": "main, \"it\"", "process_id": 0,
            "process": 7, "rank": 3, "kind": "operator", "path": ["step", "relu"], "name": "relu",
            "sessions": 0, "phase": 0, "is_open": false, "category": "cpu_op", "external_id": 4,
            "args": {"n": 5, "why": "relu"}}),
        json!({"table": "async_spans", "start_nanos": 105, "duration_nanos": 1, "process_id": 0,
            "process": 7, "rank": 3, "track": "requests", "name": "relu", "is_open": false}),
        json!({"table": "gpu_activities", "start_nanos": 120, "duration_nanos": 15, "process_id": 0,
            "process": 7, "rank": 3, "device": 1, "stream": 2, "kind": "kernel", "name": "kernel",
            "path": ["step", "relu"], "grid_x": 1, "grid_y": 2, "grid_z": 3, "external_id": 4,
            "block_x": 8, "block_y": 1, "block_z": 1, "registers": 40, "shared_bytes": 1024,
            "bytes": 32, "correlation_id": 6, "graph_node_id": 9}),
        json!({"table": "instants", "time_nanos": 101, "process_id": 0, "process": 7, "rank": 3,
            "scope": "process", "name": "relu", "args": {"n": 5, "why": "relu"}}),
    ];
    let mut lines = lines(&run);
    assert_eq!(lines.len(), expected.len());
    // The order of the tables means nothing, that of their rows does.
    let table = |line: &Value| line["table"].as_str().unwrap().to_owned();
    lines.sort_by_key(table);
    expected.sort_by_key(table);
    for (line, expected) in lines.iter().zip(&expected) {
        assert_eq!(line, expected);
    }
}

/// Returns a run with every type of value.
fn values(name: &str, reals: &[f64], metadata: &str) -> (tempfile::TempDir, Run) {
    build_run(|run| {
        for pid in 0..2 {
            let process_id = run.add_process(NewProcess {
                pid,
                name: Some(name.to_owned()),
                ..NewProcess::default()
            });
            let thread_id = run.add_thread(process_id, 1, name);
            let name_id = run.text_id(name);
            let context_id = run.context_id(Assembler::ROOT, NodeKind::Scope, name_id);
            let values = reals.iter().map(|&real| MetricValue::Float(real)).chain([
                MetricValue::Int(i64::MIN),
                MetricValue::Text(name.into()),
                MetricValue::Floats(reals.to_vec()),
            ]);
            for value in values {
                let row = Metric::new(thread_id, context_id, name_id, 1, value.clone());
                run.add_metric(&row).unwrap();
                run.add_sample(&Sample::new(process_id, context_id, name_id, value)).unwrap();
            }
            run.add_metadata(&Metadata::new(process_id, name, metadata)).unwrap();
            let (device_type, properties) = (name.into(), metadata.into());
            run.add_device(&Device {
                process_id,
                device: 0,
                device_type,
                name: name.into(),
                properties,
            })
            .unwrap();
        }
    })
}

#[test]
fn numbers_keep_their_types_and_json_has_no_nan() {
    let (_folder, run) =
        values(SPECIAL_CHARACTERS, &[0.5, f64::NAN, f64::NEG_INFINITY], "{\"a\":\n [1,\r\n2]}");
    let (bytes, left_out) = export_bytes(&run, Format::Json);
    // Each list occurs twice, as numbers and as a list, in a metric and a sample of two processes.
    assert_eq!(left_out, LeftOut::from([("values that are not finite", 16)]));
    let lines = parse(&bytes);
    let rows_of = |table: &'static str| lines.iter().filter(move |line| line["table"] == table);
    let metrics: Vec<_> = rows_of("metrics").take(6).collect();
    assert_eq!(metrics[0]["value"], json!(0.5));
    assert_eq!((&metrics[1]["value"], &metrics[2]["value"]), (&Value::Null, &Value::Null));
    assert_eq!(metrics[3]["integer"], json!(i64::MIN));
    assert_eq!(metrics[4]["text"], SPECIAL_CHARACTERS);
    assert_eq!(metrics[5]["vector"], json!([0.5, null, null]));
    assert_eq!(rows_of("metadata").next().unwrap()["value"], json!({"a": [1, 2]}));
    assert_eq!(rows_of("devices").next().unwrap()["properties"], json!({"a": [1, 2]}));
    assert_eq!(rows_of("samples").count(), 12);
}

#[test]
fn a_process_window_applies_to_every_table() {
    let (_folder, run) = values("x", &[1.0], "not JSON");
    let window = Selection { processes: Some([1].into()), ..Selection::default() };
    let mut out = Vec::new();
    export(&Reader::new(&run, window).unwrap(), Format::Json, &mut out).unwrap();
    let lines = parse(&out);
    assert!(lines.iter().all(|line| line["process_id"] == 1 || line["pid"] == 1), "{lines:?}");
    assert_eq!(lines.len(), 1 + 1 + 4 + 4 + 2);
    assert!(lines.iter().any(|line| line["table"] == "metadata" && line["value"] == "not JSON"));
}

#[test]
fn all_rows_of_a_foreign_file_are_written() {
    let run = import_data("speedscope/mixed.json");
    let lines = lines(&run.run);
    let count = |table: &str| lines.iter().filter(|line| line["table"] == table).count();
    assert_eq!((count("spans"), count("samples"), count("threads")), (4, 10, 4));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn every_line_is_json(name: String, reals: Vec<f64>, metadata: String) {
        let (_folder, run) = values(&name, &reals, &metadata);
        let names = lines(&run).into_iter().filter(|line| line["table"] == "metrics");
        prop_assert!(names.into_iter().all(|line| line["name"] == *name));
    }
}
