//! Sessions: what each of several sees.

use crate::harness::{Turn, enter, exit, look, scope};
use marey_record::{Error, api};

#[test]
fn an_inactive_session_sees_nothing() {
    let turn = Turn::begin();
    let session = turn.start("inactive");
    scope("before", || ());
    api::deactivate(session).unwrap();
    scope("between", || scope("inside", || ()));
    assert_eq!(api::depth(session).unwrap(), 0);
    api::activate(session).unwrap();
    scope("after", || ());
    assert_eq!(look(session).counts(), [("after", 1), ("before", 1)]);
}

#[test]
fn a_scope_that_a_session_saw_only_one_end_of_is_not_in_it() {
    let turn = Turn::begin();
    let session = turn.start("one-end");
    enter("left while inactive");
    api::deactivate(session).unwrap();
    exit("left while inactive");
    enter("entered while inactive");
    api::activate(session).unwrap();
    exit("entered while inactive");
    let profile = look(session);
    assert_eq!(profile.counts(), []);
    assert_eq!(profile.losses(), []);
}

#[test]
fn each_session_has_its_own_paths() {
    let turn = Turn::begin();
    let a = turn.start("a");
    enter("outer");
    let b = turn.start("b");
    scope("both", || {
        assert_eq!((api::depth(a).unwrap(), api::depth(b).unwrap()), (2, 1));
        api::deactivate(a).unwrap();
        scope("only b", || scope("deeper", || ()));
        api::activate(a).unwrap();
        scope("both again", || ());
    });
    exit("outer");
    assert_eq!(look(a).counts(), [("outer", 1), ("outer/both", 1), ("outer/both/both again", 1)]);
    assert_eq!(
        look(b).counts(),
        [("both", 1), ("both/both again", 1), ("both/only b", 1), ("both/only b/deeper", 1),]
    );
}

#[test]
fn a_live_session_with_the_same_path_is_that_session() {
    let turn = Turn::begin();
    let first = turn.start("same");
    api::deactivate(first).unwrap();
    assert_eq!(turn.start("same"), first);
    scope("active again", || ());
    assert_eq!(look(first).counts(), [("active again", 1)]);
    assert_eq!(api::alive(), [first]);
    api::finalize(first, None).unwrap();
    assert_ne!(turn.start("same"), first);
}

#[test]
fn two_spellings_of_a_path_are_one_session() {
    let turn = Turn::begin();
    std::fs::create_dir(turn.path("inner")).unwrap();
    let session = turn.start("same");
    assert_eq!(turn.start("inner/../same"), session);
    assert_ne!(turn.start("inner/same"), session);
}

#[test]
fn a_session_that_is_over_is_unknown() {
    let turn = Turn::begin();
    let session = turn.start("over");
    api::discard(session).unwrap();
    assert!(matches!(api::activate(session), Err(Error::UnknownSession(id)) if id == session));
    let error = api::finalize(session, None).unwrap_err();
    assert_eq!(error.to_string(), format!("Session has not been initialized: {session}"));
    assert_eq!(turn.files(), [""; 0]);
}

#[test]
fn there_may_be_64_sessions_at_a_time_and_any_number_over_time() {
    let turn = Turn::begin();
    let mut sessions: Vec<_> = (0..64).map(|n| turn.start(&format!("s{n}"))).collect();
    let error = api::start(&turn.options("one too many")).unwrap_err();
    assert!(matches!(error, Error::TooManySessions(64)), "{error}");
    for n in 64..140 {
        api::discard(sessions.remove(n % 64)).unwrap();
        sessions.push(turn.start(&format!("s{n}")));
        scope("all", || ());
        assert_eq!(look(sessions[63]).counts(), [("all", 1)]);
    }
    let oldest = sessions[0];
    let started_with_it = look(oldest).number("all", "wall_count");
    assert!(started_with_it >= 1);
}

#[test]
fn a_scope_that_outlives_many_sessions_is_in_none_that_began_inside_it() {
    let turn = Turn::begin();
    turn.start("always on");
    let first = turn.start("first");
    enter("outer");
    api::discard(first).unwrap();
    for n in 0..70 {
        let session = turn.start(&format!("s{n}"));
        scope("inner", || ());
        assert_eq!(look(session).counts(), [("inner", 1)]);
        api::discard(session).unwrap();
    }
    let last = turn.start("last");
    exit("outer");
    assert_eq!(look(last).counts(), []);
}

#[test]
fn recording_begins_anew_when_no_session_was_alive() {
    let turn = Turn::begin();
    let first = turn.start("first");
    enter("left open");
    exit("nobody");
    api::discard(first).unwrap();
    let second = turn.start("second");
    scope("fresh", || ());
    let profile = look(second);
    assert_eq!(profile.counts(), [("fresh", 1)]);
    assert_eq!(profile.losses(), []);
}

/// Each change comes when scopes have been entered often enough for the thread to know where they go.
#[test]
fn scopes_follow_each_change_of_the_sessions() {
    const TIMES: u64 = 5;
    let turn = Turn::begin();
    let again = || (0..TIMES).for_each(|_| scope("outer", || scope("inner", || ())));
    let first = turn.start("first");
    again();
    let second = turn.start("second");
    again();
    api::deactivate(first).unwrap();
    again();
    api::advance_phase(second).unwrap();
    again();
    api::activate(first).unwrap();
    api::discard(second).unwrap();
    again();
    assert_eq!(look(first).counts(), [("outer", 3 * TIMES), ("outer/inner", 3 * TIMES)]);
    api::clear(first, 0, false).unwrap();
    again();
    assert_eq!(look(first).counts(), [("outer", TIMES), ("outer/inner", TIMES)]);
}
