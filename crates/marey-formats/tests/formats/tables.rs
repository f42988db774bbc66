//! What each writer does with each table: its rows are in the file, or they are counted as left out.

use std::fs;

use marey_formats::{Format, LeftOut, export};
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_model::profile::Process;
use marey_model::spool::{
    Collective, CollectiveState, Counter, Frame, NodeDef, Sample, SampleCause, SessionEvent, Span,
    Value, Variable, Writer,
};
use marey_model::table::Table;
use marey_model::table::stored::{
    ASYNC_SPANS, COLLECTIVES, COUNTERS, FLOWS, INSTANTS, MEMORY_EVENTS, METRICS, SAMPLES, VARIABLES,
};
use marey_store::Run;

use crate::dump::{import_bytes, reader};

/// What a writer made of a run.
type Exported = (Vec<u8>, LeftOut);

fn exports(run: &Run) -> Vec<(Format, Option<Exported>)> {
    let writable = Format::ALL.into_iter().filter(|format| format.is_writable());
    let export_as = |format| {
        let mut out = Vec::new();
        let left_out = export(&reader(run), format, &mut out).ok()?;
        Some((out, left_out))
    };
    writable.map(|format| (format, export_as(format))).collect()
}

/// Checks that every writer represents or counts the row that only the second run has.
fn assert_no_writer_is_silent(table: &'static Table, without: &Run, with: &Run) {
    let count = |run: &Run| run.read(table).unwrap().num_rows();
    assert_eq!(count(with), count(without) + 1, "{}", table.name);
    for ((format, before), (_, after)) in exports(without).into_iter().zip(exports(with)) {
        let (before, after) = (before.unwrap(), after.unwrap());
        assert_ne!(before, after, "{} drops {} silently", format.title(), table.name);
    }
}

/// Collects a run of one process: a span, a value of a metric and this frame.
fn recorded(frame: Option<Frame>) -> (tempfile::TempDir, Run) {
    let folder = tempfile::tempdir().unwrap();
    let node = |parent, kind, name| NodeDef { parent, kind, name };
    let session = |event, time_nanos| Frame::Session {
        session: 0,
        event,
        name: "run".to_owned(),
        time_nanos,
    };
    let mut frames = vec![
        Frame::Process(Process { pid: 7, host: "h".to_owned(), ..Process::default() }),
        Frame::Clock { monotonic_nanos: 0, unix_nanos: 1_700_000_000_000_000_000 },
        Frame::Strings { first: 0, texts: ["ROOT", "step", "loss"].map(str::to_owned).to_vec() },
        Frame::Thread { thread: 0, os_id: 70, name: "main".to_owned() },
        Frame::Nodes {
            thread: 0,
            first: 0,
            nodes: vec![
                node(0, NodeKind::Root, 0),
                node(0, NodeKind::Step, 1),
                node(1, NodeKind::Scope, 2),
            ],
        },
        session(SessionEvent::Started, 0),
        Frame::Spans {
            thread: 0,
            sessions: 1,
            spans: vec![Span { node: 1, start_nanos: 10, end_nanos: 90 }],
        },
        value(20),
    ];
    frames.extend(frame);
    frames.push(session(SessionEvent::Finalized, 100));
    frames.push(Frame::End);

    let mut spool = Writer::new(Vec::new()).unwrap();
    for frame in &frames {
        spool.write_frame(frame).unwrap();
    }
    fs::create_dir(folder.path().join("spool")).unwrap();
    fs::write(folder.path().join("spool/7-0.spool"), spool.get_ref()).unwrap();
    let no_window = |path: &std::path::Path| panic!("{} is not expected", path.display());
    let run = marey_store::open(folder.path(), &no_window, &mut |_| ()).unwrap();
    (folder, run)
}

fn value(time_nanos: i64) -> Frame {
    let value = MetricValue::Float(0.5);
    Frame::Values {
        thread: 0,
        sessions: 1,
        values: vec![Value { node: 1, time_nanos, metric: 2, value }],
    }
}

#[test]
fn no_writer_drops_a_recorded_row_silently() {
    let counter = Counter { time_nanos: 30, name: 2, device: None, value: 61.5 };
    let sample = Sample {
        time_nanos: 40,
        duration_nanos: 100,
        os_id: 70,
        thread_name: 1,
        node: 2,
        cause: SampleCause::Signal,
    };
    let variable = Variable {
        time_nanos: 50,
        os_id: 70,
        thread_name: 1,
        file: 1,
        function: 1,
        line: 3,
        name: 2,
        value_type: 2,
        value: MetricValue::Int(4),
    };
    let collective = Collective {
        name: 1,
        group: 2,
        group_ranks: None,
        group_size: Some(2),
        sequence: Some(7),
        dtype: None,
        in_elements: Some(12),
        out_elements: None,
        created_unix_nanos: 1_700_000_000_000_000_030,
        started_unix_nanos: None,
        duration_nanos: None,
        state: CollectiveState::Completed,
        is_p2p: false,
    };
    let (_folder, without) = recorded(None);
    for (table, frame) in [
        (&COUNTERS, Frame::Counters(vec![counter])),
        (&METRICS, value(60)),
        (&SAMPLES, Frame::Samples { thread: 0, samples: vec![sample] }),
        (&VARIABLES, Frame::Variables(vec![variable])),
        (&COLLECTIVES, Frame::Collectives(vec![collective])),
    ] {
        let (_folder, with) = recorded(Some(frame));
        assert_no_writer_is_silent(table, &without, &with);
    }
}

#[test]
fn no_writer_drops_an_imported_row_silently() {
    let step = r#"{"ph": "X", "name": "ProfilerStep#1", "cat": "user_annotation", "ts": 1, "dur": 99,
        "pid": 7, "tid": 70},
        {"ph": "C", "name": "loss", "ts": 2, "pid": 7, "tid": 70, "args": {"loss": 1}}"#;
    let trace = |event: &str| format!(r#"{{"traceEvents": [{step}{event}]}}"#);
    let without = import_bytes(trace("").as_bytes()).unwrap();
    for (table, event) in [
        (
            &ASYNC_SPANS,
            r#"{"ph": "b", "id": 1, "name": "a", "cat": "c", "ts": 3, "pid": 7, "tid": 70},
            {"ph": "e", "id": 1, "name": "a", "cat": "c", "ts": 4, "pid": 7, "tid": 70}"#,
        ),
        (&INSTANTS, r#"{"ph": "i", "name": "mark", "ts": 3, "pid": 7, "tid": 70, "s": "t"}"#),
        (&FLOWS, r#"{"ph": "s", "id": 1, "name": "f", "cat": "c", "ts": 3, "pid": 7, "tid": 70}"#),
        (
            &MEMORY_EVENTS,
            r#"{"ph": "i", "name": "[memory]", "ts": 3, "pid": 7, "tid": 70, "s": "t",
            "args": {"Total Allocated": 64, "Total Reserved": 128, "Bytes": 64, "Addr": 16,
            "Device Type": 1, "Device Id": 0}}"#,
        ),
    ] {
        let with = import_bytes(trace(&format!(",{event}")).as_bytes()).unwrap();
        assert_no_writer_is_silent(table, &without.run, &with.run);
    }
}
