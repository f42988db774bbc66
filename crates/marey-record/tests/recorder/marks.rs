//! Marks, and scopes that are left by their id.

use crate::harness::{Turn, enter, exit, look, on_thread, scope};
use marey_model::metric::MetricValue;
use marey_record::{Format, SessionOptions, api};

#[test]
fn a_mark_counts_below_its_scope_and_takes_no_time() {
    let turn = Turn::begin();
    let session = turn.start("marks");
    let (name, size) = (api::intern("m"), api::intern_metric("size (exc)").unwrap());
    scope("a", || {
        api::mark(name, &[(size, MetricValue::Int(3))]).unwrap();
        api::mark(name, &[(size, MetricValue::Int(4))]).unwrap();
    });
    api::mark(name, &[]).unwrap();
    let profile = look(session);
    assert_eq!(profile.counts(), [("a", 1), ("a/m", 2), ("m", 1)]);
    assert_eq!((profile.kind("a/m"), profile.number("a/m", "size")), ("mark", 7));
    assert_eq!(*profile.metric("a/m", "wall_total (ns)"), 0);
    assert_eq!(profile.losses(), []);
}

#[test]
fn in_a_trace_a_mark_is_an_event_without_duration() {
    let turn = Turn::begin();
    let options = SessionOptions { format: Format::ChromeTrace, ..turn.options("marks") };
    let session = api::start(&options).unwrap();
    let size = api::intern_metric("size (exc)").unwrap();
    scope("a", || api::mark(api::intern("m"), &[(size, MetricValue::Int(3))]).unwrap());
    api::finalize(session, None).unwrap();
    let trace = std::fs::read_to_string(turn.path("marks.chrome_trace")).unwrap();
    let marks: Vec<&str> = trace.lines().filter(|line| line.contains("\"ph\":\"i\"")).collect();
    assert_eq!(marks.len(), 1, "{trace}");
    for part in ["[\"ROOT\",\"a\",\"m\"]", "\"cat\":\"mark\"", "m: <size (exc), 3>"] {
        assert!(marks[0].contains(part), "{part} is not in {}", marks[0]);
    }
}

#[test]
fn a_scope_that_is_left_by_its_id_leaves_those_inside_it_open() {
    let turn = Turn::begin();
    let session = turn.start("overlapping");
    let a = enter("a");
    let b = enter("b");
    enter("c");
    assert!(api::leave(a));
    assert!(!api::leave(a), "it is left already");
    scope("d", || ());
    exit("c");
    assert!(api::leave(b));
    scope("e", || ());
    let profile = look(session);
    assert_eq!(profile.counts(), [("a", 1), ("a/b", 1), ("a/b/c", 1), ("a/b/c/d", 1), ("e", 1)]);
    assert_eq!(profile.losses(), []);
}

#[test]
fn an_id_of_another_thread_or_an_older_session_is_nobodys() {
    let turn = Turn::begin();
    let session = turn.start("first");
    let a = enter("a");
    assert!(!on_thread("other", move || {
        enter("a");
        api::leave(a)
    }));
    api::discard(session).unwrap();
    let session = turn.start("second");
    enter("a");
    assert!(!api::leave(a));
    exit("a");
    assert_eq!(look(session).counts(), [("a", 1)]);
}
