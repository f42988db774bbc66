//! The command line: the verbs and their dispatch.

use std::ffi::OsString;
use std::path::Path;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::analyze::{self, AnalyzeArgs};
use crate::check::{self, CheckArgs};
use crate::collect::{self, CollectArgs};
use crate::compare::{self, CompareArgs};
use crate::export::{self, ExportArgs};
use crate::import::{self, ImportArgs};
use crate::info::{self, InfoArgs};
use crate::interrupt;
use crate::merge::{self, MergeArgs};
use crate::output::{Output, Stop};
use crate::pack::{self, PackArgs};
use crate::query::{self, QueryArgs};
use crate::run;
use crate::run_args::{DoctorArgs, RunArgs};
use crate::schema::{self, SchemaArgs};
use crate::triton::{self, TritonArgs};
use crate::view::{self, ViewArgs};

const EXAMPLES: &str = "\
Examples:
  marey run train.py --epochs 3         Profile a program; it behaves as without marey
  marey train.py --epochs 3             The same
  marey view train.hatchet              Show the profile as a tree
  marey view -d 3 -t 1% train.hatchet   Only three levels, and what takes at least 1 %
  marey info train.marey                What a run is, and what it lacks
  marey analyze train.marey             What takes its time, what is wrong, and what to change
  marey compare old.marey new.marey     What became faster and slower
  marey query train.marey               Ask a run in SQL
  marey info trace.json.gz              Files of other formats are taken as they are
  marey export train.marey -f perfetto -o train.pftrace

`marey help COMMAND` or `marey COMMAND --help` has the options and examples of a command.

Exit codes: 0 done, 2 bad usage or something that cannot be read or written, 130 interrupted.
`run` has the program's own; `check` and `doctor` say more by theirs, see their help.";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  marey completions bash > ~/.local/share/bash-completion/completions/marey
  marey completions zsh > ~/.zfunc/_marey
  marey completions fish > ~/.config/fish/completions/marey.fish";

/// One profiler for AI workloads, from the Python line to the GPU kernel
#[derive(Parser)]
#[command(name = "marey", bin_name = "marey", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Profile a Python program, a module or a command
    Run(Box<RunArgs>),
    /// Show profiles as trees
    View(Box<ViewArgs>),
    /// Say what takes the time of a run, what is wrong, and what to change
    Analyze(AnalyzeArgs),
    /// Show what two runs differ in, before and after
    Compare(CompareArgs),
    /// Hold a run against another one, for CI
    Check(CheckArgs),
    /// Ask a run in SQL
    Query(QueryArgs),
    /// Show what a run is
    Info(InfoArgs),
    /// Show what tables and columns runs have
    Schema(SchemaArgs),
    /// Make a run of files of other formats
    Import(ImportArgs),
    /// Write a run as a file of another format
    Export(ExportArgs),
    /// Make one run of several
    Merge(MergeArgs),
    /// Make one file of a run
    Pack(PackArgs),
    /// Make tables of what was recorded, now
    Collect(CollectArgs),
    /// Show what Triton made of kernels
    Triton(TritonArgs),
    /// Say what can be recorded here, and what mends the rest
    Doctor(DoctorArgs),
    /// Print the completions of a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Runs the command line `args`, program name first, and gives the exit code.
///
/// `run` and `doctor` replace the process by Python and come back only with an error.
pub fn main(args: impl IntoIterator<Item = OsString>) -> i32 {
    let mut args = run::spell_out(args.into_iter().collect());
    if args.get(1).is_some_and(|verb| verb == "view") {
        view::respell_diff(&mut args);
    }
    match Cli::try_parse_from(&args) {
        Ok(cli) => finish(|output| dispatch(&cli.verb, output)),
        Err(usage) => match args.get(1).map(Path::new) {
            Some(file)
                if usage.kind() == ErrorKind::InvalidSubcommand && run::is_recorded(file) =>
            {
                finish(|_| Err(run::no_program(file).into()))
            }
            _ => refuse(&usage),
        },
    }
}

/// Runs the command line of `marey-viewer`, program name first, which is `marey view` by another
/// name, and gives the exit code.
pub fn viewer(args: impl IntoIterator<Item = OsString>) -> i32 {
    main(["marey", "view"].map(OsString::from).into_iter().chain(args.into_iter().skip(1)))
}

fn finish(run: impl FnOnce(&mut Output) -> Result<(), Stop>) -> i32 {
    interrupt::answers_signals();
    let mut output = Output::of_process();
    let result = run(&mut output);
    output.finish(result)
}

fn refuse(usage: &clap::Error) -> i32 {
    // Nobody is left to tell when the terminal is gone.
    drop(usage.print());
    usage.exit_code()
}

fn dispatch(verb: &Verb, output: &mut Output) -> Result<(), Stop> {
    match verb {
        Verb::Run(args) => Err(run::hand_over("run", &args.line).into()),
        Verb::View(args) => view::view(args, output),
        Verb::Analyze(args) => analyze::analyze(args, output),
        Verb::Compare(args) => compare::compare(args, output),
        Verb::Check(args) => check::check(args, output),
        Verb::Query(args) => query::query(args, output),
        Verb::Info(args) => info::info(args, output),
        Verb::Schema(args) => schema::schema(args, output),
        Verb::Import(args) => import::import(args, output),
        Verb::Export(args) => export::export(args, output),
        Verb::Merge(args) => merge::merge(args, output),
        Verb::Pack(args) => pack::pack(args, output),
        Verb::Collect(args) => collect::collect(args, output),
        Verb::Triton(args) => triton::triton(args, output),
        Verb::Doctor(args) => Err(run::hand_over("doctor", &args.line).into()),
        Verb::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "marey", &mut script);
            Ok(std::io::Write::write_all(output.data(), &script)?)
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
