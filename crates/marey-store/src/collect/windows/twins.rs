//! Finds twins: the span of torch.profiler and the span of the recorder of one and the same call.
//! These are operators, autograd nodes and user scopes.
//!
//! PyTorch calls both at the start and at the end of a function, one right after the other. So the
//! two spans have the same name, except for the overload, and nearly the same times. If the thread
//! is interrupted between the two calls, one span contains the other, and they agree at one end.
//!
//! Calls of one name overlap only if they are nested. Either side may have lost spans, so a span is
//! left without a twin if the next span of its own side is a nearer partner. That next span must not
//! have a still nearer partner: after an interruption at the end of a call, the next call begins
//! nearer to that end than the interrupted span ends.

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
    let mut by_name: HashMap<u32, Namesakes> = HashMap::new();
    for (index, span) in traced.iter().enumerate().filter(|(_, span)| span.may_have_twin) {
        by_name.entry(span.plain_name_id).or_default().traced.push(index);
    }
    for (index, span) in recorded.iter().enumerate() {
        if let Some(namesakes) = by_name.get_mut(&span.plain_name_id) {
            namesakes.recorded.push(index);
        }
    }
    let mut twins = vec![None; traced.len()];
    for Namesakes { recorded: mut ours, traced: mut theirs } in by_name.into_values() {
        ours.sort_by_key(|&index| sort_key(recorded_extent(&recorded[index])));
        theirs.sort_by_key(|&index| sort_key(traced_extent(&traced[index])));
        let our_extents: Vec<_> =
            ours.iter().map(|&index| recorded_extent(&recorded[index])).collect();
        let their_extents: Vec<_> =
            theirs.iter().map(|&index| traced_extent(&traced[index])).collect();
        for (our, their) in pair(&our_extents, &their_extents) {
            twins[theirs[their]] = Some(ours[our]);
        }
    }
    twins
}

/// The positions of the spans of one name on both sides.
#[derive(Default)]
struct Namesakes {
    recorded: Vec<usize>,
    traced: Vec<usize>,
}

/// The start and the end of a span.
type Extent = (i64, i64);

const fn recorded_extent(span: &RecordedSpan) -> Extent {
    (span.start_nanos, span.end_nanos)
}

const fn traced_extent(span: &TracedSpan) -> Extent {
    (span.start_nanos, span.end_nanos)
}

const fn sort_key((start_nanos, end_nanos): Extent) -> (i64, Reverse<i64>) {
    (start_nanos, Reverse(end_nanos))
}

/// Pairs two lists, which are sorted by start with parents first. Both lists keep their order.
fn pair(ours: &[Extent], theirs: &[Extent]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::with_capacity(theirs.len().min(ours.len()));
    let (mut our, mut their) = (0, 0);
    while let (Some(&our_extent), Some(&their_extent)) = (ours.get(our), theirs.get(their)) {
        let distance = twin_distance(our_extent, their_extent);
        let next_our = ours.get(our + 1).and_then(|&next| twin_distance(next, their_extent));
        let next_their = theirs.get(their + 1).and_then(|&next| twin_distance(our_extent, next));
        let next_of_both = ours
            .get(our + 1)
            .zip(theirs.get(their + 1))
            .and_then(|(&next_ours, &next_theirs)| twin_distance(next_ours, next_theirs));
        let is_nearer = |next: Option<Distance>| {
            next.is_some_and(|next| {
                let mut others = [distance, next_of_both].into_iter().flatten();
                others.all(|other| next.is_nearer_than(other))
            })
        };
        if is_nearer(next_our) {
            our += 1;
        } else if is_nearer(next_their) {
            their += 1;
        } else if distance.is_some() {
            pairs.push((our, their));
            our += 1;
            their += 1;
        } else if our_extent.0 <= their_extent.0 {
            our += 1;
        } else {
            their += 1;
        }
    }
    pairs
}

/// The distance between two spans.
#[derive(Clone, Copy)]
struct Distance {
    /// Distance of the two ends that agree better.
    nearer_end_nanos: i64,
    /// Sum of the distances at the start and at the end.
    sum_nanos: i64,
}

impl Distance {
    /// An interruption makes the sum large, and a call inside a call may have nearly the same end.
    const fn is_nearer_than(self, other: Self) -> bool {
        self.nearer_end_nanos < other.nearer_end_nanos && self.sum_nanos < other.sum_nanos
    }
}

/// Returns the distance between two spans of one name, or `None` if they cannot be the same call.
fn twin_distance(ours: Extent, theirs: Extent) -> Option<Distance> {
    let (our_start, our_end) = ours;
    let (their_start, their_end) = theirs;
    let [at_start, at_end] = [our_start.abs_diff(their_start), our_end.abs_diff(their_end)]
        .map(|nanos| i64::try_from(nanos).unwrap_or(i64::MAX));
    let overlap_nanos = our_end.min(their_end).saturating_sub(our_start.max(their_start));
    let nearer_end_nanos = at_start.min(at_end);
    let is_close = nearer_end_nanos <= CLOSE_NANOS && overlap_nanos > -CLOSE_NANOS;
    let do_overlap = overlap_nanos > 0 && nearer_end_nanos <= TOLERANCE_NANOS;
    let sum_nanos = at_start.saturating_add(at_end);
    (is_close || do_overlap).then_some(Distance { nearer_end_nanos, sum_nanos })
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
            let extents = |spans: &[(usize, Extent)]| -> Vec<Extent> {
                spans.iter().map(|span| span.1).collect()
            };
            let pairs = pair(&extents(&ours), &extents(&theirs));
            let paired: Vec<usize> = pairs.iter().map(|&(our, _)| ours[our].0).collect();
            for (our, their) in pairs {
                prop_assert_eq!(ours[our].0, theirs[their].0);
            }
            for (call, _) in &ours {
                let is_in_both = theirs.iter().any(|(other, _)| other == call);
                prop_assert_eq!(paired.contains(call), is_in_both);
            }
        }

        /// Short calls in a row, as `mm` calls `resolve_conj` twice, on clocks that differ by less
        /// than a gap. The thread is interrupted between the two recorders or in the call.
        #[test]
        fn short_calls_of_which_none_is_lost_are_all_paired(
            calls in prop::collection::vec(
                (500_i64..3_000, 300_i64..900, 0..12_u8, 0_i64..9_000_000), 1..12),
            clock_error in -400_i64..400,
        ) {
            const BETWEEN_RECORDERS: i64 = 50;
            let (mut ours, mut theirs, mut time) = (Vec::new(), Vec::new(), 0);
            for (gap, duration, interrupted, interruption) in calls {
                let mut pass = |nanos: i64, place: u8| {
                    time += nanos + if interrupted == place { interruption } else { 0 };
                    time
                };
                let our_start = pass(gap, 0);
                let their_start = pass(BETWEEN_RECORDERS, 1) + clock_error;
                let our_end = pass(duration, 2);
                let their_end = pass(BETWEEN_RECORDERS, 3) + clock_error;
                ours.push((our_start, our_end));
                theirs.push((their_start, their_end));
            }
            let all: Vec<_> = (0..ours.len()).map(|call| (call, call)).collect();
            prop_assert_eq!(pair(&ours, &theirs), all);
        }

        #[test]
        fn pairs_keep_the_order_whatever_the_times_are(
            mut ours in prop::collection::vec(any::<(i64, i64)>(), 0..20),
            mut theirs in prop::collection::vec(any::<(i64, i64)>(), 0..20),
        ) {
            ours.sort_by_key(|&extent| sort_key(extent));
            theirs.sort_by_key(|&extent| sort_key(extent));
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
        assert_eq!(pair(&[(0, 200_000)], &[(50_000, 300_000)]), [(0, 0)]);
        assert_eq!(pair(&[(0, 200_000)], &[(50_001, 300_000)]), []);
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
        assert_eq!(pair(&[(0, 1_000)], &[(2_000, 3_000)]), [(0, 0)]);
        assert_eq!(pair(&[(0, 1_000)], &[(2_001, 3_001)]), []);
        assert_eq!(pair(&[(0, 1_000)], &[(3_000, 3_000)]), []);
        assert_eq!(pair(&[(0, 10_000)], &[(10_000, 15_000)]), []);
    }
}
