//! Round trips of runs through traces.

use std::sync::Arc;

use marey_formats::{Format, export};
use marey_model::args::NewArgs;
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_store::row::{
    ActivityKind, Args, AsyncSpan, Flow, FlowPoint, GpuActivity, Instant, InstantScope,
    MemoryAction, MemoryEvent, Metric, Sample,
};
use marey_store::{Assembler, NewProcess, Run, Slice};
use proptest::prelude::*;

use crate::dump::{dump, export_bytes, import_bytes, import_data, reader};

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
fn an_empty_run_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    Assembler::new(folder.path()).finish(None).unwrap();
    let run = Run::open(folder.path()).unwrap();
    let error = export(&reader(&run), Format::Perfetto, &mut Vec::new()).unwrap_err();
    let expected = "the run has no events, which a Perfetto trace consists of";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn arguments_with_lone_surrogates_are_kept() {
    let (bytes, _) = made(|run| {
        let process = run.process(NewProcess::default());
        let thread = run.thread(process, 1, "");
        let mut args = NewArgs::default();
        args.int("n", 5);
        args.json("half", r#"["a\ud800", {"\udc00": 1}]"#);
        let (name_id, args) = (run.text("n"), run.args(&mut args).unwrap());
        run.add_instant(&Instant {
            time_nanos: 1,
            process_id: process,
            thread_id: Some(thread),
            scope: InstantScope::Thread,
            name_id,
            category_id: None,
            args,
        })
        .unwrap();
    });
    let dumped = dump_of(&bytes);
    assert!(dumped.contains("\"half\":[\"a\u{fffd}\",{\"\u{fffd}\":1}]"), "{dumped}");
}

#[test]
fn rows_that_the_format_cannot_hold_are_counted() {
    let (_, left_out) = made(|run| {
        let process = run.process(NewProcess::default());
        let (thread, name) = (run.thread(process, 1, ""), run.text("n"));
        for value in [MetricValue::Text("x".into()), MetricValue::Ints(vec![1])] {
            run.add_metric(&metric(5, thread, Assembler::ROOT, name, value)).unwrap();
        }
        let metadata = marey_store::row::Metadata {
            process_id: process,
            thread_id: None,
            key: "k".into(),
            value: "1".into(),
        };
        run.add_metadata(&metadata).unwrap();
    });
    assert_eq!(left_out, r#"{"metadata entries": 1, "values that are not numbers": 2}"#);
}

#[test]
fn an_argument_named_like_the_extras_stays_an_argument() {
    let (bytes, _) = made(|run| {
        let process = run.process(NewProcess { pid: 5, ..NewProcess::default() });
        let thread = run.thread(process, 6, "t");
        let mut args = NewArgs::default();
        args.json("marey", r#"{"kind":"frame","is_open":true}"#);
        let args = run.args(&mut args).unwrap();
        let name_id = run.text("span");
        run.add_slice(&Slice { args, ..slice(thread, 1, 2, name_id) }).unwrap();
    });
    let dumped = dump_of(&bytes);
    let expected = r#"/scope:span {"marey":{"is_open":true,"kind":"frame"}}"#;
    assert!(dumped.contains(expected), "{dumped}");
}

#[test]
fn overlapping_slices_are_on_two_tracks_of_one_name() {
    let track_count = |times: &[(i64, i64)]| {
        let (bytes, _) = made(|run| {
            let process_id = run.process(NewProcess { pid: 5, ..NewProcess::default() });
            let (track_id, name_id) = (run.text("the track"), run.text("request"));
            for &(start_nanos, duration_nanos) in times {
                let row = AsyncSpan {
                    start_nanos,
                    duration_nanos,
                    process_id,
                    track_id,
                    name_id,
                    is_open: false,
                    category_id: None,
                    args: Args::default(),
                };
                run.add_async_span(&row).unwrap();
            }
        });
        bytes.windows(9).filter(|window| window == b"the track").count()
    };
    assert_eq!(track_count(&[(0, 10), (2, 5), (7, 3), (10, 4)]), 1);
    assert_eq!(track_count(&[(0, 10), (5, 10), (6, 9)]), 3);
    assert_eq!(track_count(&[(0, 10), (5, 10), (16, 9), (17, 20)]), 2);
}

/// Returns the trace of a run, and what was left out.
fn made(fill: impl FnOnce(&mut Assembler)) -> (Vec<u8>, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut assembler = Assembler::new(folder.path());
    fill(&mut assembler);
    assembler.finish(None).unwrap();
    let (bytes, left_out) = export_bytes(&Run::open(folder.path()).unwrap(), Format::Perfetto);
    let left_out = if left_out.is_empty() { String::new() } else { format!("{left_out:?}") };
    (bytes, left_out)
}

fn dump_of(bytes: &[u8]) -> String {
    dump(&import_bytes(bytes).unwrap().run)
}

fn slice(thread_id: u32, start_nanos: i64, duration_nanos: i64, name_id: u32) -> Slice {
    Slice {
        thread_id,
        start_nanos,
        duration_nanos,
        order: 0,
        kind: NodeKind::Scope,
        name_id,
        step: None,
        is_open: false,
        category_id: None,
        correlation_id: None,
        external_id: None,
        args: Args::default(),
    }
}

fn metric(
    time_nanos: i64,
    thread_id: u32,
    context_id: u32,
    name_id: u32,
    value: MetricValue,
) -> Metric {
    Metric { time_nanos, thread_id, context_id, name_id, sessions: 0, phase: 0, value }
}

/// Random numbers from which a row is made.
#[derive(Clone, Debug)]
struct Seed {
    what: u8,
    start_nanos: i64,
    duration_nanos: i64,
    thread: usize,
    name: String,
    category: Option<String>,
    numbers: [u64; 3],
    maybe: Option<u64>,
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

fn seed() -> impl Strategy<Value = Seed> {
    let times = (nanos(), 0..20_i64);
    let texts = (text(), prop::option::of(text()), json());
    let small = prop_oneof![0..4_u64, any::<u64>()];
    let numbers = (prop::array::uniform3(small), prop::option::of(0..6_u64), any::<f64>());
    (0..8_u8, times, 0..5_usize, texts, numbers, any::<bool>()).prop_map(
        |(what, times, thread, texts, numbers, is_set)| Seed {
            what,
            start_nanos: times.0,
            duration_nanos: times.1,
            thread,
            name: texts.0,
            category: texts.1,
            json: texts.2,
            numbers: numbers.0,
            maybe: numbers.1,
            real: numbers.2,
            is_set,
        },
    )
}

/// Returns a run with two processes of equal ids and threads of unusual ids.
fn run_of(seeds: &[Seed]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut run = Assembler::new(folder.path());
    let processes = [0, 1].map(|rank| {
        run.process(NewProcess {
            pid: 77,
            rank: Some(rank),
            host: "node;1".to_owned(),
            argv: vec!["python".to_owned(), "a b".to_owned()],
            name: Some("trainer".to_owned()),
            is_complete: true,
        })
    });
    let ids = [(0, 77), (0, 78), (1, 78), (1, -3), (0, 1 << 40)];
    let threads = ids.map(|(at, os_id)| (processes[at], run.thread(processes[at], os_id, "t")));
    for (order, seed) in seeds.iter().enumerate() {
        add(&mut run, seed, threads[seed.thread], order as u64);
    }
    run.finish(None).unwrap();
    folder
}

#[expect(clippy::too_many_lines, reason = "one arm for each kind of row")]
fn add(run: &mut Assembler, seed: &Seed, (process_id, thread): (u32, u32), order: u64) {
    let Seed { start_nanos, duration_nanos, is_set, maybe, numbers: [a, b, c], .. } = *seed;
    let name_id = run.text(&seed.name);
    let category_id = seed.category.as_ref().map(|category| run.text(category));
    let mut new = NewArgs::default();
    if !seed.json.is_null() {
        new.json("arg", &seed.json.to_string());
        new.json("marey", &seed.json.to_string());
    }
    let args = run.args(&mut new).unwrap();
    let kind = NodeKind::ALL[1 + a as usize % 7];
    let frame = run.text("f");
    let outer = run.context(Assembler::ROOT, NodeKind::Frame, frame);
    let context = run.context(outer, kind, name_id);
    let number =
        if is_set { MetricValue::Int(c.cast_signed()) } else { MetricValue::Float(seed.real) };
    let id = maybe.map(|n| n as u32);
    let extents = maybe.map(|n| [n as u32, a as u32, u32::MAX]);
    let time_nanos = start_nanos;
    let done = match seed.what {
        0 => run.add_slice(&Slice {
            order,
            kind,
            step: (kind == NodeKind::Step).then_some(b as u32),
            is_open: is_set,
            category_id,
            correlation_id: maybe,
            external_id: is_set.then_some(b),
            args,
            ..slice(thread, start_nanos, duration_nanos, name_id)
        }),
        1 => run.add_async_span(&AsyncSpan {
            start_nanos,
            duration_nanos,
            process_id,
            track_id: frame,
            name_id,
            is_open: is_set,
            category_id,
            args,
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
        4 => run.add_metric(&metric(start_nanos, thread, context, name_id, number)),
        5 => run.add_sample(&Sample {
            process_id,
            thread_id: is_set.then_some(thread),
            context_id: context,
            name_id,
            time_nanos: maybe.map(|_| start_nanos),
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
            correlation_id: maybe,
            graph_node_id: is_set.then_some(b),
            grid: extents,
            block: extents.filter(|_| is_set),
            registers: id,
            shared_bytes: maybe.map(|_| b.cast_signed()),
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
            stream: maybe,
            address: is_set.then_some(b),
            bytes: c.cast_signed(),
            allocated_bytes: maybe.map(|_| b.cast_signed()),
            reserved_bytes: is_set.then_some(c.cast_signed()),
            context_id: is_set.then_some(context),
            category_id,
            args,
        }),
    };
    done.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn a_run_survives_a_round_trip(seeds in prop::collection::vec(seed(), 1..30)) {
        let folder = run_of(&seeds);
        let run = Run::open(folder.path()).unwrap();
        prop_assert_eq!(through_perfetto(&run), dump(&run));
    }
}
