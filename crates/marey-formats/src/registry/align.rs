//! Clock alignment: finds a shift for the clock of each imported rank, so that collectives end at
//! the same time on all ranks.
//!
//! A collective ends on all of its ranks at about the same time. So the median of the differences
//! between its ends on two ranks is the offset between their clocks, and single outliers do not
//! matter.
//!
//! Collectives of two files are the same if their group, their sequence number and their name
//! agree. A group is identified by its name and, if the files list them, its ranks: groups of
//! different ranks may share a name. Without that list, more ranks may seem to take part in a
//! collective than its group has. Such collectives are ignored.

use std::collections::{HashMap, VecDeque};

use marey_model::loss::LossCause;
use marey_store::Assembler;

use crate::shared::import::{CollectiveEnd, Fault, ImportWarning};

/// The ends of the collectives of one rank.
#[derive(Debug, Default)]
pub(crate) struct EndsByCollective<'a>(HashMap<Collective<'a>, EndOnRank>);

/// A collective, identified in the same way on all of its ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Collective<'a> {
    group: &'a str,
    group_ranks: Option<&'a str>,
    sequence: i64,
    name: &'a str,
}

/// The end of a collective on one rank.
#[derive(Clone, Copy, Debug)]
struct EndOnRank {
    end_nanos: i64,
    group_size: Option<u32>,
    offset: u64,
}

impl<'a> EndsByCollective<'a> {
    /// Returns the ends in a file, with the process groups of its run.
    pub(crate) fn new(ends: &[CollectiveEnd], run: &'a Assembler) -> Self {
        let pairs = ends.iter().map(|end| {
            let group = run.process_group(end.group_id);
            let ranks_id = end.group_ranks_id.or(group.ranks_id);
            let collective = Collective {
                group: run.text_of(end.group_id),
                group_ranks: ranks_id.map(|id| run.text_of(id)),
                sequence: end.sequence,
                name: run.text_of(end.name_id),
            };
            let group_size = end.group_size.or(group.size);
            (collective, EndOnRank { end_nanos: end.end_nanos, group_size, offset: end.offset })
        });
        Self(pairs.collect())
    }
}

/// Removes collectives with more ends than their group has ranks, because they belong to several
/// groups of one name. Returns a warning for each rank that has any.
pub(crate) fn remove_ambiguous(ranks: &mut [EndsByCollective]) -> Vec<Option<ImportWarning>> {
    let mut end_counts: HashMap<Collective, (u32, Option<u32>)> = HashMap::new();
    for (collective, end) in ranks.iter().flat_map(|ends| &ends.0) {
        let (count, size) = end_counts.entry(*collective).or_default();
        *count += 1;
        *size = end.group_size.max(*size);
    }
    end_counts.retain(|_, (count, size)| size.is_some_and(|size| *count > size));
    let extract_ambiguous = |ends: &mut EndsByCollective| {
        let ambiguous = ends.0.extract_if(|collective, _| end_counts.contains_key(collective));
        let mut ambiguous: Vec<_> =
            ambiguous.map(|(collective, end)| (end.offset, collective)).collect();
        ambiguous.sort_unstable_by_key(|(offset, collective)| (*offset, collective.sequence));
        let (offset, Collective { group, sequence, name, .. }) = *ambiguous.first()?;
        let (count, size) = end_counts[&ambiguous[0].1];
        let cause = format!(
            "`{name}` {sequence} of the group `{group}` is in the files of {count} ranks, \
             but the group has {}: several groups share this name",
            size.unwrap_or(0),
        );
        Some(ImportWarning {
            loss: LossCause::AmbiguousCollective,
            count: ambiguous.len() as u64,
            first: Fault { offset, cause },
        })
    };
    ranks.iter_mut().map(extract_ambiguous).collect()
}

/// Returns the nanoseconds to add to the clock of each rank, so that it agrees with the clock of
/// the first rank that it shares collectives with, directly or through other ranks. The offset of
/// that first rank is 0. A rank without collectives has `None`.
pub(crate) fn clock_shifts(ranks: &[EndsByCollective]) -> Vec<Option<i64>> {
    let mut shifts_nanos = vec![None; ranks.len()];
    for first_rank in 0..ranks.len() {
        // Ranks that share no collective with earlier ranks form a group with a clock of its own.
        if shifts_nanos[first_rank].is_some() || ranks[first_rank].0.is_empty() {
            continue;
        }
        let mut reached = VecDeque::from([first_rank]);
        shifts_nanos[first_rank] = Some(0);
        while let Some(reference_rank) = reached.pop_front() {
            for rank in 0..ranks.len() {
                if shifts_nanos[rank].is_none()
                    && let Some(offset_nanos) =
                        median_offset_nanos(&ranks[reference_rank], &ranks[rank])
                {
                    shifts_nanos[rank] = shifts_nanos[reference_rank]
                        .map(|shift: i64| shift.saturating_add(offset_nanos));
                    reached.push_back(rank);
                }
            }
        }
    }
    shifts_nanos
}

/// Returns the median of the differences by which shared collectives end later on `reference`.
fn median_offset_nanos(reference: &EndsByCollective, other: &EndsByCollective) -> Option<i64> {
    let offsets_nanos = other.0.iter().filter_map(|(collective, end)| {
        Some(reference.0.get(collective)?.end_nanos.saturating_sub(end.end_nanos))
    });
    let mut offsets_nanos: Vec<i64> = offsets_nanos.collect();
    offsets_nanos.sort_unstable();
    offsets_nanos.get(offsets_nanos.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Ended = (&'static str, i64, i64);

    /// Returns collectives from their groups, sequence numbers and ends.
    fn ends(ends: &[Ended]) -> EndsByCollective<'static> {
        let pairs = ends.iter().map(|&(group, sequence, nanos)| {
            let collective = Collective { group, group_ranks: None, sequence, name: "allreduce" };
            (collective, EndOnRank { end_nanos: nanos, group_size: None, offset: 0 })
        });
        EndsByCollective(pairs.collect())
    }

    #[test]
    fn outliers_and_unrelated_groups_move_no_clock() {
        let ranks = [
            ends(&[("0", 1, 100), ("0", 2, 200), ("0", 3, 300)]),
            ends(&[("0", 1, 1100), ("0", 2, 1200), ("0", 3, 9999), ("0", 4, 5)]),
            ends(&[("1", 1, 7)]),
            ends(&[]),
        ];
        assert_eq!(clock_shifts(&ranks), [Some(0), Some(-1000), Some(0), None]);
    }

    #[test]
    fn a_rank_is_reached_through_others() {
        let ranks =
            [ends(&[("x", 1, 10)]), ends(&[("y", 1, 1130)]), ends(&[("x", 1, 30), ("y", 1, 130)])];
        assert_eq!(clock_shifts(&ranks), [Some(0), Some(-1020), Some(-20)]);
    }

    proptest! {
        #[test]
        fn any_skew_is_found(skews in prop::collection::vec(-1_000_000_000_i64..1_000_000_000, 1..6)) {
            let ends_of_rank = |skew| (0..5).map(|n| ("0", n, n * 1000 + skew)).collect::<Vec<_>>();
            let ranks: Vec<_> = skews.iter().map(|skew| ends(&ends_of_rank(skew))).collect();
            let expected: Vec<_> = skews.iter().map(|skew| Some(skews[0] - skew)).collect();
            prop_assert_eq!(clock_shifts(&ranks), expected);
        }
    }
}
