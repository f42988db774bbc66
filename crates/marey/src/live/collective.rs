//! The last collectives of ranks that record, for `marey hang`.

use marey_attach::hang::{LastCollective, RankProcess};
use marey_model::endpoint::{COLLECTIVE, Request};
use serde::Deserialize;

use super::concurrent;
use super::peer::Peer;

/// The answer of a rank.
#[derive(Deserialize)]
struct CollectiveAnswer {
    group: String,
    #[serde(default)]
    group_ranks: String,
    sequence: Option<i64>,
    name: String,
    state: String,
}

/// Returns the last collective of each rank that records a trace and answers, in the order of the
/// ranks.
pub(crate) fn last_collectives(ranks: Vec<RankProcess>) -> Vec<LastCollective> {
    let answers = concurrent::ask_all(ranks, |asked| ask(asked.pid));
    let collectives = answers.into_iter().filter_map(|(asked, answer)| {
        let CollectiveAnswer { group, group_ranks, sequence, name, state } = answer??;
        Some(LastCollective { rank: asked.rank, group, group_ranks, sequence, name, state })
    });
    collectives.collect()
}

/// Returns the last collective of a process, `None` if it does not tell or has called none.
fn ask(pid: u32) -> Option<CollectiveAnswer> {
    let facts = Peer::find(pid).ok()?.ask(&Request::Collective).ok()?;
    serde_json::from_str(facts.get(COLLECTIVE)?).ok()?
}
