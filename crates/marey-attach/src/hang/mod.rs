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

use self::job::Job;
use self::observe::Look;
use crate::AttachError;
use crate::process;

pub use self::judge::Cause;
pub use self::observe::{Member, State};
pub use self::place::Place;
pub use self::sentence::numbers;

/// A job that may hang.
#[derive(Clone, Debug, Serialize)]
pub struct Hang {
    /// A sentence: the rank that the others wait for, where and since when.
    pub sentence: String,
    /// Cause for which the job does not go on.
    pub cause: Cause,
    /// Indexes of the members that the others wait for.
    pub odd: Vec<usize>,
    /// Ranks of this host that no process has.
    pub absent: Vec<u32>,
    /// Processes beside the ranks that have ended, and that their parent has not waited for.
    pub ended: Vec<u32>,
    /// Number of ranks on all hosts, if the processes state it.
    pub world_size: Option<u32>,
    /// The ranks, lowest first.
    pub members: Vec<Member>,
    /// Indexes of the members that are at one place, the largest group first.
    pub groups: Vec<Vec<usize>>,
    /// The last collective of each rank, as a flight recorder has it.
    pub collectives: Vec<LastCollective>,
}

/// The last collective of a rank, as its flight recorder has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct LastCollective {
    /// The rank.
    pub rank: u32,
    /// Name of the process group.
    pub group: String,
    /// Number among the collectives of the group.
    pub sequence: Option<i64>,
    /// Name, such as `all_reduce`.
    pub name: String,
    /// `scheduled`, `started` or `completed`.
    pub state: String,
}

/// Looks at a job twice, `interval` apart, and judges why it does not go on. `pids` are ranks or
/// processes that have started them.
pub fn look(
    pids: &[u32],
    interval: Duration,
    collectives: Vec<LastCollective>,
) -> Result<Hang, AttachError> {
    if let Some(&pid) = pids.iter().find(|&&pid| !process::is_alive(pid)) {
        return Err(AttachError::NoProcess(pid));
    }
    let Job { members, ended, absent, world_size } = Job::find(pids);
    let looks: Vec<Look> = members.into_iter().map(Look::begin).collect();
    observe::pause(interval);
    let members: Vec<Member> = looks.into_iter().map(Look::end).collect();
    let mut hang = Hang {
        sentence: String::new(),
        cause: Cause::None,
        odd: Vec::new(),
        groups: judge::groups(&members),
        absent,
        ended,
        world_size,
        members,
        collectives,
    };
    (hang.cause, hang.odd) = judge::judge(&hang);
    // The processes of a rank matter only where it waits for one of them.
    for &index in &hang.odd {
        if let Some(member) = hang.members.get_mut(index) {
            member.add_children(interval);
        }
    }
    hang.sentence = sentence::of_hang(&hang);
    Ok(hang)
}
