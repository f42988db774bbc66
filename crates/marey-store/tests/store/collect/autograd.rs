//! Links from forward operators to the calls of autograd nodes.

use marey_model::spool::{AutogradCall, SpoolFrame};
use marey_model::table::stored::FLOWS;
use marey_store::Run;
use marey_store::row::{Flow, FlowPoint, Span};

use super::spools::{INNER, OUTER, Recorded, STEP, UNIX, collect_run, first_frames, spans, thread};
use crate::read::{self, reader, rows};

/// The id that the operating system gave a thread of [`thread`].
const fn os_id(thread: u64) -> u64 {
    1000 + thread
}

fn autograd_frame(thread: u32, calls: &[(u32, u64, u64)]) -> SpoolFrame {
    let call = |&(index, sequence, forward_os_id)| AutogradCall {
        span_index: index,
        sequence,
        forward_os_id,
    };
    SpoolFrame::Autograd { thread, calls: calls.iter().map(call).collect() }
}

/// Collects a spool. Returns the links, as start on the recorder's clock and thread of both ends.
fn collect_links(run: &Recorded) -> Vec<((i64, u32), (i64, u32))> {
    let run = collect_run(run);
    let reader = reader(&run);
    let points: Vec<Flow> = rows(&reader);
    assert!(points.iter().all(|point| reader.text(point.name_id) == "fwdbwd"));
    let end = |point: &Flow| (point.time_nanos - UNIX, point.thread_id);
    let mut links: Vec<_> = points
        .iter()
        .filter(|point| point.point == FlowPoint::Start)
        .map(|start| {
            let is_end =
                |point: &&Flow| point.flow_id == start.flow_id && point.point == FlowPoint::End;
            let ends: Vec<_> = points.iter().filter(is_end).collect();
            assert_eq!(ends.len(), 1, "the end of link {}", start.flow_id);
            (end(start), end(ends[0]))
        })
        .collect();
    assert_eq!(points.len(), 2 * links.len());
    links.sort_unstable();
    links
}

#[test]
fn a_node_is_linked_to_the_last_forward_operator_with_its_number() {
    let run = Recorded::with_frames([
        // Ended inner first: INNER began last and has made node 7.
        autograd_frame(0, &[(0, 7, 0), (1, 7, 0), (2, 8, 0)]),
        spans(0, 1, &[(INNER, 12, 14), (OUTER, 10, 20), (STEP, 30, 40)]),
        spans(0, 1, &[(OUTER, 41, 42)]),
        autograd_frame(0, &[(0, 8, os_id(0)), (2, 7, os_id(0))]),
        spans(0, 1, &[(STEP, 50, 60), (OUTER, 61, 62), (STEP, 70, 80)]),
    ]);
    assert_eq!(collect_links(&run), [((12, 0), (70, 0)), ((30, 0), (50, 0))]);
}

#[test]
fn numbers_belong_to_the_thread_of_the_forward_operator() {
    let frames = [
        // The thread of autograd is read first.
        autograd_frame(1, &[(0, 3, os_id(0)), (1, 3, os_id(1))]),
        spans(1, 1, &[(STEP, 50, 60), (STEP, 70, 80)]),
        autograd_frame(0, &[(0, 3, 0)]),
        spans(0, 1, &[(OUTER, 10, 20)]),
        autograd_frame(1, &[(0, 3, 0)]),
        spans(1, 1, &[(OUTER, 15, 25)]),
    ];
    let run = Recorded::with_frames(thread(1).into_iter().chain(frames));
    assert_eq!(collect_links(&run), [((10, 0), (50, 1)), ((15, 1), (70, 1))]);
}

#[test]
fn a_thread_keeps_its_links_if_its_id_is_used_again() {
    let [_, nodes] = thread(1);
    let run = Recorded::with_frames([
        autograd_frame(0, &[(0, 3, 0), (1, 3, os_id(0))]),
        spans(0, 1, &[(OUTER, 10, 20), (STEP, 50, 60)]),
        SpoolFrame::Thread { thread: 1, os_id: os_id(0), name: "later".to_owned() },
        nodes,
        spans(1, 1, &[(OUTER, 70, 80)]),
    ]);
    assert_eq!(collect_links(&run), [((10, 0), (50, 0))]);
}

#[test]
fn a_node_whose_forward_operator_is_unknown_has_no_link() {
    let run = Recorded::with_frames([
        autograd_frame(0, &[(0, 3, os_id(0)), (1, 4, os_id(9)), (77, 3, 0)]),
        spans(0, 1, &[(STEP, 50, 60), (STEP, 70, 80)]),
    ]);
    assert_eq!(collect_links(&run), []);
    assert_eq!(Run::open(run.path()).unwrap().read(&FLOWS).unwrap().num_rows(), 0);
}

#[test]
fn links_of_several_processes_have_ids_of_their_own() {
    let process = |pid| {
        let mut frames = first_frames(pid);
        frames.extend([
            autograd_frame(0, &[(0, 1, 0), (1, 1, os_id(0))]),
            spans(0, 1, &[(OUTER, 10, 20), (STEP, 30, 40)]),
        ]);
        frames
    };
    let run = Recorded::with_spools(&[&process(100), &process(101)]);
    assert_eq!(collect_links(&run), [((10, 0), (30, 0)), ((10, 1), (30, 1))]);
}

#[test]
fn spans_have_the_arguments_that_their_frame_names() {
    let object = |number: u32| format!("{{\"Input Dims\":[[{number}]]}}");
    let run = collect_run(&Recorded::with_frames([
        SpoolFrame::SpanArgs { first_id: 0, texts: vec![object(0), object(1)] },
        SpoolFrame::ArgsOfSpans { thread: 0, args: vec![(0, 1), (2, 0)] },
        spans(0, 1, &[(INNER, 12, 14), (OUTER, 10, 20), (STEP, 30, 40)]),
        // The frame is for the next spans only.
        spans(0, 1, &[(STEP, 50, 60)]),
        SpoolFrame::SpanArgs { first_id: 2, texts: vec![object(2)] },
        SpoolFrame::ArgsOfSpans { thread: 0, args: vec![(0, 2)] },
        spans(0, 1, &[(STEP, 70, 80)]),
    ]));
    let reader = reader(&run);
    let found: Vec<_> = rows::<Span>(&reader)
        .iter()
        .map(|row| (row.start_nanos - UNIX, read::args(&reader, &row.args)))
        .collect();
    let expected = [(10, None), (12, Some(1)), (30, Some(0)), (50, None), (70, Some(2))];
    let expected = expected.map(|(start, args)| (start, args.map_or("{}".to_owned(), object)));
    assert_eq!(found, expected);
}

#[test]
fn spans_that_all_have_arguments_keep_them() {
    let object = "{\"Input Dims\":[[1]]}";
    let run = collect_run(&Recorded::with_frames([
        SpoolFrame::SpanArgs { first_id: 0, texts: vec![object.to_owned()] },
        SpoolFrame::ArgsOfSpans { thread: 0, args: vec![(0, 0), (1, 0)] },
        spans(0, 1, &[(INNER, 12, 14), (OUTER, 10, 20)]),
    ]));
    let reader = reader(&run);
    let spans = rows::<Span>(&reader);
    let args: Vec<_> = spans.iter().map(|span| read::args(&reader, &span.args)).collect();
    assert_eq!(args, [object, object]);
}
