//! The last collectives of ranks that record, for `marey hang`.

use marey_attach::hang::{LastCollective, Member, State};
use marey_model::endpoint::{COLLECTIVE, Request};
use serde::Deserialize;

use super::at_once;
use super::peer::Peer;

/// The answer of a rank.
#[derive(Deserialize)]
struct Answer {
    group: String,
    sequence: Option<i64>,
    name: String,
    state: String,
}

/// Returns the last collective of each rank that records a trace and answers, lowest rank first.
pub(crate) fn last_collectives(members: &[Member]) -> Vec<LastCollective> {
    let can_answer = |member: &&Member| !matches!(member.state, State::Ended | State::Stopped);
    let ranks = members.iter().filter(can_answer);
    let ranks = ranks.filter_map(|member| Some((member.rank.as_ref()?.rank, member.pid)));
    let answers = at_once::ask_all(ranks.collect(), |&(_, pid)| ask(pid));
    let collectives = answers.into_iter().filter_map(|(asked, answer)| {
        let Answer { group, sequence, name, state } = answer??;
        Some(LastCollective { rank: asked.0, group, sequence, name, state })
    });
    collectives.collect()
}

/// Returns the last collective of a process, `None` if it does not tell or has called none.
fn ask(pid: u32) -> Option<Answer> {
    let facts = Peer::find(pid).ok()?.ask(&Request::Collective).ok()?;
    serde_json::from_str(facts.get(COLLECTIVE)?).ok()?
}
