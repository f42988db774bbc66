//! Assembling runs from foreign events, and reading them back with [`Reader`].

use std::path::Path;

use marey_model::args::NewArgs;
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_model::table::stored;
use marey_store::row::{
    ActivityKind, Args, GpuActivity, Instant, MemoryAction, MemoryEvent, Metric, Sample, Span, Step,
};
use marey_store::{Assembler, NewProcess, Reader, Run, Sampled, Selection, Slice};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::collect::tables::{ids, ints};
use crate::read::{self, reader, rows};

/// Returns a slice on a thread.
fn slice(thread_id: u32, start_nanos: i64, duration_nanos: i64, name_id: u32) -> Slice {
    Slice::new(thread_id, NodeKind::Scope, name_id, start_nanos, duration_nanos)
}

fn kernel(start_nanos: i64, name_id: u32) -> GpuActivity {
    GpuActivity {
        stream: 7,
        grid: Some([1, 2, 3]),
        registers: Some(40),
        ..GpuActivity::new(0, ActivityKind::Kernel, name_id, start_nanos, 10)
    }
}

/// Creates a run with a process and a thread, both with id 0, in a new folder.
fn assembler() -> (TempDir, Assembler) {
    let folder = tempfile::tempdir().unwrap();
    let mut run = Assembler::new(folder.path());
    let process =
        run.add_process(NewProcess { pid: 12, is_complete: true, ..NewProcess::default() });
    assert_eq!((process, run.add_thread(process, 34, "main")), (0, 0));
    (folder, run)
}

/// Publishes a run.
fn finish(folder: &TempDir, run: Assembler) -> Run {
    run.finish(None).unwrap();
    Run::open(folder.path()).unwrap()
}

fn spans(reader: &Reader) -> Vec<Span> {
    rows(reader)
}

fn path(reader: &Reader, context: u32) -> String {
    read::path(reader, context).join("/")
}

fn allocation(time_nanos: i64, thread_id: Option<u32>, context_id: Option<u32>) -> MemoryEvent {
    let row = MemoryEvent::new(0, "cpu".into(), MemoryAction::Alloc, time_nanos, 8);
    MemoryEvent { thread_id, context_id, ..row }
}

#[test]
fn a_memory_event_has_the_node_of_the_innermost_slice_around_it() {
    let (folder, mut run) = assembler();
    let other = run.add_thread(0, 35, "other");
    let [a, b, own] = ["a", "b", "own"].map(|name| run.text_id(name));
    let own = run.context_id(Assembler::ROOT, NodeKind::Frame, own);
    // In any order; a slice contains its start, and not its end.
    for (time_nanos, thread_id, context_id) in [
        (35, Some(0), None),
        (30, Some(0), None),
        (5, Some(0), None),
        (10, Some(0), None),
        (19, Some(other), None),
        (20, Some(0), None),
        (25, Some(0), Some(own)),
        (26, None, None),
        (99, Some(0), None),
        (100, Some(0), None),
    ] {
        run.add_memory_event(&allocation(time_nanos, thread_id, context_id)).unwrap();
    }
    run.add_slice(&slice(0, 20, 10, b)).unwrap();
    run.add_slice(&slice(0, 10, 90, a)).unwrap();
    run.finish(Some(1000)).unwrap();

    let run = Run::open(folder.path()).unwrap();
    let reader = reader(&run);
    let rows: Vec<_> = rows::<MemoryEvent>(&reader)
        .iter()
        .map(|event| (event.time_nanos - 1000, event.context_id.map(|id| path(&reader, id))))
        .collect();
    let expected = [
        (5, None),
        (10, Some("a")),
        (19, None),
        (20, Some("a/b")),
        (25, Some("own")),
        (26, None),
        (30, Some("a")),
        (35, Some("a")),
        (99, Some("a")),
        (100, None),
    ];
    assert_eq!(rows, expected.map(|(time, path)| (time, path.map(str::to_owned))));
}

#[test]
fn slices_nest_by_their_times() {
    let (folder, mut run) = assembler();
    let other = run.add_thread(0, 35, "other");
    let names = ["a", "b", "c", "d", "e", "f"].map(|name| run.text_id(name));
    // Out of order; slices with equal times are ordered by `order`.
    run.add_slice(&Slice { order: 2, ..slice(0, 10, 20, names[2]) }).unwrap();
    run.add_slice(&Slice { order: 1, ..slice(0, 10, 20, names[1]) }).unwrap();
    run.add_slice(&slice(0, 0, 100, names[0])).unwrap();
    // Overlaps `b` in part: it is a sibling, and `b` has ended.
    run.add_slice(&slice(0, 25, 20, names[3])).unwrap();
    run.add_slice(&slice(0, 26, 1, names[4])).unwrap();
    // A slice that begins where another ends is its sibling.
    run.add_slice(&slice(0, 100, 0, names[5])).unwrap();
    run.add_slice(&slice(other, 5, 5, names[5])).unwrap();
    assert_eq!(run.event_count(), 7);
    assert_eq!(run.finish(None).unwrap().events, 7);

    let run = Run::open(folder.path()).unwrap();
    let reader = reader(&run);
    let rows: Vec<_> = spans(&reader)
        .into_iter()
        .map(|span| (path(&reader, span.context_id), span.thread_id, span.children_nanos))
        .collect();
    let expected = [
        ("a", 0, 40),
        ("f", other, 0),
        ("a/b", 0, 20),
        ("a/b/c", 0, 0),
        ("a/d", 0, 1),
        ("a/d/e", 0, 0),
        ("f", 0, 0),
    ];
    let mut expected: Vec<_> = expected
        .into_iter()
        .map(|(path, thread, nanos)| (path.to_owned(), thread, nanos))
        .collect();
    let mut rows = rows;
    rows.sort();
    expected.sort();
    assert_eq!(rows, expected);

    let mut by_thread = Vec::new();
    let on_span = |span: &Span| {
        by_thread.push(path(&reader, span.context_id));
        Ok::<(), marey_store::StoreError>(())
    };
    reader.spans_by_thread().unwrap().for_each(on_span).unwrap();
    assert_eq!(by_thread, ["a", "a/b", "a/b/c", "a/d", "a/d/e", "f", "f"]);
}

#[test]
fn activities_have_the_context_of_their_launch() {
    let (folder, mut run) = assembler();
    let [op, launch, gemm] = ["aten::mm", "cudaLaunchKernel", "gemm"].map(|name| run.text_id(name));
    let expected_context = run.context_id(Assembler::ROOT, NodeKind::Frame, op);
    run.add_slice(&Slice { external_id: Some(5), ..slice(0, 0, 100, op) }).unwrap();
    let call =
        Slice { correlation_id: Some(9), kind: NodeKind::Runtime, ..slice(0, 10, 5, launch) };
    run.add_slice(&call).unwrap();
    // A graph launch has many activities.
    for start in [50, 60] {
        run.add_gpu_activity(&GpuActivity { correlation_id: Some(9), ..kernel(start, gemm) })
            .unwrap();
    }
    run.add_gpu_activity(&GpuActivity { external_id: Some(5), ..kernel(70, gemm) }).unwrap();
    run.add_gpu_activity(&GpuActivity { context_id: Some(expected_context), ..kernel(80, gemm) })
        .unwrap();
    run.add_gpu_activity(&GpuActivity { correlation_id: Some(1), ..kernel(90, gemm) }).unwrap();
    run.spill().unwrap();
    let assembled = run.finish(None).unwrap();
    assert_eq!(assembled.losses[&LossCause::UnmatchedActivity], 1);

    let run = Run::open(folder.path()).unwrap();
    assert_eq!(run.manifest().losses["unmatched_activities"], 1);
    let reader = reader(&run);
    let rows: Vec<GpuActivity> = rows(&reader);
    let contexts = rows
        .iter()
        .map(|row| row.context_id.map(|id| (path(&reader, id), reader.context(id).kind)));
    let context_named = |kind| Some(("aten::mm".to_owned(), kind));
    let (scope, frame) = (context_named(NodeKind::Scope), context_named(NodeKind::Frame));
    assert_eq!(contexts.collect::<Vec<_>>(), [scope.clone(), scope.clone(), scope, frame, None]);
    assert_eq!((rows[0].grid, rows[0].block), (Some([1, 2, 3]), None));
}

/// A runtime call may contain a driver call with the same correlation id.
#[test]
fn the_outermost_of_nested_calls_is_the_launch() {
    let (folder, mut run) = assembler();
    let [op, runtime, driver, gemm] =
        ["aten::mm", "cudaLaunchKernel", "cuLaunchKernel", "gemm"].map(|name| run.text_id(name));
    run.add_slice(&slice(0, 0, 100, op)).unwrap();
    let call = |start, duration, order, name| Slice {
        order,
        correlation_id: Some(5),
        kind: NodeKind::Runtime,
        ..slice(0, start, duration, name)
    };
    // The driver call begins at the same time and comes first in the file.
    run.add_slice(&call(10, 4, 1, driver)).unwrap();
    run.add_slice(&call(10, 8, 2, runtime)).unwrap();
    run.add_gpu_activity(&GpuActivity { correlation_id: Some(5), ..kernel(50, gemm) }).unwrap();

    let run = finish(&folder, run);
    let reader = reader(&run);
    let row = &rows::<GpuActivity>(&reader)[0];
    assert_eq!(path(&reader, row.context_id.unwrap()), "aten::mm");
}

#[test]
fn arguments_are_deduplicated_and_restored() {
    let (folder, mut run) = assembler();
    let name = run.text_id("op");
    let mut new_args = NewArgs::default();
    for number in 0..10 {
        new_args.clear();
        new_args.int("Ev Idx", number);
        new_args.text("type", "a#b");
        let args = run.args(&mut new_args).unwrap();
        assert_eq!(args.text_id, Some(0));
        run.add_slice(&Slice { args, ..slice(0, number, 1, name) }).unwrap();
    }
    new_args.clear();
    assert_eq!(run.args(&mut new_args).unwrap(), Args::default());
    run.spill().unwrap();
    let run = finish(&folder, run);
    assert_eq!(run.read(&stored::ARGS).unwrap().num_rows(), 1);
    let reader = reader(&run);
    for (number, span) in spans(&reader).iter().enumerate() {
        let json = read::args(&reader, &span.args);
        assert_eq!(json, format!(r#"{{"Ev Idx":{number},"type":"a#b"}}"#));
    }
}

#[test]
fn timestamps_are_shifted_and_durations_are_not() {
    let (folder, mut run) = assembler();
    let name = run.text_id("step");
    run.add_slice(&Slice { kind: NodeKind::Step, step: Some(7), ..slice(0, 100, 10, name) })
        .unwrap();
    run.add_slice(&Slice { kind: NodeKind::Step, ..slice(0, 110, 10, name) }).unwrap();
    run.add_gpu_activity(&kernel(105, name)).unwrap();
    run.add_instant(&Instant::new(0, name, 107)).unwrap();
    run.finish(Some(1_000)).unwrap();

    let run = Run::open(folder.path()).unwrap();
    let reader = reader(&run);
    let spans: Vec<_> =
        spans(&reader).iter().map(|span| (span.start_nanos, span.duration_nanos)).collect();
    assert_eq!(spans, [(1100, 10), (1110, 10)]);
    let steps: Vec<_> =
        rows::<Step>(&reader).iter().map(|step| (step.start_nanos, step.number)).collect();
    assert_eq!(steps, [(1100, 7), (1110, 8)]);
    let activity = &rows::<GpuActivity>(&reader)[0];
    assert_eq!((activity.start_nanos, activity.duration_nanos), (1105, 10));
    assert_eq!(rows::<Instant>(&reader)[0].time_nanos, 1107);
    let process = reader.process(0).unwrap();
    assert_eq!((process.start_nanos, process.end_nanos), (1100, 1120));
    let entry = &run.manifest().processes[0];
    assert_eq!((entry.start_unix_nanos, entry.end_unix_nanos, entry.pid), (1100, 1120, 12));
}

fn sample(context_id: u32, name_id: u32, value: i64) -> Sample {
    Sample::new(0, context_id, name_id, MetricValue::Int(value))
}

#[test]
fn samples_count_for_all_their_callers() {
    let (folder, mut run) = assembler();
    let [main, work, cpu, count] =
        ["main", "work", "cpu (ns)", "samples"].map(|name| run.text_id(name));
    let outer = run.context_id(Assembler::ROOT, NodeKind::Frame, main);
    let inner = run.context_id(outer, NodeKind::Frame, work);
    run.show_samples(Sampled {
        count_name_id: Some(count),
        nanos_name_id: Some(cpu),
        counts_calls: false,
    });
    for (context, nanos, samples) in [(inner, 30, 3), (outer, 10, 1), (inner, 20, 2)] {
        run.add_sample(&sample(context, cpu, nanos)).unwrap();
        run.add_sample(&sample(context, count, samples)).unwrap();
    }
    let run = finish(&folder, run);
    let rollups = run.read(&stored::ROLLUPS).unwrap();
    let columns = ["count", "total_nanos", "self_nanos"].map(|name| ints(&rollups, name));
    let sums_of = |row: usize| columns.map(|column| column[row]);
    let mut sums: Vec<_> = ids(&rollups, "context_id").iter().zip((0..).map(sums_of)).collect();
    sums.sort_unstable();
    assert_eq!(sums, [(&outer, [6, 60, 10]), (&inner, [5, 50, 50])]);
    assert_eq!(reader(&run).rows::<Sample>().unwrap().count(), 6);
}

#[test]
fn overflowing_sums_saturate_and_count_as_losses() {
    let (folder, mut run) = assembler();
    let [inner, outer, time] = ["inner", "outer", "cpu"].map(|name| run.text_id(name));
    let outer = run.context_id(Assembler::ROOT, NodeKind::Frame, outer);
    let inner = run.context_id(outer, NodeKind::Frame, inner);
    run.show_samples(Sampled { nanos_name_id: Some(time), ..Sampled::default() });
    for (context, nanos) in [(inner, i64::MIN), (inner, i64::MIN), (outer, i64::MAX)] {
        run.add_sample(&sample(context, time, nanos)).unwrap();
    }
    let assembled = run.finish(None).unwrap();
    assert_eq!(assembled.losses[&LossCause::Unsupported], 2);
    let run = Run::open(folder.path()).unwrap();
    let rollups = run.read(&stored::ROLLUPS).unwrap();
    assert_eq!(ints(&rollups, "total_nanos"), [i64::MIN, i64::MIN]);
    let mut self_nanos = ints(&rollups, "self_nanos").to_vec();
    self_nanos.sort_unstable();
    assert_eq!(self_nanos, [i64::MIN, i64::MAX]);
}

#[test]
fn a_window_includes_overlapping_rows() {
    let (folder, mut run) = assembler();
    let process = run.add_process(NewProcess { pid: 13, ..NewProcess::default() });
    let thread = run.add_thread(process, 1, "");
    let name = run.text_id("x");
    for start in [0, 10, 20, 30] {
        run.add_slice(&slice(0, start, 10, name)).unwrap();
        run.add_slice(&slice(thread, start, 0, name)).unwrap();
    }
    let metric = Metric::new(thread, Assembler::ROOT, name, 15, MetricValue::Float(1.5));
    run.add_metric(&metric).unwrap();
    let run = finish(&folder, run);
    let starts = |selection: Selection| {
        let reader = Reader::new(&run, selection).unwrap();
        let metrics = reader.rows::<Metric>().unwrap().count();
        let spans = spans(&reader).iter().map(|s| (s.thread_id, s.start_nanos)).collect::<Vec<_>>();
        (spans, metrics, reader.processes().count(), reader.threads().count())
    };
    let selection = Selection { from_nanos: 15, until_nanos: 30, processes: None };
    assert_eq!(starts(selection.clone()), (vec![(0, 10), (0, 20), (thread, 20)], 1, 2, 2));
    let one_process = Selection { processes: Some([process].into()), ..selection };
    assert_eq!(starts(one_process), (vec![(thread, 20)], 1, 1, 1));
    let (spans, ..) = starts(Selection { processes: Some([0].into()), ..Selection::default() });
    assert_eq!(spans.len(), 4);
}

/// A tree of slices: its own time, and its children.
#[derive(Clone, Debug)]
struct Tree {
    self_nanos: i64,
    children: Vec<Tree>,
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = (1_i64..50).prop_map(|self_nanos| Tree { self_nanos, children: Vec::new() });
    leaf.prop_recursive(5, 60, 6, |inner| {
        (0_i64..50, prop::collection::vec(inner, 1..6))
            .prop_map(|(self_nanos, children)| Tree { self_nanos, children })
    })
}

/// Lists the slices of a tree that begins at `start`: `(start, duration, children, path)`, parents
/// first.
fn flatten(
    tree: &Tree,
    start: i64,
    parent_path: &str,
    out: &mut Vec<(i64, i64, i64, String)>,
) -> i64 {
    let path = format!("{parent_path}/{}", out.len());
    let index = out.len();
    out.push((start, 0, 0, path.clone()));
    let mut end = start;
    for inner in &tree.children {
        end += flatten(inner, end, &path, out);
    }
    out[index].2 = end - start;
    out[index].1 = end - start + tree.self_nanos;
    out[index].1
}

/// Adds the slices of trees in random order, each tree on a thread, and compares the spans.
fn check_spans_of_trees(trees: &[Tree], seed: u64) {
    let (folder, mut run) = assembler();
    let mut expected = Vec::new();
    for (number, tree) in (0..).zip(trees) {
        let thread = run.add_thread(0, number, "t");
        let mut slices = Vec::new();
        flatten(tree, 1_000, "", &mut slices);
        let mut order: Vec<usize> = (0..slices.len()).collect();
        order.sort_by_key(|&order_index| (order_index as u64).wrapping_mul(seed | 1));
        for order_index in order {
            let (start, duration, _, path) = &slices[order_index];
            let name = run.text_id(path.rsplit('/').next().unwrap());
            let row = Slice { order: order_index as u64, ..slice(thread, *start, *duration, name) };
            run.add_slice(&row).unwrap();
        }
        expected.extend(slices.into_iter().map(|row| (thread, row)));
    }
    let run = finish(&folder, run);
    let reader = reader(&run);
    let spans = spans(&reader);
    assert!(spans.is_sorted_by_key(|span| span.start_nanos));
    let mut found: Vec<_> = spans
        .into_iter()
        .map(|span| {
            let path = format!("/{}", path(&reader, span.context_id));
            (span.thread_id, (span.start_nanos, span.duration_nanos, span.children_nanos, path))
        })
        .collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn large_trees_are_rebuilt_from_their_slices() {
    let with_children = |children: Tree| Tree { self_nanos: 3, children: vec![children; 16] };
    let leaf = Tree { self_nanos: 1, children: Vec::new() };
    let large = with_children(with_children(with_children(leaf)));
    check_spans_of_trees(&[large.clone(), large], 0x9e37_79b9_7f4a_7c15);
}

#[test]
fn long_spans_do_not_hold_back_others() {
    let (folder, mut run) = assembler();
    let name = run.text_id("x");
    let (idle, busy) = (run.add_thread(0, 35, "idle"), run.add_thread(0, 36, "busy"));
    run.add_slice(&slice(0, 0, 1_000_000, name)).unwrap();
    run.add_slice(&slice(idle, 0, 10, name)).unwrap(); // over, though nothing follows on its thread
    run.add_slice(&slice(busy, 5, 900_000, name)).unwrap();
    (1..=5_000).for_each(|at| run.add_slice(&slice(0, 100 * at, 50, name)).unwrap());
    let run = finish(&folder, run);
    let rows = spans(&reader(&run));
    assert!(rows.is_sorted_by_key(|span| span.start_nanos));
    let spans_of_thread = |thread: u32, duration_nanos: i64| {
        let has_thread_and_duration =
            |span: &&Span| span.thread_id == thread && span.duration_nanos == duration_nanos;
        rows.iter().filter(has_thread_and_duration).collect::<Vec<_>>()
    };
    assert_eq!(spans_of_thread(0, 1_000_000)[0].children_nanos, 5_000 * 50);
    assert_eq!(
        [
            spans_of_thread(idle, 10).len(),
            spans_of_thread(busy, 900_000).len(),
            spans_of_thread(0, 50).len()
        ],
        [1, 1, 5_000]
    );
    // The two spans that stay open are in a separate part.
    let mut parts: Vec<_> =
        run.parts(&stored::SPANS).iter().map(marey_store::Part::row_count).collect();
    parts.sort_unstable();
    assert_eq!(parts, [2, 5_001]);
}

#[test]
fn a_temporary_run_equals_a_published_one() {
    let folder = tempfile::tempdir().unwrap();
    let fill = |run: &mut Assembler| {
        run.add_process(NewProcess { pid: 12, ..NewProcess::default() });
        run.add_thread(0, 34, "main");
        let name = run.text_id("x");
        // Enough that the part of their texts begins before the others and ends after them.
        for at in 0..5_000 {
            let mut args = NewArgs::default();
            args.text("of", &format!("number {at}"));
            let args = run.args(&mut args).unwrap();
            run.add_slice(&Slice { args, ..slice(0, 100 * at, 50, name) }).unwrap();
            run.add_gpu_activity(&kernel(100 * at, name)).unwrap();
        }
    };
    let rows = |run: &Run| {
        let reader = reader(run);
        let mut rows = Vec::new();
        for span in spans(&reader) {
            let json = read::args(&reader, &span.args);
            rows.push(format!("{} {} {json}", span.start_nanos, path(&reader, span.context_id)));
        }
        let activities = reader.rows::<GpuActivity>().unwrap();
        rows.extend(activities.map(|row| format!("{:?}", row.unwrap())));
        rows
    };
    let published = folder.path().join("kept");
    std::fs::create_dir(&published).unwrap();
    let mut run = Assembler::new(&published);
    fill(&mut run);
    run.finish(None).unwrap();

    let temporary_folder = folder.path().join("scratch");
    std::fs::create_dir(&temporary_folder).unwrap();
    let mut run = Assembler::temporary(&temporary_folder);
    fill(&mut run);
    let (run, assembled) = run.open(None, Path::new("trace.json")).unwrap();
    assert_eq!((run.path(), assembled.events), (Path::new("trace.json"), 10_000));
    assert_eq!(std::fs::read_dir(&temporary_folder).unwrap().count(), 0);
    let (temporary_rows, published_rows) = (rows(&run), rows(&Run::open(&published).unwrap()));
    assert!(
        temporary_rows.len() == 10_000
            && temporary_rows[4_999] == r#"499900 x {"of":"number 4999"}"#
    );
    assert!(temporary_rows == published_rows);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn trees_are_rebuilt_from_their_slices(trees in prop::collection::vec(tree(), 1..3), seed in any::<u64>()) {
        check_spans_of_trees(&trees, seed);
    }

    #[test]
    fn sums_of_any_slices_are_consistent(
        slices in prop::collection::vec((0_u32..3, -50_i64..50, 0_i64..60), 0..80),
    ) {
        let (folder, mut run) = assembler();
        run.add_thread(0, 1, "");
        run.add_thread(0, 2, "");
        let name = run.text_id("x");
        for &(thread, start, duration) in &slices {
            run.add_slice(&slice(thread, start, duration, name)).unwrap();
        }
        let run = finish(&folder, run);
        let reader = reader(&run);
        let spans = spans(&reader);
        let mut found: Vec<_> =
            spans.iter().map(|s| (s.thread_id, s.start_nanos, s.duration_nanos)).collect();
        let mut expected_spans = slices;
        found.sort_unstable();
        expected_spans.sort_unstable();
        prop_assert_eq!(found, expected_spans);
        let children: i64 = spans.iter().map(|span| span.children_nanos).sum();
        let total: i64 = spans.iter().map(|span| span.duration_nanos).sum();
        let outermost = spans.iter().filter(|span| reader.context(span.context_id).depth == 1);
        let outermost: i64 = outermost.map(|span| span.duration_nanos).sum();
        prop_assert!(spans.iter().all(|span| (0..=span.duration_nanos).contains(&span.children_nanos)));
        // Less if overlapping slices are inside one that is shorter than their sum.
        prop_assert!(children <= total - outermost);
    }
}

#[test]
fn a_process_without_events_has_the_extent_of_all_others() {
    let (folder, mut run) = assembler();
    let idle = run.add_process(NewProcess { pid: 99, ..NewProcess::default() });
    let name = run.text_id("x");
    run.add_slice(&slice(0, 500, 100, name)).unwrap();
    run.set_base_nanos(1_000);
    run.finish(Some(10)).unwrap();
    let run = Run::open(folder.path()).unwrap();
    let reader = reader(&run);
    let idle = reader.process(idle).unwrap();
    assert_eq!((idle.start_nanos, idle.end_nanos), (1_510, 1_610));
}

#[test]
fn slices_beyond_the_depth_limit_become_siblings() {
    let (folder, mut run) = assembler();
    let name = run.text_id("x");
    let deep = 10_005;
    for depth in 0..deep {
        run.add_slice(&slice(0, depth, 2 * (deep - depth), name)).unwrap();
    }
    let assembled = run.finish(None).unwrap();
    assert_eq!(assembled.losses[&LossCause::Unsupported], 5);
    let run = Run::open(folder.path()).unwrap();
    let reader = reader(&run);
    let depths = spans(&reader).into_iter().map(|span| reader.context(span.context_id).depth);
    assert_eq!(depths.max(), Some(10_000));
    assert_eq!(spans(&reader).len(), 10_005);
}

/// A short file can describe one deep stack on many threads.
#[test]
fn nodes_of_sampled_stacks_are_limited() {
    let (folder, mut run) = assembler();
    let (frame, count) = (run.text_id("frame"), run.text_id("samples"));
    run.show_samples(Sampled { count_name_id: Some(count), ..Sampled::default() });
    let mut stack = Assembler::ROOT;
    for _ in 0..2_000 {
        stack = run.context_id(stack, NodeKind::Frame, frame);
    }
    for number in 0..600 {
        let thread_id = Some(run.add_thread(0, number, ""));
        let value = MetricValue::Float(0.4);
        let sample = Sample { thread_id, ..Sample::new(0, stack, count, value) };
        for _ in 0..3 {
            run.add_sample(&sample.clone()).unwrap();
        }
    }
    let assembled = run.finish(None).unwrap();
    assert!(assembled.losses[&LossCause::Unsupported] > 0);
    let run = Run::open(folder.path()).unwrap();
    let rollups = run.read(&stored::ROLLUPS).unwrap();
    assert_eq!(rollups.num_rows(), 1 << 20);
    // Fractions are summed before rounding.
    assert!(ints(&rollups, "count").iter().all(|&count| count == 1));
}
