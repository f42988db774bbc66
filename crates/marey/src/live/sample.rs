//! `marey sample`: records once where the Python threads of processes are.

use clap::Args;
use marey_model::endpoint::{Request, SAMPLED};

use super::peer::Peer;
use super::sessions;
use crate::output::{CommandError, Failure, Output};
use crate::text::quote_path;

const EXAMPLES: &str = "\
Examples:
  marey sample 4242              Record the stacks of all Python threads now
  marey query 4242 \"SELECT thread, func, file, lineno FROM python.backtrace ORDER BY thread, depth\"

The stacks are recorded into the trace of the process. `marey config` samples on events: each
`sample.interval`, in scopes named `sample.scope`, in steps that are `sample.slow_step` times as long as
others, at `sample.signal`. A process that does not record is sampled from outside: `marey dump`, `marey record`.";

/// Arguments of `marey sample`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct SampleArgs {
    /// Processes that record a trace
    #[arg(required = true, value_name = "PID")]
    pids: Vec<u32>,
}

/// Runs `marey sample`. A process that fails does not stop the others.
pub(crate) fn sample(args: &SampleArgs, output: &mut Output) -> Result<(), CommandError> {
    for &pid in &args.pids {
        match sample_process(pid) {
            Ok(note) => output.note(note)?,
            Err(failure) => output.error(&failure)?,
        }
    }
    Ok(())
}

/// Samples a process. Returns a note with the number of threads and the path of the run.
fn sample_process(pid: u32) -> Result<String, Failure> {
    let peer = Peer::find(pid)?;
    let facts = peer.ask(&Request::Sample)?;
    let threads = match facts.get(SAMPLED) {
        Some("1") => "1 thread".to_owned(),
        count => format!("{} threads", count.unwrap_or("0")),
    };
    let run = sessions(&facts).iter().find_map(|session| session.run).map(|run| {
        let path = peer.path_outside(run);
        format!(" into {}", quote_path(&path))
    });
    Ok(format!("process {pid} sampled {threads}{}", run.unwrap_or_default()))
}
