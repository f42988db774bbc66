//! Round trips of runs through traces.

use std::sync::Arc;

use marey_formats::Format;
use marey_model::args::NewArgs;
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_store::row::{
    ActivityKind, AsyncSpan, Flow, FlowPoint, GpuActivity, Instant, InstantScope, MemoryAction,
    MemoryEvent, Metadata, Metric, Sample,
};
use marey_store::{Assembler, NewProcess, Run, Slice};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::build::{async_span, build_run, slice};
use crate::dump::{dump, export_bytes, import_bytes, import_data};

/// Returns the dump of a run after a round trip.
fn through_perfetto(run: &Run) -> String {
    let (bytes, left_out) = export_bytes(run, Format::Perfetto);
    assert!(left_out.is_empty(), "{left_out:?}");
    dump(&import_bytes(&bytes).unwrap().run)
}

/// Removes the losses of the first import, which the second file does not contain.
fn without_losses(dumped: &str) -> String {
    let lines = dumped.lines().filter(|line| !line.starts_with("loss "));
    lines.fold(String::new(), |kept, line| kept + line + "\n")
}

#[test]
fn a_foreign_trace_survives_a_round_trip() {
    let run = import_data("perfetto/foreign.pftrace").run;
    assert_eq!(through_perfetto(&run), without_losses(&dump(&run)));
}

#[test]
fn arguments_with_lone_surrogates_are_kept() {
    let (bytes, _) = export_run_of(|run| {
        let process = run.add_process(NewProcess::default());
        let mut args = NewArgs::default();
        args.int("n", 5);
        args.json("half", r#"["a\ud800", {"\udc00": 1}]"#);
        let (name_id, args) = (run.text_id("n"), run.args(&mut args).unwrap());
        run.add_instant(&Instant { args, ..Instant::new(process, name_id, 1) }).unwrap();
    });
    let dumped = import_and_dump(&bytes);
    assert!(dumped.contains("\"half\":[\"a\u{fffd}\",{\"\u{fffd}\":1}]"), "{dumped}");
}

#[test]
fn rows_that_the_format_cannot_hold_are_counted() {
    let (_, left_out) = export_run_of(|run| {
        let process = run.add_process(NewProcess::default());
        let (thread, name) = (run.add_thread(process, 1, ""), run.text_id("n"));
        for value in [MetricValue::Text("x".into()), MetricValue::Ints(vec![1])] {
            run.add_metric(&Metric::new(thread, Assembler::ROOT, name, 5, value)).unwrap();
        }
        run.add_metadata(&Metadata::new(process, "k", "1")).unwrap();
    });
    assert_eq!(left_out, r#"{"metadata entries": 1, "values that are not numbers": 2}"#);
}

#[test]
fn an_argument_named_like_the_extras_stays_an_argument() {
    let (bytes, _) = export_run_of(|run| {
        let process = run.add_process(NewProcess { pid: 5, ..NewProcess::default() });
        let thread = run.add_thread(process, 6, "t");
        let mut args = NewArgs::default();
        args.json("marey", r#"{"kind":"frame","is_open":true}"#);
        let args = run.args(&mut args).unwrap();
        let name_id = run.text_id("span");
        run.add_slice(&Slice { args, ..slice(thread, name_id, 1, 2) }).unwrap();
    });
    let dumped = import_and_dump(&bytes);
    let expected = r#"/scope:span {"marey":{"is_open":true,"kind":"frame"}}"#;
    assert!(dumped.contains(expected), "{dumped}");
}

#[test]
fn overlapping_slices_are_on_two_tracks_of_one_name() {
    let track_count = |times: &[(i64, i64)]| {
        let (bytes, _) = export_run_of(|run| {
            let process_id = run.add_process(NewProcess { pid: 5, ..NewProcess::default() });
            let (track_id, name_id) = (run.text_id("the track"), run.text_id("request"));
            for &times in times {
                run.add_async_span(&async_span(process_id, track_id, name_id, times)).unwrap();
            }
        });
        bytes.windows(9).filter(|window| window == b"the track").count()
    };
    assert_eq!(track_count(&[(0, 10), (2, 5), (7, 3), (10, 4)]), 1);
    assert_eq!(track_count(&[(0, 10), (5, 10), (6, 9)]), 3);
    assert_eq!(track_count(&[(0, 10), (5, 10), (16, 9), (17, 20)]), 2);
}

/// Returns the trace of a run, and what was left out.
fn export_run_of(add_rows: impl FnOnce(&mut Assembler)) -> (Vec<u8>, String) {
    let (_folder, run) = build_run(add_rows);
    let (bytes, left_out) = export_bytes(&run, Format::Perfetto);
    let left_out = if left_out.is_empty() { String::new() } else { format!("{left_out:?}") };
    (bytes, left_out)
}

fn import_and_dump(bytes: &[u8]) -> String {
    dump(&import_bytes(bytes).unwrap().run)
}

/// Random numbers from which a row is made.
#[derive(Clone, Debug)]
struct RandomRow {
    row_kind: u8,
    start_nanos: i64,
    duration_nanos: i64,
    thread: usize,
    name: String,
    category: Option<String>,
    numbers: [u64; 3],
    optional: Option<u64>,
    real: f64,
    is_set: bool,
    json: serde_json::Value,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]",
        "\\PC{0,12}",
        Just(String::new()),
        Just("a\"b\\\n;#\u{0}\u{1f}".to_owned()),
        Just("long ".repeat(5000)),
    ]
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        text().prop_map(Into::into),
        // Deeper than the limit for nested messages.
        Just((0..100).fold(1.into(), |inner, _| serde_json::json!([inner]))),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Into::into),
            prop::collection::btree_map("[a-e]|marey", inner, 0..3)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Times that often coincide, and some at the limits of the range.
fn nanos() -> impl Strategy<Value = i64> {
    let ends =
        prop_oneof![Just(i64::MIN), Just(-5), Just(i64::MAX - 50), -1_000_000..1_000_000_i64];
    prop_oneof![9 => 0..30_i64, 1 => ends]
}

fn random_row() -> impl Strategy<Value = RandomRow> {
    let times = (nanos(), 0..20_i64);
    let texts = (text(), prop::option::of(text()), json());
    let small = prop_oneof![0..4_u64, any::<u64>()];
    let numbers = (prop::array::uniform3(small), prop::option::of(0..6_u64), any::<f64>());
    (0..8_u8, times, 0..5_usize, texts, numbers, any::<bool>()).prop_map(
        |(row_kind, times, thread, texts, numbers, is_set)| RandomRow {
            row_kind,
            start_nanos: times.0,
            duration_nanos: times.1,
            thread,
            name: texts.0,
            category: texts.1,
            json: texts.2,
            numbers: numbers.0,
            optional: numbers.1,
            real: numbers.2,
            is_set,
        },
    )
}

/// Returns a run with two processes of equal ids and threads of unusual ids.
fn build_random_run(rows: &[RandomRow]) -> (TempDir, Run) {
    build_run(|run| {
        let processes = [0, 1].map(|rank| {
            run.add_process(NewProcess {
                pid: 77,
                rank: Some(rank),
                host: "node;1".to_owned(),
                argv: vec!["python".to_owned(), "a b".to_owned()],
                name: Some("trainer".to_owned()),
                is_complete: true,
            })
        });
        let ids = [(0, 77), (0, 78), (1, 78), (1, -3), (0, 1 << 40)];
        let threads = ids
            .map(|(index, os_id)| (processes[index], run.add_thread(processes[index], os_id, "t")));
        for (order, row) in rows.iter().enumerate() {
            add(run, row, threads[row.thread], order as u64);
        }
    })
}

#[expect(clippy::too_many_lines, reason = "one arm for each kind of row")]
fn add(run: &mut Assembler, row: &RandomRow, (process_id, thread): (u32, u32), order: u64) {
    let RandomRow { start_nanos, duration_nanos, is_set, optional, numbers: [a, b, c], .. } = *row;
    let name_id = run.text_id(&row.name);
    let category_id = row.category.as_ref().map(|category| run.text_id(category));
    let mut new = NewArgs::default();
    if !row.json.is_null() {
        new.json("arg", &row.json.to_string());
        new.json("marey", &row.json.to_string());
    }
    let args = run.args(&mut new).unwrap();
    let kind = NodeKind::ALL[1 + a as usize % 7];
    let frame = run.text_id("f");
    let outer = run.context_id(Assembler::ROOT, NodeKind::Frame, frame);
    let context = run.context_id(outer, kind, name_id);
    let number =
        if is_set { MetricValue::Int(c.cast_signed()) } else { MetricValue::Float(row.real) };
    let id = optional.map(|n| n as u32);
    let extents = optional.map(|n| [n as u32, a as u32, u32::MAX]);
    let time_nanos = start_nanos;
    let added = match row.row_kind {
        0 => run.add_slice(&Slice {
            order,
            kind,
            step: (kind == NodeKind::Step).then_some(b as u32),
            is_open: is_set,
            category_id,
            correlation_id: optional,
            external_id: is_set.then_some(b),
            args,
            ..slice(thread, name_id, start_nanos, duration_nanos)
        }),
        1 => run.add_async_span(&AsyncSpan {
            is_open: is_set,
            category_id,
            args,
            ..async_span(process_id, frame, name_id, (start_nanos, duration_nanos))
        }),
        2 => run.add_instant(&Instant {
            time_nanos,
            process_id,
            thread_id: is_set.then_some(thread),
            scope: InstantScope::ALL[a as usize % 3],
            name_id,
            category_id,
            args,
        }),
        3 => run.add_flow(&Flow {
            time_nanos,
            thread_id: thread,
            flow_id: b,
            point: FlowPoint::ALL[a as usize % 3],
            is_enclosing: is_set,
            name_id,
            category_id,
            args,
        }),
        4 => run.add_metric(&Metric::new(thread, context, name_id, start_nanos, number)),
        5 => run.add_sample(&Sample {
            process_id,
            thread_id: is_set.then_some(thread),
            context_id: context,
            name_id,
            time_nanos: optional.map(|_| start_nanos),
            value: number,
            args,
        }),
        6 => run.add_gpu_activity(&GpuActivity {
            start_nanos,
            duration_nanos,
            process_id,
            device: (b % 2) as u32,
            stream: if is_set { u32::MAX } else { (c % 2) as u32 },
            kind: ActivityKind::ALL[a as usize % 6],
            name_id,
            context_id: Some(context),
            correlation_id: optional,
            graph_node_id: is_set.then_some(b),
            grid: extents,
            block: extents.filter(|_| is_set),
            registers: id,
            shared_bytes: optional.map(|_| b.cast_signed()),
            bytes: is_set.then_some(c.cast_signed()),
            category_id,
            external_id: is_set.then_some(a),
            args,
        }),
        _ => run.add_memory_event(&MemoryEvent {
            time_nanos,
            process_id,
            thread_id: is_set.then_some(thread),
            action: MemoryAction::ALL[a as usize % 10],
            device_type: Arc::from("cuda"),
            device: id,
            stream: optional,
            address: is_set.then_some(b),
            bytes: c.cast_signed(),
            allocated_bytes: optional.map(|_| b.cast_signed()),
            reserved_bytes: is_set.then_some(c.cast_signed()),
            peak_bytes: optional.map(|_| c.cast_signed()),
            context_id: is_set.then_some(context),
            category_id,
            args,
        }),
    };
    added.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn a_run_survives_a_round_trip(rows in prop::collection::vec(random_row(), 1..30)) {
        let (_folder, run) = build_random_run(&rows);
        prop_assert_eq!(through_perfetto(&run), dump(&run));
    }
}
