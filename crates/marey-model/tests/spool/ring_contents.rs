//! Rings: every text, node and open scope of a segment is the same after joining.

use std::collections::BTreeMap;

use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_model::profile::Process;
use marey_model::spool::{
    Collective, CollectiveState, Counter, NodeDef, RING_RECORDS, Sample, SampleCause, SessionEvent,
    SpoolFrame, SpoolReader, Variable, join_ring,
};

use super::round_trip::encode_file;

const NAMES: [&str; 10] = ["root", "a", "b", "main", "f.py", "f", "loss", "float", "dp", "0-3"];

/// Returns the frames that define a thread, the names in an order that begins with number `rotation`,
/// and the path `root/a/b/a`.
fn definitions(rotation: usize) -> Vec<SpoolFrame> {
    let mut names = NAMES.map(str::to_owned);
    names.rotate_left(rotation);
    let node =
        |parent, kind, name| NodeDef { parent_id: parent, kind, name_id: text(rotation, name) };
    let nodes = [
        node(0, NodeKind::Root, "root"),
        node(0, NodeKind::Scope, "a"),
        node(1, NodeKind::Scope, "b"),
        node(2, NodeKind::Scope, "a"),
    ];
    vec![
        SpoolFrame::Process(Process::default()),
        SpoolFrame::Thread { thread: 0, os_id: 7, name: "main".to_owned() },
        SpoolFrame::Strings { first_id: 0, texts: names.to_vec() },
        // The first segment has a part of the path alone.
        SpoolFrame::Nodes {
            thread: 0,
            first_id: 0,
            nodes: nodes[..4 - 2 * usize::from(rotation == 0)].to_vec(),
        },
    ]
}

fn text(rotation: usize, name: &str) -> u32 {
    let position = NAMES.iter().position(|known| *known == name).unwrap();
    ((position + NAMES.len() - rotation) % NAMES.len()) as u32
}

fn join(segments: &[Vec<SpoolFrame>]) -> Vec<SpoolFrame> {
    let files: Vec<_> = segments.iter().map(|frames| encode_file(frames)).collect();
    let mut out = Vec::new();
    assert!(join_ring(&files, |file| Ok(&file[..]), &mut out).unwrap().is_none());
    SpoolReader::new(&*out).unwrap().map(Result::unwrap).collect()
}

/// Returns samples, variables and collectives in words, with the names of their ids.
fn describe(frames: &[SpoolFrame]) -> Vec<String> {
    let mut texts: Vec<&str> = Vec::new();
    let mut nodes: Vec<NodeDef> = Vec::new();
    let mut described = Vec::new();
    for frame in frames {
        let text = |id: u32| texts[id as usize];
        match frame {
            SpoolFrame::Strings { texts: new, .. } => texts.extend(new.iter().map(String::as_str)),
            SpoolFrame::Nodes { nodes: new, .. } => nodes.extend(new),
            SpoolFrame::Samples { samples, .. } => described.extend(samples.iter().map(|sample| {
                let path = std::iter::successors(Some(sample.node_id), |&node| {
                    let parent = nodes[node as usize].parent_id;
                    (parent != node).then_some(parent)
                });
                let path: Vec<_> = path.map(|node| text(nodes[node as usize].name_id)).collect();
                format!("sample {} {}", text(sample.thread_name_id), path.join("<"))
            })),
            SpoolFrame::Variables(variables) => described.extend(
                variables
                    .iter()
                    .map(|row| format!("variable {}", row.text_ids().map(text).join(" "))),
            ),
            SpoolFrame::Collectives(rows) => described.extend(rows.iter().map(|row| {
                let [name, group] = [row.name_id, row.group_id].map(text);
                format!(
                    "collective {name} {group} {:?} {:?}",
                    row.group_ranks_id.map(text),
                    row.dtype_id.map(text)
                )
            })),
            _ => {}
        }
    }
    described
}

#[test]
fn names_and_nodes_are_the_same_whatever_their_numbers_in_a_segment() {
    let segment = |rotation: usize, node| {
        let id = |name| text(rotation, name);
        let sample = Sample {
            time_nanos: 10,
            duration_nanos: 1,
            os_id: 7,
            thread_name_id: id("main"),
            node_id: node,
            cause: SampleCause::Interval,
        };
        let variable = Variable {
            time_nanos: 11,
            os_id: 7,
            thread_name_id: id("main"),
            file_id: id("f.py"),
            function_id: id("f"),
            line: 3,
            name_id: id("loss"),
            type_id: id("float"),
            value: MetricValue::Int(1),
        };
        let collective = Collective {
            name_id: id("a"),
            group_id: id("dp"),
            group_ranks_id: Some(id("0-3")),
            group_size: Some(4),
            sequence: Some(1),
            dtype_id: Some(id("float")),
            in_elements: None,
            out_elements: None,
            created_unix_nanos: 12,
            started_unix_nanos: None,
            duration_nanos: None,
            state: CollectiveState::Completed,
            is_p2p: false,
        };
        let mut frames = definitions(rotation);
        frames.extend([
            SpoolFrame::Samples { thread: 0, samples: vec![sample] },
            SpoolFrame::Variables(vec![variable]),
            SpoolFrame::Collectives(vec![collective]),
        ]);
        frames
    };
    let rows = |path: &str| {
        [
            format!("sample main {path}"),
            "variable main f.py f loss float".to_owned(),
            r#"collective a dp Some("0-3") Some("float")"#.to_owned(),
        ]
    };
    let joined = join(&[segment(0, 1), segment(3, 3), segment(7, 2)]);
    let expected = [rows("a<root"), rows("a<b<a<root"), rows("b<a<root")].concat();
    assert_eq!(describe(&joined), expected);
}

#[test]
fn the_open_scopes_and_the_end_are_those_of_the_last_segment() {
    let open = |spans: &[(u32, i64)]| SpoolFrame::Open { thread: 0, spans: spans.to_vec() };
    let segment = |more: Vec<SpoolFrame>| [definitions(1), more].concat();
    let state = |segments: &[Vec<SpoolFrame>]| {
        let mut open_by_thread = BTreeMap::new();
        let mut has_end = false;
        for frame in join(segments) {
            match frame {
                SpoolFrame::Open { thread, spans } => drop(open_by_thread.insert(thread, spans)),
                SpoolFrame::End => has_end = true,
                _ => {}
            }
        }
        (open_by_thread.remove(&0).unwrap_or_default(), has_end)
    };
    let first = segment(vec![open(&[(1, 5)])]);
    assert_eq!(state(std::slice::from_ref(&first)), (vec![(1, 5)], false));
    assert_eq!(state(&[first.clone(), segment(vec![])]), (vec![], false));
    let last = segment(vec![open(&[(1, 5), (2, 6)]), SpoolFrame::End]);
    assert_eq!(state(&[first.clone(), last.clone()]), (vec![(1, 5), (2, 6)], true));
    // Of a segment that follows an end, only its own end counts.
    assert_eq!(state(&[last, first]), (vec![(1, 5)], false));
}

#[test]
fn a_thread_without_open_scopes_is_not_closed_again() {
    let open = |spans: &[(u32, i64)]| SpoolFrame::Open { thread: 0, spans: spans.to_vec() };
    let segment = |more: Vec<SpoolFrame>| [definitions(1), more].concat();
    let count = |segments: &[Vec<SpoolFrame>]| {
        let frames = join(segments);
        frames.iter().filter(|frame| matches!(frame, SpoolFrame::Open { .. })).count()
    };
    let closed = segment(vec![open(&[(1, 5)]), open(&[])]);
    assert_eq!(count(&[closed, segment(vec![])]), 2);
    let opened_twice = segment(vec![open(&[(1, 5)]), open(&[(2, 6)])]);
    assert_eq!(count(&[opened_twice, segment(vec![])]), 3);
}

#[test]
fn records_beyond_the_limit_are_added_to_the_losses() {
    let losses = |limit: u64, losses: &[(LossCause, u64)]| {
        let counter =
            |time_nanos| Counter { time_nanos, name_id: text(0, "loss"), device: None, value: 1.0 };
        let mut segment = definitions(0);
        segment
            .insert(1, SpoolFrame::Note { key: RING_RECORDS.to_owned(), value: limit.to_string() });
        segment.extend([
            SpoolFrame::Counters((1..=5).map(counter).collect()),
            SpoolFrame::Losses(losses.to_vec()),
        ]);
        let last = join(&[segment]).into_iter().rev().find_map(|frame| match frame {
            SpoolFrame::Losses(losses) => Some(losses),
            _ => None,
        });
        last.unwrap()
    };
    let other = (LossCause::Nodes, 2);
    assert_eq!(losses(5, &[other]), [other]);
    assert_eq!(losses(3, &[other]), [other, (LossCause::Ring, 2)]);
    assert_eq!(losses(3, &[other, (LossCause::Ring, 10)]), [other, (LossCause::Ring, 12)]);
}

#[test]
fn the_state_of_a_session_that_a_segment_repeats_is_no_event() {
    use SessionEvent::{Activated, Deactivated, Finalized, Phase, Started};
    let segment = |events: &[(SessionEvent, i64)]| {
        let name = || "run".to_owned();
        let frame = |&(event, time_nanos)| SpoolFrame::Session {
            session: 0,
            event,
            name: name(),
            time_nanos,
        };
        definitions(0).into_iter().chain(events.iter().map(frame)).collect::<Vec<_>>()
    };
    let frames = join(&[
        segment(&[(Started, 0), (Phase(1), 1), (Deactivated, 2)]),
        segment(&[(Started, 0), (Phase(1), 3), (Deactivated, 3), (Activated, 4)]),
        segment(&[(Started, 0), (Phase(1), 5), (Activated, 5), (Finalized, 6), (Started, 7)]),
    ]);
    let events = frames.into_iter().filter_map(|frame| match frame {
        SpoolFrame::Session { event, time_nanos, .. } => Some((event, time_nanos)),
        _ => None,
    });
    let expected = [
        (Started, 0),
        (Phase(1), 1),
        (Deactivated, 2),
        (Activated, 4),
        (Finalized, 6),
        (Started, 7),
    ];
    assert_eq!(events.collect::<Vec<_>>(), expected);
}
