//! The ranks that the others wait for, and the cause.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::observe::{Member, MemberState};
use super::place::{self, Place};
use super::{Hang, LastCollective};

/// Why a job does not go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HangCause {
    /// The job goes on, or nothing tells ranks apart.
    #[default]
    None,
    /// A rank has no process, or its process has ended.
    DeadRank,
    /// A rank was stopped by a debugger or a signal.
    StoppedRank,
    /// A rank waits for the workers of its data loader.
    DataLoader,
    /// A rank waits for work of a GPU.
    GpuWait,
    /// A rank waits for a lock.
    Lock,
    /// A rank waits for data, a file, a device or a process.
    Io,
    /// A rank sleeps until a time.
    Sleep,
    /// A rank still computes.
    SlowRank,
    /// Ranks wait in collectives that do not match.
    MismatchedCollective,
    /// All ranks of this host wait in one collective.
    AllWait,
}

/// Returns the members that are at one place, the largest group first.
pub(super) fn groups(members: &[Member]) -> Vec<Vec<usize>> {
    let mut by_place: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (index, member) in members.iter().enumerate() {
        // Ranks that wait for a GPU are at any instruction of the driver's loop.
        let frames = member.frames.iter().filter(|frame| !frame.is_native);
        let stack = frames.map(|frame| (&*frame.function, &*frame.file, frame.line));
        let stack: Vec<_> = stack.collect();
        by_place.entry((&member.place, stack)).or_default().push(index);
    }
    let mut groups: Vec<Vec<usize>> = by_place.into_values().collect();
    groups.sort_by_key(|group| (usize::MAX - group.len(), group.first().copied()));
    groups
}

/// Returns why a job does not go on, and the members that the others wait for.
pub(super) fn judge(hang: &Hang) -> (HangCause, Vec<usize>) {
    let members = &hang.members;
    let all_indexes = || 0..members.len();
    let with_state =
        |state| all_indexes().filter(|&index| members[index].state == state).collect::<Vec<_>>();
    let ended = with_state(MemberState::Ended);
    let stopped = with_state(MemberState::Stopped);
    if !hang.absent.is_empty() || !ended.is_empty() {
        return (HangCause::DeadRank, ended);
    }
    if !stopped.is_empty() {
        return (HangCause::StoppedRank, stopped);
    }
    let (waiting, odd): (Vec<usize>, Vec<usize>) =
        all_indexes().partition(|&index| is_in_collective(&members[index]));
    if waiting.is_empty() {
        return without_collective(hang);
    }
    if odd.is_empty() {
        return mismatch(hang);
    }
    // Collectives of NCCL are waited for on the GPU.
    if odd.iter().all(|&index| matches!(members[index].place, Place::Gpu { .. }))
        && let Some(behind) = minority_by_recorder(hang)
    {
        return (HangCause::MismatchedCollective, behind);
    }
    let moves =
        |&&index: &&usize| members[index].state == MemberState::Runs && members[index].is_moving;
    if odd.len() > waiting.len() && odd.iter().filter(moves).count() == odd.len() {
        return (HangCause::None, Vec::new());
    }
    (cause_at(&members[odd[0]]), odd)
}

/// Judges a job of which no rank is known to be in a collective: a few that differ from most.
fn without_collective(hang: &Hang) -> (HangCause, Vec<usize>) {
    let members = &hang.members;
    let odd = match &hang.groups[..] {
        [largest_group, other_groups @ ..]
            if !other_groups.is_empty() && largest_group.len() * 2 > members.len() =>
        {
            let mut odd = other_groups.concat();
            odd.sort_unstable();
            odd
        }
        _ => (0..members.len()).collect(),
    };
    if odd
        .iter()
        .all(|&index| members[index].state == MemberState::Runs && members[index].is_moving)
    {
        return (HangCause::None, Vec::new());
    }
    let is_on_gpu = |&index: &usize| matches!(members[index].place, Place::Gpu { .. });
    // Without native frames a wait that spins is seen as a thread that runs.
    let may_be_on_gpu =
        |index: &usize| is_on_gpu(index) || members[*index].state == MemberState::Runs;
    let may_all_be_on_gpu = odd.len() == members.len() && odd.iter().all(may_be_on_gpu);
    if may_all_be_on_gpu || odd.iter().all(is_on_gpu) {
        if let Some(behind) = minority_by_recorder(hang) {
            return (HangCause::MismatchedCollective, behind);
        }
        if odd.len() == members.len() && odd.len() > 1 && odd.iter().all(is_on_gpu) {
            return (HangCause::AllWait, Vec::new());
        }
    }
    match odd.first() {
        Some(&first) => (cause_at(&members[first]), odd),
        None => (HangCause::None, odd),
    }
}

/// Judges a job whose ranks are all in a collective.
fn mismatch(hang: &Hang) -> (HangCause, Vec<usize>) {
    let collective_call = |member: &Member| {
        let frame = place::program_frame(&member.frames);
        (
            member.place.clone(),
            frame.map(|frame| (frame.function.clone(), frame.file.clone(), frame.line)),
        )
    };
    let all_indexes: Vec<usize> = (0..hang.members.len()).collect();
    let by_call =
        minority(&all_indexes, |index| format!("{:?}", collective_call(&hang.members[index])));
    match by_call.or_else(|| minority_by_recorder(hang)) {
        Some(odd) => (HangCause::MismatchedCollective, odd),
        None => (HangCause::AllWait, Vec::new()),
    }
}

/// Returns the members whose last collective is another one than that of most ranks with which they share a group, by
/// the flight recorder; `None` if there is no such member, or the collective of one is not known.
fn minority_by_recorder(hang: &Hang) -> Option<Vec<usize>> {
    let last_collectives: Vec<&LastCollective> =
        hang.members.iter().map(|member| hang.last_collective(member)).collect::<Option<_>>()?;
    let collective_key = |index: usize| {
        let LastCollective { group, group_ranks, sequence, name, .. } = last_collectives[index];
        format!("{sequence:?} {group} {group_ranks} {name}")
    };
    let sets = sets_that_share_groups(&last_collectives);
    let mut odd: Vec<usize> =
        sets.iter().filter_map(|set| minority(set, collective_key)).flatten().collect();
    odd.sort_unstable();
    (!odd.is_empty()).then_some(odd)
}

/// Returns the indexes of collectives in sets: two whose groups have a rank in common are in one.
/// The tensor-parallel groups of a job, for example, need not be at the same collective.
fn sets_that_share_groups(collectives: &[&LastCollective]) -> Vec<Vec<usize>> {
    let group_ranges: Vec<_> =
        collectives.iter().map(|collective| parse_ranges(&collective.group_ranks)).collect();
    let mut sets: Vec<Vec<usize>> = Vec::new();
    for index in 0..collectives.len() {
        let is_joined = |set: &mut Vec<usize>| {
            let overlaps = |&other: &usize| {
                overlap(group_ranges[other].as_deref(), group_ranges[index].as_deref())
            };
            set.iter().any(overlaps)
        };
        let mut set: Vec<usize> = sets.extract_if(.., is_joined).flatten().collect();
        set.push(index);
        sets.push(set);
    }
    sets
}

/// The first and the last of successive ranks.
type RankRange = (u32, u32);

/// Whether two groups may have a rank in common; one whose ranks are unknown may have any.
fn overlap(ranges: Option<&[RankRange]>, other_ranges: Option<&[RankRange]>) -> bool {
    let (Some(ranges), Some(other_ranges)) = (ranges, other_ranges) else { return true };
    ranges
        .iter()
        .any(|range| other_ranges.iter().any(|other| range.0 <= other.1 && other.0 <= range.1))
}

/// Parses ranges of ranks, such as `0-3,8`; `None` if the text is empty or no such list.
fn parse_ranges(text: &str) -> Option<Vec<RankRange>> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    };
    text.split(',').map(range).collect()
}

/// Returns the members that are not of the largest group by a key; `None` if all are of one group.
fn minority(members: &[usize], key: impl Fn(usize) -> String) -> Option<Vec<usize>> {
    let mut by_key: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for &index in members {
        by_key.entry(key(index)).or_default().push(index);
    }
    // Of two that are as large, the one without the lowest rank.
    let largest = by_key.values().max_by_key(|group| (group.len(), usize::MAX - group[0]))?;
    let odd: Vec<usize> =
        members.iter().copied().filter(|index| !largest.contains(index)).collect();
    (!odd.is_empty()).then_some(odd)
}

/// Whether a rank is where ranks wait for one another.
pub(super) fn is_in_collective(member: &Member) -> bool {
    match member.place {
        Place::Collective { .. } => true,
        Place::Backward => member.state == MemberState::Waits,
        Place::DataLoader | Place::Gpu { .. } | Place::Program => false,
    }
}

fn cause_at(member: &Member) -> HangCause {
    match member.place {
        Place::DataLoader => return HangCause::DataLoader,
        Place::Gpu { .. } => return HangCause::GpuWait,
        _ => {}
    }
    if member.state == MemberState::Runs {
        return HangCause::SlowRank;
    }
    match member.wait.as_ref().map(|wait| &*wait.target) {
        Some("a lock") => HangCause::Lock,
        Some("a timer") => HangCause::Sleep,
        _ => HangCause::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::super::sentence;
    use super::*;
    use crate::Frame;
    use crate::rank::Rank;

    const TRAIN: &str = "/app/train.py";

    fn member(number: u32, state: MemberState, frames: Vec<Frame>) -> Member {
        let rank = Rank { rank: number, ..Rank::default() };
        let member = Member::with_state(100 + number, Some(rank), state);
        Member { place: Place::of_frames(&frames), frames, ..member }
    }

    /// A rank in `torch.cuda.synchronize`, a collective, or the program.
    fn at(number: u32, place: &str) -> Member {
        let step = Frame::of_python("step", TRAIN, 7);
        let frames_in_torch = |function, file: &str| {
            let file = format!("/v/site-packages/torch/{file}");
            vec![Frame::of_python(function, &file, 1), step.clone()]
        };
        match place {
            "gpu" => member(
                number,
                MemberState::Runs,
                frames_in_torch("synchronize", "cuda/__init__.py"),
            ),
            "collective" => {
                let frames = frames_in_torch("all_reduce", "distributed/distributed_c10d.py");
                member(number, MemberState::Waits, frames)
            }
            _ => member(number, MemberState::Runs, vec![step]),
        }
    }

    /// The flight recorders of four ranks.
    #[derive(Clone, Copy)]
    enum FlightRecorders {
        Absent,
        Equal,
        /// All have the same last collective but this rank, whose last one is earlier.
        Behind(u32),
        /// Two groups of two ranks each, at collectives of their own.
        Pairs,
        /// The same, but this rank is at an earlier collective than the other of its pair.
        BehindInPair(u32),
        /// All but this rank have the same last collective.
        Unknown(u32),
    }

    impl FlightRecorders {
        fn last_collectives(self) -> Vec<LastCollective> {
            let last_of_rank = |rank| {
                let is_behind = matches!(self, Self::Behind(behind) | Self::BehindInPair(behind) if behind == rank);
                let is_of_pair = matches!(self, Self::Pairs | Self::BehindInPair(_));
                let (group, group_ranks) = match rank {
                    _ if !is_of_pair => ("default_pg", "0-3"),
                    0 | 1 => ("1", "0-1"),
                    _ => ("2", "2-3"),
                };
                LastCollective {
                    rank,
                    group: group.into(),
                    group_ranks: group_ranks.into(),
                    sequence: Some(11 + i64::from(is_of_pair && rank > 1) - i64::from(is_behind)),
                    name: "all_reduce".into(),
                    state: "started".into(),
                }
            };
            let is_known = |rank: &u32| !matches!(self, Self::Unknown(unknown) if unknown == *rank);
            match self {
                Self::Absent => Vec::new(),
                _ => (0..4).filter(is_known).map(last_of_rank).collect(),
            }
        }
    }

    /// Judges four ranks at these places.
    fn judged(places: [&str; 4], recorders: FlightRecorders) -> Hang {
        let members = (0..).zip(places).map(|(number, place)| at(number, place));
        let collectives = recorders.last_collectives();
        let mut hang = Hang { members: members.collect(), collectives, ..Hang::default() };
        hang.judge();
        hang.sentence = sentence::of_hang(&hang);
        hang
    }

    #[test]
    fn ranks_with_equal_stacks_are_told_apart_by_their_flight_recorders() {
        for place in ["collective", "gpu", "program"] {
            let hang = judged([place; 4], FlightRecorders::Behind(2));
            assert_eq!(
                (hang.cause, &hang.odd[..]),
                (HangCause::MismatchedCollective, &[2][..]),
                "{place}"
            );
            let facts = "rank 2 is at `all_reduce` 10 of group default_pg (started)";
            assert!(hang.sentence.starts_with("Rank 2 (process 102) "), "{}", hang.sentence);
            assert!(hang.sentence.contains(facts), "{}", hang.sentence);
        }
        // Some wait on the host.
        let hang = judged(["gpu", "collective", "gpu", "collective"], FlightRecorders::Behind(1));
        assert_eq!((hang.cause, &hang.odd[..]), (HangCause::MismatchedCollective, &[1][..]));
    }

    #[test]
    fn of_ranks_that_all_wait_none_is_late() {
        for recorders in [FlightRecorders::Absent, FlightRecorders::Equal, FlightRecorders::Pairs] {
            for (place, what) in [
                (
                    "collective",
                    "All 4 ranks of this host are in one collective: each waits in `all_reduce`",
                ),
                (
                    "gpu",
                    "All 4 ranks of this host wait for the GPU: each waits for the GPU (`synchronize`)",
                ),
            ] {
                let hang = judged([place; 4], recorders);
                assert_eq!((hang.cause, &hang.odd[..]), (HangCause::AllWait, &[][..]), "{place}");
                assert!(hang.sentence.starts_with(what), "{}", hang.sentence);
            }
        }
    }

    #[test]
    fn a_rank_is_compared_with_those_of_its_groups_alone() {
        let hang = judged(["gpu"; 4], FlightRecorders::BehindInPair(3));
        assert_eq!((hang.cause, &hang.odd[..]), (HangCause::MismatchedCollective, &[3][..]));
        let unknown = ["", "all", "3-"].map(parse_ranges);
        assert!(unknown.iter().all(|ranks| overlap(ranks.as_deref(), Some(&[(0, 1)]))));
        let known = parse_ranges("0-3,8");
        assert!(overlap(known.as_deref(), Some(&[(8, 8)])));
        assert!(!overlap(known.as_deref(), Some(&[(4, 7)])));
    }

    #[test]
    fn while_the_collective_of_one_rank_is_unknown_it_may_be_late() {
        let hang = judged(["gpu"; 4], FlightRecorders::Unknown(1));
        assert_eq!((hang.cause, &hang.odd[..]), (HangCause::AllWait, &[][..]));
        assert!(hang.sentence.contains("(--flight-recorder DIR) tell which one is late"));
        let mut hang = hang;
        hang.add_dumps(FlightRecorders::Behind(1).last_collectives());
        assert_eq!((hang.cause, &hang.odd[..]), (HangCause::MismatchedCollective, &[1][..]));
        assert!(hang.collectives.is_sorted_by_key(|last| last.rank));
    }

    #[test]
    fn a_rank_elsewhere_is_the_one_that_the_others_wait_for() {
        let hang = judged(["gpu", "gpu", "program", "gpu"], FlightRecorders::Behind(2));
        assert_eq!((hang.cause, &hang.odd[..]), (HangCause::SlowRank, &[2][..]));
        let hang =
            judged(["collective", "collective", "gpu", "collective"], FlightRecorders::Absent);
        assert_eq!((hang.cause, &hang.odd[..]), (HangCause::GpuWait, &[2][..]));
    }

    #[test]
    fn a_job_whose_ranks_move_goes_on() {
        let mut hang = judged(["program"; 4], FlightRecorders::Behind(2));
        for member in &mut hang.members {
            member.is_moving = true;
        }
        hang.judge();
        assert_eq!((hang.cause, &hang.odd[..]), (HangCause::None, &[][..]));
        assert_eq!(sentence::of_hang(&hang).split(':').next(), Some("The job goes on"));
    }
}
