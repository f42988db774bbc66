//! Threads: inherited stacks, and the release of ended threads.

use crate::harness::{
    Fixture, RequestThread, as_main_thread, enter, exit, on_thread, profile_of, scope,
};
use marey_record::api;

#[test]
fn a_thread_inherits_the_main_thread_s_stack_at_its_first_event() {
    as_main_thread(inherit_stack_of_main_thread);
}

fn inherit_stack_of_main_thread(fixture: &Fixture) {
    let session = fixture.start("inherit");
    enter("spawned in");
    let thread = RequestThread::start("works", |()| {
        assert_eq!(api::exit(0), 0, "an inherited scope was exited");
        scope("work", || ());
    });
    exit("spawned in");
    for name in ["first event in", "later"] {
        scope(name, || thread.request(()));
    }
    thread.end();
    let profile = profile_of(session);
    assert_eq!(
        profile.counts(),
        [("first event in", 1), ("first event in/work", 2), ("later", 1), ("spawned in", 1)]
    );
    assert_eq!(profile.losses(), [("unmatched_exits", 2)]);
}

#[test]
fn a_thread_inherits_nothing_from_one_that_is_not_the_main_thread() {
    let (_fixture, session) = Fixture::with_session();
    scope("one", || on_thread("other", || scope("two", || ())));
    assert_eq!(profile_of(session).counts(), [("one", 1), ("two", 1)]);
}

#[test]
fn an_autograd_thread_follows_the_main_thread() {
    let (_fixture, session) = Fixture::with_session();
    let thread = RequestThread::start("pt_autograd_0", |()| {
        // Often enough for the fast path; the path differs in the next round.
        for _ in 0..4 {
            scope("backward", || scope("kernel", || ()));
        }
    });
    for name in ["step 1", "step 2"] {
        scope(name, || thread.request(()));
    }
    thread.request(());
    thread.end();
    assert_eq!(
        profile_of(session).counts(),
        [
            ("backward", 4),
            ("backward/kernel", 4),
            ("step 1", 1),
            ("step 1/backward", 4),
            ("step 1/backward/kernel", 4),
            ("step 2", 1),
            ("step 2/backward", 4),
            ("step 2/backward/kernel", 4),
        ]
    );
}

#[test]
fn open_scopes_end_with_their_thread() {
    let (_fixture, session) = Fixture::with_session();
    on_thread("forgetful", || {
        enter("a");
        enter("b");
    });
    let profile = profile_of(session);
    assert_eq!(profile.counts(), [("a", 1), ("a/b", 1)]);
    assert_eq!(profile.losses(), [("unclosed_scopes", 2)]);
}

#[test]
fn an_event_in_a_late_destructor_is_counted() {
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            scope("too late", || ());
        }
    }
    thread_local!(static LATE: Late = const { Late });
    let (_fixture, session) = Fixture::with_session();
    on_thread("late", || {
        // Thread-local destructors run in reverse order: ours after the recorder's.
        LATE.with(|_| ());
        scope("in time", || ());
    });
    on_thread("early", || {
        scope("in time", || ());
        LATE.with(|_| ());
    });
    let profile = profile_of(session);
    assert_eq!(profile.number("in time", "wall_count"), 2);
    let recorded =
        profile.nodes.get("too late").map_or(0, |_| profile.number("too late", "wall_count"));
    let lost = profile.losses().iter().map(|&(_, count)| count).sum::<u64>();
    assert_eq!(lost, 2 * (2 - recorded), "an entry and an exit of each");
}

#[test]
fn ten_thousand_short_threads_are_merged_and_freed() {
    const BATCH: usize = 20;
    let (_fixture, session) = Fixture::with_session();
    enter("main");
    let run = |threads: usize| {
        for _ in 0..threads / BATCH {
            std::thread::scope(|batch| {
                for _ in 0..BATCH {
                    batch.spawn(|| scope("short", || scope("inner", || ())));
                }
            });
        }
    };
    run(1_000);
    let before = resident_bytes();
    run(9_000);
    let grown = resident_bytes().saturating_sub(before);
    exit("main");
    assert_eq!(
        profile_of(session).counts(),
        [("main", 1), ("short", 10_000), ("short/inner", 10_000)]
    );
    // A thread's tree takes more than 4 KiB: 9,000 of them would be 36 MiB.
    assert!(grown < 16 << 20, "{grown} bytes more after 9,000 threads");
}

fn resident_bytes() -> usize {
    const PAGE_BYTES: usize = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * PAGE_BYTES
}
