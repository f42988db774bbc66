//! Sessions: the contents of several concurrent ones.

use crate::harness::{Fixture, enter, exit, profile_of, scope};
use marey_record::{Error, api};

#[test]
fn an_inactive_session_sees_nothing() {
    let (_fixture, session) = Fixture::with_session();
    scope("before", || ());
    api::deactivate(session).unwrap();
    scope("between", || scope("inside", || ()));
    assert_eq!(api::stack_depth(session).unwrap(), 0);
    api::activate(session).unwrap();
    scope("after", || ());
    assert_eq!(profile_of(session).counts(), [("after", 1), ("before", 1)]);
}

#[test]
fn a_session_records_only_scopes_whose_entry_and_exit_it_saw() {
    let (_fixture, session) = Fixture::with_session();
    enter("left while inactive");
    api::deactivate(session).unwrap();
    exit("left while inactive");
    enter("entered while inactive");
    api::activate(session).unwrap();
    exit("entered while inactive");
    let profile = profile_of(session);
    assert_eq!(profile.counts(), []);
    assert_eq!(profile.losses(), []);
}

#[test]
fn each_session_has_its_own_paths() {
    let fixture = Fixture::begin();
    let a = fixture.start("a");
    enter("outer");
    let b = fixture.start("b");
    scope("both", || {
        assert_eq!((api::stack_depth(a).unwrap(), api::stack_depth(b).unwrap()), (2, 1));
        api::deactivate(a).unwrap();
        scope("only b", || scope("deeper", || ()));
        api::activate(a).unwrap();
        scope("both again", || ());
    });
    exit("outer");
    assert_eq!(
        profile_of(a).counts(),
        [("outer", 1), ("outer/both", 1), ("outer/both/both again", 1)]
    );
    assert_eq!(
        profile_of(b).counts(),
        [("both", 1), ("both/both again", 1), ("both/only b", 1), ("both/only b/deeper", 1),]
    );
}

#[test]
fn a_live_session_with_the_same_path_is_that_session() {
    let fixture = Fixture::begin();
    let first = fixture.start("same");
    api::deactivate(first).unwrap();
    assert_eq!(fixture.start("same"), first);
    scope("active again", || ());
    assert_eq!(profile_of(first).counts(), [("active again", 1)]);
    assert_eq!(api::live_sessions(), [first]);
    api::finalize(first, None).unwrap();
    assert_ne!(fixture.start("same"), first);
}

#[test]
fn two_spellings_of_a_path_are_one_session() {
    let fixture = Fixture::begin();
    std::fs::create_dir(fixture.path("inner")).unwrap();
    let session = fixture.start("same");
    assert_eq!(fixture.start("inner/../same"), session);
    assert_ne!(fixture.start("inner/same"), session);
}

#[test]
fn an_ended_session_is_unknown() {
    let fixture = Fixture::begin();
    let session = fixture.start("over");
    api::discard(session).unwrap();
    assert!(matches!(api::activate(session), Err(Error::UnknownSession(id)) if id == session));
    let error = api::finalize(session, None).unwrap_err();
    assert_eq!(error.to_string(), format!("Session has not been initialized: {session}"));
    assert_eq!(fixture.files(), [""; 0]);
}

#[test]
fn up_to_64_sessions_are_alive_at_a_time() {
    let fixture = Fixture::begin();
    let mut sessions: Vec<_> = (0..64).map(|n| fixture.start(&format!("s{n}"))).collect();
    let error = api::start(&fixture.options("one too many")).unwrap_err();
    assert!(matches!(error, Error::TooManySessions(64)), "{error}");
    for n in 64..140 {
        api::discard(sessions.remove(n % 64)).unwrap();
        sessions.push(fixture.start(&format!("s{n}")));
        scope("all", || ());
        assert_eq!(profile_of(sessions[63]).counts(), [("all", 1)]);
    }
    let oldest = sessions[0];
    let started_with_it = profile_of(oldest).number("all", "wall_count");
    assert!(started_with_it >= 1);
}

#[test]
fn a_long_scope_is_in_no_session_that_began_inside_it() {
    let fixture = Fixture::begin();
    fixture.start("always on");
    let first = fixture.start("first");
    enter("outer");
    api::discard(first).unwrap();
    for n in 0..70 {
        let session = fixture.start(&format!("s{n}"));
        scope("inner", || ());
        assert_eq!(profile_of(session).counts(), [("inner", 1)]);
        api::discard(session).unwrap();
    }
    let last = fixture.start("last");
    exit("outer");
    assert_eq!(profile_of(last).counts(), []);
}

#[test]
fn recording_restarts_with_the_first_session() {
    let fixture = Fixture::begin();
    let first = fixture.start("first");
    enter("left open");
    exit("nobody");
    api::discard(first).unwrap();
    let second = fixture.start("second");
    scope("fresh", || ());
    let profile = profile_of(second);
    assert_eq!(profile.counts(), [("fresh", 1)]);
    assert_eq!(profile.losses(), []);
}

/// Each change comes after scopes were entered often enough for the fast path.
#[test]
fn scopes_follow_each_change_of_the_sessions() {
    const TIMES: u64 = 5;
    let fixture = Fixture::begin();
    let enter_scopes = || (0..TIMES).for_each(|_| scope("outer", || scope("inner", || ())));
    let first = fixture.start("first");
    enter_scopes();
    let second = fixture.start("second");
    enter_scopes();
    api::deactivate(first).unwrap();
    enter_scopes();
    api::advance_phase(second).unwrap();
    enter_scopes();
    api::activate(first).unwrap();
    api::discard(second).unwrap();
    enter_scopes();
    assert_eq!(profile_of(first).counts(), [("outer", 3 * TIMES), ("outer/inner", 3 * TIMES)]);
    api::clear_phases(first, 0..=0).unwrap();
    enter_scopes();
    assert_eq!(profile_of(first).counts(), [("outer", TIMES), ("outer/inner", TIMES)]);
}
