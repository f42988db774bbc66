//! Why a distributed job hangs: its ranks, compared.
//!
//! [`look`] finds the ranks ([`job`]), looks at each twice ([`observe`]), groups those that are at the
//! same place, and judges which rank the others wait for ([`judge`]).

mod job;
mod judge;
mod observe;
mod place;
mod sentence;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::job::{Job, Process};
use self::observe::FirstLook;
use crate::AttachError;
use crate::process;
use crate::rank::Rank;

pub use self::job::ranks_of_job;
pub use self::judge::HangCause;
pub use self::observe::{Member, MemberState};
pub use self::place::Place;
pub use self::sentence::number_list;

/// A job that may hang.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Hang {
    /// A sentence: the rank that the others wait for, where and since when.
    pub sentence: String,
    /// Cause for which the job does not go on.
    pub cause: HangCause,
    /// Indexes of the members that the others wait for.
    pub odd: Vec<usize>,
    /// Ranks of this host that no process has.
    pub absent: Vec<u32>,
    /// Processes beside the ranks that have ended, and that their parent has not waited for.
    pub ended: Vec<EndedProcess>,
    /// Number of ranks on all hosts, if the processes state it.
    pub world_size: Option<u32>,
    /// The ranks, lowest first.
    pub members: Vec<Member>,
    /// Indexes of the members that are at one place, the largest group first.
    pub groups: Vec<Vec<usize>>,
    /// The last collective of each rank, as a flight recorder has it, lowest rank first.
    pub collectives: Vec<LastCollective>,
    /// The other hosts that were asked.
    pub hosts: Vec<Host>,
}

/// The last collective of a rank, as its flight recorder has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct LastCollective {
    /// The rank.
    pub rank: u32,
    /// Name of the process group.
    pub group: String,
    /// Ranks of the process group, such as `0-3,8`; empty if they are unknown.
    #[serde(default)]
    pub group_ranks: String,
    /// Number among the collectives of the group.
    pub sequence: Option<i64>,
    /// Name, such as `all_reduce`.
    pub name: String,
    /// `scheduled`, `started` or `completed`.
    pub state: String,
}

/// A process that has ended, and that its parent has not waited for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct EndedProcess {
    /// The host that was reached by ssh; `None` for this one.
    pub host: Option<String>,
    /// Process id in the operating system.
    pub pid: u32,
}

/// A host that was asked for its ranks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Host {
    /// The name of the host, as ssh knows it.
    pub name: String,
    /// The reason why the host has not answered.
    pub problem: Option<String>,
}

/// Returns `MASTER_ADDR:MASTER_PORT` of the job of some processes, by which other hosts know it.
pub fn rendezvous(pids: &[u32]) -> Option<String> {
    let mut ranks = Job::find(pids).members.into_iter().filter_map(|member| member.rank);
    ranks.find_map(|rank| rank.rendezvous)
}

/// A process and its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankProcess {
    /// The rank.
    pub rank: u32,
    /// Process id in the operating system.
    pub pid: u32,
}

/// Looks at a job twice, `interval` apart, and judges why it does not go on. `pids` are ranks or
/// processes that have started them. With `reads_native_frames`, ranks that are in no collective and do not move
/// are stopped for a moment, and their native frames are read. `collectives` returns the last
/// collectives of those of the ranks that answer. It is called at both looks: a rank whose answer changes goes on, and its
/// answer is left out.
pub fn look(
    pids: &[u32],
    interval: Duration,
    reads_native_frames: bool,
    collectives: impl Fn(Vec<RankProcess>) -> Vec<LastCollective>,
) -> Result<Hang, AttachError> {
    if let Some(&pid) = pids.iter().find(|&&pid| !process::is_alive(pid)) {
        return Err(AttachError::NoProcess(pid));
    }
    let Job { members, ended_pids, absent_ranks, world_size } = Job::find(pids);
    let mut ranks: Vec<RankProcess> = members.iter().filter_map(rank_that_can_answer).collect();
    let first_looks: Vec<FirstLook> = members.into_iter().map(FirstLook::take).collect();
    let first_collectives = collectives(ranks.clone());
    observe::pause(interval);
    let members: Vec<Member> =
        first_looks.into_iter().map(|look| look.look_again(reads_native_frames)).collect();
    let ended = ended_pids.into_iter().map(|pid| EndedProcess { host: None, pid }).collect();
    ranks.retain(|asked| first_collectives.iter().any(|last| last.rank == asked.rank));
    let mut collectives = collectives(ranks);
    collectives.retain(|last| first_collectives.contains(last));
    let mut hang =
        Hang { absent: absent_ranks, ended, world_size, members, collectives, ..Hang::default() };
    hang.judge();
    // The processes of a rank matter only where it waits for one of them.
    for &index in &hang.odd {
        if let Some(member) = hang.members.get_mut(index) {
            member.add_children(interval);
        }
    }
    hang.sentence = sentence::of_hang(&hang);
    Ok(hang)
}

/// Returns a process of a job with its rank; `None` if it has none, has ended or is stopped.
fn rank_that_can_answer(process: &Process) -> Option<RankProcess> {
    let rank = process.rank.as_ref()?.rank;
    let state = process::state(process.pid, process.pid.into())?;
    let can_answer = !matches!(state, 'Z' | 'X' | 'T' | 't');
    can_answer.then_some(RankProcess { rank, pid: process.pid })
}

impl Hang {
    /// Adds the ranks that another host has answered with, or why it has not, and judges again. A
    /// rank that is known already is left out: two names may be those of one host.
    pub fn add_host(&mut self, name: &str, answer: Result<Self, String>) {
        let problem = answer.as_ref().err().cloned();
        self.hosts.push(Host { name: name.to_owned(), problem });
        if let Ok(host_hang) = answer {
            let known_ranks: Vec<Option<Rank>> =
                self.members.iter().map(|member| member.rank.clone()).collect();
            let is_new =
                |member: &Member| member.rank.is_none() || !known_ranks.contains(&member.rank);
            let new_members = host_hang.members.into_iter().filter(is_new);
            let new_members =
                new_members.map(|member| Member { host: Some(name.to_owned()), ..member });
            self.members.extend(new_members);
            self.absent.extend(host_hang.absent);
            let ended = host_hang.ended.into_iter();
            self.ended
                .extend(ended.map(|ended| EndedProcess { host: Some(name.to_owned()), ..ended }));
            self.world_size = self.world_size.or(host_hang.world_size);
            self.add_collectives(host_hang.collectives);
        }
        let rank_of = |member: &Member| member.rank.as_ref().map(|rank| rank.rank);
        self.members.sort_by_key(rank_of);
        let present: Vec<u32> = self.members.iter().filter_map(rank_of).collect();
        self.absent.retain(|rank| !present.contains(rank));
        self.absent.sort_unstable();
        self.absent.dedup();
        self.judge();
        self.sentence = sentence::of_hang(self);
    }

    /// Adds the last collectives of dumps, for ranks that have not answered, and judges again.
    pub fn add_dumps(&mut self, collectives: Vec<LastCollective>) {
        self.add_collectives(collectives);
        self.judge();
        self.sentence = sentence::of_hang(self);
    }

    /// Adds the last collectives of ranks without one.
    fn add_collectives(&mut self, mut collectives: Vec<LastCollective>) {
        collectives.retain(|added| self.collectives.iter().all(|last| last.rank != added.rank));
        self.collectives.extend(collectives);
        self.collectives.sort_by_key(|last| last.rank);
    }

    /// Returns the last collective of a member, if it is known.
    fn last_collective(&self, member: &Member) -> Option<&LastCollective> {
        let rank = member.rank.as_ref()?.rank;
        self.collectives.iter().find(|last| last.rank == rank)
    }

    fn judge(&mut self) {
        self.groups = judge::groups(&self.members);
        (self.cause, self.odd) = judge::judge(self);
    }
}
