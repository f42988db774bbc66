//! Runs exported as Chrome traces.

use std::collections::{BTreeMap, BTreeSet};

use marey_formats::{Format, LeftOut};
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_store::row::Metric;
use marey_store::{Assembler, NewProcess, Run, Slice};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::build::{build_run, slice};
use crate::dump::{dump, export_bytes, import_bytes};
use crate::kineto::{ranks, recorded, scene};

fn export(run: &Run) -> (String, Vec<Json>, LeftOut) {
    let (bytes, left_out) = export_bytes(run, Format::ChromeTrace);
    let text = String::from_utf8(bytes).unwrap();
    let mut json: Json =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let Json::Array(events) = json["traceEvents"].take() else { panic!("{text}") };
    check_lanes(&events);
    (text, events, left_out)
}

/// Checks that the complete events of each lane nest, and that each lane has one name.
fn check_lanes(events: &[Json]) {
    let mut lanes: BTreeMap<String, Vec<(i128, i128)>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let start = nanos(&event["ts"]);
        let lane = format!("{} {}", event["pid"], event["tid"]);
        lanes.entry(lane).or_default().push((start, start + nanos(&event["dur"])));
    }
    for (lane, mut events) in lanes {
        events.sort_by_key(|&(start, end)| (start, -end));
        let mut open: Vec<i128> = Vec::new();
        for (start, end) in events {
            open.retain(|&around| around > start);
            assert!(open.iter().all(|&around| end <= around), "lane {lane} at {start}");
            open.push(end);
        }
    }
}

/// Converts times, which doubles hold exactly in these tests.
fn nanos(micros: &Json) -> i128 {
    (micros.as_f64().unwrap() * 1000.0).round() as i128
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn exports_are_stable_after_one_round_trip(base in scene::bases(), rows in scene::random_rows()) {
        let (_folder, run) = scene::run(base, &rows);
        let (text, _, left_out) = export(&run);
        prop_assert_eq!(left_out, LeftOut::new());
        let again = import_bytes(text.as_bytes()).unwrap();
        // Overlapping spans move to another lane, which changes the parents of their children, and the
        // nodes of memory events.
        let tables = ["async_spans ", "flows ", "instants ", "memory_events ", "metrics ", "process "];
        let is_elsewhere = |line: &&str| tables.iter().any(|table| line.starts_with(table));
        let (first, second) = (dump(&run), dump(&again.run));
        let lines_before: Vec<_> = first.lines().filter(is_elsewhere).collect();
        let lines_after: Vec<_> = second.lines().filter(is_elsewhere).collect();
        for (a, b) in lines_before.iter().zip(&lines_after) {
            prop_assert_eq!(without_node(a), without_node(b));
        }
        prop_assert_eq!(lines_before.len(), lines_after.len());
        let count = |dump: &str, table| dump.lines().filter(|line| line.starts_with(table)).count();
        for table in ["spans ", "gpu_activities "] {
            prop_assert_eq!(count(&first, table), count(&second, table));
        }
        let (text, ..) = export(&again.run);
        let third = import_bytes(text.as_bytes()).unwrap();
        prop_assert_eq!(second, dump(&third.run));
    }
}

/// Returns the line of a memory event without its context node, any other line unchanged.
fn without_node(line: &str) -> String {
    match line.split_once(" at=Some(\"").filter(|_| line.starts_with("memory_events ")) {
        Some((head, tail)) => {
            let end = tail.find("\")").map_or("", |end| &tail[end + 2..]);
            format!("{head}{end}")
        }
        None => line.replace(" at=None", ""),
    }
}

#[test]
fn recorded_runs_match_the_recorder_s_own_trace() {
    let (_folder, run) = recorded();
    let (text, _, left_out) = export(&run);
    assert_eq!(text, include_str!("../data/chrome_trace/recorded.json"));
    assert_eq!(left_out, LeftOut::new());
}

/// Returns a run with a thread that has these scopes and values.
fn build_thread(
    scopes: &[(NodeKind, &str, i64, i64)],
    values: &[(&[&str], i64, &str, MetricValue)],
) -> (TempDir, Run) {
    build_run(|run| {
        let process = run.add_process(NewProcess { pid: 100, ..NewProcess::default() });
        let thread_id = run.add_thread(process, 100, "");
        for (&(kind, name, start_nanos, end_nanos), order) in scopes.iter().zip(0..) {
            let slice = slice(thread_id, run.text_id(name), start_nanos, end_nanos - start_nanos);
            run.add_slice(&Slice { order, kind, ..slice }).unwrap();
        }
        for (path, time_nanos, name, value) in values {
            let mut context_id = Assembler::ROOT;
            for name in *path {
                let name_id = run.text_id(name);
                let kind = if *name == "state" { NodeKind::State } else { NodeKind::Scope };
                context_id = run.context_id(context_id, kind, name_id);
            }
            let row =
                Metric::new(thread_id, context_id, run.text_id(name), *time_nanos, value.clone());
            run.add_metric(&Metric { sessions: 1, ..row }).unwrap();
        }
    })
}

#[test]
fn values_belong_to_the_scope_that_they_were_added_in() {
    let int = MetricValue::Int;
    let (_folder, run) = build_thread(
        &[
            (NodeKind::Scope, "outer", 0, 100),
            (NodeKind::Scope, "inner", 10, 20),
            (NodeKind::Scope, "inner", 20, 30),
            (NodeKind::State, "state", 22, 25),
        ],
        &[
            (&["outer"], 0, "tokens", int(1)),
            (&["outer"], 50, "tokens", int(2)),
            (&["outer"], 60, "lr (pty)", MetricValue::Float(0.5)),
            (&["outer"], 100, "lr (pty)", MetricValue::Float(0.25)),
            (&["outer", "inner"], 20, "tokens", int(10)),
            (&["outer", "inner"], 21, "tokens", int(20)),
            (&["outer", "inner", "state"], 23, "tokens", int(40)),
            (&["outer", "inner"], 31, "tokens", int(80)),
            (&[], 40, "tokens", int(160)),
            (&["outer"], 70, "list", MetricValue::Ints(vec![1, 2])),
            (&["outer"], 71, "text", MetricValue::Text("a \"b\"".into())),
        ],
    );
    let (_, events, left_out) = export(&run);
    assert_eq!(left_out, LeftOut::new());
    let events_of_phase = |phase: &str| -> Vec<(Json, Json)> {
        let events = events.iter().filter(|event| event["ph"] == phase);
        events.map(|event| (event["name"].clone(), event["args"]["metrics"].clone())).collect()
    };
    assert_eq!(
        events_of_phase("X"),
        [
            (json!("inner: <tokens, 10>"), json!({"tokens": "10"})),
            (json!("state"), Json::Null),
            (json!("inner: <tokens, 60>"), json!({"tokens": "60"})),
            (
                json!("outer: <list, [1,2]>, <lr (pty), 0.250000>, <text, a \"b\">, <tokens, 3>"),
                json!({"list": "[1,2]", "lr (pty)": "0.250000", "text": "a \"b\"", "tokens": "3"})
            ),
        ]
    );
    assert_eq!(
        events_of_phase("i"),
        [
            (json!("inner: <tokens, 80>"), json!({"tokens": "80"})),
            (json!("ROOT: <tokens, 160>"), json!({"tokens": "160"})),
        ]
    );
}

#[test]
fn values_survive_a_round_trip() {
    let (_folder, run) = build_thread(
        &[(NodeKind::Module, "outer", 0, 100), (NodeKind::Step, "inner", 10, 20)],
        &[(&["outer", "inner"], 15, "loss", MetricValue::Float(0.1))],
    );
    let (first, ..) = export(&run);
    let (second, ..) = export(&import_bytes(first.as_bytes()).unwrap().run);
    let events = |text: &str| {
        let lines = text.lines().filter(|line| line.contains("\"ph\":\"X\""));
        let events = lines.map(|line| line.trim_end_matches(','));
        events.map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Json>>()
    };
    assert_eq!(events(&first), events(&second));
    assert!(first.contains("inner: <loss, 0.100000>"), "{first}");
}

#[test]
fn overlapping_scopes_get_separate_lanes() {
    let scope = NodeKind::Scope;
    let (_folder, run) =
        build_thread(&[(scope, "a", 0, 20), (scope, "b", 10, 30), (scope, "c", 20, 25)], &[]);
    let (_, events, _) = export(&run);
    let lanes: Vec<_> = events
        .iter()
        .filter(|event| event["ph"] == "X" || event["name"] == "thread_name")
        .map(|event| (event["name"].as_str().unwrap(), event["tid"].as_i64().unwrap()))
        .collect();
    let expected =
        [("thread_name", 0), ("a", 0), ("thread_name", 1_000_000), ("c", 0), ("b", 1_000_000)];
    assert_eq!(lanes.len(), expected.len(), "{lanes:?}");
    assert!(expected.iter().all(|lane| lanes.contains(lane)), "{lanes:?}");
}

#[test]
fn ranks_are_written_and_counted() {
    let (_folder, run) = ranks(&[3, 5]);
    let (_, events, left_out) = export(&run);
    let expected = [("devices", 1), ("metadata entries", 1), ("ranks", 1)];
    assert_eq!(left_out, expected.into_iter().collect());
    let named = events.iter().filter(|event| event["name"] == "process_name");
    let named: Vec<_> = named.map(|event| (&event["pid"], &event["args"]["rank"])).collect();
    assert_eq!(named, [(&json!(50), &json!(3)), (&json!(1_000_050), &json!(5))]);
    // Correlation ids of ranks are distinct, so nothing joins activities of different ranks.
    let mut numbers = BTreeMap::<String, BTreeSet<String>>::new();
    for event in &events {
        let args = &event["args"];
        for number in [&event["id"], &args["correlation"], &args["External id"]] {
            if !number.is_null() {
                let key = format!("{} {} {number}", event["cat"], event["ph"]);
                numbers.entry(key).or_default().insert(event["pid"].to_string());
            }
        }
    }
    assert!(numbers.len() >= 8 && numbers.values().all(|pids| pids.len() == 1), "{numbers:?}");
}

#[test]
fn foreign_spans_stay_open_and_gain_no_arguments() {
    let foreign = r#"{"traceEvents": [
{"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"named"}},
{"ph":"B","cat":"mine","name":"open","pid":1,"tid":1,"ts":1},
{"ph":"X","cat":"mine","name":"inside","pid":1,"tid":1,"ts":2,"dur":3}]}"#;
    let before = import_bytes(foreign.as_bytes()).unwrap();
    let (text, events, _) = export(&before.run);
    let args_of = |name| &events.iter().find(|event| event["name"] == name).unwrap()["args"];
    assert_eq!(*args_of("open"), json!({"finished": "false"}));
    assert_eq!(*args_of("inside"), Json::Null);
    let spans = |dump: String| {
        dump.lines()
            .filter(|line| line.starts_with("spans "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let after = import_bytes(text.as_bytes()).unwrap();
    assert_eq!(spans(dump(&after.run)), spans(dump(&before.run)));
}
