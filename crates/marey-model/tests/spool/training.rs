//! The spool of a training process: its round trip and its size.

use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_model::profile::{Overhead, Process};
use marey_model::spool::{Counter, NodeDef, RecordedValue, SessionEvent, Span, SpoolFrame, encode};

use crate::round_trip::encode_file;
use crate::torn;

/// Maximum mean size of a scope.
const MAX_SPAN_BYTES: f64 = 8.0;
/// Interval between flushes of the recorder.
const FLUSH_NANOS: i64 = 200_000_000;
/// Texts by id: names of scopes, then the metric.
const NAMES: [&str; 10] =
    ["ROOT", "step", "forward", "block", "norm", "attention", "mlp", "linear", "backward", "loss"];
const LOSS: u32 = 9;

/// Returns frames as the recorder writes them: ids are defined before use, and every flush lists the
/// open scopes.
pub(crate) fn frames(steps: usize) -> Vec<SpoolFrame> {
    let mut frames = vec![
        SpoolFrame::Process(Process {
            pid: 4_321,
            rank: Some(3),
            host: "node-7".to_owned(),
            argv: vec!["train.py".to_owned(), "--lr".to_owned(), "1e-3".to_owned()],
            start_unix_nanos: 1_700_000_000_000_000_000,
            ..Process::default()
        }),
        SpoolFrame::Clock { monotonic_nanos: START_NANOS, unix_nanos: 1_700_000_000_000_000_000 },
        SpoolFrame::Strings { first_id: 0, texts: NAMES.map(str::to_owned).to_vec() },
        SpoolFrame::Session {
            session: 0,
            event: SessionEvent::Started,
            name: "training".to_owned(),
            time_nanos: START_NANOS,
        },
        SpoolFrame::Thread { thread: 0, os_id: 4_321, name: "MainThread".to_owned() },
    ];
    let mut thread = Thread::new();
    for _ in 0..steps {
        thread.step();
        if thread.nanos > thread.flushed_nanos + FLUSH_NANOS {
            thread.flush(&mut frames);
        }
    }
    thread.flush(&mut frames);
    let (event, name) = (SessionEvent::Finalized, "training".to_owned());
    frames.push(SpoolFrame::Session { session: 0, event, name, time_nanos: thread.nanos });
    frames.push(SpoolFrame::Losses(vec![(LossCause::Nodes, 0), (LossCause::Unclosed, 1)]));
    frames.push(SpoolFrame::Overhead(Overhead {
        events: 80_000,
        scope_nanos: 118.25,
        recording_nanos: 4_730_000,
        flushing_nanos: 900_000,
    }));
    frames.push(SpoolFrame::End);
    frames
}

const START_NANOS: i64 = 86_400_000_000_000;

/// A thread that executes training steps.
struct Thread {
    nodes: Vec<NodeDef>,
    written_nodes: usize,
    spans: Vec<Span>,
    values: Vec<RecordedValue>,
    nanos: i64,
    flushed_nanos: i64,
    random: u64,
}

impl Thread {
    fn new() -> Self {
        Self {
            nodes: vec![NodeDef { parent_id: 0, kind: NodeKind::Root, name_id: 0 }],
            written_nodes: 0,
            spans: Vec::new(),
            values: Vec::new(),
            nanos: START_NANOS,
            flushed_nanos: START_NANOS,
            random: 1,
        }
    }

    /// Records about 14 ms: a forward pass through six blocks, and a backward pass.
    fn step(&mut self) {
        self.scope(0, 1, |thread, step| {
            thread.scope(step, 2, |thread, forward| {
                for block in 0..6 {
                    // Modules of the same class differ in their index.
                    thread.scope_at(forward, 3, block, Self::block);
                }
            });
            thread.scope(step, 8, |thread, _| thread.advance(8_000_000));
            let (node, time_nanos) = (step, thread.nanos);
            let value = MetricValue::Float(1.0 / thread.nanos as f64);
            thread.values.push(RecordedValue { node_id: node, time_nanos, name_id: LOSS, value });
        });
    }

    fn block(&mut self, block: u32) {
        for (part, linears) in [(4, 0), (5, 2), (4, 0), (6, 2)] {
            self.scope(block, part, |thread, part| {
                for index in 0..linears {
                    thread.scope_at(part, 7, index, |thread, _| thread.advance(200_000));
                }
                thread.advance(20_000);
            });
        }
    }

    fn scope(&mut self, parent: u32, name: u32, inside: impl FnOnce(&mut Self, u32)) {
        self.scope_at(parent, name, 0, inside);
    }

    /// Enters and leaves the child with this name and index.
    fn scope_at(
        &mut self,
        parent: u32,
        name: u32,
        index: usize,
        inside: impl FnOnce(&mut Self, u32),
    ) {
        let node = self.child(parent, name, index);
        let start_nanos = self.nanos;
        self.advance(600);
        inside(self, node);
        self.advance(600);
        self.spans.push(Span { node_id: node, start_nanos, end_nanos: self.nanos });
        self.advance(1_500);
    }

    fn child(&mut self, parent: u32, name: u32, index: usize) -> u32 {
        let new = NodeDef { parent_id: parent, kind: NodeKind::Scope, name_id: name };
        let mut same = (0..).zip(&self.nodes).filter(|(_, node)| **node == new);
        if let Some((id, _)) = same.nth(index) {
            return id;
        }
        self.nodes.push(new);
        self.nodes.len() as u32 - 1
    }

    /// Advances the clock by a random time from half of `nanos` to `nanos`.
    fn advance(&mut self, nanos: i64) {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.nanos += nanos / 2 + (self.random >> 33).cast_signed() % (nanos / 2);
    }

    fn flush(&mut self, frames: &mut Vec<SpoolFrame>) {
        let nodes = self.nodes[self.written_nodes..].to_vec();
        if !nodes.is_empty() {
            frames.push(SpoolFrame::Nodes {
                thread: 0,
                first_id: self.written_nodes as u32,
                nodes,
            });
        }
        self.written_nodes = self.nodes.len();
        let spans = std::mem::take(&mut self.spans);
        frames.push(SpoolFrame::Spans { thread: 0, sessions: 1, spans });
        let values = std::mem::take(&mut self.values);
        frames.push(SpoolFrame::Values { thread: 0, sessions: 1, values });
        let power = Counter { time_nanos: self.nanos, name_id: 9, device: Some(1), value: 312.5 };
        frames.push(SpoolFrame::Counters(vec![power]));
        frames.push(SpoolFrame::Open { thread: 0, spans: vec![(0, START_NANOS), (1, self.nanos)] });
        let unix_nanos = 1_700_000_000_000_000_000 + self.nanos - START_NANOS;
        frames.push(SpoolFrame::Clock { monotonic_nanos: self.nanos, unix_nanos });
        self.flushed_nanos = self.nanos;
    }
}

#[test]
fn every_frame_survives_a_round_trip() {
    let frames = frames(50);
    assert_eq!(torn::read(&encode_file(&frames)), (frames, None));
}

#[test]
fn the_mean_size_of_a_scope_is_bounded() {
    let (mut file, mut count) = (Vec::new(), 0);
    for frame in frames(1_000) {
        if let SpoolFrame::Spans { spans, .. } = &frame {
            count += spans.len();
            encode(&frame, &mut file).unwrap();
        }
    }
    let span_bytes = file.len() as f64 / count as f64;
    assert!(count > 40_000 && span_bytes <= MAX_SPAN_BYTES, "{span_bytes} bytes, {count} spans");
}
