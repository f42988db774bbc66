//! Concurrent readers and writers: nothing is lost, and nothing is counted twice.

use crate::harness::{Fixture, StopFlag, phase_profile, profile_of, scope};
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
    /// Closes the session's phase, adds its data, and clears it.
    fn close_phase(&mut self, session: SessionId) {
        let closed = api::advance_phase(session).unwrap() - 1;
        let profile = phase_profile(session, closed);
        api::clear_phases(session, 0..=closed).unwrap();
        for (path, count) in profile.counts() {
            *self.entries.entry(path.to_owned()).or_insert(0) += count;
        }
        if profile.nodes.contains_key("outer") {
            self.items += profile.number("outer", "items");
        }
    }
}

/// Enters scopes in a tight loop. Returns the number of iterations.
fn enter_until_stopped(stop: &StopFlag) -> u64 {
    let (outer, inner) = (api::intern("outer"), api::intern("inner"));
    let items = api::intern_metric("items").unwrap();
    let mut loops = 0;
    while !stop.is_set() {
        api::enter(outer, NodeKind::Scope);
        api::add_metrics(&[(items, MetricValue::Int(1))]).unwrap();
        api::enter(inner, NodeKind::Scope);
        api::exit(inner);
        api::exit(outer);
        loops += 1;
    }
    loops
}

/// Starts threads that enter one scope each. Returns the number of threads.
fn start_threads_until_stopped(stop: &StopFlag) -> u64 {
    const BATCH: u64 = 8;
    let mut threads = 0;
    while !stop.is_set() {
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
fn phases_add_up_to_all_scopes() {
    // Each round waits for threads that are busy on all cores: a fraction of a second.
    const ROUNDS: u32 = 16;
    let fixture = Fixture::begin();
    let session = fixture.start("exact");
    let stop = StopFlag::default();
    let mut sums = Sums::default();
    let (loops, short_threads) = std::thread::scope(|threads| {
        let loop_threads = [0; 2].map(|_| threads.spawn(|| enter_until_stopped(&stop)));
        let churn_thread = threads.spawn(|| start_threads_until_stopped(&stop));
        let guard = stop.guard();
        for round in 0..ROUNDS {
            let live = api::get_data(session, round, Format::Hatchet).unwrap();
            Profile::parse_live(&live);
            sums.close_phase(session);
            run_other_session(&fixture, round);
        }
        drop(guard);
        let loops: u64 = loop_threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        (loops, churn_thread.join().unwrap())
    });
    sums.close_phase(session);
    let expected = [("outer", loops), ("outer/inner", loops), ("short", short_threads)];
    assert_eq!(sums.entries, expected.map(|(path, count)| (path.to_owned(), count)).into());
    assert_eq!(sums.items, loops);
    assert!(loops > u64::from(ROUNDS) && short_threads > 0);
}

/// Runs another session, which must not affect the session under test.
fn run_other_session(fixture: &Fixture, round: u32) {
    let name = format!("other {}", round % 3);
    let other = fixture.start(&name);
    api::deactivate(other).unwrap();
    let before = profile_of(other);
    assert_eq!(profile_of(other).counts(), before.counts(), "an inactive session changed");
    api::activate(other).unwrap();
    api::write_checkpoints();
    api::clear_phases(other, 0..=0).unwrap();
    api::finalize(other, None).unwrap();
    fixture.read(&format!("{name}.hatchet"));
}

#[test]
fn a_thread_that_ends_with_the_session_is_in_its_profile() {
    const ROUNDS: u32 = 500;
    const THREADS: usize = 4;
    let fixture = Fixture::begin();
    for round in 0..ROUNDS {
        let session = fixture.start("ending");
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
                fixture.read("ending.hatchet")
            } else {
                api::advance_phase(session).unwrap();
                let profile = phase_profile(session, 0);
                api::discard(session).unwrap();
                profile
            }
        });
        assert_eq!(profile.counts(), [("work", THREADS as u64)], "round {round}");
    }
}
