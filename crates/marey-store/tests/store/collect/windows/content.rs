//! Arguments, Python calls, flows and notes that the trace of a window adds to a run.

use marey_model::args::NewArgs;
use marey_model::context::NodeKind;
use marey_model::profile::Process;
use marey_model::spool::SpoolFrame;
use marey_store::row::{Args, Flow, FlowPoint, GpuActivity, MemoryEvent, Metadata, Span};
use marey_store::{Assembler, Reader};

use super::super::spools::UNIX;
use super::{
    ADDED, AHEAD, ANCHOR, MODULE, OS_ID, Traced, WINDOW, allocation, collect, collect_after,
    collect_with, frames, kernel, note, recorded_frames, span_rows, traced_time,
};
use crate::read::{self, reader, rows};

const MM: Traced = ("aten::mm", NodeKind::Operator, 100_300, 149_600);

#[test]
fn anchors_that_the_recorder_has_of_the_profiler_too_are_not_counted() {
    let inner = ADDED;
    let spool = frames(
        &[(ANCHOR, "marey.anchor 1")],
        &[(inner, 1_200, 1_800), WINDOW[0], (inner, 900_200, 900_800), WINDOW[1]],
    );
    let (_folder, run) = collect_with(&spool, &[], &|_, _, _| ());
    assert_eq!(note(&run)["clock_offset_nanos"], -AHEAD);
    assert_eq!(span_rows(&run), []);
}

#[test]
fn the_flops_of_operators_are_arguments() {
    let (_folder, run) = collect_with(&recorded_frames(), &[MM], &|run, process, _| {
        for (key, value) in [("marey_flops", r#"{"4": 3, "5": 1000}"#), ("other", r#"{"5": 7}"#)] {
            run.add_metadata(&Metadata::new(process, key, value)).unwrap();
        }
    });
    let operator = span_rows(&run).into_iter().find(|row| row.1 == 100_000).unwrap();
    assert_eq!(operator.3, r#"{"Record function id":100300,"flops":1000}"#);
}

#[test]
fn python_calls_of_marey_are_left_out() {
    let (_folder, run) = collect(&[
        ("train.py(3): train", NodeKind::Frame, 50_000, 890_000),
        ("marey/_torch_scopes.py(69): enter_module", NodeKind::Frame, 51_000, 59_000),
        ("torch/compiler/__init__.py(5): is_compiling", NodeKind::Frame, 52_000, 53_000),
        ("<built-in function push>", NodeKind::Frame, 54_000, 59_000),
        ("<built-in function len>", NodeKind::Frame, 60_000, 61_000),
        ("marey/_torch_patches.py(37): backward", NodeKind::Frame, 700_000, 800_000),
        ("hook.py(1): of_a_tensor", NodeKind::Frame, 710_000, 790_000),
        ("marey/_torch_window.py(9): end", NodeKind::Frame, 880_000, 889_000),
        ("marey/_torch_window.py", NodeKind::Scope, 300_000, 310_000),
    ]);
    let names: Vec<String> = span_rows(&run).into_iter().map(|row| row.0).collect();
    let train = "train.py(3): train";
    let model = format!("{train} > model");
    let operator = format!("{model} > aten::mm.default");
    let len = format!("{train} > <built-in function len>");
    let scope = format!("{train} > marey/_torch_window.py");
    let hook = format!("{train} > hook.py(1): of_a_tensor");
    assert_eq!(names, [train, &len, &model, &operator, &operator, &scope, &hook]);
}

/// Returns the start of a flow.
fn flow(run: &mut Assembler, time_nanos: i64, thread_id: u32) -> Flow {
    Flow {
        time_nanos: traced_time(time_nanos),
        thread_id,
        flow_id: 3,
        point: FlowPoint::Start,
        is_enclosing: true,
        name_id: run.text_id("fwdbwd"),
        category_id: None,
        args: Args::default(),
    }
}

/// Returns arguments and a category that end with a name.
fn args_and_category(run: &mut Assembler, name: &str) -> (Args, Option<u32>) {
    let mut args = NewArgs::default();
    args.text("of", name);
    (run.args(&mut args).unwrap(), Some(run.text_id(&format!("category of {name}"))))
}

#[test]
fn rows_of_a_window_refer_to_the_names_threads_and_process_of_the_run() {
    let first_process = [
        SpoolFrame::Process(Process { pid: 10, ..Process::default() }),
        SpoolFrame::Thread { thread: 0, os_id: 10, name: "other".to_owned() },
        SpoolFrame::Strings { first_id: 0, texts: (0..9).map(|at| format!("text {at}")).collect() },
        SpoolFrame::SpanArgs { first_id: 0, texts: vec!["{\"first\":1}".to_owned()] },
    ];
    let (_folder, run) =
        collect_after(&[(10, &first_process)], &recorded_frames(), &[], &|run, process, _| {
            // The ids of its threads and texts are not those in the run.
            for os_id in [1, 2, 3] {
                run.add_thread(process + 1, os_id, "");
            }
            let thread = run.add_thread(process, OS_ID + 1, "");
            let (args, category_id) = args_and_category(run, "memory");
            let event = MemoryEvent { args, category_id, ..allocation(120_000, process, thread) };
            run.add_memory_event(&event).unwrap();
            let (args, category_id) = args_and_category(run, "flow");
            let flow = Flow { args, category_id, ..flow(run, 110_000, thread) };
            run.add_flow(&flow).unwrap();
            let (args, category_id) = args_and_category(run, "kernel");
            let kernel = GpuActivity { args, category_id, ..kernel(run, process) };
            run.add_gpu_activity(&kernel).unwrap();
        });
    let reader = reader(&run);
    let check = |args: &Args, category_id: Option<u32>, name: &str| {
        assert_eq!(read::args(&reader, args), format!(r#"{{"of":"{name}"}}"#));
        assert_eq!(reader.text(category_id.unwrap()), format!("category of {name}"));
    };
    let process = reader.processes().find(|process| process.pid == 100).unwrap().id;
    let threads: Vec<_> = reader.threads().filter(|thread| thread.process_id == process).collect();
    let thread = threads.iter().find(|thread| thread.os_id == OS_ID + 1).unwrap().id;

    let event = &rows::<MemoryEvent>(&reader)[0];
    check(&event.args, event.category_id, "memory");
    assert_eq!((event.process_id, event.thread_id), (process, Some(thread)));
    let flow = &rows::<Flow>(&reader)[0];
    check(&flow.args, flow.category_id, "flow");
    assert_eq!((reader.text(flow.name_id), flow.thread_id), ("fwdbwd", thread));
    // The process, the bit of windows, and the id in the trace.
    assert_eq!(flow.flow_id, u64::from(process) << 40 | 1 << 39 | 3);
    let kernel = &rows::<GpuActivity>(&reader)[0];
    check(&kernel.args, kernel.category_id, "kernel");
    assert_eq!((reader.text(kernel.name_id), kernel.process_id), ("gemm", process));
}

#[test]
fn only_spans_of_the_profiler_alone_have_its_category() {
    let (_folder, run) = collect(&[MM, ("other", NodeKind::Scope, 300_000, 310_000)]);
    let reader = reader(&run);
    let category = |reader: &Reader, start_nanos| {
        let spans = rows::<Span>(reader);
        let span = spans.iter().find(|span| span.start_nanos == UNIX + start_nanos).unwrap();
        span.category_id.map(|id| reader.text(id).to_owned())
    };
    assert_eq!(category(&reader, 100_000), None);
    assert_eq!(category(&reader, 300_000).as_deref(), Some("cpu_op"));
}

#[test]
fn a_window_without_its_last_anchor_ends_with_its_trace() {
    let spool = frames(&[], &[WINDOW[0], (MODULE, 90_000, 200_000)]);
    let slices =
        [("first", NodeKind::Scope, 50_000, 60_000), ("second", NodeKind::Scope, 300_000, 310_000)];
    let (_folder, run) = collect_with(&spool, &slices, &|_, _, _| ());
    let note = note(&run);
    assert_eq!(note["start_nanos"], traced_time(50_000));
    assert_eq!(note["end_nanos"], traced_time(310_000));
}

#[test]
fn arrows_to_backward_are_those_of_the_profiler_only_without_recorded_operators() {
    let add_flow = |run: &mut Assembler, _: u32, thread_id: u32| {
        for (point, time) in [(FlowPoint::Start, 110_000), (FlowPoint::End, 310_000)] {
            let flow = Flow { point, ..flow(run, time, thread_id) };
            run.add_flow(&flow).unwrap();
        }
    };
    let flow_times = |slices: &[Traced]| -> Vec<i64> {
        let (_folder, run) = collect_with(&recorded_frames(), slices, &add_flow);
        rows::<Flow>(&reader(&run)).iter().map(|flow| flow.time_nanos - UNIX).collect()
    };
    assert_eq!(flow_times(&[]), [110_000, 310_000]);
    assert_eq!(flow_times(&[MM]), [0; 0]);
}
