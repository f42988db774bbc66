//! Training steps, which marey opens and the optimizer closes.

use crate::harness::{Fixture, enter, exit, profile_of, scope};
use marey_record::api;

#[test]
fn an_optimizer_s_step_closes_the_step_and_opens_the_next() {
    let (_fixture, session) = Fixture::with_session();
    api::step_begin();
    for _ in 0..3 {
        scope("forward", || ());
        // A second model in the same step.
        api::step_begin();
        scope("backward", || ());
        api::step_end();
    }
    let profile = profile_of(session);
    assert_eq!(profile.counts(), [("step", 3), ("step/backward", 3), ("step/forward", 3)]);
    assert_eq!(profile.kind("step"), "step");
    // The step that is open now is not an entry yet.
    assert!(profile.metric("step", "wall_open").is_null());
}

#[test]
fn a_step_that_ends_inside_a_scope_closes_with_the_scope() {
    let (_fixture, session) = Fixture::with_session();
    api::step_begin();
    for _ in 0..5 {
        enter("train_step");
        scope("forward", || ());
        api::step_end();
        assert_ne!(exit("train_step"), 0);
    }
    let profile = profile_of(session);
    assert_eq!(
        profile.counts(),
        [("step", 5), ("step/train_step", 5), ("step/train_step/forward", 5)]
    );
    assert!(
        profile.number("step", "wall_total (ns)")
            >= profile.number("step/train_step", "wall_total (ns)")
    );
}

#[test]
fn a_step_without_an_optimizer_is_not_recorded() {
    let (_fixture, session) = Fixture::with_session();
    scope("evaluate", || {
        api::step_begin();
        scope("forward", || ());
    });
    let profile = profile_of(session);
    assert_eq!(
        profile.counts(),
        [("evaluate", 1), ("evaluate/step", 0), ("evaluate/step/forward", 1)]
    );
    let number = |path, key| profile.number(path, key);
    assert_eq!(
        number("evaluate", "wall_self (ns)"),
        number("evaluate", "wall_total (ns)") - number("evaluate/step/forward", "wall_total (ns)")
    );
    assert_eq!(profile.losses(), []);
}

#[test]
fn an_optimizer_without_a_step_opens_one() {
    let (_fixture, session) = Fixture::with_session();
    api::step_end();
    scope("forward", || ());
    api::step_end();
    assert_eq!(profile_of(session).counts(), [("step", 1), ("step/forward", 1)]);
}

#[test]
fn an_exit_does_not_close_a_step() {
    let (_fixture, session) = Fixture::with_session();
    api::step_begin();
    assert_eq!(api::exit(0), 0);
    assert_eq!(api::innermost_name_id(), 0);
    api::step_end();
    let profile = profile_of(session);
    assert_eq!(profile.counts(), [("step", 1)]);
    assert_eq!(profile.losses(), [("unmatched_exits", 1)]);
}
