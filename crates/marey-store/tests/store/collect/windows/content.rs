//! Arguments, Python calls, flows and notes that the trace of a window adds to a run.

use marey_model::context::NodeKind;
use marey_store::Assembler;
use marey_store::row::{Args, Flow, FlowPoint, Metadata};

use super::super::spools::UNIX;
use super::{
    ADDED, AHEAD, ANCHOR, Traced, WINDOW, collect, collect_with, frames, note, recorded_frames,
    span_rows, traced_time,
};
use crate::read::{reader, rows};

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

#[test]
fn arrows_to_backward_are_those_of_the_profiler_only_without_recorded_operators() {
    let add_flow = |run: &mut Assembler, _: u32, thread_id: u32| {
        let name_id = run.text_id("fwdbwd");
        for (point, time) in [(FlowPoint::Start, 110_000), (FlowPoint::End, 310_000)] {
            let flow = Flow {
                time_nanos: traced_time(time),
                thread_id,
                flow_id: 3,
                point,
                is_enclosing: true,
                name_id,
                category_id: None,
                args: Args::default(),
            };
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
