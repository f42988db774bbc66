//! Random schedules of phases while threads record: each record is in exactly one phase, and they
//! add up.

use crate::harness::{Fixture, scope, start_trace};
use crate::spool::spool_of;
use marey_model::metric::MetricValue;
use marey_model::spool::{SessionEvent, SpoolFrame, SpoolReader};
use marey_record::{NodeKind, SessionId, api};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

const WORKERS: usize = 3;
/// The number of scopes, and of values, of each worker: they fit into its buffer even if it is
/// never drained.
const SCOPES: i64 = 2_000;
/// The names of a worker's scopes in rotation, so that a lost or doubled one is detected.
const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

/// The next action of the main thread.
#[derive(Clone, Copy, Debug)]
enum Action {
    /// Closes the phase of one of the two sessions.
    Advance(usize),
    /// Lets the workers run.
    Yield(u8),
}

fn schedule() -> impl Strategy<Value = Vec<Action>> {
    let action =
        prop_oneof![(0..2_usize).prop_map(Action::Advance), (0..50_u8).prop_map(Action::Yield)];
    proptest::collection::vec(action, 0..40)
}

fn work(worker: usize) {
    let names = NAMES.map(api::intern);
    let metric = api::intern_metric(&format!("worker {worker}")).unwrap();
    for number in 0..SCOPES {
        let name = names[number as usize % NAMES.len()];
        api::enter(name, NodeKind::Scope);
        api::add_metrics(&[(metric, MetricValue::Int(number))]).unwrap();
        api::exit(name);
    }
}

/// Runs the schedule. Returns the phase of each session at each of the main thread's scopes.
fn run_schedule(sessions: [SessionId; 2], schedule: &[Action]) -> Vec<[u32; 2]> {
    let mut phases = [0; 2];
    let mut main_phases = Vec::new();
    for &action in schedule {
        scope("main", || ());
        main_phases.push(phases);
        match action {
            Action::Advance(session) => {
                phases[session] = api::advance_phase(sessions[session]).unwrap();
            }
            Action::Yield(times) => (0..times).for_each(|_| std::thread::yield_now()),
        }
    }
    main_phases
}

/// The contents of a spool for one session and phase: names of the scopes by thread, and values by
/// metric.
#[derive(Debug, Default)]
struct Phase {
    scopes: Vec<(u32, String)>,
    values: Vec<(String, i64)>,
}

/// Returns the session's phases, in the order of the frames.
fn phases(spool: &Path, session: usize) -> BTreeMap<u32, Phase> {
    let mut texts = BTreeMap::new();
    let mut nodes = BTreeMap::new();
    let mut slots = Vec::new();
    let mut phase = 0;
    let mut phases: BTreeMap<u32, Phase> = BTreeMap::new();
    for frame in SpoolReader::new(File::open(spool).unwrap()).unwrap() {
        let has_session =
            |mask: u64| slots.get(session).is_some_and(|&slot: &u32| mask >> slot & 1 != 0);
        match frame.unwrap() {
            SpoolFrame::Strings { first_id: first, texts: new } => texts.extend((first..).zip(new)),
            SpoolFrame::Nodes { thread, first_id: first, nodes: new } => {
                nodes.extend((first..).map(|id| (thread, id)).zip(new));
            }
            SpoolFrame::Session { session, event: SessionEvent::Started, .. } => {
                slots.push(session);
            }
            SpoolFrame::Session { session: slot, event: SessionEvent::Phase(next), .. }
                if has_session(1 << slot) =>
            {
                assert_eq!(next, phase + 1);
                phase = next;
            }
            SpoolFrame::Spans { thread, sessions, spans } if has_session(sessions) => {
                let name = |node: u32| texts[&nodes[&(thread, node)].name_id].clone();
                let scopes = spans.iter().map(|span| (thread, name(span.node_id)));
                phases.entry(phase).or_default().scopes.extend(scopes);
            }
            SpoolFrame::Values { sessions, values, .. } if has_session(sessions) => {
                let values = values.iter().map(|value| {
                    let MetricValue::Int(number) = value.value else { panic!("{value:?}") };
                    (texts[&value.name_id].clone(), number)
                });
                phases.entry(phase).or_default().values.extend(values);
            }
            SpoolFrame::Losses(losses) => panic!("{losses:?}"),
            _ => {}
        }
    }
    phases
}

fn check_phases(phases: &BTreeMap<u32, Phase>, expected_main: &[u32]) {
    let mut by_thread: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    let mut by_metric: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    let mut main_phases = Vec::new();
    for (number, phase) in phases {
        for (thread, name) in &phase.scopes {
            if name == "main" {
                main_phases.push(*number);
            } else {
                by_thread.entry(*thread).or_default().push(name);
            }
        }
        for (metric, value) in &phase.values {
            by_metric.entry(metric).or_default().push(*value);
        }
    }
    assert_eq!(main_phases, expected_main);
    let names: Vec<_> = NAMES.into_iter().cycle().take(SCOPES as usize).collect();
    assert_eq!(by_thread.into_values().collect::<Vec<_>>(), vec![names; WORKERS]);
    let values: Vec<_> = (0..SCOPES).collect();
    assert_eq!(by_metric.into_values().collect::<Vec<_>>(), vec![values; WORKERS]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn phases_of_any_schedule_add_up(schedule in schedule()) {
        let folder = Fixture::begin();
        let sessions = ["first", "second"].map(|name| start_trace(folder.path(name)));
        // The workers begin outside of any scope of the main thread.
        let main = std::thread::scope(|threads| {
            for worker in 0..WORKERS {
                threads.spawn(move || work(worker));
            }
            run_schedule(sessions, &schedule)
        });
        let files = sessions.map(|session| api::finalize(session, None).unwrap());
        for (index, files) in files.iter().enumerate() {
            let phases = phases(&spool_of(folder.path("first")), index);
            check_phases(&phases, &main.iter().map(|phases| phases[index]).collect::<Vec<_>>());
            for (number, file) in (0..).zip(files) {
                let trace = std::fs::read_to_string(file).unwrap();
                let expected = phases.get(&number).map_or(0, |phase| phase.scopes.len());
                assert_eq!(trace.matches("\"ph\":\"X\"").count(), expected, "{}", file.display());
            }
        }
    }
}
