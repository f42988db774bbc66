//! Counters of the machine reach the spool, and the threads that read them keep out of the way.

use crate::harness::{Role, Turn, fork, part, scope};
use crate::spool::{Spool, spool_of};
use marey_model::loss::LossCause;
use marey_model::spool::Counter;
use marey_record::api::Counter as Reading;
use marey_record::{Format, STOP, SessionId, SessionOptions, Worker, api};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};

const KEEP: (&str, &str) = ("MAREY_KEEP_SPOOL", "1");

fn start(path: &Path) -> SessionId {
    let name = path.to_str().unwrap();
    let options = SessionOptions { format: Format::ChromeTrace, ..SessionOptions::named(name) };
    api::start(&options).unwrap()
}

/// Runs a part of a test in a process that keeps its spool; returns what is in it.
fn spool_of_part(test: &str, name: &str, env: &[(&str, &str)]) -> Spool {
    let turn = Turn::begin();
    Role::new(test, name, &turn).run(&[env, &[KEEP]].concat());
    Spool::read(&spool_of(&turn.path("trace")))
}

/// Reads two counters of two devices, and one of none, at one moment.
fn read(value: f64) {
    let time_ticks = api::now_ticks();
    let reading =
        |name, device, value| Reading { name: api::intern(name), device, time_ticks, value };
    api::counters(&[
        reading("power (W)", Some(0), value),
        reading("power (W)", Some(1), value + 0.5),
        reading("load", None, value),
    ]);
}

#[test]
fn counters_are_there_while_a_trace_records() {
    const TEST: &str = "counters::counters_are_there_while_a_trace_records";
    if let Some((_, folder)) = part() {
        read(1.0);
        let tree = api::start(&SessionOptions::named(folder.join("tree").to_str().unwrap()));
        read(2.0);
        assert!(!api::is_tracing());
        let trace = start(&folder.join("trace"));
        assert!(api::is_tracing());
        read(3.0);
        api::deactivate(trace).unwrap();
        read(4.0);
        api::activate(trace).unwrap();
        // Their names are defined once, and beside those of scopes.
        scope("load", || read(5.0));
        for session in [tree.unwrap(), trace] {
            api::finalize(session, Some(Format::Hatchet)).unwrap();
        }
        read(6.0);
        return;
    }
    let spool = spool_of_part(TEST, "run", &[]);
    let of = |counter: &(String, Counter)| (counter.0.clone(), counter.1.device, counter.1.value);
    let seen = |value| {
        let power = || "power (W)".to_owned();
        [
            (power(), Some(0), value),
            (power(), Some(1), value + 0.5),
            ("load".to_owned(), None, value),
        ]
    };
    let counters: Vec<_> = spool.counters.iter().map(of).collect();
    assert_eq!(counters, [seen(3.0), seen(5.0)].concat());
    let times: Vec<_> = spool.counters.iter().map(|counter| counter.1.time_nanos).collect();
    assert!(times[0] == times[2] && times[2] < times[3] && times[3] == times[5]);
    assert!(spool.clocks[0].0 <= times[0] && spool.losses.is_empty() && spool.has_end);
}

#[test]
fn counters_without_room_are_counted() {
    const TEST: &str = "counters::counters_without_room_are_counted";
    if let Some((_, folder)) = part() {
        let trace = start(&folder.join("trace"));
        (0..100).for_each(|at| read(at.into()));
        api::finalize(trace, Some(Format::Hatchet)).unwrap();
        return;
    }
    let spool = spool_of_part(TEST, "run", &[("MAREY_SPOOL_BYTES", "1000")]);
    assert!(!spool.counters.is_empty() && spool.lost(LossCause::Spool) > 0);
    assert_eq!(spool.counters.len() as u64 + spool.lost(LossCause::Spool), 300);
}

/// How often the source's thread has started.
static STARTS: (Mutex<u32>, Condvar) = (Mutex::new(0), Condvar::new());
static RUNS: AtomicBool = AtomicBool::new(false);
static RAN_AT_FORK: AtomicBool = AtomicBool::new(true);
static SOURCE: Worker = Worker::new("source", run);

fn run() {
    RUNS.store(true, Ordering::SeqCst);
    *STARTS.0.lock().unwrap() += 1;
    STARTS.1.notify_all();
    while SOURCE.wait(None) & STOP == 0 {}
    RUNS.store(false, Ordering::SeqCst);
}

fn wait_for_starts(count: u32) {
    drop(STARTS.1.wait_while(STARTS.0.lock().unwrap(), |starts| *starts < count).unwrap());
}

extern "C" fn at_fork() {
    RAN_AT_FORK.store(RUNS.load(Ordering::SeqCst), Ordering::SeqCst);
}

#[test]
#[expect(unsafe_code, reason = "pthread_atfork takes C functions")]
fn a_source_is_gone_while_the_process_forks_and_stays_away_in_the_child() {
    const TEST: &str =
        "counters::a_source_is_gone_while_the_process_forks_and_stays_away_in_the_child";
    if let Some((_, folder)) = part() {
        // SAFETY: the function lives as long as the program. It is called after those that are
        // installed later.
        unsafe { libc::pthread_atfork(Some(at_fork), None, None) };
        let trace = start(&folder.join("trace"));
        api::start_source(&SOURCE);
        api::start_source(&SOURCE);
        wait_for_starts(1);
        let child = fork(|| {
            let stayed_away = !RUNS.load(Ordering::SeqCst) && !SOURCE.stop();
            api::start_source(&SOURCE);
            wait_for_starts(2);
            i32::from(!stayed_away || !SOURCE.stop())
        });
        assert_eq!(child, 0);
        assert!(!RAN_AT_FORK.load(Ordering::SeqCst));
        wait_for_starts(2);
        assert!(SOURCE.stop() && !SOURCE.stop());
        assert_eq!(fork(|| i32::from(SOURCE.stop())), 0);
        assert_eq!(*STARTS.0.lock().unwrap(), 2);
        api::discard(trace).unwrap();
        return;
    }
    let turn = Turn::begin();
    Role::new(TEST, "run", &turn).run(&[]);
}
