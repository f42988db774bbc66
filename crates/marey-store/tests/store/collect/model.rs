//! A simple and slow model of the tables of a spool.

use std::collections::BTreeMap;

use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_model::spool::{NodeDef, SessionEvent, Span, SpoolFrame};

use super::spools::UNIX;
use super::tables::{CounterRow, NodePath, SpanRow, ValueRow};

/// The spans and values of a spool, sorted as in its tables.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    pub(crate) spans: Vec<SpanRow>,
    /// The spans that count in sums.
    pub(crate) spans_in_sums: Vec<SpanRow>,
    pub(crate) values: Vec<ValueRow>,
    pub(crate) counters: Vec<CounterRow>,
}

/// The state of a session at a frame.
#[derive(Clone, Debug)]
struct Session {
    phase: u32,
    /// The times at which recording started or stopped, each with whether it is on.
    transitions: Vec<(i64, bool)>,
}

struct EarlierSpan {
    node: (u32, u32),
    start_nanos: i64,
    duration_nanos: i64,
    epoch: u32,
}

#[derive(Default)]
struct Model<'a> {
    texts: BTreeMap<u32, &'a str>,
    threads: BTreeMap<u32, &'a str>,
    nodes: BTreeMap<(u32, u32), NodeDef>,
    sessions: BTreeMap<u32, Session>,
    open: BTreeMap<u32, Vec<(u32, i64)>>,
    /// The spans so far.
    earlier: Vec<EarlierSpan>,
    /// Counts the frames at which spans may have been lost.
    epoch: u32,
    expected: Expected,
}

pub(crate) fn expected(frames: &[SpoolFrame]) -> Expected {
    let mut model = Model::default();
    for frame in frames {
        model.add(frame);
    }
    let last_nanos = frames.iter().flat_map(times).max().unwrap();
    model.add_open(u64::MAX, last_nanos);
    model.expected.spans.sort_by_key(|span| span.start_nanos);
    model.expected.values.sort_by_key(|value| value.time_nanos);
    model.expected.counters.sort_by_key(|counter| counter.time_nanos);
    model.expected
}

impl<'a> Model<'a> {
    fn add(&mut self, frame: &'a SpoolFrame) {
        match frame {
            SpoolFrame::Strings { first_id: first, texts } => {
                self.texts.extend((*first..).zip(texts.iter().map(String::as_str)));
            }
            SpoolFrame::Thread { thread, name, .. } => {
                self.threads.insert(*thread, name);
            }
            SpoolFrame::Nodes { thread, first_id: first, nodes } => {
                let numbers = (*first..).map(|node| (*thread, node));
                self.nodes.extend(numbers.zip(nodes.iter().copied()));
            }
            SpoolFrame::Open { thread, spans } => {
                self.open.insert(*thread, spans.clone());
            }
            SpoolFrame::Session { session, event, time_nanos, .. } => {
                self.update_session(*session, *event, *time_nanos);
                self.epoch += 1;
            }
            SpoolFrame::Losses(_) => self.epoch += 1,
            SpoolFrame::Spans { thread, sessions, spans } => {
                for span in spans {
                    self.add_span(*thread, *sessions, span);
                }
            }
            SpoolFrame::Values { thread, sessions, values } => {
                for value in values {
                    let row = ValueRow {
                        time_nanos: UNIX + value.time_nanos,
                        node_path: self.node_path(*thread, value.node_id),
                        name: self.texts[&value.name_id].to_owned(),
                        sessions: *sessions,
                        phase: self.phase(*sessions),
                        value: as_stored(&value.value),
                    };
                    self.expected.values.push(row);
                }
            }
            SpoolFrame::Counters(counters) => {
                let rows = counters.iter().map(|counter| CounterRow {
                    time_nanos: UNIX + counter.time_nanos,
                    device: counter.device,
                    name: self.texts[&counter.name_id].to_owned(),
                    value: counter.value,
                });
                self.expected.counters.extend(rows);
            }
            // Covered by the tests of devices.
            SpoolFrame::Launches { .. }
            | SpoolFrame::Autograd { .. }
            | SpoolFrame::SpanArgs { .. }
            | SpoolFrame::ArgsOfSpans { .. }
            | SpoolFrame::Collectives(_)
            | SpoolFrame::Samples { .. }
            | SpoolFrame::Variables(_)
            | SpoolFrame::Device(_)
            | SpoolFrame::Shapes { .. }
            | SpoolFrame::Activities { .. }
            | SpoolFrame::Note { .. }
            | SpoolFrame::Process(_)
            | SpoolFrame::Clock { .. }
            | SpoolFrame::Overhead(_)
            | SpoolFrame::End => {}
        }
    }

    fn add_span(&mut self, thread: u32, sessions: u64, span: &Span) {
        let node = (thread, span.node_id);
        let duration_nanos = span.duration_nanos().cast_signed();
        let children_nanos = self.children_nanos(node, span.start_nanos);
        let (start_nanos, epoch) = (span.start_nanos, self.epoch);
        self.earlier.push(EarlierSpan { node, start_nanos, duration_nanos, epoch });
        let row = SpanRow {
            start_nanos: UNIX + span.start_nanos,
            duration_nanos,
            children_nanos: children_nanos.min(duration_nanos),
            node_path: self.node_path(thread, span.node_id),
            sessions,
            phase: self.phase(sessions),
            is_open: false,
        };
        self.expected.spans_in_sums.push(row.clone());
        self.expected.spans.push(row);
        let open = self.open.entry(thread).or_default();
        if open.last().is_some_and(|scope| scope.1 >= span.start_nanos) {
            open.retain(|scope| *scope != (span.node_id, span.start_nanos));
        }
    }

    /// Returns the time of its children: the spans below since the last span of its node, except
    /// for groups between two losses that all began before it.
    fn children_nanos(&self, (thread, node): (u32, u32), start_nanos: i64) -> i64 {
        let last_same_node = self.earlier.iter().rposition(|span| span.node == (thread, node));
        let is_child = |span: &&EarlierSpan| {
            let parent = self.nodes[&span.node].parent_id;
            span.node.0 == thread && parent == node && parent != span.node.1
        };
        let mut by_epoch: BTreeMap<u32, Vec<&EarlierSpan>> = BTreeMap::new();
        for child in
            self.earlier[last_same_node.map_or(0, |index| index + 1)..].iter().filter(is_child)
        {
            by_epoch.entry(child.epoch).or_default().push(child);
        }
        by_epoch
            .retain(|_, children| children.iter().any(|child| child.start_nanos >= start_nanos));
        by_epoch.values().flatten().map(|child| child.duration_nanos).sum()
    }

    fn add_open(&mut self, sessions: u64, until_nanos: i64) {
        for (thread, scopes) in self.open.clone() {
            let mut inner: Option<(u32, i64)> = None;
            for (number, start_nanos) in scopes.into_iter().rev() {
                let node = (thread, number);
                let recording_sessions = self.recording_at(sessions, start_nanos);
                if recording_sessions == 0 {
                    continue;
                }
                let duration_nanos = (until_nanos - start_nanos).max(0);
                let ended_nanos = self.children_nanos(node, start_nanos);
                let open_nanos = inner.filter(|inner| inner.0 == number).map_or(0, |inner| inner.1);
                let row = SpanRow {
                    start_nanos: UNIX + start_nanos,
                    duration_nanos,
                    children_nanos: (ended_nanos + open_nanos).min(duration_nanos),
                    node_path: self.node_path(thread, number),
                    sessions: recording_sessions,
                    phase: self.phase(recording_sessions),
                    is_open: true,
                };
                // Other sessions still record it, so it will count with them.
                if self.recording_at(!sessions, start_nanos) == 0 {
                    self.expected.spans_in_sums.push(row.clone());
                }
                self.expected.spans.push(row);
                let node_def = self.nodes[&node];
                inner = (node_def.kind != NodeKind::Root)
                    .then_some((node_def.parent_id, duration_nanos));
            }
        }
    }

    fn update_session(&mut self, number: u32, event: SessionEvent, time_nanos: i64) {
        if event == SessionEvent::Started {
            let session = Session { phase: 0, transitions: vec![(time_nanos, true)] };
            self.sessions.insert(number, session);
        }
        if event == SessionEvent::Finalized && self.sessions.contains_key(&number) {
            self.add_open(1 << number, time_nanos);
            self.sessions.remove(&number);
        }
        let Some(session) = self.sessions.get_mut(&number) else { return };
        match event {
            SessionEvent::Phase(phase) => session.phase = phase,
            SessionEvent::Activated => session.transitions.push((time_nanos, true)),
            SessionEvent::Deactivated => session.transitions.push((time_nanos, false)),
            SessionEvent::Started | SessionEvent::Finalized => {}
        }
    }

    fn phase(&self, sessions: u64) -> u32 {
        self.sessions.get(&sessions.trailing_zeros()).map_or(0, |session| session.phase)
    }

    fn recording_at(&self, sessions: u64, time_nanos: i64) -> u64 {
        let is_recording = |session: &Session| {
            let last = session.transitions.iter().rfind(|transition| transition.0 <= time_nanos);
            last.is_some_and(|transition| transition.1)
        };
        let masks = self.sessions.iter().filter(|(_, session)| is_recording(session));
        masks.map(|(number, _)| sessions & (1 << number)).sum()
    }

    fn node_path(&self, thread: u32, mut node: u32) -> NodePath {
        let mut path = Vec::new();
        while let def = self.nodes[&(thread, node)]
            && def.kind != NodeKind::Root
        {
            path.push(format!("{} {}", def.kind.as_str(), self.texts[&def.name_id]));
            node = def.parent_id;
        }
        path.reverse();
        NodePath { thread: self.threads[&thread].to_owned(), path }
    }
}

/// Converts lists of integers to real numbers, as they are stored.
fn as_stored(value: &MetricValue) -> MetricValue {
    match value {
        MetricValue::Ints(values) => {
            MetricValue::Floats(values.iter().map(|&value| value as f64).collect())
        }
        other => other.clone(),
    }
}

/// Returns all timestamps of a frame.
fn times(frame: &SpoolFrame) -> Vec<i64> {
    match frame {
        SpoolFrame::Clock { monotonic_nanos, .. } => vec![*monotonic_nanos],
        SpoolFrame::Spans { spans, .. } => {
            spans.iter().flat_map(|span| [span.start_nanos, span.end_nanos]).collect()
        }
        SpoolFrame::Values { values, .. } => values.iter().map(|value| value.time_nanos).collect(),
        SpoolFrame::Counters(counters) => {
            counters.iter().map(|counter| counter.time_nanos).collect()
        }
        SpoolFrame::Open { spans, .. } => spans.iter().map(|span| span.1).collect(),
        SpoolFrame::Session { time_nanos, .. } => vec![*time_nanos],
        _ => Vec::new(),
    }
}
