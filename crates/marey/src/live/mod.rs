//! Talks to processes that record now, by the socket that each has. The subcommands `ps`, `flush`,
//! `sample`, `config` and `watch` use it, `hang` for the last collectives of ranks, and those that
//! accept a process id in place of a run.

mod collective;
mod concurrent;
mod config;
mod flush;
mod peer;
mod ps;
mod sample;
mod watch;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use marey_model::endpoint::{Facts, Request};
use marey_query::sql::reads;

pub(crate) use collective::last_collectives;
pub(crate) use config::{ConfigArgs, config};
pub(crate) use flush::{FlushArgs, flush};
pub(crate) use ps::{PsArgs, ps};
pub(crate) use sample::{SampleArgs, sample};
pub(crate) use watch::{WatchArgs, watch};

use self::peer::Peer;
use crate::output::Failure;

/// A session of a process, from the facts that the process states.
struct Session<'a> {
    /// Path of the profile that it writes, if it writes one.
    profile: Option<&'a Path>,
    /// Path of the run with its events, if it traces.
    run: Option<&'a Path>,
    is_active: bool,
    age_secs: f64,
}

/// Returns `run` itself, unless it is the id of a process. Then makes the process write all that it
/// has recorded so far, and returns the path of the run or profile that it records.
pub(crate) fn resolve_run(run: &Path) -> Result<Cow<'_, Path>, Failure> {
    match pid_of(run) {
        Some(pid) => Ok(Cow::Owned(flushed_run(pid)?)),
        None => Ok(Cow::Borrowed(run)),
    }
}

/// Asks a process for a sample of its stacks, if `run` is the id of a process that records and the
/// query reads them. Returns the reason if the process has taken none.
pub(crate) fn sample_first(run: &Path, sql: &str) -> Option<Failure> {
    let pid = pid_of(run).filter(|_| reads(sql, "backtrace"))?;
    let peer = Peer::find(pid).ok()?;
    peer.ask(&Request::Sample).err()
}

/// Returns the process id that was given in place of a run, if `run` is one.
fn pid_of(run: &Path) -> Option<u32> {
    run.to_str().filter(|_| !run.exists())?.parse().ok()
}

fn flushed_run(pid: u32) -> Result<PathBuf, Failure> {
    let peer = Peer::find(pid)?;
    let facts = peer.ask(&Request::Flush)?;
    let sessions = sessions(&facts);
    let run = sessions.iter().find_map(|session| session.run);
    match run.or_else(|| sessions.iter().find_map(|session| session.profile)) {
        Some(path) => Ok(peer.path_outside(path)),
        None => Err(Failure::new(format!("process {pid} has just ended its session"))),
    }
}

/// Returns the sessions among the facts about a process, lowest id first.
fn sessions(facts: &Facts) -> Vec<Session<'_>> {
    let sessions = facts.0.iter().filter_map(|(key, is_active)| {
        let id = key.strip_prefix("session.")?.strip_suffix(".active")?;
        let get = |name: &str| facts.get(&format!("session.{id}.{name}"));
        Some(Session {
            profile: get("file").map(Path::new),
            run: get("run").map(Path::new),
            is_active: is_active == "true",
            age_secs: get("age_s")?.parse().ok()?,
        })
    });
    sessions.collect()
}

impl<'a> Session<'a> {
    /// Returns the paths of the run and the profile that the session writes.
    fn paths(&self) -> impl Iterator<Item = &'a Path> {
        self.run.into_iter().chain(self.profile)
    }
}
