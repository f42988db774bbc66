//! `marey flush`: makes processes write what they have recorded so far, and save their rings.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use marey_model::endpoint::{Request, SAVED};

use super::peer::Peer;
use super::sessions;
use crate::output::{CommandError, Failure, Output};
use crate::text::quote_path;

const EXAMPLES: &str = "\
Examples:
  marey flush 4242               Write the profile or run of a process now
  marey flush 4242 4243 4244

A ring (`data=\"ring\"`) is saved as a run of its own, and recording goes on.

Commands that take a run, such as `query` and `analyze`, do this by themselves for a process: `marey query 4242`.";

/// Arguments of `marey flush`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct FlushArgs {
    /// Processes that record
    #[arg(required = true, value_name = "PID")]
    pids: Vec<u32>,
}

impl FlushArgs {
    /// Returns the arguments for one process.
    pub(crate) fn for_process(pid: u32) -> Self {
        Self { pids: vec![pid] }
    }
}

/// Runs `marey flush`. A process that fails does not stop the others.
pub(crate) fn flush(args: &FlushArgs, output: &mut Output) -> Result<(), CommandError> {
    for &pid in &args.pids {
        match flush_process(pid) {
            Ok(paths) => {
                for path in paths {
                    output.note(format_args!("process {pid} wrote {}", quote_path(&path)))?;
                }
            }
            Err(failure) => output.error(&failure)?,
        }
    }
    Ok(())
}

/// Makes a process write what it has recorded. Returns the paths of the saved ring and profiles, or
/// of the profiles and runs if the process has no ring.
fn flush_process(pid: u32) -> Result<BTreeSet<PathBuf>, Failure> {
    let peer = Peer::find(pid)?;
    let facts = peer.ask(&Request::Save)?;
    let saved = facts.get(SAVED).map(|path| peer.path_outside(Path::new(path)));
    let sessions = sessions(&facts);
    // The saved ring takes the place of the run of its session.
    let paths = sessions.iter().flat_map(|session| {
        session.profile.into_iter().chain(session.run.filter(|_| saved.is_none()))
    });
    let paths = paths.map(|path| peer.path_outside(path));
    Ok(paths.chain(saved.clone()).collect())
}
