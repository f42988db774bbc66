//! A run as a program leaves it: one uncollected spool.

use std::fs::{self, File};
use std::path::Path;

use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_model::profile::{Overhead, Process};
use marey_model::spool::{NodeDef, RecordedValue, SessionEvent, Span, SpoolFrame, SpoolWriter};

/// Start of the program since 1970, when the monotonic clock was 0.
const START_UNIX_NANOS: i64 = 1_700_000_000_000_000_000;

/// The texts of the spool, by id.
const TEXTS: [&str; 5] = ["ROOT", "train", "step", "forward", "tokens"];

/// The session mask of all events.
const SESSIONS: u64 = 1;

/// Events of seven scopes, three values, and seven lost scopes.
const OVERHEAD: Overhead =
    Overhead { events: 31, scope_nanos: 120.0, recording_nanos: 1_860, flushing_nanos: 45_000 };

/// Writes a run with steps of 1, 2 and 3 ms; each has a forward of half its duration, and one
/// value.
pub(crate) fn write(run: &Path) {
    write_frames(run, &frames());
}

/// Writes the run of a program that was killed while it wrote a frame.
pub(crate) fn write_torn(run: &Path) {
    let mut frames = frames();
    frames.truncate(frames.len() - 2);
    write_frames(run, &frames);
    let spool = run.join("spool/4242-0.spool");
    let mut bytes = fs::read(&spool).unwrap();
    bytes.extend([7; 5]);
    fs::write(spool, bytes).unwrap();
}

fn write_frames(run: &Path, frames: &[SpoolFrame]) {
    fs::create_dir_all(run.join("spool")).unwrap();
    let mut writer =
        SpoolWriter::new(File::create(run.join("spool/4242-0.spool")).unwrap()).unwrap();
    for frame in frames {
        writer.write_frame(frame).unwrap();
    }
}

fn frames() -> Vec<SpoolFrame> {
    let clock = |monotonic_nanos| SpoolFrame::Clock {
        monotonic_nanos,
        unix_nanos: START_UNIX_NANOS + monotonic_nanos,
    };
    let node = |parent, kind, name| NodeDef { parent_id: parent, kind, name_id: name };
    let session = |event, time_nanos| SpoolFrame::Session {
        session: 0,
        event,
        name: "/data/train".into(),
        time_nanos,
    };
    let process = Process {
        pid: 4242,
        rank: Some(0),
        host: "node1".into(),
        argv: ["train.py", "--epochs", "3"].map(Into::into).to_vec(),
        start_unix_nanos: START_UNIX_NANOS as u64,
        duration_nanos: 0,
        is_complete: false,
    };
    let nodes = vec![
        node(0, NodeKind::Root, 0),
        node(0, NodeKind::Scope, 1),
        node(1, NodeKind::Step, 2),
        node(2, NodeKind::Module, 3),
    ];
    let tokens = |number: i64| RecordedValue {
        node_id: 2,
        time_nanos: number * 10_000_000,
        name_id: 4,
        value: MetricValue::Int(4096 * number),
    };
    vec![
        SpoolFrame::Process(process),
        clock(0),
        session(SessionEvent::Started, 0),
        SpoolFrame::Strings { first_id: 0, texts: TEXTS.map(Into::into).to_vec() },
        SpoolFrame::Thread { thread: 0, os_id: 4242, name: "MainThread".into() },
        SpoolFrame::Nodes { thread: 0, first_id: 0, nodes },
        SpoolFrame::Spans { thread: 0, sessions: SESSIONS, spans: spans() },
        SpoolFrame::Values { thread: 0, sessions: SESSIONS, values: (1..=3).map(tokens).collect() },
        clock(50_000_000),
        SpoolFrame::Overhead(OVERHEAD),
        SpoolFrame::Losses(vec![(LossCause::TraceBuffer, 7)]),
        session(SessionEvent::Finalized, 50_000_000),
        SpoolFrame::End,
    ]
}

/// Returns the spans by end.
fn spans() -> Vec<Span> {
    let span = |node, start_nanos, duration_nanos| Span {
        node_id: node,
        start_nanos,
        end_nanos: start_nanos + duration_nanos,
    };
    let mut spans = Vec::new();
    for number in 1..=3 {
        let (start, millis) = (number * 10_000_000, number * 1_000_000);
        spans.extend([span(3, start, millis / 2), span(2, start, millis)]);
    }
    spans.push(span(1, 5_000_000, 40_000_000));
    spans
}
