//! `marey collect`: converts the spools of runs to tables now. Other subcommands do so when they
//! open a run.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use marey_model::quantity::{Grouped, Size};
use marey_store::Collected;

use crate::output::{CommandError, Output};
use crate::runs;
use crate::text::{printable, quote_path};

const EXAMPLES: &str = "\
A program collects its run when it ends, and every command collects a run that it opens. Use this
for runs of killed programs, before copying them to another machine.

Examples:
  marey collect train.marey
  marey collect --quiet runs/*.marey";

/// Arguments of `marey collect`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct CollectArgs {
    /// Runs to collect: folders `NAME.marey`
    #[arg(required = true, value_name = "RUN", value_hint = ValueHint::DirPath)]
    runs: Vec<PathBuf>,

    /// Print only warnings and errors
    #[arg(short, long)]
    quiet: bool,
}

/// Runs `marey collect`. A run that fails does not stop the others.
pub(crate) fn collect(args: &CollectArgs, output: &mut Output) -> Result<(), CommandError> {
    for run in &args.runs {
        match runs::collect(run, !args.quiet) {
            Err(failure) => output.error(&failure)?,
            Ok(collected) => {
                warn(run, &collected, output)?;
                if !args.quiet {
                    output.note(format_args!("{}: {}", quote_path(run), describe(&collected)))?;
                }
            }
        }
    }
    Ok(())
}

/// Warns of data that could not be collected.
fn warn(run: &Path, collected: &Collected, output: &mut Output) -> Result<(), CommandError> {
    let run = quote_path(run);
    for broken in &collected.broken {
        let (name, lost) = (printable(&broken.name), Size(broken.lost_bytes));
        let reason = printable(&broken.reason.to_string()).into_owned();
        output.warning(format_args!("{run}: lost {lost} of spool {name}: {reason}"))?;
    }
    if collected.torn_bytes > 0 {
        let torn = Size(collected.torn_bytes);
        output.warning(format_args!("{run}: could not read {torn} at the ends of spools"))?;
    }
    Ok(())
}

fn describe(collected: &Collected) -> String {
    let events = Grouped(collected.events.into());
    match collected.spools {
        0 => "nothing to collect".into(),
        1 => format!("collected {events} events from 1 spool, {}", Size(collected.bytes)),
        spools => {
            format!("collected {events} events from {spools} spools, {}", Size(collected.bytes))
        }
    }
}
