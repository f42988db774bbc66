//! `marey collect`: from spools to tables, now.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use marey_model::quantity::{Grouped, Size};
use marey_store::Collected;

use crate::output::{Output, Stop};
use crate::runs;
use crate::text::{printable, quoted};

const EXAMPLES: &str = "\
Every command that opens a run collects it first, and so does a program that ends properly; this
is for runs of programs that were killed, before they are copied elsewhere.

Examples:
  marey collect train.marey
  marey collect --quiet runs/*.marey";

/// Arguments of `marey collect`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct CollectArgs {
    /// Runs, folders `NAME.marey`
    #[arg(required = true, value_name = "RUN", value_hint = ValueHint::DirPath)]
    runs: Vec<PathBuf>,

    /// Say nothing but what went wrong
    #[arg(short, long)]
    quiet: bool,
}

/// Collects the runs; one that fails does not keep the others.
pub(crate) fn collect(args: &CollectArgs, output: &mut Output) -> Result<(), Stop> {
    for run in &args.runs {
        match runs::collect(run, !args.quiet) {
            Err(failure) => output.error(&failure)?,
            Ok(collected) => {
                warn(run, &collected, output)?;
                if !args.quiet {
                    output.note(format_args!("{}: {}", quoted(run), describe(&collected)))?;
                }
            }
        }
    }
    Ok(())
}

/// Says what could not be collected.
fn warn(run: &Path, collected: &Collected, output: &mut Output) -> Result<(), Stop> {
    let run = quoted(run);
    for broken in &collected.broken {
        let (name, lost) = (printable(&broken.name), Size(broken.lost_bytes));
        let reason = printable(&broken.reason.to_string()).into_owned();
        output.warning(format_args!("{run}: {lost} of the spool {name} are lost: {reason}"))?;
    }
    if collected.torn_bytes > 0 {
        let torn = Size(collected.torn_bytes);
        output.warning(format_args!("{run}: {torn} at the ends of spools could not be read"))?;
    }
    Ok(())
}

fn describe(collected: &Collected) -> String {
    let events = Grouped(collected.events.into());
    match collected.spools {
        0 => "there was nothing to collect".into(),
        1 => format!("collected {events} events of 1 spool, {}", Size(collected.bytes)),
        spools => {
            format!("collected {events} events of {spools} spools, {}", Size(collected.bytes))
        }
    }
}
