//! Threads: what they inherit, and that ended ones are let go.

use crate::harness::{Turn, enter, exit, look, on_thread, scope};
use marey_record::api;
use std::sync::mpsc::sync_channel;

#[test]
fn a_thread_starts_from_the_main_thread_s_stack_at_its_first_event() {
    let turn = Turn::begin();
    let session = turn.start("inherit");
    let (go, wait) = sync_channel(0);
    let (done, finished) = sync_channel(0);
    enter("spawned in");
    let thread = std::thread::Builder::new().spawn(move || {
        for () in wait {
            assert_eq!(api::exit(0), 0, "what a thread inherits is not its own to leave");
            scope("work", || ());
            done.send(()).unwrap();
        }
    });
    exit("spawned in");
    for name in ["first event in", "later"] {
        scope(name, || {
            go.send(()).unwrap();
            finished.recv().unwrap();
        });
    }
    drop(go);
    thread.unwrap().join().unwrap();
    let profile = look(session);
    assert_eq!(
        profile.counts(),
        [("first event in", 1), ("first event in/work", 2), ("later", 1), ("spawned in", 1)]
    );
    assert_eq!(profile.losses(), [("unmatched_exits", 2)]);
}

#[test]
fn pytorch_s_backward_thread_follows_the_main_thread_again_and_again() {
    let turn = Turn::begin();
    let session = turn.start("autograd");
    let (go, wait) = sync_channel(0);
    let (done, finished) = sync_channel(0);
    let thread = std::thread::Builder::new().name("pt_autograd_0".to_owned()).spawn(move || {
        for () in wait {
            // Often enough for the thread to know its way, which is another one the next time.
            for _ in 0..4 {
                scope("backward", || scope("kernel", || ()));
            }
            done.send(()).unwrap();
        }
    });
    for name in ["step 1", "step 2"] {
        scope(name, || {
            go.send(()).unwrap();
            finished.recv().unwrap();
        });
    }
    go.send(()).unwrap();
    finished.recv().unwrap();
    drop(go);
    thread.unwrap().join().unwrap();
    assert_eq!(
        look(session).counts(),
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
fn what_a_thread_leaves_open_ends_with_it() {
    let turn = Turn::begin();
    let session = turn.start("unclosed");
    on_thread("forgetful", || {
        enter("a");
        enter("b");
    });
    let profile = look(session);
    assert_eq!(profile.counts(), [("a", 1), ("a/b", 1)]);
    assert_eq!(profile.losses(), [("unclosed_scopes", 2)]);
}

#[test]
fn an_event_of_a_late_destructor_is_counted_and_harmless() {
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            scope("too late", || ());
        }
    }
    thread_local!(static LATE: Late = const { Late });
    let turn = Turn::begin();
    let session = turn.start("late");
    on_thread("late", || {
        // Destructors run in the opposite order: ours after the recorder's.
        LATE.with(|_| ());
        scope("in time", || ());
    });
    on_thread("early", || {
        scope("in time", || ());
        LATE.with(|_| ());
    });
    let profile = look(session);
    assert_eq!(profile.number("in time", "wall_count"), 2);
    let recorded =
        profile.nodes.get("too late").map_or(0, |_| profile.number("too late", "wall_count"));
    let lost = profile.losses().iter().map(|&(_, count)| count).sum::<u64>();
    assert_eq!(lost, 2 * (2 - recorded), "an entry and an exit of each");
}

#[test]
fn ten_thousand_short_threads_are_merged_and_let_go() {
    const BATCH: usize = 20;
    let turn = Turn::begin();
    let session = turn.start("churn");
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
        look(session).counts(),
        [("main", 1), ("main/short", 10_000), ("main/short/inner", 10_000)]
    );
    // A thread's tree takes more than 4 KiB: 9,000 of them would be 36 MiB.
    assert!(grown < 16 << 20, "{grown} bytes more after 9,000 threads");
}

fn resident_bytes() -> usize {
    const PAGE_BYTES: usize = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * PAGE_BYTES
}
