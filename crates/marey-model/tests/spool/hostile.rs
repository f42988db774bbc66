//! Spools whose CRCs are right and whose frames are not, and what the fuzzer found.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_model::spool::{
    Activity, ActivityKind, Counter, Frame, NodeDef, Reader, Shape, Span, SpoolError, Value,
};
use proptest::prelude::*;

use crate::round_trip::{self, seal, written};
use crate::training;

/// The error that ends a file, and that nothing comes after it.
fn error(file: &[u8]) -> SpoolError {
    let mut reader = Reader::new(file).unwrap();
    let error = reader.find_map(Result::err).expect("the file is sound");
    assert!(reader.next().is_none());
    assert_eq!(reader.torn(), None);
    error
}

/// A file of one frame of these bytes, kind and payload.
fn file_of(body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_le_bytes();
    let mut file = [&*written(&[]), &length, &[0; 4], body].concat();
    seal(&mut file);
    file
}

#[test]
fn a_payload_that_is_not_of_its_kind_says_why() {
    let huge = &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01];
    for (body, reason) in [
        (vec![0], "0 is no kind of frame"),
        (vec![99], "99 is no kind of frame"),
        (vec![15, 0, 1, 9, 0, 0, 0, 0], "9 is no kind of activity"),
        (vec![15, 0, 1, 0, 0, 0, 0, 1, 99, 0], "99 is no detail of an activity"),
        (vec![17, 0, 1, 8, 0, 0, 0, 0], "8 is no flag of an activity"),
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
        (vec![1, 0, 2, 0, 0, 0, 0, 0], "2 is no flag"),
        (vec![5, 0, 0, 1, 0, 0xFF, 0], "255 is no kind of node"),
        (vec![5, 0, 0, 1, 2, 1, 0], "a number is too large for its field"),
        (vec![6, 0, 0, 1, 2, 0, 0], "a number is too large for its field"),
        (vec![7, 0, 0, 1, 0, 0, 0, 5, 0], "5 is no type of value"),
        (vec![9, 0, 5, 0, 0], "5 is no event of a session"),
        (vec![12, 0, 0, 0, 0, 0, 0, 0, 0], "it ends within a field"),
        (vec![10, 1, 0xFF, 0], "255 is no cause of loss"),
        (vec![16, 1, 0, 0, 0], "it ends within a field"),
        (vec![16, 1, 0, 0, 0x81, 0x80, 0x80, 0x80, 0x10, 0], "a number is too large for its field"),
        // Counts that the payload cannot hold are not believed.
        ([&[3, 0], &huge[..]].concat(), "it ends within a field"),
        ([&[5, 0, 0], &huge[..]].concat(), "it ends within a field"),
        ([&[6, 0, 0], &huge[..]].concat(), "it ends within a field"),
        ([&[7, 0, 0], &huge[..]].concat(), "it ends within a field"),
        ([&[7, 0, 0, 1, 0, 0, 0, 4], &huge[..]].concat(), "it ends within a field"),
        ([&[8, 0], &huge[..]].concat(), "it ends within a field"),
        ([&[10], &huge[..]].concat(), "it ends within a field"),
        ([&[13, 0], &huge[..]].concat(), "it ends within a field"),
        ([&[15, 0], &huge[..]].concat(), "it ends within a field"),
        ([&[15, 0, 1, 0, 0, 0, 0], &huge[..]].concat(), "it ends within a field"),
        ([&[17, 0], &huge[..]].concat(), "it ends within a field"),
        ([&[16], &huge[..]].concat(), "it ends within a field"),
    ] {
        let message = error(&file_of(&body)).to_string();
        assert_eq!(
            message,
            format!("the frame at byte 12 cannot be decoded: {reason}"),
            "{body:?}"
        );
    }
}

fn node(parent: u32, kind: NodeKind, name: u32) -> NodeDef {
    NodeDef { parent, kind, name }
}

#[test]
fn a_frame_that_contradicts_the_ones_before_it_says_why() {
    let (root, scope) = (node(0, NodeKind::Root, 0), NodeKind::Scope);
    let nodes =
        |thread, first, nodes: &[NodeDef]| Frame::Nodes { thread, first, nodes: nodes.to_vec() };
    let texts = |first, count| Frame::Strings { first, texts: vec![String::new(); count] };
    let sound = [
        texts(0, 2),
        Frame::Thread { thread: 7, os_id: 1, name: String::new() },
        nodes(7, 0, &[root, node(0, scope, 1)]),
        Frame::Shapes {
            first: 0,
            shapes: vec![Shape {
                kind: ActivityKind::Sync,
                name: 0,
                device: 0,
                stream: 0,
                details: Vec::new(),
            }],
        },
    ];
    let offset = written(&sound).len();
    let span = |node| Span { node, start_nanos: 0, end_nanos: 1 };
    let spans = |thread, id| Frame::Spans { thread, sessions: 1, spans: vec![span(1), span(id)] };
    let values = |node, metric| {
        let value = Value { node, time_nanos: 0, metric, value: MetricValue::Int(1) };
        Frame::Values { thread: 7, sessions: 1, values: vec![value] }
    };
    let shapes = |first, name| {
        let details = Vec::new();
        let shape = Shape { kind: ActivityKind::Kernel, name, device: 0, stream: 0, details };
        Frame::Shapes { first, shapes: vec![shape] }
    };
    let activity = |shape, launch| {
        let activity = Activity {
            shape,
            start_nanos: 0,
            duration_nanos: 1,
            bytes: 0,
            correlation: 0,
            launch: Some(launch),
        };
        Frame::Activities { sessions: 1, activities: vec![activity] }
    };
    for (frame, reason) in [
        (shapes(3, 2), "it uses the text 2, which is not defined"),
        (shapes(0, 0), "it defines shapes from 0 on, of which one is defined already or has no id"),
        (activity(1, (7, 0)), "it uses the shape 1, which is not defined"),
        (activity(0, (8, 0)), "it speaks of the thread 8, which is not defined"),
        (activity(0, (7, 2)), "it uses the node 2 of the thread 7, which is not defined"),
        (
            Frame::Launches { thread: 8, launches: vec![] },
            "it speaks of the thread 8, which is not defined",
        ),
        (texts(1, 1), "it defines texts from 1 on, of which one is defined already or has no id"),
        (
            texts(u32::MAX, 2),
            "it defines texts from 4294967295 on, of which one is defined already or has no id",
        ),
        (
            nodes(7, 1, &[root]),
            "it defines nodes of the thread 7 from 1 on, of which one is defined already or has no id",
        ),
        (nodes(8, 0, &[root]), "it speaks of the thread 8, which is not defined"),
        (nodes(7, 2, &[node(2, scope, 0)]), "the node 2 of the thread 7 cannot have the parent 2"),
        (nodes(7, 2, &[node(3, scope, 0)]), "the node 2 of the thread 7 cannot have the parent 3"),
        (nodes(7, 2, &[root]), "the node 2 of the thread 7 cannot have the parent 0"),
        (
            nodes(7, 9, &[node(5, scope, 0)]),
            "it uses the node 5 of the thread 7, which is not defined",
        ),
        (nodes(7, 2, &[node(0, scope, 2)]), "it uses the text 2, which is not defined"),
        (spans(7, 2), "it uses the node 2 of the thread 7, which is not defined"),
        (spans(8, 0), "it speaks of the thread 8, which is not defined"),
        (values(2, 0), "it uses the node 2 of the thread 7, which is not defined"),
        (values(0, 2), "it uses the text 2, which is not defined"),
        (
            Frame::Counters(vec![Counter { time_nanos: 0, name: 2, device: None, value: 0.0 }]),
            "it uses the text 2, which is not defined",
        ),
        (
            Frame::Open { thread: 7, spans: vec![(2, 0)] },
            "it uses the node 2 of the thread 7, which is not defined",
        ),
    ] {
        let file = written(&[&sound[..], &[frame, Frame::End]].concat());
        let message = error(&file).to_string();
        assert_eq!(message, format!("the frame at byte {offset} is not possible: {reason}"));
    }
    let message = error(&written(&[Frame::End, Frame::End])).to_string();
    assert_eq!(message, "the frame at byte 21 is not possible: it follows the end");
}

#[test]
fn ids_may_be_sparse_and_come_in_any_order() {
    let texts = |first| Frame::Strings { first, texts: vec!["x".to_owned()] };
    let nodes = |first, name| Frame::Nodes {
        thread: 0,
        first,
        nodes: vec![node(first, NodeKind::Root, name)],
    };
    let frames = [
        texts(70),
        texts(3),
        Frame::Thread { thread: 0, os_id: 1, name: String::new() },
        nodes(9, 70),
        nodes(2, 3),
        // The thread has a new name, and keeps its nodes.
        Frame::Thread { thread: 0, os_id: 1, name: "x".to_owned() },
        Frame::Open { thread: 0, spans: vec![(9, 0), (2, 0)] },
    ];
    let read: Vec<Frame> = Reader::new(&*written(&frames)).unwrap().map(Result::unwrap).collect();
    assert_eq!(read, frames);
}

#[test]
fn a_failing_input_is_an_error_and_no_torn_tail() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let file = written(&[Frame::End]);
    let mut reader = Reader::new(file.chain(Failing)).unwrap();
    assert!(matches!(reader.next(), Some(Ok(Frame::End))));
    let error = reader.next().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "cannot read the spool: the disk is gone");
    assert!(reader.next().is_none());
    assert_eq!(reader.torn(), None);
}

#[test]
fn what_the_fuzzer_found_still_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/spool");
    let mut count = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        round_trip::holds_for(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count > 0, "the corpus is empty");
}

proptest! {
    #[test]
    fn a_damaged_payload_gives_an_error_or_other_frames(
        at in any::<prop::sample::Index>(), byte in any::<u8>(), more in any::<u8>(),
    ) {
        let mut file = written(&training::frames(2));
        let at = at.index(file.len());
        file[at] = byte;
        round_trip::holds_for(&file);
        file.insert(at, more);
        round_trip::holds_for(&file);
    }
}
