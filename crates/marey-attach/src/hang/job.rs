//! The processes of a job: its ranks, and what each of them has started.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::process;
use crate::rank::Rank;

/// Maximum number of ranks among which absent ones are listed: an environment may state any number of ranks.
const MAX_RANKS: usize = 1 << 20;

/// The processes of a job on this host.
#[derive(Debug, Default)]
pub(crate) struct Job {
    /// The ranks of the job, lowest first; the given processes if there is no rank.
    pub(crate) members: Vec<Process>,
    /// Siblings of the ranks that have ended and that their parent has not waited for.
    pub(crate) ended_pids: Vec<u32>,
    /// Ranks of this host that no process has.
    pub(crate) absent_ranks: Vec<u32>,
    /// Number of ranks on all hosts.
    pub(crate) world_size: Option<u32>,
}

/// A process of a job.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) rank: Option<Rank>,
    /// The start of the process, in clock ticks since the system's: a later process with the same id has another
    /// one.
    start_ticks: Option<u64>,
}

impl Process {
    /// Returns the process that has an id now, without its rank.
    pub(crate) fn with_id(pid: u32) -> Self {
        Self { pid, rank: None, start_ticks: process::start_ticks(pid) }
    }

    /// Returns the process that has an id now, with its rank; `None` if it has no rank.
    fn rank_with_id(pid: u32) -> Option<Self> {
        let process = Self::with_id(pid);
        let rank = Rank::of_process(pid)?;
        process.still_has_id().then_some(Self { rank: Some(rank), ..process })
    }

    /// Whether no other process has got its id meanwhile.
    pub(crate) fn still_has_id(&self) -> bool {
        process::start_ticks(self.pid) == self.start_ticks
    }
}

impl Job {
    /// Finds the job of some processes: the ranks below each. A process that is a rank itself stands
    /// for all ranks of its job that its parent has started.
    pub(crate) fn find(pids: &[u32]) -> Self {
        let mut members: Vec<Process> = Vec::new();
        let mut ended_pids = BTreeSet::new();
        for &pid in pids {
            let candidates = candidates(pid);
            let (dead, alive): (Vec<u32>, Vec<u32>) =
                candidates.into_iter().partition(|&pid| !process::is_alive(pid));
            for pid in alive {
                if let Some(process) = Process::rank_with_id(pid)
                    && !members.iter().any(|member| member.pid == pid)
                    && !is_started_by_rank(&process, &members)
                {
                    members.push(process);
                }
            }
            ended_pids.extend(dead);
        }
        if members.is_empty() {
            members = pids.iter().map(|&pid| Process::with_id(pid)).collect();
        }
        members.sort_by_key(|member| member.rank.as_ref().map(|rank| rank.rank));
        // A process that a rank has started is shown with the rank.
        ended_pids.retain(|&pid| !descends_from_any(pid, &members));
        let first_rank = members.first().and_then(|member| member.rank.clone());
        let world_size = first_rank.as_ref().and_then(|rank| rank.world_size);
        let ranks: Vec<&Rank> = members.iter().filter_map(|member| member.rank.as_ref()).collect();
        let absent_ranks = first_rank
            .map(|first_rank| absent_ranks(&ranks, &first_rank, ended_pids.len()))
            .unwrap_or_default();
        Self { members, ended_pids: ended_pids.into_iter().collect(), absent_ranks, world_size }
    }
}

/// Returns the processes of this host that are ranks of the job with this
/// `MASTER_ADDR:MASTER_PORT`, lowest id first.
pub fn ranks_of_job(rendezvous: &str) -> Vec<u32> {
    let shares_job = |&pid: &u32| {
        let rank = Rank::of_process(pid).filter(|_| process::is_alive(pid));
        let has_same_rendezvous =
            rank.is_some_and(|rank| rank.rendezvous.as_deref() == Some(rendezvous));
        has_same_rendezvous && pid != std::process::id()
    };
    process::all_pids().into_iter().filter(shares_job).collect()
}

/// Returns the processes that may be ranks of the job of a process. For a rank these are the processes of its job that
/// have the same parent, ended ones included; for another process, itself and its descendants.
fn candidates(pid: u32) -> Vec<u32> {
    let own_rank = Rank::of_process(pid);
    let siblings = || {
        let own_rank = own_rank.as_ref()?;
        let siblings = process::descendants(process::parent(pid)?);
        let is_rank_of_job = |&pid: &u32| {
            !process::is_alive(pid)
                || Rank::of_process(pid).is_some_and(|rank| rank.shares_job(own_rank))
        };
        Some(siblings.into_iter().filter(is_rank_of_job).collect())
    };
    let with_descendants = || {
        let mut pids = vec![pid];
        pids.extend(process::descendants(pid));
        pids
    };
    siblings().unwrap_or_else(with_descendants)
}

/// Whether a process has its rank from a rank that has started it, such as the worker of a data
/// loader.
fn is_started_by_rank(process: &Process, members: &[Process]) -> bool {
    let has_started =
        |member: &Process| member.rank == process.rank && is_ancestor(member.pid, process.pid);
    members.iter().any(has_started)
}

fn descends_from_any(pid: u32, members: &[Process]) -> bool {
    members.iter().any(|member| is_ancestor(member.pid, pid))
}

fn is_ancestor(ancestor: u32, pid: u32) -> bool {
    let parent_of = |&pid: &u32| process::parent(pid).filter(|&parent| parent > 1);
    std::iter::successors(parent_of(&pid), parent_of).any(|parent| parent == ancestor)
}

/// Returns the ranks of this host that no process has. If the number of ranks of the host is not
/// known, the others may run elsewhere, unless as many processes have ended here.
fn absent_ranks(ranks: &[&Rank], first_rank: &Rank, ended_count: usize) -> Vec<u32> {
    let present: BTreeSet<u32> = ranks.iter().map(|rank| rank.rank).collect();
    let absent_of = |expected: Range<u32>| -> Vec<u32> {
        expected.take(MAX_RANKS).filter(|rank| !present.contains(rank)).collect()
    };
    match (first_rank.local_world_size, first_rank.local_rank, first_rank.world_size) {
        (Some(count), Some(local_rank), _) => {
            // The ranks of a host follow one another.
            let lowest = first_rank.rank.saturating_sub(local_rank);
            absent_of(lowest..lowest.saturating_add(count))
        }
        (_, _, Some(count)) => {
            let absent_ranks = absent_of(0..count);
            if absent_ranks.len() == ended_count { absent_ranks } else { Vec::new() }
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
impl Process {
    /// Returns a process that has ended, whose id another one has got.
    pub(crate) fn ended_with_id(pid: u32) -> Self {
        Self { pid, rank: None, start_ticks: Some(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_may_run_elsewhere_are_not_absent() {
        let rank = |rank, local_world_size: Option<u32>| Rank {
            rank,
            local_rank: local_world_size.map(|size| rank % size),
            world_size: Some(4),
            local_world_size,
            rendezvous: None,
        };
        let absent = |ranks: &[Rank], ended| {
            absent_ranks(&ranks.iter().collect::<Vec<_>>(), &ranks[0], ended)
        };
        // The second host of two ranks each has lost its second rank.
        assert_eq!(absent(&[rank(2, Some(2))], 0), [3]);
        assert_eq!(absent(&[rank(2, Some(2)), rank(3, Some(2))], 0), []);
        assert_eq!(absent(&[rank(2, None)], 0), []);
        assert_eq!(absent(&[rank(0, None), rank(1, None), rank(3, None)], 1), [2]);
        assert_eq!(absent(&[rank(0, None), rank(1, None), rank(3, None)], 0), []);
    }
}
