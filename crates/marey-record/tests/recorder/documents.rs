//! Profile documents: both formats, any names, any depth.

use crate::harness::{Fixture, enter, profile_of, scope};
use crate::msgpack;
use marey_model::metric::MetricValue::{Float, Floats, Int, Ints, Text};
use marey_record::{Format, SessionId, api};
use serde_json::Value;
use std::sync::Barrier;

fn record_everything(fixture: &Fixture) -> SessionId {
    let session = fixture.start("everything");
    let metric = |name: &str| api::intern_metric(name).unwrap();
    for number in 0..20 {
        scope(&format!("scope {number}"), || {
            let values = [
                (metric("int"), Int(i64::MIN)),
                (metric("big"), Int(i64::MAX)),
                (metric("float (exc)"), Float(-0.1)),
                (metric("text"), Text("\"quoted\\\"\n\u{1}é\u{1F600}".into())),
                (metric("ints"), Ints((-40..40).collect())),
                (metric("floats"), Floats(vec![])),
            ];
            api::add_metrics(&values).unwrap();
            scope("again", || ());
            scope("again", || ());
        });
    }
    api::enter_state(api::intern("state"));
    api::exit_state();
    enter("open");
    // A closed phase does not change between two reads.
    api::advance_phase(session).unwrap();
    session
}

/// Removes the values that differ between two reads of one phase.
fn without_times(mut document: Value) -> Value {
    let duration_nanos = document[0]["marey"]["process"]["duration_nanos"].take();
    assert!(duration_nanos.is_u64());
    document
}

#[test]
fn both_formats_have_the_same_contents() {
    let fixture = Fixture::begin();
    let session = record_everything(&fixture);
    let json = api::get_data(session, 0, Format::Hatchet).unwrap();
    let packed = api::get_data(session, 0, Format::HatchetMsgpack).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json[0]["children"].as_array().unwrap().len(), 20);
    assert_eq!(json[0]["marey"]["states"].as_array().unwrap().len(), 1);
    assert_eq!(without_times(msgpack::decode(&packed)), without_times(json));
}

#[test]
fn a_state_is_a_node_only_if_it_has_data() {
    let (_fixture, session) = Fixture::with_session();
    let items = api::intern_metric("items").unwrap();
    scope("outer", || {
        api::enter_state(api::intern("warm"));
        scope("inner", || api::add_metrics(&[(items, Int(3))]).unwrap());
        api::exit_state();
    });
    let profile = profile_of(session);
    assert_eq!(profile.paths(), ["outer", "outer/inner", "outer/inner/warm"]);
    let states = &profile.nodes["outer"]["marey"]["states"];
    assert_eq!(states.as_array().unwrap().len(), 1);
    assert_eq!(states[0]["name"], "warm");
    assert_eq!(states[0]["metrics"]["wall_count"], 1);
    assert_eq!(states[0]["sketch"][0][1], 1);
}

#[test]
fn a_document_has_four_spaces_per_level_and_sorted_keys() {
    let fixture = Fixture::begin();
    let session = record_everything(&fixture);
    let json = api::get_data(session, 0, Format::Hatchet).unwrap();
    let text = String::from_utf8(json).unwrap();
    assert!(text.starts_with("\n[\n    {\n        \"children\": [\n            {\n"));
    assert!(text.ends_with("\n    },\n    {}\n]\n"));
    let keys: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("        \"")?.split_once('"'))
        .map(|(key, _)| key)
        .collect();
    assert_eq!(keys, ["children", "frame", "marey", "metrics"]);
}

#[test]
fn the_root_has_the_process_and_the_overhead() {
    let (_fixture, session) = Fixture::with_session();
    scope("a", || ());
    let profile = profile_of(session);
    let metadata = profile.metadata();
    assert_eq!(metadata["version"], 1);
    assert_eq!(metadata["process"]["pid"], std::process::id());
    assert_eq!(metadata["process"]["complete"], false);
    assert!(metadata["overhead"]["events"].as_u64().unwrap() >= 2);
    assert!(metadata["overhead"]["scope_nanos"].as_f64().unwrap() > 0.0);
}

#[test]
fn overhead_counts_only_events_of_the_current_recording() {
    const SCOPES: u32 = 10_000;
    let fixture = Fixture::begin();
    let first = fixture.start("first");
    let step = Barrier::new(2);
    let (early, late) = std::thread::scope(|threads| {
        threads.spawn(|| {
            (0..SCOPES).for_each(|_| scope("early", || ()));
            step.wait();
            step.wait();
        });
        step.wait();
        (0..SCOPES).for_each(|_| scope("early", || ()));
        let early = events(first);
        api::finalize(first, None).unwrap();
        let second = fixture.start("second");
        scope("late", || ());
        let late = events(second);
        step.wait();
        (early, late)
    });
    assert!(early >= 4 * u64::from(SCOPES) && late < 100, "{early} {late}");
}

fn events(session: SessionId) -> u64 {
    profile_of(session).metadata()["overhead"]["events"].as_u64().unwrap()
}

#[test]
fn a_path_of_a_hundred_thousand_scopes_is_written_in_both_formats() {
    // Recursion would overflow the stack; 80 MB of text take some seconds without optimisation.
    const LEVELS: usize = 100_000;
    let (_fixture, session) = Fixture::with_session();
    let name = api::intern("deeper");
    for _ in 0..LEVELS {
        api::enter(name, marey_record::NodeKind::Scope);
    }
    for _ in 0..LEVELS {
        assert_ne!(api::exit(name), 0);
    }
    let json = api::get_data(session, 0, Format::Hatchet).unwrap();
    let mut counts = [0_usize; 256];
    for &byte in &json {
        counts[usize::from(byte)] += 1;
    }
    let count = |byte: u8| counts[usize::from(byte)];
    // A node, its frame, its metrics, and marey's key.
    assert!(count(b'{') >= 4 * LEVELS);
    assert_eq!(count(b'{'), count(b'}'));
    assert_eq!(count(b'['), count(b']'));
    assert!(json.len() < 1_500 * LEVELS, "{} bytes", json.len());
    let packed = api::get_data(session, 0, Format::HatchetMsgpack).unwrap();
    assert_eq!(packed.windows(6).filter(|bytes| bytes == b"deeper").count(), LEVELS);
}
