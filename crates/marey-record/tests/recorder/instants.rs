//! Instants, and scopes that exit by their id.

use crate::harness::{Fixture, enter, exit, on_thread, profile_of, scope, start_trace};
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_record::api;

#[test]
fn an_instant_is_counted_below_its_scope_without_duration() {
    let (_fixture, session) = Fixture::with_session();
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
    let session = start_trace(fixture.path("instants"));
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
    let (_fixture, session) = Fixture::with_session();
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
    let (fixture, session) = Fixture::with_session();
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
fn a_scope_that_another_thread_exits_ends_alone_at_the_next_event_of_its_own() {
    let (_fixture, session) = Fixture::with_session();
    for _ in 0..2 {
        let a = enter("a");
        enter("b");
        on_thread("other", move || {
            enter("a");
            api::exit_anywhere(api::intern("a"), a);
            scope("c", || ());
            exit("a");
        });
        // `a` has ended around `b`, which goes on.
        scope("d", || ());
        exit("b");
        scope("e", || ());
    }
    let profile = profile_of(session);
    let expected = [("a", 4), ("a/b", 2), ("a/b/d", 2), ("a/c", 2), ("e", 2)];
    assert_eq!(profile.counts(), expected);
    assert_eq!(profile.losses(), []);
}

#[test]
fn an_exit_on_another_thread_has_the_time_of_the_call() {
    let (_fixture, session) = Fixture::with_session();
    let nanos_between = |first, second| api::monotonic_nanos(second) - api::monotonic_nanos(first);
    let before = api::now_ticks();
    let a = enter("a");
    on_thread("other", move || api::exit_anywhere(api::intern("a"), a));
    let end = api::now_ticks();
    while nanos_between(end, api::now_ticks()) <= nanos_between(before, end) + 1000 {}
    // No event follows on this thread but the end of the session.
    let profile = profile_of(session);
    assert_eq!(profile.counts(), [("a", 1)]);
    let nanos = profile.number("a", "wall_total (ns)");
    assert!(nanos <= nanos_between(before, end) + 1, "{nanos} ns reach beyond the exit");
}

#[test]
fn an_exit_of_a_scope_that_has_ended_exits_nothing() {
    let (_fixture, session) = Fixture::with_session();
    enter("outer");
    let a = enter("a");
    exit("outer"); // cuts `a`
    enter("a");
    api::exit_anywhere(api::intern("a"), a);
    on_thread("other", move || api::exit_anywhere(api::intern("a"), a));
    scope("b", || ());
    exit("a");
    let profile = profile_of(session);
    assert_eq!(profile.counts(), [("a", 1), ("a/b", 1), ("outer", 1), ("outer/a", 1)]);
    assert_eq!(profile.losses(), [("unclosed_scopes", 1)]);
}

#[test]
fn a_scope_that_may_outlive_the_one_around_it_lasts_until_its_own_exit() {
    let (_fixture, session) = Fixture::with_session();
    let a = api::intern("a");
    for is_elsewhere in [false, true] {
        enter("outer");
        let id = api::enter_outliving(a, NodeKind::Scope);
        enter("inside");
        exit("inside");
        exit("outer");
        scope("b", || ());
        if is_elsewhere {
            on_thread("other", move || api::exit_anywhere(a, id));
        } else {
            api::exit_anywhere(a, id);
        }
    }
    scope("b", || ());
    let profile = profile_of(session);
    let expected = [("b", 3), ("outer", 2), ("outer/a", 2), ("outer/a/inside", 2)];
    assert_eq!(profile.counts(), expected);
    assert_eq!(profile.losses(), []);
}

#[test]
fn a_scope_that_outlives_its_thread_is_unclosed() {
    let (_fixture, session) = Fixture::with_session();
    on_thread("other", || {
        enter("outer");
        api::enter_outliving(api::intern("a"), NodeKind::Scope);
        exit("outer");
    });
    let profile = profile_of(session);
    assert_eq!(profile.counts(), [("outer", 1), ("outer/a", 1)]);
    assert_eq!(profile.losses(), [("unclosed_scopes", 1)]);
}

#[test]
fn exits_beyond_those_that_may_wait_leave_the_scope_to_the_one_around_it() {
    const MAX_WAITING: u64 = 16;
    let (_fixture, session) = Fixture::with_session();
    enter("outer");
    let scopes: Vec<_> = (0..=MAX_WAITING).map(|_| enter("a")).collect();
    on_thread("other", move || {
        let a = api::intern("a");
        for &scope in &scopes {
            api::exit_anywhere(a, scope);
        }
    });
    exit("outer");
    let profile = profile_of(session);
    assert_eq!(profile.losses(), [("unclosed_scopes", 1)]);
}

#[test]
fn an_exit_by_id_may_state_an_earlier_end() {
    let (_fixture, session) = Fixture::with_session();
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
