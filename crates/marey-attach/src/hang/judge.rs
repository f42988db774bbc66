//! The ranks that the others wait for, and the cause.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::observe::{Member, State};
use super::place::{self, Place};
use super::{Hang, LastCollective};

/// Why a job does not go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It goes on, or nothing tells ranks apart.
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
pub(super) fn judge(hang: &Hang) -> (Cause, Vec<usize>) {
    let members = &hang.members;
    let all = || 0..members.len();
    let with_state =
        |state| all().filter(|&index| members[index].state == state).collect::<Vec<_>>();
    let ended = with_state(State::Ended);
    let stopped = with_state(State::Stopped);
    if !hang.absent.is_empty() || !ended.is_empty() {
        return (Cause::DeadRank, ended);
    }
    if !stopped.is_empty() {
        return (Cause::StoppedRank, stopped);
    }
    let (waiting, odd): (Vec<usize>, Vec<usize>) =
        all().partition(|&index| is_in_collective(&members[index]));
    if waiting.is_empty() {
        return without_collective(hang);
    }
    if odd.is_empty() {
        return mismatch(hang);
    }
    let moves = |&&index: &&usize| members[index].state == State::Runs && members[index].is_moving;
    if odd.len() > waiting.len() && odd.iter().filter(moves).count() == odd.len() {
        return (Cause::None, Vec::new());
    }
    (cause_of(&members[odd[0]]), odd)
}

/// Judges a job of which no rank is known to be in a collective: a few that differ from most.
fn without_collective(hang: &Hang) -> (Cause, Vec<usize>) {
    let members = &hang.members;
    let odd = match &hang.groups[..] {
        [most, others @ ..] if !others.is_empty() && most.len() * 2 > members.len() => {
            let mut odd = others.concat();
            odd.sort_unstable();
            odd
        }
        _ => (0..members.len()).collect(),
    };
    if odd.iter().all(|&index| members[index].state == State::Runs && members[index].is_moving) {
        return (Cause::None, Vec::new());
    }
    match odd.first() {
        Some(&first) => (cause_of(&members[first]), odd),
        None => (Cause::None, odd),
    }
}

/// Judges a job whose ranks are all in a collective.
fn mismatch(hang: &Hang) -> (Cause, Vec<usize>) {
    let call = |member: &Member| {
        let frame = place::program_frame(&member.frames);
        (
            member.place.clone(),
            frame.map(|frame| (frame.function.clone(), frame.file.clone(), frame.line)),
        )
    };
    let rank = |member: &Member| member.rank.as_ref().map(|rank| rank.rank);
    let by_call = minority(&hang.members, |member| Some(format!("{:?}", call(member))));
    let odd = by_call.or_else(|| {
        minority(&hang.members, |member| {
            let of_rank = |last: &&LastCollective| Some(last.rank) == rank(member);
            let last = hang.collectives.iter().find(of_rank)?;
            Some(format!("{:?} {} {}", last.sequence, last.group, last.name))
        })
    });
    match odd {
        Some(odd) => (Cause::MismatchedCollective, odd),
        None => (Cause::AllWait, Vec::new()),
    }
}

/// Returns the members that are not of the largest group by a key; `None` if all are of one group.
fn minority(members: &[Member], key: impl Fn(&Member) -> Option<String>) -> Option<Vec<usize>> {
    let mut by_key: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, member) in members.iter().enumerate() {
        by_key.entry(key(member)?).or_default().push(index);
    }
    // Of two that are as large, the one without the lowest rank.
    let largest = by_key.values().max_by_key(|group| (group.len(), usize::MAX - group[0]))?;
    let odd: Vec<usize> = (0..members.len()).filter(|index| !largest.contains(index)).collect();
    (!odd.is_empty()).then_some(odd)
}

/// Whether a rank is where ranks wait for one another.
pub(super) fn is_in_collective(member: &Member) -> bool {
    match member.place {
        Place::Collective { .. } => true,
        Place::Backward => member.state == State::Waits,
        Place::DataLoader | Place::Gpu { .. } | Place::Program => false,
    }
}

fn cause_of(member: &Member) -> Cause {
    match member.place {
        Place::DataLoader => return Cause::DataLoader,
        Place::Gpu { .. } => return Cause::GpuWait,
        _ => {}
    }
    if member.state == State::Runs {
        return Cause::SlowRank;
    }
    match member.wait.as_ref().map(|wait| &*wait.target) {
        Some("a lock") => Cause::Lock,
        Some("a timer") => Cause::Sleep,
        _ => Cause::Io,
    }
}
