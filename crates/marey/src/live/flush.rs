//! `marey flush`: makes processes write what they have recorded so far.

use std::collections::BTreeSet;

use clap::Args;
use marey_model::endpoint::Request;

use super::peer::Peer;
use super::{Session, sessions};
use crate::output::{Output, Stop};
use crate::text::quote_path;

const EXAMPLES: &str = "\
Examples:
  marey flush 4242               Write the profile or run of a process now
  marey flush 4242 4243 4244

Commands that take a run, such as `query` and `analyze`, do this by themselves for a process: `marey query 4242`.";

/// Arguments of `marey flush`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct FlushArgs {
    /// Processes that record
    #[arg(required = true, value_name = "PID")]
    pids: Vec<u32>,
}

/// Runs `marey flush`. A process that fails does not stop the others.
pub(crate) fn flush(args: &FlushArgs, output: &mut Output) -> Result<(), Stop> {
    for &pid in &args.pids {
        let flushed = Peer::find(pid).and_then(|peer| Ok((peer.ask(&Request::Flush)?, peer)));
        match flushed {
            Ok((facts, peer)) => {
                let paths: BTreeSet<_> = sessions(&facts)
                    .iter()
                    .flat_map(Session::paths)
                    .map(|path| peer.path_outside(path))
                    .collect();
                for path in paths {
                    output.note(format_args!("process {pid} wrote {}", quote_path(&path)))?;
                }
            }
            Err(failure) => output.error(&failure)?,
        }
    }
    Ok(())
}
