//! The processes of a job: its ranks, and what each of them has started.

use std::collections::BTreeSet;

use crate::process;
use crate::rank::Rank;

/// The processes of a job on this host.
#[derive(Debug, Default)]
pub(crate) struct Job {
    /// Its ranks, lowest first; processes without a rank follow.
    pub(crate) members: Vec<Process>,
    /// Processes beside the ranks that have ended, and that their parent has not waited for.
    pub(crate) ended: Vec<u32>,
    /// Ranks of this host that no process has.
    pub(crate) absent: Vec<u32>,
    /// Number of ranks on all hosts.
    pub(crate) world_size: Option<u32>,
}

/// A process of a job.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) rank: Option<Rank>,
}

impl Job {
    /// Finds the job of some processes: the ranks below each. A process that is a rank itself stands
    /// for all ranks of its job that its parent has started.
    pub(crate) fn find(pids: &[u32]) -> Self {
        let mut members: Vec<Process> = Vec::new();
        let mut ended = BTreeSet::new();
        for &pid in pids {
            let candidates = candidates(pid);
            let (dead, alive): (Vec<u32>, Vec<u32>) =
                candidates.into_iter().partition(|&pid| !process::is_alive(pid));
            for pid in alive {
                if let Some(rank) = Rank::of_process(pid)
                    && !members.iter().any(|member| member.pid == pid)
                    && !is_started_by_rank(pid, &members, &rank)
                {
                    members.push(Process { pid, rank: Some(rank) });
                }
            }
            ended.extend(dead);
        }
        if members.is_empty() {
            members = pids.iter().map(|&pid| Process { pid, rank: None }).collect();
        }
        members.sort_by_key(|member| member.rank.as_ref().map(|rank| rank.rank));
        // What a rank has started belongs to it, and is looked at with it.
        ended.retain(|&pid| !has_ancestor(pid, &members));
        let first = members.first().and_then(|member| member.rank.clone());
        let world_size = first.as_ref().and_then(|rank| rank.world_size);
        let absent = first.map(|first| absent(&members, &first)).unwrap_or_default();
        Self { members, ended: ended.into_iter().collect(), absent, world_size }
    }
}

/// Returns the processes among which the ranks are.
fn candidates(pid: u32) -> Vec<u32> {
    let own = Rank::of_process(pid);
    let siblings = || {
        let own = own.as_ref()?;
        let below = process::children(process::parent(pid)?);
        let same_job = |&pid: &u32| {
            !process::is_alive(pid) || Rank::of_process(pid).is_some_and(|rank| rank.is_of_job(own))
        };
        Some(below.into_iter().filter(same_job).collect())
    };
    let below = || {
        let mut tree = vec![pid];
        tree.extend(process::children(pid));
        tree
    };
    siblings().unwrap_or_else(below)
}

/// Whether a process has its rank from a rank that has started it, such as the worker of a data
/// loader.
fn is_started_by_rank(pid: u32, members: &[Process], rank: &Rank) -> bool {
    let is_same =
        |member: &Process| member.rank.as_ref() == Some(rank) && is_ancestor(member.pid, pid);
    members.iter().any(is_same)
}

fn has_ancestor(pid: u32, members: &[Process]) -> bool {
    members.iter().any(|member| is_ancestor(member.pid, pid))
}

fn is_ancestor(ancestor: u32, pid: u32) -> bool {
    let next = |&pid: &u32| process::parent(pid).filter(|&parent| parent > 1);
    std::iter::successors(next(&pid), next).any(|parent| parent == ancestor)
}

/// Returns the ranks of this host that no process has.
fn absent(members: &[Process], first: &Rank) -> Vec<u32> {
    let ranks = || members.iter().filter_map(|member| member.rank.as_ref());
    let present: BTreeSet<u32> = ranks().map(|rank| rank.rank).collect();
    let expected = match (first.local_world_size, first.local_rank, first.world_size) {
        // The ranks of a host follow one another.
        (Some(count), Some(local), _) => {
            let lowest = first.rank.saturating_sub(local);
            lowest..lowest.saturating_add(count)
        }
        (None, _, Some(count)) => 0..count,
        _ => 0..0,
    };
    expected.filter(|rank| !present.contains(rank)).collect()
}
