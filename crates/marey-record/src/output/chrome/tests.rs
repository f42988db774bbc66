//! Tests of Chrome traces written from spools as a recorder writes them.

use super::metrics::MAX_PENDING;
use super::{Extent, Playback};
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::memory::{growth_name, reading_name};
use marey_model::metric::MetricValue;
use marey_model::profile::Process;
use marey_model::spool::{
    Activity, ActivityKind, ActivityShape, NodeDef, RecordedValue, SessionEvent, Span, SpoolFrame,
    SpoolReader, SpoolWriter,
};
use serde_json::{Value as Json, json};
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use tempfile::TempDir;

/// The monotonic and the Unix time of the session's start.
const START: i64 = 5_000_000;
const START_UNIX: i64 = 1_700_000_000_000_000_000;

/// The nodes of every thread in these tests.
const OUTER: u32 = 2;
const INNER: u32 = 3;
const STATE: u32 = 4;
const STATE_OF_INNER: u32 = 5;

const TEXTS: [&str; 9] = [
    "",
    "<lost>",
    "outer \"q\" \\ \n\u{1} é",
    "inner",
    "state",
    "loss",
    "tokens",
    "lr (pty)",
    "note",
];
/// More than any thread's number.
const THREADS: u32 = 8;

const LOSS: u32 = 5;
const TOKENS: u32 = 6;
const RATE: u32 = 7;
const NOTE: u32 = 8;

/// A spool that is being written. Times are nanoseconds since the session's start.
struct Spool {
    folder: TempDir,
    out: SpoolWriter<File>,
}

impl Spool {
    /// Begins a spool of a session, with one thread.
    fn begin() -> Self {
        let folder = TempDir::new().unwrap();
        let out = SpoolWriter::new(File::create(folder.path().join("spool")).unwrap()).unwrap();
        let mut spool = Self { folder, out };
        spool.add(&SpoolFrame::Process(Process {
            pid: 4321,
            rank: Some(3),
            host: "host \"a\"".to_owned(),
            ..Process::default()
        }));
        spool
            .add(&SpoolFrame::Clock { monotonic_nanos: START - 700, unix_nanos: START_UNIX - 700 });
        let texts = TEXTS.map(str::to_owned).to_vec();
        spool.add(&SpoolFrame::Strings { first_id: 0, texts });
        spool.thread(0, "MainThread");
        spool.session(SessionEvent::Started, 0);
        spool
    }

    fn add(&mut self, frame: &SpoolFrame) {
        self.out.write_frame(frame).unwrap();
    }

    fn thread(&mut self, thread: u32, name: &str) {
        let node = |parent, kind, name| NodeDef { parent_id: parent, kind, name_id: name };
        self.add(&SpoolFrame::Thread {
            thread,
            os_id: 100 + u64::from(thread),
            name: name.to_owned(),
        });
        let nodes = vec![
            node(0, NodeKind::Root, 1),
            node(1, NodeKind::Root, 1),
            node(0, NodeKind::Scope, 2),
            node(OUTER, NodeKind::Module, 3),
            node(0, NodeKind::State, 4),
            node(INNER, NodeKind::State, 4),
        ];
        self.add(&SpoolFrame::Nodes { thread, first_id: 0, nodes });
    }

    fn session(&mut self, event: SessionEvent, time: i64) {
        let name = "run".to_owned();
        self.add(&SpoolFrame::Session { session: 2, event, name, time_nanos: START + time });
    }

    fn spans_of(&mut self, thread: u32, sessions: u64, spans: &[(u32, i64, i64)]) {
        let span = |&(node, start, end): &(u32, i64, i64)| Span {
            node_id: node,
            start_nanos: START + start,
            end_nanos: START + end,
        };
        self.add(&SpoolFrame::Spans { thread, sessions, spans: spans.iter().map(span).collect() });
    }

    fn spans(&mut self, spans: &[(u32, i64, i64)]) {
        self.spans_of(0, 1 << 2, spans);
    }

    fn values(&mut self, values: &[(u32, i64, u32, MetricValue)]) {
        let value = |(node, time, metric, value): &(u32, i64, u32, MetricValue)| RecordedValue {
            node_id: *node,
            time_nanos: START + time,
            name_id: *metric,
            value: value.clone(),
        };
        let values = values.iter().map(value).collect();
        self.add(&SpoolFrame::Values { thread: 0, sessions: 1 << 2, values });
    }

    fn open(&mut self, spans: &[(u32, i64)]) {
        let spans = spans.iter().map(|&(node, start)| (node, START + start)).collect();
        self.add(&SpoolFrame::Open { thread: 0, spans });
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("spool")
    }

    fn phase(&self, phase: Option<u32>) -> Trace {
        let mut out = Vec::new();
        let mut playback = Playback::new(&self.path(), 2, self.extent()).unwrap();
        let part = phase.map_or_else(|| self.part(0).start..u64::MAX, |phase| self.part(phase));
        playback.write(&part, self.extent(), &[], &mut out).unwrap();
        Trace::parse(out)
    }

    fn extent(&self) -> Extent {
        Extent { bytes: std::fs::metadata(self.path()).unwrap().len(), threads: THREADS }
    }

    /// Returns the range of a phase of the last session with this number. A recorder knows the
    /// range without reading.
    fn part(&self, phase: u32) -> Range<u64> {
        let mut reader = SpoolReader::new(File::open(self.path()).unwrap()).unwrap();
        let (mut parts, mut before): (Vec<Range<u64>>, _) = (Vec::new(), reader.offset());
        while let Some(Ok(frame)) = reader.next() {
            if let SpoolFrame::Session { session: 2, event, .. } = frame {
                match event {
                    SessionEvent::Started => parts.clear(),
                    SessionEvent::Phase(_) => parts.last_mut().unwrap().end = before,
                    _ => {}
                }
                if let SessionEvent::Started | SessionEvent::Phase(_) = event {
                    parts.push(reader.offset()..u64::MAX);
                }
            }
            before = reader.offset();
        }
        parts.get(phase as usize).cloned().unwrap_or(0..0)
    }

    fn trace(&self) -> Trace {
        self.phase(None)
    }
}

struct Trace {
    text: String,
    json: Json,
}

impl Trace {
    fn parse(bytes: Vec<u8>) -> Self {
        let text = String::from_utf8(bytes).unwrap();
        Self { json: serde_json::from_str(&text).unwrap(), text }
    }

    fn of_kind(&self, ph: &str) -> Vec<&Json> {
        self.json["traceEvents"].as_array().unwrap().iter().filter(|at| at["ph"] == ph).collect()
    }

    /// Returns lane, start and duration in nanoseconds, and name of each scope.
    fn scopes(&self) -> Vec<(u64, i64, i64, &str)> {
        let nanos = |micros: &Json| (micros.as_f64().unwrap() * 1e3).round() as i64;
        let scopes = self.of_kind("X").into_iter();
        let scope = |event: &'_ Json| {
            (event["tid"].as_u64().unwrap(), nanos(&event["ts"]), nanos(&event["dur"]))
        };
        scopes
            .map(|event| {
                let (lane, start, duration) = scope(event);
                (lane, start, duration, event["name"].as_str().unwrap())
            })
            .collect()
    }

    fn lanes(&self) -> Vec<(u64, &str)> {
        let named = self.of_kind("M").into_iter().filter(|at| at["name"] == "thread_name");
        named
            .map(|at| (at["tid"].as_u64().unwrap(), at["args"]["name"].as_str().unwrap()))
            .collect()
    }
}

#[test]
fn readings_of_memory_are_left_out_and_growth_is_a_metric() {
    let mut spool = Spool::begin();
    let texts = vec![reading_name("host"), growth_name("host")];
    let (first, reading_id, growth_id) = (9, 9, 10);
    spool.add(&SpoolFrame::Strings { first_id: first, texts });
    let reading = MetricValue::Ints(vec![7, -1, -1]);
    spool.values(&[(OUTER, 10, reading_id, reading), (OUTER, 10, growth_id, MetricValue::Int(5))]);
    spool.spans(&[(OUTER, 0, 20)]);
    let text = spool.trace().text;
    assert!(text.contains(r#""memory_growth host (bytes)":"5""#), "{text}");
    assert!(!text.contains("memory host"), "{text}");
}

#[test]
fn a_scope_is_a_complete_event_of_protons_shape() {
    let mut spool = Spool::begin();
    spool.spans(&[(INNER, 1_234, 2_000), (OUTER, 1_000, 1_000_007)]);
    let trace = spool.trace();
    let outer = TEXTS[2];
    assert_eq!(
        trace.of_kind("X"),
        [
            &json!({
                "args": {"call_stack": ["ROOT", outer, "inner"], "kind": "module", "scope_id": 1},
                "cat": "scope", "dur": 0.766, "name": "inner",
                "ph": "X", "pid": 4321, "tid": 0, "ts": 1.234,
            }),
            &json!({
                "args": {"call_stack": ["ROOT", outer], "scope_id": 2},
                "cat": "scope", "dur": 999.007, "name": outer,
                "ph": "X", "pid": 4321, "tid": 0, "ts": 1.0,
            }),
        ]
    );
    assert!(trace.text.contains("\"dur\":0.766,") && trace.text.contains("\"ts\":1.000}"));
}

#[test]
fn the_header_has_the_time_the_process_and_the_lanes() {
    let mut spool = Spool::begin();
    spool.add(&SpoolFrame::Losses(vec![(LossCause::Names, 1)]));
    spool.add(&SpoolFrame::Losses(vec![(LossCause::Names, 7)]));
    spool.thread(5, "");
    spool.thread(6, "idle");
    spool.spans_of(5, 1 << 2, &[(OUTER, 1, 2)]);
    let trace = spool.trace();
    assert_eq!(trace.json["displayTimeUnit"], "us");
    assert_eq!(trace.json["baseTimeNanoseconds"], START_UNIX);
    assert_eq!(
        trace.json["marey"],
        json!({
            "losses": {"names": 7},
            "process": {"host": "host \"a\"", "pid": 4321, "rank": 3, "start_unix_nanos": 0},
            "torn_bytes": 0,
            "version": 1,
        })
    );
    let meta = |name, args| json!({"args": args, "name": name, "ph": "M", "pid": 4321});
    let of_lane = |name, args| {
        let mut event = meta(name, args);
        event["tid"] = json!(5);
        event
    };
    assert_eq!(
        trace.of_kind("M"),
        [
            &meta("process_name", json!({"name": "Trace (rank 3, host \"a\")"})),
            &meta("process_sort_index", json!({"sort_index": 3})),
            &of_lane("thread_name", json!({"name": "CPU Thread 5", "os_id": 105})),
            &of_lane("thread_sort_index", json!({"sort_index": 6000})),
        ]
    );
}

#[test]
fn the_main_thread_is_sorted_first() {
    let mut spool = Spool::begin();
    spool.spans(&[(OUTER, 1, 2)]);
    spool.thread(1, "main");
    spool.add(&SpoolFrame::Thread { thread: 1, os_id: 4321, name: "main".to_owned() });
    spool.spans_of(1, 1 << 2, &[(INNER, 1, 3), (INNER, 2, 4)]);
    let trace = spool.trace();
    let order: Vec<_> = trace
        .of_kind("M")
        .iter()
        .filter(|event| event["name"] == "thread_sort_index")
        .map(|event| event["args"]["sort_index"].as_u64().unwrap())
        .collect();
    assert_eq!(order, [1000, 0, 1]);
}

#[test]
fn metrics_are_written_with_the_scope_that_they_were_added_in() {
    let mut spool = Spool::begin();
    spool.values(&[
        (INNER, 12, TOKENS, MetricValue::Int(3)),
        (INNER, 13, RATE, MetricValue::Float(0.5)),
        (INNER, 14, RATE, MetricValue::Float(0.25)),
        (STATE_OF_INNER, 15, TOKENS, MetricValue::Int(4)),
        (INNER, 22, LOSS, MetricValue::Floats(vec![0.5, 2.0])),
        (INNER, 23, NOTE, MetricValue::Text("a \"b\" ×".into())),
    ]);
    spool.spans(&[(INNER, 10, 19), (INNER, 20, 29)]);
    spool.values(&[(OUTER, 31, LOSS, MetricValue::Ints(vec![1, 2]))]);
    spool.spans(&[(INNER, 40, 41)]);
    spool.spans(&[(OUTER, 5, 50)]);
    let trace = spool.trace();
    let written: Vec<_> = trace
        .of_kind("X")
        .iter()
        .map(|event| {
            (event["cat"].clone(), event["name"].clone(), event["args"]["metrics"].clone())
        })
        .collect();
    let expected = |name: &str, metrics: Json| (json!("metric"), json!(name), metrics);
    assert_eq!(
        written,
        [
            expected(
                "inner: <lr (pty), 0.250000>, <tokens, 7>",
                json!({"lr (pty)": "0.250000", "tokens": "7"}),
            ),
            expected(
                "inner: <loss, [0.5,2]>, <note, a \"b\" ×>",
                json!({"loss": "[0.5,2]", "note": "a \"b\" ×"}),
            ),
            (json!("scope"), json!("inner"), Json::Null),
            expected(&format!("{}: <loss, [1,2]>", TEXTS[2]), json!({"loss": "[1,2]"})),
        ]
    );
    assert!(trace.of_kind("i").is_empty());
}

#[test]
fn metrics_outside_of_scopes_are_instants() {
    let mut spool = Spool::begin();
    spool.values(&[
        (0, 7, TOKENS, MetricValue::Int(1)),
        (STATE, 11, TOKENS, MetricValue::Int(2)),
        (INNER, 13, TOKENS, MetricValue::Int(3)),
    ]);
    spool.spans(&[(INNER, 20, 21), (STATE, 9, 40)]);
    let trace = spool.trace();
    let moments: Vec<_> =
        trace.of_kind("i").iter().map(|at| (at["name"].clone(), at["ts"].clone())).collect();
    assert_eq!(
        moments,
        [(json!("ROOT: <tokens, 1>"), json!(0.007)), (json!("inner: <tokens, 3>"), json!(0.013)),]
    );
    assert_eq!(
        trace.of_kind("i")[0],
        &json!({
            "args": {"call_stack": ["ROOT"], "metrics": {"tokens": "1"}},
            "cat": "metric", "name": "ROOT: <tokens, 1>",
            "ph": "i", "pid": 4321, "s": "t", "tid": 0, "ts": 0.007,
        })
    );
    assert_eq!(trace.scopes()[1].3, "state: <tokens, 2>");
}

#[test]
fn values_beyond_the_buffer_are_written_as_instants() {
    let mut spool = Spool::begin();
    let count = i64::try_from(MAX_PENDING).unwrap() + 10_000;
    for from in (0..count).step_by(10_000) {
        let values: Vec<_> = (from..count.min(from + 10_000))
            .map(|time| (OUTER, time, TOKENS, MetricValue::Int(1)))
            .collect();
        spool.values(&values);
        spool.spans(&[(INNER, from + 9_998, from + 9_999)]);
    }
    spool.spans(&[(OUTER, 0, count)]);
    let trace = spool.trace();
    let moments = i64::try_from(trace.of_kind("i").len()).unwrap();
    let outer = trace.of_kind("X").pop().unwrap();
    let with_scope: i64 = outer["args"]["metrics"]["tokens"].as_str().unwrap().parse().unwrap();
    assert!(moments > 0);
    assert_eq!(moments + with_scope, count);
}

#[test]
fn open_scopes_end_at_the_last_clock_of_the_spool() {
    let mut spool = Spool::begin();
    spool.open(&[(OUTER, 1), (INNER, 2)]);
    spool.spans(&[(INNER, 2, 5)]);
    spool.open(&[(OUTER, 1), (INNER, 9)]);
    spool.values(&[(INNER, 10, TOKENS, MetricValue::Int(1))]);
    spool.add(&SpoolFrame::Clock { monotonic_nanos: START + 100, unix_nanos: START_UNIX + 100 });
    let trace = spool.trace();
    let outer = TEXTS[2];
    assert_eq!(
        trace.scopes(),
        [(0, 2, 3, "inner"), (0, 9, 91, "inner: <tokens, 1>"), (0, 1, 99, outer)]
    );
    let open: Vec<_> = trace.of_kind("X").iter().map(|at| at["args"]["open"].clone()).collect();
    assert_eq!(open, [Json::Null, json!(true), json!(true)]);
}

#[test]
fn a_scope_that_has_ended_since_is_not_open() {
    let mut spool = Spool::begin();
    spool.open(&[(OUTER, 1), (INNER, 2)]);
    spool.spans(&[(INNER, 2, 5), (OUTER, 1, 6)]);
    let trace = spool.trace();
    assert_eq!(trace.scopes(), [(0, 2, 3, "inner"), (0, 1, 5, TEXTS[2])]);
}

#[test]
fn without_a_later_clock_open_scopes_end_at_the_last_entry() {
    let mut spool = Spool::begin();
    spool.open(&[(OUTER, 1), (INNER, 20)]);
    assert_eq!(spool.trace().scopes(), [(0, 20, 0, "inner"), (0, 1, 19, TEXTS[2])]);
}

#[test]
fn scopes_after_the_end_of_the_session_are_left_out() {
    let mut spool = Spool::begin();
    spool.open(&[(OUTER, 1), (INNER, 2)]);
    spool.session(SessionEvent::Finalized, 10);
    spool.spans_of(0, 1 << 1, &[(INNER, 2, 50)]);
    spool.open(&[(OUTER, 1), (STATE, 3)]);
    spool.add(&SpoolFrame::Clock { monotonic_nanos: START + 100, unix_nanos: START_UNIX + 100 });
    assert_eq!(spool.trace().scopes(), [(0, 2, 8, "inner"), (0, 1, 9, TEXTS[2])]);
}

#[test]
fn open_scopes_entered_while_inactive_are_left_out() {
    let mut spool = Spool::begin();
    spool.session(SessionEvent::Deactivated, 10);
    spool.session(SessionEvent::Activated, 20);
    spool.spans(&[(INNER, 30, 35)]);
    spool.spans_of(0, 1 << 1, &[(INNER, 36, 37)]);
    spool.open(&[(OUTER, -1), (OUTER, 5), (OUTER, 15), (OUTER, 25)]);
    let trace = spool.trace();
    let starts: Vec<_> = trace.scopes().iter().map(|scope| scope.1).collect();
    assert_eq!(starts, [30, 25, 5]);
}

#[test]
fn phases_split_the_events_at_the_frames_of_the_spool() {
    let mut spool = Spool::begin();
    spool.values(&[(OUTER, 2, TOKENS, MetricValue::Int(1))]);
    spool.spans(&[(INNER, 1, 5), (INNER, 8, 12)]);
    spool.session(SessionEvent::Phase(1), 10);
    spool.spans(&[(INNER, 13, 15)]);
    spool.values(&[(OUTER, 16, TOKENS, MetricValue::Int(2))]);
    spool.session(SessionEvent::Phase(2), 20);
    spool.spans(&[(INNER, 17, 19), (OUTER, 0, 30)]);
    spool.open(&[(OUTER, 31)]);
    let starts = |trace: &Trace| trace.scopes().iter().map(|at| at.1).collect::<Vec<_>>();
    let moments = |trace: &Trace| trace.of_kind("i").len();
    let expected = [(vec![1, 8], 1), (vec![13], 1), (vec![17, 0, 31], 0)];
    let mut playback = Playback::new(&spool.path(), 2, spool.extent()).unwrap();
    for (phase, expected) in (0..).zip(expected) {
        let alone = spool.phase(Some(phase));
        assert_eq!((starts(&alone), moments(&alone)), expected, "phase {phase}");
        let mut out = Vec::new();
        playback.write(&spool.part(phase), spool.extent(), &[], &mut out).unwrap();
        assert_eq!(Trace::parse(out).text, alone.text, "phase {phase}");
    }
    let whole = spool.trace();
    assert_eq!((starts(&whole), moments(&whole)), (vec![1, 8, 13, 17, 0, 31], 0));
}

#[test]
fn a_playback_continues_as_the_spool_grows() {
    let mut spool = Spool::begin();
    let mut playback = Playback::new(&spool.path(), 2, spool.extent()).unwrap();
    let mut names = Vec::new();
    for phase in 0..3 {
        spool.spans(&[(INNER, 10 * i64::from(phase), 10 * i64::from(phase) + 1)]);
        spool.session(SessionEvent::Phase(phase + 1), 10 * i64::from(phase) + 5);
        let mut out = Vec::new();
        playback.write(&spool.part(phase), spool.extent(), &[], &mut out).unwrap();
        names.extend(Trace::parse(out).scopes().iter().map(|scope| scope.1));
    }
    assert_eq!(names, [0, 10, 20]);
}

#[test]
fn an_earlier_session_with_the_same_number_is_separate() {
    let mut spool = Spool::begin();
    spool.spans(&[(OUTER, 1, 2)]);
    spool.session(SessionEvent::Phase(1), 3);
    spool.session(SessionEvent::Finalized, 4);
    spool.add(&SpoolFrame::Clock { monotonic_nanos: START + 9, unix_nanos: START_UNIX + 10 });
    spool.session(SessionEvent::Started, 10);
    spool.spans(&[(OUTER, 11, 12)]);
    for phase in [None, Some(0)] {
        let trace = spool.phase(phase);
        assert_eq!(trace.scopes(), [(0, 1, 1, TEXTS[2])]);
        assert_eq!(trace.json["baseTimeNanoseconds"], START_UNIX + 11);
    }
    assert!(spool.phase(Some(1)).scopes().is_empty());
}

#[test]
fn scopes_that_overlap_get_lanes_of_their_own() {
    let mut spool = Spool::begin();
    spool.thread(7, "other");
    spool.spans(&[(INNER, 10, 20), (INNER, 15, 25), (INNER, 21, 30), (OUTER, 0, 40)]);
    spool.spans_of(7, 1 << 2, &[(INNER, 1, 3), (INNER, 2, 4)]);
    let trace = spool.trace();
    assert_eq!(
        trace.lanes(),
        [(0, "MainThread"), (8, "MainThread (2)"), (7, "other"), (9, "other (2)")]
    );
    let lanes: Vec<_> = trace.scopes().iter().map(|scope| scope.0).collect();
    assert_eq!(lanes, [0, 8, 0, 0, 7, 9]);
}

#[test]
fn a_thread_that_changes_its_name_names_its_lanes_again() {
    let mut spool = Spool::begin();
    spool.spans(&[(INNER, 1, 2)]);
    spool.add(&SpoolFrame::Thread { thread: 0, os_id: 100, name: "loader".to_owned() });
    assert_eq!(spool.trace().lanes(), [(0, "MainThread"), (0, "loader")]);
}

#[test]
fn a_torn_tail_is_left_out_and_its_length_is_written() {
    let mut spool = Spool::begin();
    spool.spans(&[(INNER, 1, 2)]);
    let whole = std::fs::metadata(spool.path()).unwrap().len();
    spool.spans(&[(INNER, 3, 4)]);
    File::options().write(true).open(spool.path()).unwrap().set_len(whole + 6).unwrap();
    let trace = spool.trace();
    assert_eq!(trace.scopes().len(), 1);
    assert_eq!(trace.json["marey"]["torn_bytes"], 6);
}

#[test]
fn a_session_without_events_makes_a_valid_trace() {
    let trace = Spool::begin().trace();
    assert_eq!(trace.json["traceEvents"].as_array().unwrap().len(), 2);
    assert!(trace.scopes().is_empty());
}

#[test]
fn a_trace_has_the_same_bytes_as_the_golden_file() {
    let mut spool = Spool::begin();
    spool.add(&SpoolFrame::Losses(vec![(LossCause::Names, 7), (LossCause::MetricRefused, 1)]));
    let texts = ["\u{8}\u{c}\r\t\u{1f}\u{7f}\u{2028} \\\"", "mark"].map(str::to_owned).to_vec();
    spool.add(&SpoolFrame::Strings { first_id: 9, texts });
    spool.thread(5, "");
    let nodes = vec![
        NodeDef { parent_id: 0, kind: NodeKind::Operator, name_id: 9 },
        NodeDef { parent_id: 0, kind: NodeKind::Mark, name_id: 10 },
    ];
    spool.add(&SpoolFrame::Nodes { thread: 0, first_id: 6, nodes });
    spool.values(&[
        (0, 7, TOKENS, MetricValue::Int(-1)),
        (INNER, 1_235, TOKENS, MetricValue::Int(3)),
        (INNER, 1_236, RATE, MetricValue::Float(1.0 / 3.0)),
        (INNER, 1_237, LOSS, MetricValue::Floats(vec![0.5, f64::INFINITY])),
        (INNER, 1_238, NOTE, MetricValue::Text("a \"b\" ×".into())),
        (7, 1_500, TOKENS, MetricValue::Int(5)),
    ]);
    spool.add(&SpoolFrame::Launches { thread: 0, launches: vec![(0, 77), (2, 78)] });
    spool.spans(&[(INNER, 1_234, 2_000), (OUTER, -1_001, 1_000_000_007), (6, 3_000, 2_999)]);
    spool.spans(&[(7, 1_500, 1_500), (STATE_OF_INNER, 10, 20)]);
    spool.spans_of(5, 1 << 2, &[(INNER, 1, 3), (INNER, 2, 4)]);
    let shape = |kind, name, device, stream| ActivityShape {
        kind,
        name_id: name,
        device,
        stream,
        details: Vec::new(),
    };
    let shapes = vec![
        shape(ActivityKind::Kernel, 9, 0, 7),
        shape(ActivityKind::Memcpy, 3, 1, 7),
        shape(ActivityKind::Sync, 3, 0, u32::MAX),
    ];
    spool.add(&SpoolFrame::Shapes { first_id: 0, shapes });
    let activity = |shape, bytes, correlation, launch| Activity {
        shape_id: shape,
        start_nanos: START + 5_000,
        duration_nanos: 1_005,
        bytes,
        correlation_id: correlation,
        launch,
    };
    let activities = vec![
        activity(0, 0, 78, Some((0, 6))),
        activity(1, 1 << 40, 77, Some((0, INNER))),
        activity(2, 0, 0, None),
    ];
    spool.add(&SpoolFrame::Activities { sessions: 1 << 2, activities });
    spool.open(&[(OUTER, 1)]);
    let golden = include_str!("../../../tests/data/trace.json");
    assert_eq!(spool.trace().text, golden);
}

#[test]
fn a_file_of_another_format_is_an_error() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("spool");
    std::fs::write(&path, "something else, long enough").unwrap();
    let error = Playback::new(&path, 0, Extent { bytes: 26, threads: 0 }).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    assert!(error.to_string().contains("not a spool"), "{error}");
}
