//! SIGKILL at any moment: the spool opens, and has every scope that is older than a second.

use crate::harness::{Role, Turn, part, wait_until_ready};
use crate::spool::{Spool, spool_of};
use marey_record::{Format, NodeKind, SessionOptions, api};
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

const TEST: &str = "kills::a_killed_process_loses_no_scope_that_is_older_than_a_second";
const KILLS: u64 = 200;
/// Processes that live at the same time.
const AT_ONCE: u64 = 20;
const PROMISE: Duration = Duration::from_secs(1);
const NAMES: [&str; 3] = ["one", "two", "three"];
/// Scopes between two numbers that a process prints.
const STEP: usize = 1000;

/// Enters scopes, and prints their number whenever it is asked for it, and a step later.
fn record_until_killed(path: &str) {
    let options = SessionOptions { format: Format::ChromeTrace, ..SessionOptions::named(path) };
    api::start(&options).unwrap();
    crate::harness::tell_ready();
    let names = NAMES.map(api::intern);
    let mut entered = 0;
    for _line in std::io::stdin().lines() {
        for _ in 0..STEP {
            let name = names[entered % names.len()];
            api::enter(name, NodeKind::Scope);
            api::exit(name);
            entered += 1;
        }
        println!("{entered}");
    }
}

/// Lets a process live for a while and kills it somewhere in a step. Returns how many scopes it had
/// left a second before.
fn live_and_kill(turn: &Turn, number: u64) -> usize {
    // Where the machine is busy with twenty of these, logs wait long to be taken over: none is full.
    let buffer = [("MAREY_TRACE_BUFFER_BYTES", "67108864")];
    let mut child = Role::new(TEST, &format!("{number}"), turn).spawn(&buffer);
    let mut out = wait_until_ready(&mut child);
    let mut ask = child.stdin.take().unwrap();
    // Odd multiples spread the moments over half a second, and over a step.
    let lifetime = PROMISE + Duration::from_micros(number * 7919 % 500_000);
    let began = Instant::now();
    let mut heard = Vec::new();
    while began.elapsed() < lifetime {
        ask.write_all(b"\n").unwrap();
        let mut answer = String::new();
        out.read_line(&mut answer).unwrap();
        heard.push((Instant::now(), answer.trim().parse().unwrap()));
    }
    ask.write_all(b"\n").unwrap();
    let within_step = Instant::now() + Duration::from_micros(number * 31 % 300);
    while Instant::now() < within_step {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let old = Instant::now().checked_sub(PROMISE).unwrap();
    heard.into_iter().filter(|&(at, _)| at < old).map(|(_, entered)| entered).max().unwrap_or(0)
}

#[test]
fn a_killed_process_loses_no_scope_that_is_older_than_a_second() {
    if let Some((number, folder)) = part() {
        return record_until_killed(folder.join(number).to_str().unwrap());
    }
    let turn = Turn::begin();
    let old: Vec<usize> = (0..KILLS / AT_ONCE)
        .flat_map(|round| {
            std::thread::scope(|threads| {
                let turn = &turn;
                let lives = (round * AT_ONCE..(round + 1) * AT_ONCE)
                    .map(|number| threads.spawn(move || live_and_kill(turn, number)));
                lives
                    .collect::<Vec<_>>()
                    .into_iter()
                    .map(|life| life.join().unwrap())
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    for (number, &old) in old.iter().enumerate() {
        let spool = Spool::read(&spool_of(&turn.path(&number.to_string())));
        let spans = spool.threads.get(&0).map_or(&[][..], |thread| &thread.spans);
        assert!(spans.len() >= old, "kill {number}: {} of {old} scopes are there", spans.len());
        for (at, (span, _)) in spans.iter().enumerate() {
            assert_eq!(span.node, spans[at % NAMES.len()].0.node, "kill {number}: scope {at}");
        }
        for ((span, _), name) in spans.iter().zip(NAMES) {
            assert_eq!(spool.path(0, span.node), name);
        }
        assert!(!spool.has_end && spool.losses.is_empty());
    }
    assert!(old.iter().filter(|&&old| old > 0).count() as u64 > KILLS / 2);
}
