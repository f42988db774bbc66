//! Finds twins: the span of torch.profiler and the span of the recorder of one and the same call.
//! These are operators, autograd nodes and user scopes.
//!
//! PyTorch calls both at the start and at the end of a function, one right after the other. So the
//! two spans have the same name, except for the overload, and nearly the same times. If the thread
//! is interrupted between the two calls, one span contains the other, and they agree at one end.
//!
//! Calls of one name overlap only if they are nested. Either side may have lost spans, so a span is
//! left without a twin if the next span of the other side is a nearer partner.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::recorded::RecordedSpan;
use super::trace::TracedSpan;

/// Greatest distance between the starts, or else between the ends, of the two spans of a pair.
pub(super) const TOLERANCE_NANOS: i64 = 50_000;

/// Greatest distance at one end at which two spans may be a pair although they do not overlap. They
/// may miss each other because neither clock is exact. The distance is shorter than a call, so that
/// two successive calls are no pair.
const CLOSE_NANOS: i64 = 2_000;

/// Returns, for each span of the profiler, the position of its twin among the recorded spans.
pub(super) fn find(recorded: &[RecordedSpan], traced: &[TracedSpan]) -> Vec<Option<usize>> {
    let mut by_name: HashMap<u32, (Vec<usize>, Vec<usize>)> = HashMap::new();
    for (index, span) in traced.iter().enumerate().filter(|(_, span)| span.may_have_twin) {
        by_name.entry(span.plain_name_id).or_default().1.push(index);
    }
    for (index, span) in recorded.iter().enumerate() {
        if let Some((recorded_of_name, _)) = by_name.get_mut(&span.plain_name_id) {
            recorded_of_name.push(index);
        }
    }
    let mut twins = vec![None; traced.len()];
    for (mut ours, mut theirs) in by_name.into_values() {
        ours.sort_by_key(|&index| key(times(&recorded[index])));
        theirs.sort_by_key(|&index| key(traced_times(&traced[index])));
        let ours_times: Vec<_> = ours.iter().map(|&index| times(&recorded[index])).collect();
        let theirs_times: Vec<_> =
            theirs.iter().map(|&index| traced_times(&traced[index])).collect();
        for (our, their) in pair(&ours_times, &theirs_times) {
            twins[theirs[their]] = Some(ours[our]);
        }
    }
    twins
}

type Times = (i64, i64);

const fn times(span: &RecordedSpan) -> Times {
    (span.start_nanos, span.end_nanos)
}

const fn traced_times(span: &TracedSpan) -> Times {
    (span.start_nanos, span.end_nanos)
}

const fn key((start, end): Times) -> (i64, Reverse<i64>) {
    (start, Reverse(end))
}

/// Pairs two lists, which are sorted by start with parents first. Both lists keep their order.
fn pair(ours: &[Times], theirs: &[Times]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::with_capacity(theirs.len().min(ours.len()));
    let (mut our, mut their) = (0, 0);
    while let (Some(&a), Some(&b)) = (ours.get(our), theirs.get(their)) {
        let distance = twin_distance(a, b);
        let next_our = ours.get(our + 1).and_then(|&next| twin_distance(next, b));
        let next_their = theirs.get(their + 1).and_then(|&next| twin_distance(a, next));
        let is_nearer = |next: Option<i64>| {
            next.is_some_and(|next| distance.is_none_or(|distance| next < distance))
        };
        if is_nearer(next_our) {
            our += 1;
        } else if is_nearer(next_their) {
            their += 1;
        } else if distance.is_some() {
            pairs.push((our, their));
            our += 1;
            their += 1;
        } else if a.0 <= b.0 {
            our += 1;
        } else {
            their += 1;
        }
    }
    pairs
}

/// Returns the distance between two spans of one name, or `None` if they cannot be the same call.
fn twin_distance(a: Times, b: Times) -> Option<i64> {
    let [start, end] = [a.0.abs_diff(b.0), a.1.abs_diff(b.1)]
        .map(|nanos| i64::try_from(nanos).unwrap_or(i64::MAX));
    let overlap_nanos = a.1.min(b.1).saturating_sub(a.0.max(b.0));
    let agree = start.min(end);
    let is_close = agree <= CLOSE_NANOS && overlap_nanos > -CLOSE_NANOS;
    let overlaps = overlap_nanos > 0 && agree <= TOLERANCE_NANOS;
    (is_close || overlaps).then(|| start.saturating_add(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Calls of one operator in a row, each recorded by either side with a delay that is
        /// shorter than a third of the call. Some of them are lost, others interrupted.
        #[test]
        fn calls_are_paired_with_themselves_although_some_are_lost(
            calls in prop::collection::vec(
                (0_i64..60_000, 3_000_i64..200_000, 0_i64..1_000, 0_i64..1_000, 0..8_u8), 0..40),
            interruption in 0_i64..9_000_000,
        ) {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            let mut time = 0;
            for (call, (gap, duration, our_delay, their_delay, lost)) in calls.into_iter().enumerate() {
                time += gap;
                // The other is called before or after a pause at the start or the end.
                let late = [2, 3].map(|kind| if lost == kind { interruption } else { 0 });
                if lost != 0 {
                    ours.push((call, (time + our_delay, time + late[0] + duration + late[1] - our_delay)));
                }
                time += late[0];
                if lost != 1 {
                    theirs.push((call, (time + their_delay, time + duration - their_delay)));
                }
                time += duration + late[1];
            }
            let times = |spans: &[(usize, Times)]| -> Vec<Times> {
                spans.iter().map(|span| span.1).collect()
            };
            let pairs = pair(&times(&ours), &times(&theirs));
            let paired: Vec<usize> = pairs.iter().map(|&(our, _)| ours[our].0).collect();
            for (our, their) in pairs {
                prop_assert_eq!(ours[our].0, theirs[their].0);
            }
            for (call, _) in &ours {
                let is_in_both = theirs.iter().any(|(other, _)| other == call);
                prop_assert_eq!(paired.contains(call), is_in_both);
            }
        }

        #[test]
        fn pairs_keep_the_order_whatever_the_times_are(
            mut ours in prop::collection::vec(any::<(i64, i64)>(), 0..20),
            mut theirs in prop::collection::vec(any::<(i64, i64)>(), 0..20),
        ) {
            ours.sort_by_key(|&times| key(times));
            theirs.sort_by_key(|&times| key(times));
            let pairs = pair(&ours, &theirs);
            prop_assert!(pairs.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1));
            for (our, their) in pairs {
                prop_assert!(twin_distance(ours[our], theirs[their]).is_some());
            }
        }
    }

    #[test]
    fn calls_that_overlap_in_part_are_one() {
        // As recorded: both starts took long, and the ends came in the same order.
        assert_eq!(pair(&[(0, 35_312)], &[(22_810, 48_028)]), [(0, 0)]);
    }

    #[test]
    fn a_call_inside_a_call_of_the_same_operator_is_paired_with_the_inner_one() {
        let ours = [(0, 100_000), (300, 99_500)];
        let theirs = [(200, 99_900), (400, 99_400)];
        assert_eq!(pair(&ours, &theirs), [(0, 0), (1, 1)]);
    }

    #[test]
    fn a_call_whose_twin_is_lost_takes_no_other_s() {
        let (outer, inner) = ((0, 100_000), (300, 99_500));
        let near_inner = (400, 99_400);
        assert_eq!(pair(&[near_inner], &[outer, inner]), [(0, 1)]);
        assert_eq!(pair(&[outer, inner], &[near_inner]), [(1, 0)]);
        assert_eq!(pair(&[outer], &[outer, inner]), [(0, 0)]);
        assert_eq!(pair(&[outer, inner], &[outer]), [(0, 0)]);
        assert_eq!(pair(&[outer; 2], &[outer; 2]), [(0, 0), (1, 1)]);
    }

    #[test]
    fn calls_that_do_not_overlap_are_one_only_if_they_are_short_and_close() {
        assert_eq!(pair(&[(0, 1_000)], &[(1_500, 2_500)]), [(0, 0)]);
        assert_eq!(pair(&[(0, 1_000)], &[(3_000, 3_000)]), []);
        assert_eq!(pair(&[(0, 10_000)], &[(10_000, 15_000)]), []);
    }
}
