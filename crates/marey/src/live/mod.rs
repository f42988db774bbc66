//! Processes that record now: `ps`, `flush`, `config`, and a process id in the place of a run.

mod config;
mod flush;
mod peer;
mod ps;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use marey_model::endpoint::{Facts, Request};

pub(crate) use config::{ConfigArgs, config};
pub(crate) use flush::{FlushArgs, flush};
pub(crate) use ps::{PsArgs, ps};

use self::peer::Peer;
use crate::output::Failure;

/// A session of a process, from the facts that it states.
struct Session<'a> {
    path: &'a Path,
    /// `marey` for a run, else the extension of a profile or trace.
    format: &'a str,
    is_active: bool,
    age_s: f64,
}

/// Returns the path of the run or profile that a process records, after the process has written all that it has
/// recorded so far, if `run` is the id of a process; otherwise `run` itself.
pub(crate) fn resolve(run: &Path) -> Result<Cow<'_, Path>, Failure> {
    let pid = run.to_str().filter(|_| !run.exists()).and_then(|text| text.parse::<u32>().ok());
    match pid {
        Some(pid) => Ok(Cow::Owned(flushed_run(pid)?)),
        None => Ok(Cow::Borrowed(run)),
    }
}

fn flushed_run(pid: u32) -> Result<PathBuf, Failure> {
    let peer = Peer::find(pid)?;
    let facts = peer.ask(&Request::Flush)?;
    let sessions = sessions(&facts);
    let run = sessions.iter().find(|session| session.format == "marey").or(sessions.first());
    match run {
        Some(session) => Ok(peer.path_outside(session.path)),
        None => Err(Failure {
            message: format!("process {pid} has just ended its session"),
            hint: None,
        }),
    }
}

/// Returns the sessions among the facts about a process, lowest id first.
fn sessions(facts: &Facts) -> Vec<Session<'_>> {
    let path_keys = facts.0.iter().filter_map(|(key, path)| {
        let id = key.strip_prefix("session.")?.strip_suffix(".path")?;
        let get = |name: &str| facts.get(&format!("session.{id}.{name}"));
        Some(Session {
            path: Path::new(path),
            format: get("format")?,
            is_active: get("active")? == "true",
            age_s: get("age_s")?.parse().ok()?,
        })
    });
    path_keys.collect()
}
