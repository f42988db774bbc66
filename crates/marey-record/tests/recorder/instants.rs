//! Instants, and scopes that exit by their id.

use crate::harness::{Fixture, enter, exit, on_thread, profile_of, scope};
use marey_model::metric::MetricValue;
use marey_record::{Format, SessionOptions, api};

#[test]
fn an_instant_is_counted_below_its_scope_without_duration() {
    let fixture = Fixture::begin();
    let session = fixture.start("instants");
    let (name, size) = (api::intern("m"), api::intern_metric("size (exc)").unwrap());
    scope("a", || {
        api::record_instant(name, &[(size, MetricValue::Int(3))]).unwrap();
        api::record_instant(name, &[(size, MetricValue::Int(4))]).unwrap();
    });
    api::record_instant(name, &[]).unwrap();
    let profile = profile_of(session);
    assert_eq!(profile.counts(), [("a", 1), ("a/m", 2), ("m", 1)]);
    assert_eq!((profile.kind("a/m"), profile.number("a/m", "size")), ("mark", 7));
    assert_eq!(*profile.metric("a/m", "wall_total (ns)"), 0);
    assert_eq!(profile.losses(), []);
}

#[test]
fn an_instant_is_an_instant_event_of_a_chrome_trace() {
    let fixture = Fixture::begin();
    let options = SessionOptions { format: Format::ChromeTrace, ..fixture.options("instants") };
    let session = api::start(&options).unwrap();
    let size = api::intern_metric("size (exc)").unwrap();
    scope("a", || api::record_instant(api::intern("m"), &[(size, MetricValue::Int(3))]).unwrap());
    api::finalize(session, None).unwrap();
    let trace = std::fs::read_to_string(fixture.path("instants.chrome_trace")).unwrap();
    let instants: Vec<&str> = trace.lines().filter(|line| line.contains("\"ph\":\"i\"")).collect();
    assert_eq!(instants.len(), 1, "{trace}");
    for part in ["[\"ROOT\",\"a\",\"m\"]", "\"cat\":\"mark\"", "m: <size (exc), 3>"] {
        assert!(instants[0].contains(part), "{part} is not in {}", instants[0]);
    }
}

#[test]
fn an_exit_by_id_keeps_inner_scopes_open() {
    let fixture = Fixture::begin();
    let session = fixture.start("overlapping");
    let a = enter("a");
    let b = enter("b");
    enter("c");
    assert!(api::exit_only(a));
    assert!(!api::exit_only(a), "the scope was exited twice");
    scope("d", || ());
    exit("c");
    assert!(api::exit_only(b));
    scope("e", || ());
    let profile = profile_of(session);
    assert_eq!(profile.counts(), [("a", 1), ("a/b", 1), ("a/b/c", 1), ("a/b/c/d", 1), ("e", 1)]);
    assert_eq!(profile.losses(), []);
}

#[test]
fn an_id_of_another_thread_or_an_older_session_exits_nothing() {
    let fixture = Fixture::begin();
    let session = fixture.start("first");
    let a = enter("a");
    assert!(!on_thread("other", move || {
        enter("a");
        api::exit_only(a)
    }));
    api::discard(session).unwrap();
    let session = fixture.start("second");
    enter("a");
    assert!(!api::exit_only(a));
    exit("a");
    assert_eq!(profile_of(session).counts(), [("a", 1)]);
}

#[test]
fn an_exit_by_id_may_state_an_earlier_end() {
    let fixture = Fixture::begin();
    let session = fixture.start("earlier");
    let nanos_between = |first, second| api::monotonic_nanos(second) - api::monotonic_nanos(first);
    let before = api::now_ticks();
    let a = enter("a");
    let end = api::now_ticks();
    while nanos_between(end, api::now_ticks()) <= nanos_between(before, end) + 1000 {}
    assert!(api::exit_only_at(a, end, None));
    let profile = profile_of(session);
    let nanos = profile.number("a", "wall_total (ns)");
    assert!(nanos <= nanos_between(before, end) + 1, "{nanos} ns reach beyond the stated end");
}
