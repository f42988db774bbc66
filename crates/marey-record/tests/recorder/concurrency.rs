//! Readers beside writers: nothing is lost, and nothing is counted twice.

use crate::harness::{Over, Turn, look, look_at, scope};
use crate::profile::Profile;
use marey_model::metric::MetricValue;
use marey_record::{Format, NodeKind, SessionId, api};
use std::collections::BTreeMap;
use std::sync::Barrier;

/// Sums over the closed phases of a session.
#[derive(Default)]
struct Sums {
    entries: BTreeMap<String, u64>,
    items: u64,
}

impl Sums {
    /// Closes the session's phase, takes what it holds, and clears it.
    fn close_phase(&mut self, session: SessionId) {
        let closed = api::advance_phase(session).unwrap() - 1;
        let profile = look_at(session, closed);
        api::clear(session, closed, true).unwrap();
        for (path, count) in profile.counts() {
            *self.entries.entry(path.to_owned()).or_insert(0) += count;
        }
        if profile.nodes.contains_key("outer") {
            self.items += profile.number("outer", "items");
        }
    }
}

/// Enters scopes as fast as it can; returns how often.
fn hammer(test: &Over) -> u64 {
    let (outer, inner) = (api::intern("outer"), api::intern("inner"));
    let items = api::intern_metric("items").unwrap();
    let mut loops = 0;
    while !test.is_over() {
        api::enter(outer, NodeKind::Scope);
        api::add_metrics(&[(items, MetricValue::Int(1))]).unwrap();
        api::enter(inner, NodeKind::Scope);
        api::exit(inner);
        api::exit(outer);
        loops += 1;
    }
    loops
}

/// Starts threads that enter one scope each; returns how many.
fn churn(test: &Over) -> u64 {
    const BATCH: u64 = 8;
    let mut threads = 0;
    while !test.is_over() {
        std::thread::scope(|batch| {
            for _ in 0..BATCH {
                batch.spawn(|| scope("short", || ()));
            }
        });
        threads += BATCH;
    }
    threads
}

#[test]
fn phases_add_up_to_every_scope_that_was_entered() {
    const ROUNDS: u32 = 40;
    let turn = Turn::begin();
    let session = turn.start("exact");
    let test = Over::default();
    let mut sums = Sums::default();
    let (loops, short) = std::thread::scope(|threads| {
        let hammers = [0; 2].map(|_| threads.spawn(|| hammer(&test)));
        let churn = threads.spawn(|| churn(&test));
        let course = test.course();
        for round in 0..ROUNDS {
            let live = api::get_data(session, round, Format::Hatchet).unwrap();
            Profile::parse_live(&live);
            sums.close_phase(session);
            meddle(&turn, round);
        }
        drop(course);
        let loops: u64 = hammers.into_iter().map(|hammer| hammer.join().unwrap()).sum();
        (loops, churn.join().unwrap())
    });
    sums.close_phase(session);
    let expected = [("outer", loops), ("outer/inner", loops), ("short", short)];
    assert_eq!(sums.entries, expected.map(|(path, count)| (path.to_owned(), count)).into());
    assert_eq!(sums.items, loops);
    assert!(loops > u64::from(ROUNDS) && short > 0);
}

/// What another session does must not touch the one that counts.
fn meddle(turn: &Turn, round: u32) {
    let name = format!("beside {}", round % 3);
    let beside = turn.start(&name);
    api::deactivate(beside).unwrap();
    let still = look(beside);
    assert_eq!(look(beside).counts(), still.counts(), "an inactive session stands still");
    api::activate(beside).unwrap();
    api::write_checkpoints();
    api::clear(beside, 0, false).unwrap();
    api::finalize(beside, None).unwrap();
    turn.read(&format!("{name}.hatchet"));
}

#[test]
fn a_thread_that_ends_while_a_session_does_is_in_its_profile() {
    const ROUNDS: u32 = 500;
    const THREADS: usize = 4;
    let turn = Turn::begin();
    for round in 0..ROUNDS {
        let session = turn.start("ending");
        let is_recorded = Barrier::new(THREADS + 1);
        let profile = std::thread::scope(|threads| {
            for _ in 0..THREADS {
                threads.spawn(|| {
                    scope("work", || ());
                    is_recorded.wait();
                });
            }
            is_recorded.wait();
            if round % 2 == 0 {
                api::finalize(session, None).unwrap();
                turn.read("ending.hatchet")
            } else {
                api::advance_phase(session).unwrap();
                let profile = look_at(session, 0);
                api::discard(session).unwrap();
                profile
            }
        });
        assert_eq!(profile.counts(), [("work", THREADS as u64)], "round {round}");
    }
}
