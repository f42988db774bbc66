//! Rings: wherever a ring is cut into segments and wherever it ends, joining returns its last records.

use std::collections::BTreeMap;

use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_model::spool::{
    Activity, ActivityKind, ActivityShape, AutogradCall, Counter, NodeDef, RING_RECORDS,
    RING_SECONDS, RecordedValue, SessionEvent, Span, SpoolFrame, SpoolReader, join_ring,
};
use proptest::prelude::*;

use super::round_trip::encode_file;

/// A record, as a test describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Record {
    Span { thread: u32, names: (u8, u8), number: u32, is_launch: bool, has_args: bool },
    Value { thread: u32, name: u8, number: u32 },
    Counter { name: u8, number: u32 },
    Activity { name: u8, thread: u32, number: u32 },
}

fn record(number: u32) -> impl Strategy<Value = Record> {
    let (thread, name) = (0..3_u32, 0..4_u8);
    prop_oneof![
        4 => (thread.clone(), (name.clone(), name.clone()), any::<bool>(), any::<bool>()).prop_map(
            move |(thread, names, is_launch, has_args)| {
                Record::Span { thread, names, number, is_launch, has_args }
            }
        ),
        1 => (thread.clone(), name.clone()).prop_map(move |(thread, name)| Record::Value { thread, name, number }),
        1 => name.clone().prop_map(move |name| Record::Counter { name, number }),
        1 => (name, thread).prop_map(move |(name, thread)| Record::Activity { name, thread, number }),
    ]
}

/// Records, each with whether it begins a segment and whether it begins a frame.
fn ring() -> impl Strategy<Value = Vec<(Record, bool, bool)>> {
    (0..60_u32).prop_flat_map(|count| {
        (1..=count)
            .map(|number| (record(number), prop::bool::weighted(0.15), any::<bool>()))
            .collect::<Vec<_>>()
    })
}

/// Writes a segment, which defines what it uses.
#[derive(Default)]
struct Segment {
    frames: Vec<SpoolFrame>,
    texts: Vec<String>,
    nodes: BTreeMap<u32, Vec<NodeDef>>,
    shapes: Vec<ActivityShape>,
    args: u32,
}

impl Segment {
    fn begin(is_first: bool, records: u64, secs: f64) -> Self {
        let mut segment = Self::default();
        let note = |key: &str, value: String| SpoolFrame::Note { key: key.to_owned(), value };
        segment.frames.push(SpoolFrame::Process(marey_model::profile::Process::default()));
        segment.frames.push(note(RING_RECORDS, records.to_string()));
        segment.frames.push(note(RING_SECONDS, secs.to_string()));
        segment.frames.push(note("other", "no number".to_owned()));
        let session = |event, time_nanos| SpoolFrame::Session {
            session: 0,
            event,
            name: "run".to_owned(),
            time_nanos,
        };
        segment.frames.push(session(SessionEvent::Started, 0));
        segment.frames.push(session(SessionEvent::Phase(2), if is_first { 1 } else { 5 }));
        for thread in 0..3 {
            segment.frames.push(SpoolFrame::Thread { thread, os_id: 7, name: "thread".to_owned() });
        }
        segment
    }

    fn text(&mut self, text: &str) -> u32 {
        if let Some(number) = self.texts.iter().position(|known| known == text) {
            return number as u32;
        }
        let first = self.texts.len() as u32;
        self.texts.push(text.to_owned());
        self.frames.push(SpoolFrame::Strings { first_id: first, texts: vec![text.to_owned()] });
        first
    }

    fn node(&mut self, thread: u32, parent: Option<u32>, name: &str) -> u32 {
        let name = self.text(name);
        let kind = if parent.is_some() { NodeKind::Scope } else { NodeKind::Root };
        let nodes = self.nodes.entry(thread).or_default();
        let first = nodes.len() as u32;
        let node = NodeDef { parent_id: parent.unwrap_or(first), kind, name_id: name };
        let is_known = |known: &NodeDef| {
            known.name_id == name
                && known.kind == kind
                && parent.is_none_or(|id| known.parent_id == id)
        };
        if let Some(number) = nodes.iter().position(is_known) {
            return number as u32;
        }
        nodes.push(node);
        self.frames.push(SpoolFrame::Nodes { thread, first_id: first, nodes: vec![node] });
        first
    }

    fn leaf(&mut self, thread: u32, names: (u8, u8)) -> u32 {
        let root = self.node(thread, None, "root");
        let outer = self.node(thread, Some(root), &names.0.to_string());
        self.node(thread, Some(outer), &names.1.to_string())
    }

    /// Adds records as few frames as their kinds and threads allow.
    fn add(&mut self, records: &[Record]) {
        let same = |left: &Record, right: &Record| match (left, right) {
            (Record::Span { thread, .. }, Record::Span { thread: other, .. })
            | (Record::Value { thread, .. }, Record::Value { thread: other, .. }) => {
                thread == other
            }
            _ => std::mem::discriminant(left) == std::mem::discriminant(right),
        };
        for chunk in records.chunk_by(same) {
            self.add_frame(chunk);
        }
    }

    fn add_frame(&mut self, records: &[Record]) {
        let (mut spans, mut launches, mut calls, mut args) = (vec![], vec![], vec![], vec![]);
        let (mut values, mut counters, mut activities) = (vec![], vec![], vec![]);
        let mut on_thread = 0;
        for (index, record) in (0..).zip(records) {
            match *record {
                Record::Span { thread, names, number, is_launch, has_args } => {
                    let (node_id, end_nanos) = (self.leaf(thread, names), nanos(number));
                    spans.push(Span { node_id, start_nanos: end_nanos - 5, end_nanos });
                    if is_launch {
                        launches.push((index, number));
                        let (sequence, forward_os_id) = (number.into(), 7);
                        calls.push(AutogradCall { span_index: index, sequence, forward_os_id });
                    }
                    if has_args {
                        let texts = vec![format!("{{\"number\":{number}}}")];
                        self.frames.push(SpoolFrame::SpanArgs { first_id: self.args, texts });
                        args.push((index, self.args));
                        self.args += 1;
                    }
                    on_thread = thread;
                }
                Record::Value { thread, name, number } => {
                    let node_id = self.leaf(thread, (name, name));
                    let name_id = self.text(&name.to_string());
                    let (time_nanos, value) = (nanos(number), MetricValue::Int(number.into()));
                    values.push(RecordedValue { node_id, time_nanos, name_id, value });
                    on_thread = thread;
                }
                Record::Counter { name, number } => counters.push(Counter {
                    time_nanos: nanos(number),
                    name_id: self.text(&name.to_string()),
                    device: None,
                    value: number.into(),
                }),
                Record::Activity { name, thread, number } => {
                    let text = self.text(&name.to_string());
                    let shape = ActivityShape {
                        kind: ActivityKind::Kernel,
                        name_id: text,
                        device: 0,
                        stream: 7,
                        details: Vec::new(),
                    };
                    let first = self.shapes.len() as u32;
                    self.shapes.push(shape.clone());
                    self.frames.push(SpoolFrame::Shapes { first_id: first, shapes: vec![shape] });
                    activities.push(Activity {
                        shape_id: first,
                        start_nanos: nanos(number),
                        duration_nanos: 0,
                        bytes: 0,
                        correlation_id: number,
                        launch: Some((thread, self.leaf(thread, (name, name)))),
                    });
                }
            }
        }
        let thread = on_thread;
        let frames = [
            (!launches.is_empty()).then_some(SpoolFrame::Launches { thread, launches }),
            (!calls.is_empty()).then_some(SpoolFrame::Autograd { thread, calls }),
            (!args.is_empty()).then_some(SpoolFrame::ArgsOfSpans { thread, args }),
            (!spans.is_empty()).then_some(SpoolFrame::Spans { thread, sessions: 1, spans }),
            (!values.is_empty()).then_some(SpoolFrame::Values { thread, sessions: 1, values }),
            (!counters.is_empty()).then_some(SpoolFrame::Counters(counters)),
            (!activities.is_empty()).then_some(SpoolFrame::Activities { sessions: 1, activities }),
        ];
        self.frames.extend(frames.into_iter().flatten());
    }
}

/// Returns the time of a record.
fn nanos(number: u32) -> i64 {
    i64::from(number) * 1_000_000_000
}

/// Returns the files of a ring's segments.
fn segments(ring: &[(Record, bool, bool)], records: u64, secs: f64) -> Vec<Vec<u8>> {
    let mut segments = vec![Segment::begin(true, records, secs)];
    for frame in
        ring.chunk_by(|_, (_, begins_segment, begins_frame)| !begins_segment && !begins_frame)
    {
        if frame[0].1 {
            segments.push(Segment::begin(false, records, secs));
        }
        let records: Vec<_> = frame.iter().map(|(record, ..)| *record).collect();
        segments.last_mut().unwrap().add(&records);
    }
    segments.iter().map(|segment| encode_file(&segment.frames)).collect()
}

/// The contents of a joined ring.
#[derive(Debug, Default)]
struct Joined {
    records: Vec<Record>,
    session_events: Vec<SessionEvent>,
    processes: usize,
    dropped: u64,
}

fn join(files: &[Vec<u8>]) -> Joined {
    let mut out = Vec::new();
    assert!(join_ring(files, |file| Ok(&file[..]), &mut out).unwrap().is_none());
    read(&out)
}

/// Reads a spool, whose reader checks that everything is defined, and once.
fn read(file: &[u8]) -> Joined {
    let mut joined = Joined::default();
    let (mut texts, mut nodes) = (Vec::new(), BTreeMap::<u32, Vec<NodeDef>>::new());
    let (mut shapes, mut args_texts) = (Vec::new(), Vec::new());
    let (mut launches, mut calls, mut args) = (Vec::new(), Vec::new(), Vec::new());
    let number = |nanos: i64| (nanos / 1_000_000_000) as u32;
    for frame in SpoolReader::new(file).unwrap() {
        let name = |texts: &Vec<String>, text: u32| texts[text as usize].parse().unwrap();
        let leaf = |texts: &Vec<String>, nodes: &BTreeMap<u32, Vec<NodeDef>>, thread, node: u32| {
            let nodes = &nodes[&thread];
            let inner = nodes[node as usize];
            let outer = nodes[inner.parent_id as usize];
            assert_eq!(nodes[outer.parent_id as usize].kind, NodeKind::Root);
            (name(texts, outer.name_id), name(texts, inner.name_id))
        };
        match frame.unwrap() {
            SpoolFrame::Process(_) => joined.processes += 1,
            SpoolFrame::Session { event, .. } => joined.session_events.push(event),
            SpoolFrame::Losses(losses) => {
                let dropped = losses.iter().filter(|(cause, _)| *cause == LossCause::Ring);
                joined.dropped = dropped.map(|loss| loss.1).sum();
            }
            SpoolFrame::Strings { texts: new, .. } => texts.extend(new),
            SpoolFrame::Nodes { thread, nodes: new, .. } => {
                nodes.entry(thread).or_default().extend(new);
            }
            SpoolFrame::Shapes { shapes: new, .. } => shapes.extend(new),
            SpoolFrame::SpanArgs { texts: new, .. } => args_texts.extend(new),
            SpoolFrame::Launches { launches: new, .. } => launches = new,
            SpoolFrame::Autograd { calls: new, .. } => calls = new,
            SpoolFrame::ArgsOfSpans { args: new, .. } => args = new,
            SpoolFrame::Spans { thread, spans, .. } => {
                let (launches, calls) = (std::mem::take(&mut launches), std::mem::take(&mut calls));
                let args = std::mem::take(&mut args);
                assert_eq!(launches.len(), calls.len());
                for (index, span) in (0..).zip(&spans) {
                    let number = number(span.end_nanos);
                    let launch = launches.iter().find(|launch| launch.0 == index);
                    let call = calls.iter().find(|call| call.span_index == index);
                    let text = args.iter().find(|args| args.0 == index);
                    let text = text.map(|args| &args_texts[args.1 as usize]);
                    assert!(launch.is_none_or(|launch| launch.1 == number));
                    assert!(call.is_none_or(|call| call.sequence == u64::from(number)));
                    assert!(text.is_none_or(|text| *text == format!("{{\"number\":{number}}}")));
                    joined.records.push(Record::Span {
                        thread,
                        names: leaf(&texts, &nodes, thread, span.node_id),
                        number,
                        is_launch: launch.is_some(),
                        has_args: text.is_some(),
                    });
                }
            }
            SpoolFrame::Values { thread, values, .. } => {
                for value in values {
                    assert_eq!(
                        leaf(&texts, &nodes, thread, value.node_id).0,
                        name(&texts, value.name_id)
                    );
                    let (name, number) = (name(&texts, value.name_id), number(value.time_nanos));
                    joined.records.push(Record::Value { thread, name, number });
                }
            }
            SpoolFrame::Counters(counters) => {
                joined.records.extend(counters.iter().map(|counter| Record::Counter {
                    name: name(&texts, counter.name_id),
                    number: number(counter.time_nanos),
                }));
            }
            SpoolFrame::Activities { activities, .. } => {
                for activity in activities {
                    let (thread, node) = activity.launch.unwrap();
                    let shape: &ActivityShape = &shapes[activity.shape_id as usize];
                    assert_eq!(leaf(&texts, &nodes, thread, node).0, name(&texts, shape.name_id));
                    let number = number(activity.start_nanos);
                    let name = name(&texts, shape.name_id);
                    joined.records.push(Record::Activity { name, thread, number });
                }
            }
            _ => {}
        }
    }
    joined
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_last_records_remain_whatever_the_segments(ring in ring(), limit in 1..40_u64) {
        let joined = join(&segments(&ring, limit, 0.0));
        let all: Vec<_> = ring.iter().map(|(record, ..)| *record).collect();
        let dropped = all.len().saturating_sub(limit as usize);
        prop_assert_eq!(&joined.records, &all[dropped..]);
        prop_assert_eq!(joined.dropped, dropped as u64);
        prop_assert_eq!(joined.processes, 1);
        prop_assert_eq!(joined.session_events, [SessionEvent::Started, SessionEvent::Phase(2)]);
    }

    #[test]
    fn the_records_of_the_last_seconds_remain(ring in ring(), secs in 1..40_u32) {
        let joined = join(&segments(&ring, 0, secs.into()));
        // Record n is at n seconds.
        let dropped = ring.len().saturating_sub(secs as usize + 1);
        let all: Vec<_> = ring.iter().map(|(record, ..)| *record).collect();
        prop_assert_eq!(&joined.records, &all[dropped..]);
    }

    #[test]
    fn a_ring_that_is_cut_anywhere_has_the_last_records_before_the_cut(
        ring in ring(),
        limit in 1..40_u64,
        cut in any::<prop::sample::Index>(),
    ) {
        let mut files = segments(&ring, limit, 0.0);
        // All records before the cut: the whole frames of the cut segment.
        let last = files.last_mut().unwrap();
        last.truncate(cut.index(last.len() + 1));
        let complete: Vec<_> = SpoolReader::new(&**last).unwrap().map(Result::unwrap).collect();
        let mut unlimited = segments(&ring, 0, 0.0);
        *unlimited.last_mut().unwrap() = encode_file(&complete);
        let written: Vec<_> = unlimited.iter().flat_map(|file| read(file).records).collect();
        let joined = join(&files);
        let dropped = written.len().saturating_sub(limit as usize);
        prop_assert_eq!(&joined.records, &written[dropped..]);
        prop_assert_eq!(joined.dropped, dropped as u64);
    }
}
