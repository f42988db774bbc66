//! Scopes of coroutines: outside of any stack, exited in any order and on any thread.

use crate::harness::{Fixture, on_thread, profile_of, scope};
use marey_model::metric::MetricValue;
use marey_record::{ContextSource, Detached, NodeKind, SessionOptions, api};
use std::sync::Arc;

fn enter(parent: Option<&Arc<Detached>>, name: &str) -> Arc<Detached> {
    api::enter_detached(parent.cloned(), api::intern(name), NodeKind::Scope).unwrap()
}

#[test]
fn interleaved_coroutines_keep_their_own_paths() {
    let (_fixture, session) = Fixture::with_session();
    scope("loop", || {
        let (a, b) = (enter(None, "a"), enter(None, "b"));
        let (in_a, in_b) = (enter(Some(&a), "await"), enter(Some(&b), "await"));
        a.exit();
        in_b.exit();
        in_a.exit();
        b.exit();
        // A second exit does nothing.
        b.exit();
    });
    let profile = profile_of(session);
    assert_eq!(
        profile.counts(),
        [("loop", 1), ("loop/a", 1), ("loop/a/await", 1), ("loop/b", 1), ("loop/b/await", 1)]
    );
    assert_eq!(profile.losses(), []);
}

#[test]
fn a_detached_scope_may_exit_on_another_thread() {
    let (_fixture, session) = Fixture::with_session();
    scope("main", || {
        let outer = enter(None, "outer");
        let inner = enter(Some(&outer), "inner");
        on_thread("executor", move || {
            scope("executor", || {
                let items = api::intern_metric("items").unwrap();
                inner.add_metrics(&[(items, MetricValue::Int(2))]).unwrap();
                enter(Some(&inner), "innermost").exit();
                inner.exit();
                outer.exit();
            });
        });
    });
    let profile = profile_of(session);
    assert_eq!(
        profile.counts(),
        [
            ("executor", 1),
            ("main", 1),
            ("main/outer", 1),
            ("main/outer/inner", 1),
            ("main/outer/inner/innermost", 1),
        ]
    );
    assert_eq!(profile.metric("main/outer/inner", "items"), 2);
}

#[test]
fn a_detached_scope_may_outlive_its_session() {
    let fixture = Fixture::begin();
    let first = fixture.start("first");
    let old = enter(None, "old");
    api::discard(first).unwrap();
    let second = fixture.start("second");
    let new = enter(Some(&old), "new");
    old.exit();
    new.exit();
    assert_eq!(profile_of(second).counts(), [("new", 1)]);
}

#[test]
fn the_time_of_coroutines_is_not_exclusive_time_of_the_event_loop() {
    let (_fixture, session) = Fixture::with_session();
    scope("loop", || {
        let task = enter(None, "task");
        let start = std::time::Instant::now();
        while start.elapsed().as_millis() < 5 {}
        task.exit();
    });
    let profile = profile_of(session);
    let (total_nanos, self_nanos) =
        (profile.number("loop", "wall_total (ns)"), profile.number("loop", "wall_self (ns)"));
    assert_eq!(total_nanos - self_nanos, profile.number("loop/task", "wall_total (ns)"));
    assert!(self_nanos < total_nanos / 2, "{self_nanos} of {total_nanos}");
}

#[test]
fn a_late_value_is_added_to_its_scope_in_the_sessions_of_that_time() {
    let (fixture, session) = Fixture::with_session();
    let late = api::intern_metric("late").unwrap();
    let inner = scope("outer", || {
        api::enter_state(api::intern("state"));
        let inner = scope("inner", || api::detach_innermost().unwrap());
        api::exit_state();
        inner
    });
    let root = api::detach_innermost().unwrap();
    let other = fixture.start("begun since");
    root.add_metrics(&[(late, MetricValue::Int(4))]).unwrap();
    scope("elsewhere", || inner.add_metrics(&[(late, MetricValue::Int(1))]).unwrap());
    on_thread("another", move || {
        inner.add_metrics(&[(late, MetricValue::Int(2))]).unwrap();
    });
    let profile = profile_of(session);
    assert_eq!(profile.metric("outer/inner/state", "late"), 3);
    // A value outside of any scope is added to the root, in the session that was active then.
    assert_eq!(profile.metric("", "late"), 4);
    let other = profile_of(other);
    assert_eq!(other.paths(), ["elsewhere"]);
    assert!(other.metric("", "late").is_null());
}

#[test]
fn an_operator_exits_by_its_id_if_it_is_open() {
    let (_fixture, session) = Fixture::with_session();
    let operator = api::enter_operator(api::intern("operator"));
    api::enter(api::intern("forgotten"), NodeKind::Scope);
    assert_eq!(api::exit_operator_with_id(operator), operator);
    scope("next", || assert_eq!(api::exit_operator_with_id(operator), 0));
    let profile = profile_of(session);
    assert_eq!(profile.counts(), [("next", 1), ("operator", 1), ("operator/forgotten", 1)]);
    assert_eq!(profile.losses(), [("unclosed_scopes", 1)]);
}

#[test]
fn what_is_addressed_to_a_session_is_recorded_there_alone() {
    let fixture = Fixture::begin();
    let addressee = SessionOptions { is_addressed_only: true, ..fixture.options("addressee") };
    let (addressee, other) = (api::start(&addressee).unwrap(), fixture.start("other"));
    let items = api::intern_metric("items").unwrap();
    let inner = scope("outer", || {
        let root = api::address(addressee, None).unwrap().unwrap();
        let inner = enter(Some(&enter(Some(&root), "path")), "inner");
        root.add_metrics(&[(items, MetricValue::Int(1))]).unwrap();
        inner
    });
    on_thread("another", move || {
        inner.add_metrics(&[(items, MetricValue::Int(2))]).unwrap();
        inner.exit();
    });
    let profile = profile_of(addressee);
    // The scope of the path was not exited, so it has no time.
    assert_eq!(profile.counts(), [("path", 0), ("path/inner", 1)]);
    assert_eq!(profile.metric("path/inner", "items"), 2);
    assert_eq!(profile.metric("", "items"), 1);
    assert_eq!(profile_of(other).counts(), [("outer", 1)]);
}

#[test]
fn a_scope_can_be_addressed_to_one_of_the_sessions_that_saw_it() {
    let fixture = Fixture::begin();
    let (first, second) = (fixture.start("first"), fixture.start("second"));
    let items = api::intern_metric("items").unwrap();
    let inner = scope("inner", || api::detach_innermost().unwrap());
    let later = fixture.start("later");
    let addressed = api::address(first, Some(&inner)).unwrap().unwrap();
    addressed.add_metrics(&[(items, MetricValue::Int(3))]).unwrap();
    let operator = enter(Some(&addressed), "operator");
    operator.add_metrics(&[(items, MetricValue::Int(4))]).unwrap();
    // A session that began after the scope has no place for its values.
    assert!(api::address(later, Some(&inner)).unwrap().is_none());
    api::deactivate(first).unwrap();
    let inactive = api::address(first, Some(&inner)).unwrap().unwrap();
    inactive.add_metrics(&[(items, MetricValue::Int(3))]).unwrap();
    let profile = profile_of(first);
    assert_eq!(profile.metric("inner", "items"), 3);
    assert_eq!(profile.metric("inner/operator", "items"), 4);
    assert!(profile_of(second).metric("inner", "items").is_null());
    assert_eq!(profile_of(second).paths(), ["inner"]);
    assert!(profile_of(later).paths().is_empty());
}

#[test]
fn a_scope_of_an_ended_session_is_addressed_to_no_later_one() {
    let fixture = Fixture::begin();
    let first = fixture.start("first");
    let old = api::address(first, None).unwrap().unwrap();
    api::discard(first).unwrap();
    assert!(api::address(first, None).is_err());
    let second = fixture.start("second");
    assert!(
        api::enter_detached(Some(Arc::clone(&old)), api::intern("new"), NodeKind::Scope).is_none()
    );
    assert!(api::address(second, Some(&old)).unwrap().is_none());
}

#[test]
fn the_names_of_a_context_are_those_of_the_open_scopes() {
    let fixture = Fixture::begin();
    let names = |len| {
        let mut names = vec![0; len];
        let count = api::context_name_ids(ContextSource::Shadow, &mut names);
        (count, names.iter().map(|&name| api::name(name).to_string()).collect::<Vec<_>>())
    };
    assert_eq!(names(0), (0, vec![]));
    fixture.start("names");
    scope("outer", || {
        scope("inner", || {
            api::enter_state(api::intern("state"));
            assert_eq!(names(2).1, ["outer", "inner"]);
            assert_eq!(names(1), (2, vec!["outer".to_owned()]));
            assert_eq!(&*api::name(api::state_name_id()), "state");
            api::exit_state();
            assert_eq!(api::state_name_id(), 0);
        });
    });
    assert_eq!(names(0).0, 0);
}
