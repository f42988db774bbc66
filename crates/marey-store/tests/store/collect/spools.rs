//! Runs with spools as recorders write them, by hand or at random.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_model::profile::Process;
use marey_model::spool::{
    Counter, NodeDef, RecordedValue, SessionEvent, Span, SpoolFrame, SpoolWriter,
};
use marey_store::{Collected, Run};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tempfile::TempDir;

/// The wall clock when the recorder's clock was 0.
pub(crate) const UNIX: i64 = 1_700_000_000_000_000_000;

/// Texts of every spool; the last two are names of metrics.
const TEXTS: [&str; 6] = ["ROOT", "outer", "inner", "step", "loss", "tokens"];

/// A recorded run.
pub(crate) struct Recorded {
    folder: TempDir,
}

impl Recorded {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("spool")).unwrap();
        Self { folder }
    }

    /// Creates a run with a spool for each process; pids count from 100.
    pub(crate) fn with_spools(processes: &[&[SpoolFrame]]) -> Self {
        let run = Self::new();
        for (pid, frames) in (100..).zip(processes) {
            run.write_spool(pid, frames);
        }
        run
    }

    /// Creates a run with a spool that has these frames after the first ones.
    pub(crate) fn with_frames(more: impl IntoIterator<Item = SpoolFrame>) -> Self {
        let frames: Vec<SpoolFrame> = first_frames(100).into_iter().chain(more).collect();
        Self::with_spools(&[&frames])
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn spool_path(&self, pid: u32) -> PathBuf {
        self.path().join(format!("spool/{pid}-0.spool"))
    }

    pub(crate) fn write_spool(&self, pid: u32, frames: &[SpoolFrame]) {
        fs::write(self.spool_path(pid), encode(frames)).unwrap();
    }

    /// Takes the recording lock until the file is dropped.
    pub(crate) fn lock_as_recorder(&self) -> File {
        let file = File::create(self.path().join(".recording")).unwrap();
        file.lock_shared().unwrap();
        file
    }
}

/// Collects the run of recorded processes, and opens it.
pub(crate) fn collect_run(recorded: &Recorded) -> Run {
    marey_store::open(recorded.path(), &no_trace, &mut |_| ()).unwrap()
}

/// Collects the run of recorded processes.
pub(crate) fn collect(recorded: &Recorded) -> Collected {
    marey_store::collect(recorded.path(), &no_trace, &mut |_| ()).unwrap()
}

/// Reads the trace of a window, for runs that have none.
pub(crate) fn no_trace(path: &Path) -> Result<Run, String> {
    panic!("{} is not expected", path.display())
}

/// Encodes a spool.
pub(crate) fn encode(frames: &[SpoolFrame]) -> Vec<u8> {
    let mut writer = SpoolWriter::new(Vec::new()).unwrap();
    for frame in frames {
        writer.write_frame(frame).unwrap();
    }
    writer.get_ref().clone()
}

/// Returns the first frames of a spool: its process, a clock, texts, and a thread with some nodes.
pub(crate) fn first_frames(pid: u64) -> Vec<SpoolFrame> {
    let process = Process {
        pid,
        rank: Some(pid - 100),
        host: "host".to_owned(),
        argv: vec!["python".to_owned(), "a \"b\".py".to_owned()],
        start_unix_nanos: UNIX.cast_unsigned() + pid,
        ..Process::default()
    };
    let texts = TEXTS.map(str::to_owned).to_vec();
    let mut frames = vec![
        SpoolFrame::Process(process),
        SpoolFrame::Clock { monotonic_nanos: 0, unix_nanos: UNIX },
        SpoolFrame::Strings { first_id: 0, texts },
    ];
    frames.extend(thread(0));
    frames.push(session(0, SessionEvent::Started, 0));
    frames
}

pub(crate) const OUTER: u32 = 1;
pub(crate) const INNER: u32 = 2;
pub(crate) const STEP: u32 = 3;
pub(crate) const NODES: u32 = 5;
pub(crate) const LOSS: u32 = 4;

/// Returns a thread with nodes: outer; inner and step below it; and another inner below the root.
pub(crate) fn thread(thread: u32) -> [SpoolFrame; 2] {
    let node = |parent, kind, name| NodeDef { parent_id: parent, kind, name_id: name };
    let nodes = vec![
        node(0, NodeKind::Root, 0),
        node(0, NodeKind::Scope, 1),
        node(OUTER, NodeKind::Module, 2),
        node(OUTER, NodeKind::Step, 3),
        node(0, NodeKind::Module, 2),
    ];
    let name = format!("thread {thread}");
    [
        SpoolFrame::Thread { thread, os_id: 1000 + u64::from(thread), name },
        SpoolFrame::Nodes { thread, first_id: 0, nodes },
    ]
}

pub(crate) fn session(session: u32, event: SessionEvent, time_nanos: i64) -> SpoolFrame {
    SpoolFrame::Session { session, event, name: format!("/runs/{session}"), time_nanos }
}

pub(crate) fn spans(thread: u32, sessions: u64, spans: &[(u32, i64, i64)]) -> SpoolFrame {
    let span = |&(node, start_nanos, end_nanos): &_| Span { node_id: node, start_nanos, end_nanos };
    SpoolFrame::Spans { thread, sessions, spans: spans.iter().map(span).collect() }
}

pub(crate) fn values(thread: u32, values: &[(u32, i64, MetricValue)]) -> SpoolFrame {
    let value = |(node, time_nanos, value): &(u32, i64, MetricValue)| RecordedValue {
        node_id: *node,
        time_nanos: *time_nanos,
        name_id: LOSS,
        value: value.clone(),
    };
    SpoolFrame::Values { thread, sessions: 1, values: values.iter().map(value).collect() }
}

const THREADS: u32 = 3;

/// Generates spools with frames in any valid order, with or without an end frame.
pub(crate) fn random_spool(pid: u64) -> impl Strategy<Value = Vec<SpoolFrame>> {
    // Durations of microseconds, milliseconds, and too long for the finest rollup.
    let longest_nanos = select(vec![10_000_i64, 100_000_000, 1_000_000_000_000]);
    let frames = longest_nanos.prop_flat_map(|longest| vec(random_frame(longest), 0..30));
    (frames, any::<bool>()).prop_map(move |(frames, is_ended)| {
        let mut spool_frames = first_frames(pid);
        spool_frames.extend((1..THREADS).flat_map(thread));
        spool_frames.extend(sort_session_times(frames));
        spool_frames.extend(is_ended.then_some(SpoolFrame::End));
        spool_frames
    })
}

/// Sorts the times of session events by their order in the spool.
fn sort_session_times(mut frames: Vec<SpoolFrame>) -> Vec<SpoolFrame> {
    let mut times: Vec<&mut i64> = Vec::new();
    for frame in &mut frames {
        if let SpoolFrame::Session { time_nanos, .. } = frame {
            times.push(time_nanos);
        }
    }
    let mut sorted: Vec<i64> = times.iter().map(|time| **time).collect();
    sorted.sort_unstable();
    times.into_iter().zip(sorted).for_each(|(time, nanos)| *time = nanos);
    frames
}

fn random_frame(longest_nanos: i64) -> impl Strategy<Value = SpoolFrame> {
    let time = -longest_nanos..longest_nanos;
    let span =
        (0..NODES, time.clone(), 0..longest_nanos).prop_map(move |(node, start_nanos, length)| {
            // Sometimes a clock runs backwards.
            let end_nanos = start_nanos + length - longest_nanos / 50;
            Span { node_id: node, start_nanos, end_nanos }
        });
    let spans = (0..THREADS, 1_u64..8, vec(span, 0..12))
        .prop_map(|(thread, sessions, spans)| SpoolFrame::Spans { thread, sessions, spans });
    let value = (0..NODES, time.clone(), LOSS..=LOSS + 1, random_value()).prop_map(
        |(node, time_nanos, metric, value)| RecordedValue {
            node_id: node,
            time_nanos,
            name_id: metric,
            value,
        },
    );
    let values = (0..THREADS, 1_u64..8, vec(value, 0..8))
        .prop_map(|(thread, sessions, values)| SpoolFrame::Values { thread, sessions, values });
    let open = (0..THREADS, vec((0..NODES, time.clone()), 0..4))
        .prop_map(|(thread, spans)| SpoolFrame::Open { thread, spans });
    let event = prop_oneof![
        Just(SessionEvent::Started),
        Just(SessionEvent::Activated),
        Just(SessionEvent::Deactivated),
        (0_u32..5).prop_map(SessionEvent::Phase),
        Just(SessionEvent::Finalized),
    ];
    let session = (0..3_u32, event, time.clone())
        .prop_map(|(number, event, time_nanos)| session(number, event, time_nanos));
    let counter = (time, LOSS..=LOSS + 1, prop::option::of(0..3_u32), -1e6..1e6).prop_map(
        |(time_nanos, name, device, value)| Counter { time_nanos, name_id: name, device, value },
    );
    let counters = vec(counter, 0..8).prop_map(SpoolFrame::Counters);
    let losses =
        vec((select(LossCause::ALL.to_vec()), 0..9_u64), 0..2).prop_map(SpoolFrame::Losses);
    prop_oneof![6 => spans, 2 => values, 1 => open, 2 => session, 1 => losses, 1 => counters]
}

fn random_value() -> impl Strategy<Value = MetricValue> {
    prop_oneof![
        any::<i64>().prop_map(MetricValue::Int),
        (-1e6..1e6).prop_map(MetricValue::Float),
        select(vec!["", "ünï"]).prop_map(|text| MetricValue::Text(text.into())),
        vec(-5..5_i64, 0..4).prop_map(MetricValue::Ints),
        vec(-1e6..1e6, 0..4).prop_map(MetricValue::Floats),
    ]
}
