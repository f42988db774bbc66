//! The command line: the verbs and their dispatch.

use std::ffi::OsString;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::output::{Output, Stop};
use crate::run::{self, RunArgs};
use crate::view::{self, ViewArgs};

const EXAMPLES: &str = "\
Examples:
  marey run train.py --epochs 3        Profile a program; it behaves as without marey
  marey train.py --epochs 3            The same
  marey view train.hatchet             Show the profile as a tree
  marey view -d 3 -t 1 train.hatchet   Only three levels, and what takes at least 1 %";

/// One profiler for AI workloads, from the Python line to the GPU kernel
#[derive(Parser)]
#[command(name = "marey", bin_name = "marey", version, after_help = EXAMPLES)]
#[command(arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Profile a Python program, a module or a command
    Run(RunArgs),
    /// Show profiles as trees
    View(ViewArgs),
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Runs the command line `args`, program name first, and gives the exit code.
///
/// `run` replaces the process by Python and comes back only with an error.
pub fn main(args: impl IntoIterator<Item = OsString>) -> i32 {
    let args = run::spell_out(args.into_iter().collect());
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(usage) => {
            // Nobody is left to tell when the terminal is gone.
            drop(usage.print());
            return usage.exit_code();
        }
    };
    let mut output = Output::of_process();
    let result = dispatch(&cli.verb, &mut output);
    output.finish(result)
}

fn dispatch(verb: &Verb, output: &mut Output) -> Result<(), Stop> {
    match verb {
        Verb::Run(args) => Err(run::run(args).into()),
        Verb::View(args) => view::view(args, output),
        Verb::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "marey", &mut script);
            Ok(output.stdout(&script)?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declarations_are_sound() {
        Cli::command().debug_assert();
    }
}
