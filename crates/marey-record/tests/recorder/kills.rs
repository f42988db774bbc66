//! SIGKILL at any time: the spool is readable, and contains every scope that is older than a
//! second.

use crate::harness::{Fixture, Subprocess, report_ready, start_trace, wait_until_ready};
use crate::spool::Spool;
use marey_record::{NodeKind, api};
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

/// Four rounds of processes that live for more than a second: 7 s. Fewer kills would hit fewer points
/// between two writes.
const KILLS: u64 = 200;
/// The number of concurrent processes.
const CONCURRENT: u64 = 50;
const MAX_LOSS: Duration = Duration::from_secs(1);
const NAMES: [&str; 3] = ["one", "two", "three"];
/// The number of scopes between two reports of a process.
const SCOPES_PER_REPORT: usize = 1000;
/// The pause after a report. Without it the processes keep every core busy, and a thread that writes
/// may wait for one longer than `MAX_LOSS`.
const PAUSE: Duration = Duration::from_millis(5);

/// Enters scopes, and prints their number on request and after each step.
fn record_until_killed() {
    let names = NAMES.map(api::intern);
    let mut entered = 0;
    for _line in std::io::stdin().lines() {
        for _ in 0..SCOPES_PER_REPORT {
            let name = names[entered % names.len()];
            api::enter(name, NodeKind::Scope);
            api::exit(name);
            entered += 1;
        }
        println!("{entered}");
    }
}

/// Lets a process run for a while and kills it somewhere in a step. Returns how many scopes it had
/// exited a second before.
fn run_and_kill(subprocess: &Subprocess, fixture: &Fixture, number: u64) -> usize {
    // With so many processes logs wait long to be drained: the buffer is large enough.
    let buffer = [("MAREY_TRACE_BUFFER_BYTES", "67108864")];
    let mut child = subprocess.spawn(&format!("{number}"), fixture, &buffer);
    let mut out = wait_until_ready(&mut child);
    let mut stdin = child.stdin.take().unwrap();
    // Odd multiples spread the times of the kills over half a second, and over a step.
    let lifetime = MAX_LOSS + Duration::from_micros(number * 7919 % 500_000);
    let start = Instant::now();
    let mut reports = Vec::new();
    while start.elapsed() < lifetime {
        stdin.write_all(b"\n").unwrap();
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        reports.push((Instant::now(), line.trim().parse().unwrap()));
        pause();
    }
    stdin.write_all(b"\n").unwrap();
    let kill_time = Instant::now() + Duration::from_micros(number * 31 % 300);
    while Instant::now() < kill_time {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let deadline = Instant::now().checked_sub(MAX_LOSS).unwrap();
    reports
        .into_iter()
        .filter(|&(time, _)| time < deadline)
        .map(|(_, entered)| entered)
        .max()
        .unwrap_or(0)
}

#[expect(clippy::disallowed_methods, reason = "nothing is awaited")]
fn pause() {
    std::thread::sleep(PAUSE);
}

#[test]
fn a_killed_process_loses_no_scope_that_is_older_than_a_second() {
    let Some(subprocess) = Subprocess::of(|number| {
        start_trace(number);
        report_ready();
        record_until_killed();
    }) else {
        return;
    };
    let fixture = Fixture::begin();
    let min_spans: Vec<usize> = (0..KILLS / CONCURRENT)
        .flat_map(|round| {
            std::thread::scope(|threads| {
                let (subprocess, fixture) = (&subprocess, &fixture);
                let threads = (round * CONCURRENT..(round + 1) * CONCURRENT)
                    .map(|number| threads.spawn(move || run_and_kill(subprocess, fixture, number)));
                threads
                    .collect::<Vec<_>>()
                    .into_iter()
                    .map(|thread| thread.join().unwrap())
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    for (number, &min) in min_spans.iter().enumerate() {
        let spool = Spool::of(fixture.path(&number.to_string()));
        let spans = spool.threads.get(&0).map_or(&[][..], |thread| &thread.spans);
        assert!(
            spans.len() >= min,
            "kill {number}: {} of {min} scopes are in the spool",
            spans.len()
        );
        for (index, (span, _)) in spans.iter().enumerate() {
            assert_eq!(
                span.node_id,
                spans[index % NAMES.len()].0.node_id,
                "kill {number}: scope {index}"
            );
        }
        for ((span, _), name) in spans.iter().zip(NAMES) {
            assert_eq!(spool.path(0, span.node_id), name);
        }
        assert!(!spool.has_end && spool.losses.is_empty());
    }
    assert!(min_spans.iter().filter(|&&min| min > 0).count() as u64 > KILLS / 2);
}
