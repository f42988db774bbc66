//! Times of collected spans: parents and children, open scopes, sessions, phases.

use std::collections::BTreeMap;

use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_model::spool::{NodeDef, SessionEvent, SpoolFrame};
use marey_store::Run;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::spools::{
    INNER, NODES, OUTER, Recorded, STEP, UNIX, collect_run, first_frames, session, spans, values,
};
use super::tables::Tables;

#[test]
fn spans_have_the_times_and_parents_of_the_program() {
    let recorded = Recorded::with_frames([
        // Two steps in a scope, the second with a child, and a separate module.
        spans(0, 1, &[(STEP, 1_010, 1_020), (INNER, 1_032, 1_036)]),
        values(0, &[(STEP, 1_037, MetricValue::Float(0.5))]),
        spans(0, 1, &[(STEP, 1_030, 1_040), (OUTER, 1_000, 1_050), (4, 1_060, 1_061)]),
        SpoolFrame::End,
    ]);
    let run = collect_run(&recorded);
    let tables = Tables::new(&run, 100);
    let spans: Vec<_> = tables
        .spans()
        .into_iter()
        .map(|row| {
            let times = (row.start_nanos - UNIX, row.duration_nanos, row.children_nanos);
            (times, row.node_path.path.join("/"))
        })
        .collect();
    let path = str::to_owned;
    assert_eq!(
        spans,
        [
            ((1_000, 50, 24), path("scope outer")),
            ((1_010, 10, 0), path("scope outer/step step")),
            ((1_030, 10, 0), path("scope outer/step step")),
            ((1_032, 4, 0), path("scope outer/module inner")),
            ((1_060, 1, 0), path("module inner")),
        ]
    );
    let numbers: Vec<_> = tables.steps().iter().map(|step| (step.0 - UNIX, step.3)).collect();
    assert_eq!(numbers, [(1_010, 0), (1_030, 1)]);
    assert_eq!(tables.values()[0].value, MetricValue::Float(0.5));
    assert_eq!(tables.values()[0].name, "loss");
    assert!(!recorded.spool_path(100).exists());
}

#[test]
fn open_scopes_end_with_their_session_or_the_spool() {
    let run = collect_run(&Recorded::with_frames([
        session(1, SessionEvent::Started, 5),
        SpoolFrame::Open { thread: 0, spans: vec![(OUTER, 2), (STEP, 10)] },
        session(1, SessionEvent::Finalized, 30),
        SpoolFrame::Open { thread: 0, spans: vec![(OUTER, 2), (INNER, 12)] },
        spans(0, 1, &[(INNER, 12, 35)]),
        SpoolFrame::Clock { monotonic_nanos: 100, unix_nanos: UNIX + 100 },
    ]));
    let open: Vec<_> = Tables::new(&run, 100)
        .spans()
        .into_iter()
        .map(|row| {
            let times = (row.start_nanos - UNIX, row.duration_nanos, row.children_nanos);
            (times, row.sessions, row.is_open)
        })
        .collect();
    assert_eq!(
        open,
        [
            // Session 1 had not started when the outer scope was entered.
            ((2, 98, 23), 1, true),
            ((10, 20, 0), 2, true),
            ((12, 23, 0), 1, false),
        ]
    );
}

/// Returns the spans of a node as `(start, children)`.
pub(super) fn children_of(run: &Run, path: &[&str]) -> Vec<(i64, i64)> {
    let rows = Tables::new(run, 100).spans().into_iter().filter(|row| row.node_path.path == path);
    rows.map(|row| (row.start_nanos - UNIX, row.children_nanos)).collect()
}

#[test]
fn children_of_a_lost_scope_do_not_count_for_the_next_one() {
    for lost in [
        vec![session(0, SessionEvent::Deactivated, 40), session(0, SessionEvent::Activated, 50)],
        vec![session(0, SessionEvent::Finalized, 40), session(0, SessionEvent::Started, 50)],
        vec![SpoolFrame::Losses(vec![(LossCause::Nodes, 1)])],
    ] {
        let mut frames = vec![spans(0, 1, &[(INNER, 10, 40)])];
        frames.extend(lost);
        frames.push(spans(0, 1, &[(INNER, 70, 71), (OUTER, 60, 90), (OUTER, 100, 140)]));
        let run = collect_run(&Recorded::with_frames(frames));
        assert_eq!(children_of(&run, &["scope outer"]), [(60, 1), (100, 0)]);
    }
}

#[test]
fn what_ran_in_a_step_that_never_ends_is_not_time_of_the_scope_around_it_itself() {
    const IN_STEP: u32 = NODES;
    let node = NodeDef { parent_id: STEP, kind: NodeKind::Module, name_id: 2 };
    let nodes = SpoolFrame::Nodes { thread: 0, first_id: IN_STEP, nodes: vec![node] };
    let first = [(IN_STEP, 15, 20), (STEP, 12, 30), (IN_STEP, 40, 55), (OUTER, 10, 90)];
    // The second step of the first scope was dropped, and does not count for the second scope.
    let second = [(INNER, 110, 120), (IN_STEP, 130, 137), (OUTER, 100, 140), (OUTER, 150, 160)];
    let frames = [nodes, spans(0, 1, &[first, second].concat())];
    let run = collect_run(&Recorded::with_frames(frames));
    assert_eq!(children_of(&run, &["scope outer"]), [(10, 18 + 15), (100, 10 + 7), (150, 0)]);
}

#[test]
fn a_scope_around_many_sessions_has_all_its_children() {
    let mut frames = first_frames(100);
    for cycle in 1..100 {
        frames.push(spans(0, 1, &[(INNER, 10 * cycle, 10 * cycle + 4)]));
        frames.push(session(1, SessionEvent::Started, 10 * cycle + 5));
        frames.push(session(1, SessionEvent::Finalized, 10 * cycle + 6));
    }
    frames.push(spans(0, 1, &[(OUTER, 5, 1_000)]));
    let run = collect_run(&Recorded::with_spools(&[&frames]));
    assert_eq!(children_of(&run, &["scope outer"]), [(5, 99 * 4)]);
}

#[test]
fn a_scope_recorded_by_two_sessions_counts_once() {
    let run = collect_run(&Recorded::with_frames([
        session(1, SessionEvent::Started, 5),
        SpoolFrame::Open { thread: 0, spans: vec![(OUTER, 10)] },
        session(1, SessionEvent::Finalized, 30),
        spans(0, 1, &[(OUTER, 10, 50)]),
    ]));
    let tables = Tables::new(&run, 100);
    let spans = tables.spans().into_iter();
    let spans: Vec<_> = spans.map(|row| (row.sessions, row.duration_nanos)).collect();
    assert_eq!(spans, [(2, 20), (1, 40)]);
    for level in [0, 1 << 20, 1 << 40] {
        let rows = tables.rollups().into_iter().filter(|row| row.bucket_nanos == level);
        let sums: Vec<_> = rows.map(|row| (row.count, row.total_nanos, row.self_nanos)).collect();
        assert_eq!(sums, [(1, 40, 40)]);
    }
}

/// The nodes of a stack of scopes, outermost first.
const STACK: [u32; 2] = [OUTER, INNER];

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// A program enters and leaves scopes: the time of children is the time of the spans inside, and
    /// the self times of all spans add up to the time in which the program was in a scope.
    #[test]
    fn self_time_excludes_children(
        events in vec((any::<bool>(), 1_i64..40_000_000), 1..120),
    ) {
        let (mut stack, mut ended_spans, mut now_nanos, mut busy_nanos) = (Vec::new(), Vec::new(), 0, 0);
        for (enters, nanos) in events {
            busy_nanos += if stack.is_empty() { 0 } else { nanos };
            now_nanos += nanos;
            if enters && stack.len() < STACK.len() {
                stack.push((STACK[stack.len()], now_nanos));
            } else if let Some((node, start)) = stack.pop() {
                ended_spans.push((node, start, now_nanos));
            }
        }
        let mut frames = first_frames(100);
        frames.push(SpoolFrame::Open { thread: 0, spans: stack.clone() });
        frames.extend(ended_spans.chunks(7).map(|chunk| spans(0, 1, chunk)));
        // What was open in between may have been left since.
        frames.push(SpoolFrame::Open { thread: 0, spans: stack });
        frames.push(SpoolFrame::Clock { monotonic_nanos: now_nanos, unix_nanos: UNIX + now_nanos });
        let run = collect_run(&Recorded::with_spools(&[&frames]));
        let tables = Tables::new(&run, 100);
        for row in tables.spans() {
            let end = row.start_nanos + row.duration_nanos;
            let is_inside = |(node, start, _): &&(u32, i64, i64)| {
                *node == INNER && (row.start_nanos..end).contains(&(UNIX + start))
            };
            let is_outer = row.node_path.path.len() == 1;
            let inner_nanos = ended_spans.iter().filter(is_inside).map(|(_, start, end)| end - start);
            if is_outer && !row.is_open {
                prop_assert_eq!(row.children_nanos, inner_nanos.sum::<i64>());
            }
        }
        let self_nanos: i64 =
            tables.spans().iter().map(|row| row.duration_nanos - row.children_nanos).sum();
        prop_assert_eq!(self_nanos, busy_nanos);
        // The finest level is left out where it would have too many rows.
        let mut by_level = BTreeMap::from([(0, 0), (1 << 40, 0)]);
        for row in tables.rollups() {
            *by_level.entry(row.bucket_nanos).or_default() += row.self_nanos;
        }
        for (level, self_nanos) in by_level {
            prop_assert_eq!(self_nanos, busy_nanos, "{}", level);
        }
    }

    /// A program's session is paused and resumed at any time: scopes that began during a pause or
    /// were open across one are lost, and every other scope has the time of its own children only.
    #[test]
    fn a_pause_charges_no_time_to_other_scopes(
        turns in vec((0_u8..5, 1_i64..1_000), 1..120),
    ) {
        let (mut stack, mut ended, mut frames) = (Vec::new(), Vec::new(), first_frames(100));
        let (mut now, mut is_paused) = (0, false);
        for (turn, nanos) in turns {
            now += nanos;
            match turn {
                0 | 1 if stack.len() < STACK.len() => stack.push((STACK[stack.len()], now, is_paused)),
                // A pause or resume loses all open scopes, and later those inside them.
                4 if !is_paused || stack.is_empty() => {
                    is_paused = !is_paused;
                    for scope in &mut stack {
                        scope.2 = true;
                    }
                    let event =
                        if is_paused { SessionEvent::Deactivated } else { SessionEvent::Activated };
                    frames.push(session(0, event, now));
                }
                _ => {
                    let Some((node, start, false)) = stack.pop() else { continue };
                    ended.push((node, start, now));
                    frames.push(spans(0, 1, &[(node, start, now)]));
                }
            }
        }
        let run = collect_run(&Recorded::with_spools(&[&frames]));
        let inside = |&(_, start, end): &(u32, i64, i64)| {
            let is_inside =
                |span: &&(u32, i64, i64)| span.0 == INNER && (start..end).contains(&span.1);
            (start, ended.iter().filter(is_inside).map(|span| span.2 - span.1).sum())
        };
        let outer = ended.iter().filter(|span| span.0 == OUTER);
        let expected: Vec<_> = outer.map(inside).collect();
        prop_assert_eq!(children_of(&run, &["scope outer"]), expected);
    }

    /// Any phases of a run add up to the run without phases.
    #[test]
    fn phases_lose_nothing(
        starts in vec((select(vec![OUTER, INNER, STEP]), 0_i64..1_000_000), 1..40),
        cuts in vec(0_usize..40, 0..12),
    ) {
        let row = |&(node, start)| spans(0, 1, &[(node, start, start + 1_000)]);
        let single_phase: Vec<SpoolFrame> = starts.iter().map(row).collect();
        let mut cut = single_phase.clone();
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(single_phase.len())).collect();
        cuts.sort_unstable();
        for (number, &frame_index) in cuts.iter().enumerate().rev() {
            let phase = SessionEvent::Phase(number as u32 + 1);
            cut.insert(frame_index, session(0, phase, 1_000_000));
        }
        let [single_phase, cut] = [single_phase, cut].map(|frames| {
            collect_run(&Recorded::with_frames(frames))
        });
        let [single_phase, cut] = [&single_phase, &cut].map(|run| Tables::new(run, 100));
        prop_assert_eq!(single_phase.rollups(), cut.rollups());
        let mut by_phase: BTreeMap<u32, usize> = BTreeMap::new();
        let mut rows = cut.spans();
        for row in &mut rows {
            *by_phase.entry(std::mem::take(&mut row.phase)).or_default() += 1;
        }
        prop_assert_eq!(single_phase.spans(), rows);
        let bounds: Vec<_> =
            [0].into_iter().chain(cuts).chain([starts.len()]).collect();
        for (phase, window) in (0..).zip(bounds.windows(2)) {
            let expected = window[1] - window[0];
            prop_assert_eq!(by_phase.get(&phase).copied().unwrap_or(0), expected);
        }
    }
}
