//! Windows: what torch.profiler has recorded beside a spool.

mod content;
mod placement;

use std::fs;
use std::path::Path;

use marey_model::args::NewArgs;
use marey_model::context::NodeKind;
use marey_model::spool::{NodeDef, SessionEvent, SpoolFrame};
use marey_store::row::{ActivityKind, GpuActivity, MemoryAction, MemoryEvent, Metadata, Span};
use marey_store::{Assembler, NewProcess, Reader, Run, Slice, open};

use super::spools::{Recorded, UNIX, collect_run, session, spans};
use crate::read::{self, reader, rows};
use marey_model::profile::Process;

/// The profiler's clock is ahead of the recorder's by this.
const AHEAD: i64 = 7_000_000;

const PID: u32 = 100;
const OS_ID: i64 = 1000;

/// Nodes of the spool's thread.
const ROOT: u32 = 0;
const ANCHOR: u32 = 1;
const MODULE: u32 = 2;
const OPERATOR: u32 = 3;
/// The first of the nodes that a test adds.
const ADDED: u32 = 4;

/// The start and the end of the window, as spans of the recorder.
const WINDOW: [(u32, i64, i64); 2] = [(ANCHOR, 1_000, 2_000), (ANCHOR, 900_000, 901_000)];

/// Returns the frames of a spool: a module that calls an operator twice, between two anchors.
fn recorded_frames() -> Vec<SpoolFrame> {
    frames(
        &[],
        &[
            WINDOW[0],
            (OPERATOR, 100_000, 150_000),
            (OPERATOR, 160_000, 190_000),
            (MODULE, 90_000, 200_000),
            WINDOW[1],
        ],
    )
}

/// Returns the frames of a spool with spans in the order of their ends, and with more nodes: parent
/// and name.
fn frames(more_nodes: &[(u32, &str)], recorded: &[(u32, i64, i64)]) -> Vec<SpoolFrame> {
    let mut texts =
        ["ROOT", "marey.anchor 1", "model", "aten::mm.default"].map(str::to_owned).to_vec();
    let node = |parent, kind, name| NodeDef { parent_id: parent, kind, name_id: name };
    let mut nodes = vec![
        node(0, NodeKind::Root, 0),
        node(0, NodeKind::Scope, 1),
        node(0, NodeKind::Module, 2),
        node(MODULE, NodeKind::Operator, 3),
    ];
    for &(parent, name) in more_nodes {
        nodes.push(node(parent, NodeKind::Scope, texts.len() as u32));
        texts.push(name.to_owned());
    }
    vec![
        SpoolFrame::Process(Process { pid: PID.into(), ..Process::default() }),
        SpoolFrame::Clock { monotonic_nanos: 0, unix_nanos: UNIX },
        SpoolFrame::Strings { first_id: 0, texts },
        SpoolFrame::Thread { thread: 0, os_id: OS_ID as u64, name: "main".to_owned() },
        SpoolFrame::Nodes { thread: 0, first_id: 0, nodes },
        session(0, SessionEvent::Started, 0),
        spans(0, 1, recorded),
        SpoolFrame::End,
    ]
}

/// A slice of the profiler: name, kind, start and end on the recorder's clock.
type Traced<'a> = (&'a str, NodeKind, i64, i64);

/// Adds more to the trace of the window: of its process, on its thread.
type AddMore<'a> = &'a dyn Fn(&mut Assembler, u32, u32);

/// Returns a time of the recorder's clock on the profiler's.
const fn traced_time(nanos: i64) -> i64 {
    UNIX + AHEAD + nanos
}

fn add_slice(run: &mut Assembler, thread_id: u32, order: u64, traced: Traced) {
    let (name, kind, start, end) = traced;
    let category = if kind == NodeKind::Frame { "python_function" } else { "cpu_op" };
    let mut args = NewArgs::default();
    args.int("Record function id", start);
    let slice = Slice::new(thread_id, kind, run.text_id(name), traced_time(start), end - start);
    let slice = Slice {
        order,
        category_id: Some(run.text_id(category)),
        correlation_id: (kind == NodeKind::Runtime).then_some(77),
        external_id: (kind == NodeKind::Operator).then_some(5),
        args: run.args(&mut args).unwrap(),
        ..slice
    };
    run.add_slice(&slice).unwrap();
}

/// Returns an allocation of 64 bytes.
fn allocation(time_nanos: i64, process_id: u32, thread_id: u32) -> MemoryEvent {
    let time_nanos = traced_time(time_nanos);
    MemoryEvent {
        thread_id: Some(thread_id),
        address: Some(16),
        ..MemoryEvent::new(process_id, "cpu".into(), MemoryAction::Alloc, time_nanos, 64)
    }
}

/// Returns a kernel that the call 77 launched.
fn kernel(run: &mut Assembler, process_id: u32) -> GpuActivity {
    let (name_id, start_nanos) = (run.text_id("gemm"), traced_time(300_000));
    GpuActivity {
        stream: 7,
        correlation_id: Some(77),
        ..GpuActivity::new(process_id, ActivityKind::Kernel, name_id, start_nanos, 10)
    }
}

/// Returns the run that the trace of the window is imported as.
fn trace(slices: &[Traced], add_more: AddMore) -> Run {
    let mut run = Assembler::temporary(&marey_store::temp_dir());
    let process = run.add_process(NewProcess { pid: i64::from(PID), ..NewProcess::default() });
    let thread = run.add_thread(process, OS_ID, "");
    let anchors = [
        ("marey.anchor 1", NodeKind::Scope, 1_200, 1_800),
        ("marey.anchor 1", NodeKind::Scope, 900_200, 900_800),
    ];
    for (order, &traced) in (0..).zip(anchors.iter().chain(slices)) {
        add_slice(&mut run, thread, order, traced);
    }
    add_more(&mut run, process, thread);
    run.open(None, Path::new("window")).unwrap().0
}

/// Collects the spool with a window, which has an allocation and a kernel too.
fn collect(slices: &[Traced]) -> (Recorded, Run) {
    collect_with(&recorded_frames(), slices, &|run, process, thread| {
        run.add_memory_event(&allocation(120_000, process, thread)).unwrap();
        let kernel = kernel(run, process);
        run.add_gpu_activity(&kernel).unwrap();
    })
}

/// Collects a spool with a window.
fn collect_with(frames: &[SpoolFrame], slices: &[Traced], add_more: AddMore) -> (Recorded, Run) {
    collect_after(&[], frames, slices, add_more)
}

/// Collects a spool with a window after those of other processes.
fn collect_after(
    others: &[(u32, &[SpoolFrame])],
    frames: &[SpoolFrame],
    slices: &[Traced],
    add_more: AddMore,
) -> (Recorded, Run) {
    let recorded = Recorded::new();
    for &(pid, frames) in others {
        recorded.write_spool(pid, frames);
    }
    recorded.write_spool(PID, frames);
    fs::write(recorded.path().join("spool/100-1.window.json"), "{}").unwrap();
    let run = open(recorded.path(), &|_: &Path| Ok(trace(slices, add_more)), &mut |_| ()).unwrap();
    (recorded, run)
}

/// Returns what a run notes about its first window.
fn note(run: &Run) -> serde_json::Value {
    let notes: Vec<Metadata> = rows(&reader(run));
    serde_json::from_str(&notes[0].value).unwrap()
}

/// Returns each span as its path, start on the recorder's clock, exclusive time and arguments.
fn span_rows(run: &Run) -> Vec<(String, i64, i64, String)> {
    let reader = reader(run);
    let row = |span: Span| {
        let (path, args) = (path(&reader, span.context_id), read::args(&reader, &span.args));
        (path, span.start_nanos - UNIX, span.self_nanos(), args)
    };
    rows(&reader).into_iter().map(row).collect()
}

fn path(reader: &Reader, context: u32) -> String {
    read::path(reader, context).join(" > ")
}

fn row(path: &str, start: i64, self_nanos: i64, args: &str) -> (String, i64, i64, String) {
    (path.to_owned(), start, self_nanos, args.to_owned())
}

fn id(id: i64) -> String {
    format!("{{\"Record function id\":{id}}}")
}

#[test]
fn an_operator_that_both_recorded_is_one_span_with_the_arguments_of_the_profiler() {
    let operator = |start, end| ("aten::mm", NodeKind::Operator, start, end);
    let (_folder, run) = collect(&[operator(100_300, 149_600), operator(160_500, 189_900)]);
    assert_eq!(
        span_rows(&run),
        [
            row("model", 90_000, 30_000, "{}"),
            row("model > aten::mm.default", 100_000, 50_000, &id(100_300)),
            row("model > aten::mm.default", 160_000, 30_000, &id(160_500)),
        ]
    );
}

#[test]
fn a_span_that_only_the_profiler_has_stands_between_those_of_the_recorder() {
    let (_folder, run) = collect(&[
        ("train.py: train", NodeKind::Frame, 50_000, 890_000),
        ("linear.py: forward", NodeKind::Frame, 95_000, 195_000),
        ("aten::mm", NodeKind::Operator, 100_300, 149_600),
        ("cudaLaunchKernel", NodeKind::Runtime, 110_000, 130_000),
    ]);
    let model = "train.py: train > model";
    let operator = format!("{model} > linear.py: forward > aten::mm.default");
    assert_eq!(
        span_rows(&run),
        [
            row("train.py: train", 50_000, 730_000, &id(50_000)),
            row(model, 90_000, 10_000, "{}"),
            row(&format!("{model} > linear.py: forward"), 95_000, 20_000, &id(95_000)),
            row(&operator, 100_000, 30_000, &id(100_300)),
            row(&format!("{operator} > cudaLaunchKernel"), 110_000, 20_000, &id(110_000)),
            row(&operator, 160_000, 30_000, "{}"),
        ]
    );
    let reader = reader(&run);
    let event = &rows::<MemoryEvent>(&reader)[0];
    let launch = format!("{operator} > cudaLaunchKernel");
    assert_eq!(path(&reader, event.context_id.unwrap()), launch);
    assert_eq!(event.time_nanos, UNIX + 120_000);
    let kernel = &rows::<GpuActivity>(&reader)[0];
    assert_eq!(path(&reader, kernel.context_id.unwrap()), operator);
    assert_eq!(kernel.start_nanos, UNIX + 300_000);
}

#[test]
fn a_call_that_is_in_progress_when_the_window_begins_is_left_out() {
    let (_folder, run) = collect(&[
        ("<module>", NodeKind::Frame, 500, 950_000),
        ("train", NodeKind::Frame, 50_000, 890_000),
    ]);
    let rows = span_rows(&run);
    let paths: Vec<&str> = rows.iter().map(|row| &*row.0).collect();
    let operator = "train > model > aten::mm.default";
    assert_eq!(paths, ["train", "train > model", operator, operator]);
}

#[test]
fn the_measured_offset_and_the_counts_are_in_the_metadata() {
    let (_folder, run) = collect(&[
        ("aten::mm", NodeKind::Operator, 100_300, 149_600),
        ("other", NodeKind::Scope, 300_000, 310_000),
    ]);
    assert_eq!(&*rows::<Metadata>(&reader(&run))[0].key, "torch_window.1");
    let note = note(&run);
    assert_eq!(note["clock_offset_nanos"], -AHEAD);
    assert_eq!((&note["recorded_by_both"], &note["added_spans"]), (&1.into(), &1.into()));
    assert_eq!(note["end_nanos"].as_i64().unwrap() - UNIX, 900_000);
}

#[test]
fn a_trace_that_cannot_be_read_is_a_loss_and_the_recording_stays() {
    let recorded = Recorded::new();
    recorded.write_spool(PID, &recorded_frames());
    let trace_path = recorded.path().join("spool/100-1.window.json");
    fs::write(&trace_path, "{").unwrap();
    let unreadable = |_: &Path| Err("torn".to_owned());
    let run = open(recorded.path(), &unreadable, &mut |_| ()).unwrap();
    assert_eq!(span_rows(&run).len(), 3);
    assert_eq!(run.manifest().losses["torch_windows"], 1);
    assert!(!trace_path.exists());
    // Collected once.
    collect_run(&recorded);
}
