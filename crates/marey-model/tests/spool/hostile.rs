//! Spools with valid CRCs and invalid frames, and the fuzzing corpus.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_model::spool::{
    Activity, ActivityKind, ActivityShape, Collective, CollectiveState, Counter, NodeDef,
    RecordedValue, Sample, SampleCause, Span, SpoolError, SpoolFrame, SpoolReader, Variable,
};
use proptest::prelude::*;

use crate::round_trip::{self, correct_crcs, encode_file};
use crate::{torn, training};

/// Returns the error that ends a file, and checks that nothing follows it.
fn error(file: &[u8]) -> SpoolError {
    let mut reader = SpoolReader::new(file).unwrap();
    let error = reader.find_map(Result::err).expect("reading must fail");
    assert!(reader.next().is_none());
    assert_eq!(reader.torn(), None);
    error
}

/// Returns a file with one frame of this kind and payload.
fn file_with_frame(body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_le_bytes();
    let mut file = [&*encode_file(&[]), &length, &[0; 4], body].concat();
    correct_crcs(&mut file);
    file
}

#[test]
fn a_malformed_payload_is_an_error_with_a_reason() {
    let largest = &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01];
    for (body, reason) in [
        (vec![0], "unknown frame kind 0"),
        (vec![99], "unknown frame kind 99"),
        (vec![15, 0, 1, 9, 0, 0, 0, 0], "invalid kind of activity: 9"),
        (vec![15, 0, 1, 0, 0, 0, 0, 1, 99, 0], "invalid detail of an activity: 99"),
        (vec![17, 0, 1, 8, 0, 0, 0, 0], "invalid flag of an activity: 8"),
        (vec![17, 0, 1, 0, 1, 0, 0, 0], "a number is too large for its field"),
        (vec![11, 0], "bytes follow its last field"),
        (vec![2, 0], "it ends within a field"),
        (vec![2, 0x80], "it ends within a field"),
        (
            vec![2, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2],
            "a number is too large for its field",
        ),
        (vec![4, 0x80, 0x80, 0x80, 0x80, 0x10, 0, 0], "a number is too large for its field"),
        (vec![4, 0, 0, 1, 0xFF], "a text is not UTF-8"),
        (vec![1, 0, 2, 0, 0, 0, 0, 0], "invalid flag: 2"),
        (vec![5, 0, 0, 1, 0, 0xFF, 0], "invalid kind of node: 255"),
        (vec![5, 0, 0, 1, 2, 1, 0], "a number is too large for its field"),
        (vec![6, 0, 0, 1, 2, 0, 0], "a number is too large for its field"),
        (vec![7, 0, 0, 1, 0, 0, 0, 5, 0], "invalid type of value: 5"),
        (vec![9, 0, 5, 0, 0], "invalid event of a session: 5"),
        (vec![12, 0, 0, 0, 0, 0, 0, 0, 0], "it ends within a field"),
        (vec![10, 1, 0xFF, 0], "invalid cause of loss: 255"),
        (vec![16, 1, 0, 0, 0], "it ends within a field"),
        (vec![16, 1, 0, 0, 0x81, 0x80, 0x80, 0x80, 0x10, 0], "a number is too large for its field"),
        // Counts larger than the payload allows are rejected before allocating.
        ([&[3, 0], &largest[..]].concat(), "it ends within a field"),
        ([&[5, 0, 0], &largest[..]].concat(), "it ends within a field"),
        ([&[6, 0, 0], &largest[..]].concat(), "it ends within a field"),
        ([&[7, 0, 0], &largest[..]].concat(), "it ends within a field"),
        ([&[7, 0, 0, 1, 0, 0, 0, 4], &largest[..]].concat(), "it ends within a field"),
        ([&[8, 0], &largest[..]].concat(), "it ends within a field"),
        ([&[10], &largest[..]].concat(), "it ends within a field"),
        ([&[13, 0], &largest[..]].concat(), "it ends within a field"),
        ([&[15, 0], &largest[..]].concat(), "it ends within a field"),
        ([&[15, 0, 1, 0, 0, 0, 0], &largest[..]].concat(), "it ends within a field"),
        ([&[17, 0], &largest[..]].concat(), "it ends within a field"),
        ([&[16], &largest[..]].concat(), "it ends within a field"),
    ] {
        let message = error(&file_with_frame(&body)).to_string();
        assert_eq!(
            message,
            format!("the frame at byte 12 cannot be decoded: {reason}"),
            "{body:?}"
        );
    }
}

fn node(parent_id: u32, kind: NodeKind, name_id: u32) -> NodeDef {
    NodeDef { parent_id, kind, name_id }
}

/// Returns a variable with these text ids of its file and its type.
fn variables(file_id: u32, type_id: u32) -> SpoolFrame {
    SpoolFrame::Variables(vec![Variable {
        time_nanos: 0,
        os_id: 1,
        thread_name_id: 0,
        file_id,
        function_id: 0,
        line: 1,
        name_id: 0,
        type_id,
        value: MetricValue::Int(1),
    }])
}

/// Returns a frame of a collective whose name, group, ranks and type have these ids.
fn collectives([name_id, group_id, group_ranks_id, dtype_id]: [u32; 4]) -> SpoolFrame {
    SpoolFrame::Collectives(vec![Collective {
        name_id,
        group_id,
        group_ranks_id: Some(group_ranks_id),
        group_size: None,
        sequence: None,
        dtype_id: Some(dtype_id),
        in_elements: None,
        out_elements: None,
        created_unix_nanos: 0,
        started_unix_nanos: None,
        duration_nanos: None,
        state: CollectiveState::Scheduled,
        is_p2p: false,
    }])
}

#[test]
fn a_frame_that_contradicts_earlier_frames_is_an_error() {
    let (root, scope) = (node(0, NodeKind::Root, 0), NodeKind::Scope);
    let nodes = |thread, first_id, nodes: &[NodeDef]| SpoolFrame::Nodes {
        thread,
        first_id,
        nodes: nodes.to_vec(),
    };
    let texts =
        |first_id, count| SpoolFrame::Strings { first_id, texts: vec![String::new(); count] };
    let shapes = |first_id, name_id| {
        let details = Vec::new();
        let shape =
            ActivityShape { kind: ActivityKind::Kernel, name_id, device: 0, stream: 0, details };
        SpoolFrame::Shapes { first_id, shapes: vec![shape] }
    };
    let valid_frames = [
        texts(0, 2),
        SpoolFrame::Thread { thread: 7, os_id: 1, name: String::new() },
        nodes(7, 0, &[root, node(0, scope, 1)]),
        shapes(0, 0),
    ];
    let offset = encode_file(&valid_frames).len();
    let span = |node_id| Span { node_id, start_nanos: 0, end_nanos: 1 };
    let spans =
        |thread, id| SpoolFrame::Spans { thread, sessions: 1, spans: vec![span(1), span(id)] };
    let values = |node_id, name_id| {
        let value = RecordedValue { node_id, time_nanos: 0, name_id, value: MetricValue::Int(1) };
        SpoolFrame::Values { thread: 7, sessions: 1, values: vec![value] }
    };
    let samples = |node_id, thread_name_id| {
        let cause = SampleCause::Interval;
        let sample =
            Sample { time_nanos: 0, duration_nanos: 1, os_id: 1, thread_name_id, node_id, cause };
        SpoolFrame::Samples { thread: 7, samples: vec![sample] }
    };
    let counter = Counter { time_nanos: 0, name_id: 2, device: None, value: 0.0 };
    let activity = |shape_id, launch| {
        let activity = Activity {
            shape_id,
            start_nanos: 0,
            duration_nanos: 1,
            bytes: 0,
            correlation_id: 0,
            launch: Some(launch),
        };
        SpoolFrame::Activities { sessions: 1, activities: vec![activity] }
    };
    for (frame, reason) in [
        (shapes(3, 2), "text 2 is not defined"),
        (shapes(0, 0), "the shape ids from 0 on are out of range or already defined"),
        (activity(1, (7, 0)), "shape 1 is not defined"),
        (activity(0, (8, 0)), "thread 8 is not defined"),
        (activity(0, (7, 2)), "node 2 of thread 7 is not defined"),
        (SpoolFrame::Launches { thread: 8, launches: vec![] }, "thread 8 is not defined"),
        (SpoolFrame::Autograd { thread: 8, calls: vec![] }, "thread 8 is not defined"),
        (SpoolFrame::ArgsOfSpans { thread: 8, args: vec![] }, "thread 8 is not defined"),
        (
            SpoolFrame::ArgsOfSpans { thread: 7, args: vec![(0, 1)] },
            "the span arguments 1 are not defined",
        ),
        (
            SpoolFrame::SpanArgs { first_id: u32::MAX, texts: vec![String::new(); 2] },
            "the ids of span arguments from 4294967295 on are out of range or already defined",
        ),
        (texts(1, 1), "the text ids from 1 on are out of range or already defined"),
        (texts(u32::MAX, 2), "the text ids from 4294967295 on are out of range or already defined"),
        (
            nodes(7, 1, &[root]),
            "the node ids of thread 7 from 1 on are out of range or already defined",
        ),
        (nodes(8, 0, &[root]), "thread 8 is not defined"),
        (nodes(7, 2, &[node(2, scope, 0)]), "node 2 of thread 7 cannot have the parent 2"),
        (nodes(7, 2, &[node(3, scope, 0)]), "node 2 of thread 7 cannot have the parent 3"),
        (nodes(7, 2, &[root]), "node 2 of thread 7 cannot have the parent 0"),
        (nodes(7, 9, &[node(5, scope, 0)]), "node 5 of thread 7 is not defined"),
        (nodes(7, 2, &[node(0, scope, 2)]), "text 2 is not defined"),
        (spans(7, 2), "node 2 of thread 7 is not defined"),
        (spans(8, 0), "thread 8 is not defined"),
        (values(2, 0), "node 2 of thread 7 is not defined"),
        (values(0, 2), "text 2 is not defined"),
        (SpoolFrame::Counters(vec![counter]), "text 2 is not defined"),
        (samples(2, 0), "node 2 of thread 7 is not defined"),
        (samples(0, 2), "text 2 is not defined"),
        (collectives([2, 0, 0, 0]), "text 2 is not defined"),
        (collectives([0, 2, 0, 0]), "text 2 is not defined"),
        (collectives([0, 0, 2, 0]), "text 2 is not defined"),
        (collectives([0, 0, 0, 2]), "text 2 is not defined"),
        (variables(2, 0), "text 2 is not defined"),
        (variables(0, 2), "text 2 is not defined"),
        (SpoolFrame::Open { thread: 7, spans: vec![(2, 0)] }, "node 2 of thread 7 is not defined"),
    ] {
        let file = encode_file(&[&valid_frames[..], &[frame, SpoolFrame::End]].concat());
        let message = error(&file).to_string();
        assert_eq!(message, format!("the frame at byte {offset} is inconsistent: {reason}"));
    }
    let message = error(&encode_file(&[SpoolFrame::End, SpoolFrame::End])).to_string();
    assert_eq!(message, "the frame at byte 21 is inconsistent: it follows the end frame");
}

#[test]
fn ids_may_be_sparse_and_come_in_any_order() {
    let texts = |first_id| SpoolFrame::Strings { first_id, texts: vec!["x".to_owned()] };
    let nodes = |first_id, name| {
        let nodes = vec![node(first_id, NodeKind::Root, name)];
        SpoolFrame::Nodes { thread: 0, first_id, nodes }
    };
    let frames = [
        texts(70),
        texts(3),
        SpoolFrame::Thread { thread: 0, os_id: 1, name: String::new() },
        nodes(9, 70),
        nodes(2, 3),
        // A new name of a thread does not drop its nodes.
        SpoolFrame::Thread { thread: 0, os_id: 1, name: "x".to_owned() },
        SpoolFrame::Open { thread: 0, spans: vec![(9, 0), (2, 0)] },
    ];
    assert_eq!(torn::read(&encode_file(&frames)), (frames.to_vec(), None));
}

#[test]
fn a_read_error_is_not_a_torn_tail() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("device removed"))
        }
    }
    let file = encode_file(&[SpoolFrame::End]);
    let mut reader = SpoolReader::new(file.chain(Failing)).unwrap();
    assert!(matches!(reader.next(), Some(Ok(SpoolFrame::End))));
    let error = reader.next().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "cannot read the spool: device removed");
    assert!(reader.next().is_none());
    assert_eq!(reader.torn(), None);
}

#[test]
fn the_fuzzing_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/spool");
    let mut count = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        round_trip::check_any_file(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count > 0, "the corpus is empty");
}

proptest! {
    #[test]
    fn a_damaged_payload_never_panics(
        index in any::<prop::sample::Index>(), byte in any::<u8>(), more in any::<u8>(),
    ) {
        let mut file = encode_file(&training::frames(2));
        let index = index.index(file.len());
        file[index] = byte;
        round_trip::check_any_file(&file);
        file.insert(index, more);
        round_trip::check_any_file(&file);
    }
}
