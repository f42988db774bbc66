//! Scopes of coroutines: outside of any stack, left in any order and on any thread.

use crate::harness::{Turn, look, on_thread, scope};
use marey_model::metric::MetricValue;
use marey_record::{Detached, NodeKind, api};
use std::sync::Arc;

fn enter(parent: Option<&Arc<Detached>>, name: &str) -> Arc<Detached> {
    api::enter_detached(parent.cloned(), api::intern(name), NodeKind::Scope).unwrap()
}

#[test]
fn coroutines_that_interleave_keep_their_own_paths() {
    let turn = Turn::begin();
    let session = turn.start("coroutines");
    scope("loop", || {
        let (a, b) = (enter(None, "a"), enter(None, "b"));
        let (in_a, in_b) = (enter(Some(&a), "await"), enter(Some(&b), "await"));
        a.exit();
        in_b.exit();
        in_a.exit();
        b.exit();
        // A second time does nothing.
        b.exit();
    });
    let profile = look(session);
    assert_eq!(
        profile.counts(),
        [("loop", 1), ("loop/a", 1), ("loop/a/await", 1), ("loop/b", 1), ("loop/b/await", 1)]
    );
    assert_eq!(profile.losses(), []);
}

#[test]
fn a_detached_scope_may_be_left_on_another_thread() {
    let turn = Turn::begin();
    let session = turn.start("moved");
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
    let profile = look(session);
    assert_eq!(
        profile.counts(),
        [
            ("main", 1),
            ("main/executor", 1),
            ("main/outer", 1),
            ("main/outer/inner", 1),
            ("main/outer/inner/innermost", 1),
        ]
    );
    assert_eq!(profile.metric("main/outer/inner", "items"), 2);
}

#[test]
fn a_detached_scope_outlives_its_session_in_peace() {
    let turn = Turn::begin();
    let first = turn.start("first");
    let old = enter(None, "old");
    api::discard(first).unwrap();
    let second = turn.start("second");
    let new = enter(Some(&old), "new");
    old.exit();
    new.exit();
    assert_eq!(look(second).counts(), [("new", 1)]);
}

#[test]
fn the_scope_that_runs_the_loop_does_not_keep_its_coroutines_time() {
    let turn = Turn::begin();
    let session = turn.start("host");
    scope("loop", || {
        let task = enter(None, "task");
        let began = std::time::Instant::now();
        while began.elapsed().as_millis() < 5 {}
        task.exit();
    });
    let profile = look(session);
    let (total, own) =
        (profile.number("loop", "wall_total (ns)"), profile.number("loop", "wall_self (ns)"));
    assert_eq!(total - own, profile.number("loop/task", "wall_total (ns)"));
    assert!(own < total / 2, "{own} of {total}");
}

#[test]
fn a_late_value_belongs_to_the_scope_and_the_sessions_of_its_place() {
    let turn = Turn::begin();
    let session = turn.start("late");
    let late = api::intern_metric("late").unwrap();
    let place = scope("outer", || {
        api::enter_state(api::intern("state"));
        let place = scope("inner", || api::here().unwrap());
        api::exit_state();
        place
    });
    let top = api::here().unwrap();
    let other = turn.start("begun since");
    top.add_metrics(&[(late, MetricValue::Int(4))]).unwrap();
    scope("elsewhere", || place.add_metrics(&[(late, MetricValue::Int(1))]).unwrap());
    on_thread("another", move || {
        place.add_metrics(&[(late, MetricValue::Int(2))]).unwrap();
    });
    let profile = look(session);
    assert_eq!(profile.metric("outer/inner/state", "late"), 3);
    // What was added to no scope lies on the root, in the session that recorded then.
    assert_eq!(profile.metric("", "late"), 4);
    let other = look(other);
    assert_eq!(other.paths(), ["elsewhere"]);
    assert!(other.metric("", "late").is_null());
}

#[test]
fn an_operator_is_left_by_its_id_if_it_is_open() {
    let turn = Turn::begin();
    let session = turn.start("by id");
    let operator = api::enter_operator(api::intern("operator"));
    api::enter(api::intern("forgotten"), NodeKind::Scope);
    assert_eq!(api::exit_operator_with_id(operator), operator);
    scope("next", || assert_eq!(api::exit_operator_with_id(operator), 0));
    let profile = look(session);
    assert_eq!(profile.counts(), [("next", 1), ("operator", 1), ("operator/forgotten", 1)]);
    assert_eq!(profile.losses(), [("unclosed_scopes", 1)]);
}
