//! Parses the command line of marey and runs the subcommand. Never exits the process, and returns
//! the exit code.

use std::ffi::OsString;
use std::path::Path;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::analyze::{self, AnalyzeArgs};
use crate::attach::{self, AttachArgs, DetachArgs};
use crate::check::{self, CheckArgs};
use crate::collect::{self, CollectArgs};
use crate::compare::{self, CompareArgs};
use crate::dump::{self, DumpArgs};
use crate::export::{self, ExportArgs};
use crate::hang::{self, HangArgs};
use crate::import::{self, ImportArgs};
use crate::info::{self, InfoArgs};
use crate::inspect::{self, EvalArgs, InspectArgs};
use crate::interrupt;
use crate::live::{self, ConfigArgs, FlushArgs, PsArgs, SampleArgs, WatchArgs};
use crate::merge::{self, MergeArgs};
use crate::output::{CommandError, Output};
use crate::pack::{self, PackArgs};
use crate::query::{self, QueryArgs};
use crate::record::{self, RecordArgs};
use crate::run;
use crate::run_args::{DoctorArgs, ProfileArgs, RunArgs};
use crate::schema::{self, SchemaArgs};
use crate::top::{self, TopArgs};
use crate::triton::{self, TritonArgs};
use crate::view::{self, ViewArgs};

const EXAMPLES: &str = "\
Examples:
  marey run train.py --epochs 3         Profile a program, which behaves as without marey
  marey train.py --epochs 3             The same, without options
  marey view train.hatchet              Show a profile as a tree
  marey view -d 3 -t 1% train.hatchet   Show three levels, and nodes with at least 1 %
  marey info train.marey                Summarise a run and its losses
  marey analyze train.marey             Find hot spots and bottlenecks
  marey compare old.marey new.marey     Show what became faster and slower
  marey profile analyze my_profile.pt   Summarise the profile of a training loop
  marey query train.marey               Query a run with SQL
  marey ps                              List the processes that record
  marey analyze 4242                    Analyse what a process has recorded so far
  marey dump 4242                       Show where a running process is, and what it waits for
  marey inspect 4242 'config[\"lr\"]'     Read a value of a running process
  marey top 4242                        Show where a running process spends its time
  marey hang 4242                       Find the rank that a hanging job waits for
  marey record -p 4242 -d 30            Sample a running process for 30 seconds
  marey attach 4242                     Record a running process from now on
  marey info trace.json.gz              Open a file of another format directly
  marey export train.marey -f perfetto -o train.pftrace
  c++ app.cpp $(marey --cflags --libs)  Build an annotated C++ program

Run `marey help COMMAND` for the options and examples of a command.

Exit codes: 0 success, 2 bad usage or an unreadable or unwritable file, 130 interrupted.
`run` exits with the code of the program; `check` and `doctor` have further codes, see their help.";

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
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Profile a Python program, a module or a command
    Run(Box<RunArgs>),
    /// Show profiles as trees
    View(Box<ViewArgs>),
    /// Find hot spots and bottlenecks of a run, and suggest remedies
    Analyze(AnalyzeArgs),
    /// Compare two runs
    Compare(CompareArgs),
    /// Check a run against a baseline, for CI
    Check(CheckArgs),
    /// Analyze, show, compare or export the profile of a training loop
    Profile(ProfileArgs),
    /// Query a run with SQL
    Query(QueryArgs),
    /// Summarise a run
    Info(InfoArgs),
    /// Describe the tables and columns of runs
    Schema(SchemaArgs),
    /// List the processes that record
    Ps(PsArgs),
    /// Write what a process has recorded so far
    Flush(FlushArgs),
    /// Record once where the Python threads of a process are
    Sample(SampleArgs),
    /// Show and change the settings of a process that records
    Config(ConfigArgs),
    /// Record the values of variables at a line of a process that records
    Watch(WatchArgs),
    /// Print the stacks of a running process
    #[command(alias = "backtrace")]
    Dump(DumpArgs),
    /// Read a value of a running process
    Inspect(InspectArgs),
    #[command(hide = true)]
    Eval(EvalArgs),
    /// Show where a running process spends its time
    Top(TopArgs),
    /// Find the rank that a hanging job waits for
    Hang(HangArgs),
    /// Sample a running process into a run
    Record(RecordArgs),
    /// Start recording in a running process
    Attach(AttachArgs),
    /// End a recording that `attach` has started
    Detach(DetachArgs),
    /// Convert files of other formats to a run
    Import(ImportArgs),
    /// Convert a run to another format
    Export(ExportArgs),
    /// Merge several runs into one
    Merge(MergeArgs),
    /// Pack a run into one file
    Pack(PackArgs),
    /// Convert recorded spools to tables now
    Collect(CollectArgs),
    /// Inspect the kernels that Triton compiled
    Triton(TritonArgs),
    /// Check what can be recorded on this machine, and how to fix the rest
    Doctor(DoctorArgs),
    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Runs the command line `args`, which begins with the program name. Returns the exit code.
///
/// `run`, `doctor` and `profile` replace the process by Python, and return only on an error.
pub fn main(args: impl IntoIterator<Item = OsString>) -> i32 {
    let mut args = run::normalize_args(args.into_iter().collect());
    if args.get(1).is_some_and(|verb| verb == "view") {
        view::convert_diff_option(&mut args);
    }
    match Cli::try_parse_from(&args) {
        Ok(cli) => finish(|output| dispatch(&cli.command, output)),
        Err(usage) => match args.get(1).map(Path::new) {
            Some(file)
                if usage.kind() == ErrorKind::InvalidSubcommand && run::is_recorded(file) =>
            {
                finish(|_| Err(run::not_a_program(file).into()))
            }
            _ => print_usage_error(&usage),
        },
    }
}

/// Runs the command line of `marey-viewer`, which begins with the program name, as `marey view`.
/// Returns the exit code.
pub fn viewer(args: impl IntoIterator<Item = OsString>) -> i32 {
    main(["marey", "view"].map(OsString::from).into_iter().chain(args.into_iter().skip(1)))
}

fn finish(run: impl FnOnce(&mut Output) -> Result<(), CommandError>) -> i32 {
    let _handling = interrupt::enable();
    let mut output = Output::new();
    let result = run(&mut output);
    output.finish(result)
}

fn print_usage_error(usage: &clap::Error) -> i32 {
    // An error is ignored: it means that the terminal is closed, and cannot be reported.
    drop(usage.print());
    usage.exit_code()
}

fn dispatch(command: &Command, output: &mut Output) -> Result<(), CommandError> {
    match command {
        Command::Run(args) => Err(run::exec_python("run", &args.line).into()),
        Command::View(args) => view::view(args, output),
        Command::Analyze(args) => analyze::analyze(args, output),
        Command::Compare(args) => compare::compare(args, output),
        Command::Check(args) => check::check(args, output),
        Command::Profile(args) => Err(run::exec_python("profile", &args.line).into()),
        Command::Query(args) => query::query(args, output),
        Command::Info(args) => info::info(args, output),
        Command::Schema(args) => schema::schema(args, output),
        Command::Ps(args) => live::ps(args, output),
        Command::Flush(args) => live::flush(args, output),
        Command::Sample(args) => live::sample(args, output),
        Command::Config(args) => live::config(args, output),
        Command::Watch(args) => live::watch(args, output),
        Command::Dump(args) => dump::dump(args, output),
        Command::Inspect(args) => inspect::inspect(args, output),
        Command::Eval(args) => Err(inspect::eval(args).into()),
        Command::Top(args) => top::top(args, output),
        Command::Hang(args) => hang::hang(args, output),
        Command::Record(args) => record::record(args, output),
        Command::Attach(args) => attach::attach(args, output),
        Command::Detach(args) => attach::detach(args, output),
        Command::Import(args) => import::import(args, output),
        Command::Export(args) => export::export(args, output),
        Command::Merge(args) => merge::merge(args, output),
        Command::Pack(args) => pack::pack(args, output),
        Command::Collect(args) => collect::collect(args, output),
        Command::Triton(args) => triton::triton(args, output),
        Command::Doctor(args) => Err(run::exec_python("doctor", &args.line).into()),
        Command::Completions { shell } => {
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
    fn the_command_line_is_declared_consistently() {
        Cli::command().debug_assert();
    }
}
