//! The contents of collected tables, except for the times of spans.

use std::collections::BTreeMap;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type, UInt32Type};
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_model::profile::Overhead;
use marey_model::spool::{
    Collective, CollectiveState, Counter, NodeDef, Sample, SampleCause, SessionEvent, SpoolFrame,
    Variable,
};
use marey_model::table::stored::{
    ARGS, COLLECTIVES, INSTANTS, LOSSES, PHASES, PROCESSES, SAMPLES, SESSIONS, STEPS, STRINGS,
    THREADS, VARIABLES,
};

use super::span_times::children_of;
use super::spools::{
    INNER, LOSS, NODES, OUTER, Recorded, STEP, UNIX, collect_run, first_frames, session, spans,
    thread, values,
};
use super::tables::{CounterRow, NodePath, Tables, column, ids, ints, optional, text};

#[test]
fn counters_have_devices_and_are_sorted_by_time() {
    let counter =
        |time_nanos, name, device, value| Counter { time_nanos, name_id: name, device, value };
    let mut frames = first_frames(100);
    frames.extend([
        // Two sources, one of which lags.
        SpoolFrame::Counters(vec![counter(20, 4, Some(0), 61.0), counter(20, 4, Some(1), 0.25)]),
        SpoolFrame::Counters(vec![counter(10, 5, None, -7.5)]),
        SpoolFrame::End,
    ]);
    let run = collect_run(&Recorded::with_spools(&[&frames, &first_frames(101)]));
    let row = |nanos, device, name: &str, value| CounterRow {
        time_nanos: UNIX + nanos,
        device,
        name: name.to_owned(),
        value,
    };
    assert_eq!(
        Tables::new(&run, 100).counters(),
        [
            row(10, None, "tokens", -7.5),
            row(20, Some(0), "loss", 61.0),
            row(20, Some(1), "loss", 0.25),
        ]
    );
    assert!(Tables::new(&run, 101).counters().is_empty());
}

#[test]
fn collectives_keep_the_times_of_the_wall_clock() {
    let collective = |created_unix_nanos, started_unix_nanos, duration_nanos| Collective {
        name_id: 2,
        group_id: 3,
        group_ranks_id: Some(4),
        group_size: Some(2),
        sequence: Some(7),
        dtype_id: None,
        in_elements: Some(12),
        out_elements: None,
        created_unix_nanos,
        started_unix_nanos,
        duration_nanos,
        state: CollectiveState::Completed,
        is_p2p: false,
    };
    let run = collect_run(&Recorded::with_frames([
        SpoolFrame::Collectives(vec![collective(UNIX + 30, Some(UNIX + 35), Some(9))]),
        SpoolFrame::Collectives(vec![collective(UNIX + 10, None, None)]),
        SpoolFrame::End,
    ]));
    let rows = run.read(&COLLECTIVES).unwrap();
    assert_eq!(ints(&rows, "start_nanos"), [UNIX + 10, UNIX + 35]);
    assert_eq!(ints(&rows, "created_nanos"), [UNIX + 10, UNIX + 30]);
    assert_eq!(maybe_ints(&rows, "duration_nanos"), [None, Some(9)]);
    assert_eq!(ints(&rows, "sequence"), [7, 7]);
    assert_eq!(ids(&rows, "group_size"), [2, 2]);
    assert_eq!(text(&rows, "state", 0), "completed");
    let strings = run.read(&STRINGS).unwrap();
    let name = ids(&rows, "name_id")[0] as usize;
    assert_eq!(text(&strings, "text", name), "inner");
    assert_eq!(column(&rows, "dtype_id").null_count(), 2);
}

#[test]
fn samples_belong_to_their_threads_also_those_that_have_recorded_nothing() {
    const LATE_OS_ID: u64 = 77;
    const UNKNOWN_OS_ID: u64 = 78;
    let sample = |time_nanos, os_id, node| Sample {
        time_nanos,
        duration_nanos: 100,
        os_id,
        thread_name_id: 3,
        node_id: node,
        cause: SampleCause::Signal,
    };
    let run = collect_run(&Recorded::with_frames([
        SpoolFrame::Samples { thread: 0, samples: vec![sample(20, LATE_OS_ID, OUTER)] },
        // The sampled thread records something later, under a name of its own.
        SpoolFrame::Thread { thread: 1, os_id: LATE_OS_ID, name: "late".to_owned() },
        SpoolFrame::Samples {
            thread: 0,
            samples: vec![sample(120, LATE_OS_ID, INNER), sample(120, UNKNOWN_OS_ID, OUTER)],
        },
        SpoolFrame::End,
    ]));
    let rows = run.read(&SAMPLES).unwrap();
    assert_eq!(ints(&rows, "time_nanos"), [UNIX + 20, UNIX + 120, UNIX + 120]);
    assert_eq!(ints(&rows, "integer"), [100, 100, 100]);
    assert_eq!(column(&rows, "args_id").null_count(), 0);
    let args = run.read(&ARGS).unwrap();
    let causes = ids(&rows, "args_id").iter().map(|&id| text(&args, "text", id as usize));
    assert!(causes.into_iter().all(|cause| cause == r#"{"cause":"signal"}"#));
    let threads = run.read(&THREADS).unwrap();
    let os_ids = ints(&threads, "os_id");
    let of_samples = ids(&rows, "thread_id").iter().map(|&thread| {
        let thread = ids(&threads, "id").iter().position(|&id| id == thread).unwrap();
        (os_ids[thread].cast_unsigned(), text(&threads, "name", thread).clone())
    });
    let (late, unknown) = ((LATE_OS_ID, "late"), (UNKNOWN_OS_ID, "step"));
    let of_samples: Vec<_> = of_samples.collect();
    let of_samples: Vec<_> = of_samples.iter().map(|(id, name)| (*id, &**name)).collect();
    assert_eq!(of_samples, [late, late, unknown]);
    assert_eq!(os_ids.len(), 3);
    let strings = run.read(&STRINGS).unwrap();
    assert_eq!(text(&strings, "text", ids(&rows, "name_id")[0] as usize), "time (ns)");
}

#[test]
fn values_of_variables_keep_their_types_and_belong_to_their_threads() {
    const UNKNOWN_OS_ID: u64 = 78;
    let variable = |time_nanos, value| Variable {
        time_nanos,
        os_id: UNKNOWN_OS_ID,
        thread_name_id: 3,
        file_id: 1,
        function_id: 2,
        line: 7,
        name_id: 1,
        type_id: 2,
        value,
    };
    let run = collect_run(&Recorded::with_frames([
        SpoolFrame::Variables(vec![
            variable(20, MetricValue::Int(3)),
            variable(30, MetricValue::Text("x".into())),
        ]),
        SpoolFrame::End,
    ]));
    let rows = run.read(&VARIABLES).unwrap();
    assert_eq!(ints(&rows, "time_nanos"), [UNIX + 20, UNIX + 30]);
    assert_eq!(ids(&rows, "line"), [7, 7]);
    assert_eq!(maybe_ints(&rows, "integer"), [Some(3), None]);
    assert_eq!(text(&rows, "text", 1), "x");
    let threads = run.read(&THREADS).unwrap();
    let thread = ids(&rows, "thread_id")[0];
    let thread = ids(&threads, "id").iter().position(|&id| id == thread).unwrap();
    assert_eq!(ints(&threads, "os_id")[thread].cast_unsigned(), UNKNOWN_OS_ID);
    let strings = run.read(&STRINGS).unwrap();
    assert_eq!(text(&strings, "text", ids(&rows, "file_id")[0] as usize), "outer");
}

#[test]
fn a_thread_that_is_observed_before_it_records_is_one_thread() {
    let variable = Variable {
        time_nanos: 20,
        os_id: 1000,
        thread_name_id: 1,
        file_id: 1,
        function_id: 2,
        line: 7,
        name_id: 1,
        type_id: 2,
        value: MetricValue::Int(3),
    };
    let mut frames = first_frames(100);
    let before_thread = frames.iter().position(|frame| matches!(frame, SpoolFrame::Thread { .. }));
    frames.insert(before_thread.unwrap(), SpoolFrame::Variables(vec![variable]));
    let run = collect_run(&Recorded::with_spools(&[&frames]));
    let threads = run.read(&THREADS).unwrap();
    assert_eq!((threads.num_rows(), text(&threads, "name", 0).as_str()), (1, "thread 0"));
}

#[test]
fn threads_that_had_the_same_id_are_two_whatever_their_numbers() {
    let run =
        collect_run(&Recorded::with_frames([u32::MAX / 2, 1].map(|thread| SpoolFrame::Thread {
            thread,
            os_id: 77,
            name: format!("thread {thread}"),
        })));
    assert_eq!(run.read(&THREADS).unwrap().num_rows(), 3);
}

#[test]
fn steps_are_numbered_from_the_first_to_the_last_of_many() {
    let steps: Vec<_> = (0..20_000).map(|at| (STEP, 10 * at, 10 * at + 5)).collect();
    let run = collect_run(&Recorded::with_frames([spans(0, 1, &steps)]));
    let rows = run.read(&STEPS).unwrap();
    assert!(ids(&rows, "number").iter().copied().eq(0..20_000));
}

#[test]
fn marks_are_instants_not_spans() {
    const MARK: u32 = NODES;
    let mark = NodeDef { parent_id: OUTER, kind: NodeKind::Mark, name_id: 2 };
    let recorded = Recorded::with_frames([
        SpoolFrame::Nodes { thread: 0, first_id: MARK, nodes: vec![mark] },
        spans(0, 1, &[(MARK, 1_040, 1_040), (MARK, 1_020, 1_020), (OUTER, 1_000, 1_050)]),
        SpoolFrame::End,
    ]);
    let run = collect_run(&recorded);
    let instants = run.read(&INSTANTS).unwrap();
    assert_eq!(ints(&instants, "time_nanos"), [UNIX + 1_020, UNIX + 1_040]);
    assert_eq!(text(&instants, "scope", 0), "thread");
    let strings = run.read(&STRINGS).unwrap();
    assert_eq!(text(&strings, "text", ids(&instants, "name_id")[0] as usize), "inner");
    assert_eq!(optional::<UInt32Type>(&instants, "thread_id"), [Some(0), Some(0)]);
    let tables = Tables::new(&run, 100);
    assert_eq!(children_of(&run, &["scope outer"]), [(1_000, 0)]);
    assert_eq!(tables.spans().len(), 1);
    assert!(tables.rollups().iter().all(|row| row.node_path.path == ["scope outer"]));
}

#[test]
fn process_tables_describe_the_process() {
    let mut frames = first_frames(102);
    frames.extend([
        session(0, SessionEvent::Phase(1), 10),
        session(0, SessionEvent::Phase(7), 20),
        session(3, SessionEvent::Started, 25),
        session(0, SessionEvent::Finalized, 30),
        session(0, SessionEvent::Started, 40),
        SpoolFrame::Thread { thread: 0, os_id: 1000, name: "renamed".to_owned() },
        SpoolFrame::Losses(vec![(LossCause::Nodes, 4)]),
        overhead(100.0),
        overhead(118.5),
        SpoolFrame::Losses(vec![(LossCause::Nodes, 5), (LossCause::Spool, 0)]),
        SpoolFrame::Clock { monotonic_nanos: 2_000_000_000, unix_nanos: UNIX + 2_000_060_000 },
        SpoolFrame::End,
    ]);
    frames.splice(5..5, thread(9));
    let run = collect_run(&Recorded::with_spools(&[&frames]));

    let processes = run.read(&PROCESSES).unwrap();
    assert_eq!(ints(&processes, "pid"), [102]);
    assert_eq!(ints(&processes, "rank"), [2]);
    assert_eq!(text(&processes, "host", 0), "host");
    assert_eq!(text(&processes, "argv", 0), r#"["python","a \"b\".py"]"#);
    assert_eq!(ints(&processes, "start_nanos"), [UNIX + 102]);
    assert_eq!(ints(&processes, "end_nanos"), [UNIX + 2_000_060_000]);
    assert_eq!(ints(&processes, "clock_drift_nanos"), [60_000]);
    assert!(column(&processes, "is_complete").as_boolean().value(0));
    assert_eq!(optional::<Float64Type>(&processes, "scope_cost_nanos"), [Some(118.5)]);
    assert_eq!(ints(&processes, "recording_nanos"), [592]);
    assert_eq!(ints(&processes, "flushing_nanos"), [7]);

    let threads = run.read(&THREADS).unwrap();
    assert_eq!((ids(&threads, "id"), ints(&threads, "os_id")), (&[0, 1][..], &[1000, 1009][..]));
    assert_eq!([0, 1].map(|row| text(&threads, "name", row)), ["renamed", "thread 9"]);

    let unix = |nanos: i64| UNIX + nanos;
    let sessions = run.read(&SESSIONS).unwrap();
    assert_eq!(ids(&sessions, "session"), [0, 3, 0]);
    assert_eq!([0, 1].map(|row| text(&sessions, "name", row)), ["/runs/0", "/runs/3"]);
    assert_eq!(ints(&sessions, "start_nanos"), [0, 25, 40].map(unix));
    assert_eq!(maybe_ints(&sessions, "end_nanos"), [Some(unix(30)), None, None]);

    let phases = run.read(&PHASES).unwrap();
    assert_eq!(ids(&phases, "session"), [0, 0, 0, 3, 0]);
    assert_eq!(ids(&phases, "phase"), [0, 1, 7, 0, 0]);
    assert_eq!(ints(&phases, "start_nanos"), [0, 10, 20, 25, 40].map(unix));
    let ends = [Some(10), Some(20), Some(30), None, None];
    assert_eq!(maybe_ints(&phases, "end_nanos"), ends.map(|end| end.map(unix)));

    let losses = run.read(&LOSSES).unwrap();
    assert_eq!((text(&losses, "cause", 0).as_str(), ints(&losses, "count")), ("nodes", &[5][..]));
    assert_eq!(run.manifest().losses, BTreeMap::from([("nodes".to_owned(), 5)]));
    let process = &run.manifest().processes[0];
    assert_eq!(process.overhead.unwrap().events, 10);
    assert_eq!(process.clocks, [[0, UNIX], [2_000_000_000, UNIX + 2_000_060_000]]);
}

fn overhead(scope_nanos: f64) -> SpoolFrame {
    let recording_nanos = (5.0 * scope_nanos) as u64;
    SpoolFrame::Overhead(Overhead { events: 10, scope_nanos, recording_nanos, flushing_nanos: 7 })
}

#[test]
fn an_unknown_overhead_is_null() {
    for last in [None, Some(overhead(f64::NAN))] {
        let run = collect_run(&Recorded::with_frames(last));
        assert_eq!(run.manifest().processes[0].overhead, None);
        let processes = run.read(&PROCESSES).unwrap();
        assert_eq!(optional::<Float64Type>(&processes, "scope_cost_nanos"), [None]);
        for name in ["recording_nanos", "flushing_nanos"] {
            assert_eq!(maybe_ints(&processes, name), [None]);
        }
    }
}

fn maybe_ints(batch: &RecordBatch, name: &str) -> Vec<Option<i64>> {
    optional::<Int64Type>(batch, name)
}

#[test]
fn processes_share_the_ids_of_names() {
    let program = |pid| {
        let mut frames = first_frames(pid);
        frames.push(spans(0, 1, &[(OUTER, 1, 2)]));
        frames
    };
    let run_of_one = collect_run(&Recorded::with_spools(&[&program(100)]));
    let run_of_two = collect_run(&Recorded::with_spools(&[&program(100), &program(101)]));
    let tables = [100, 101].map(|pid| Tables::new(&run_of_two, pid));
    assert_eq!(tables[0].context_count(), Tables::new(&run_of_one, 100).context_count());
    assert_eq!(tables[0].spans(), tables[1].spans());
    assert_eq!(ids(&run_of_two.read(&THREADS).unwrap(), "id"), [0, 1]);
}

#[test]
fn a_metric_has_its_own_name_and_the_context_of_its_node() {
    let recorded = Recorded::with_frames([values(0, &[(0, 7, MetricValue::Int(3))])]);
    let run = collect_run(&recorded);
    let row = Tables::new(&run, 100).values().remove(0);
    assert_eq!(row.node_path, NodePath { thread: "thread 0".to_owned(), path: Vec::new() });
    assert_eq!((row.name.as_str(), row.time_nanos), ("loss", UNIX + 7));
    assert_eq!(LOSS, 4);
}
