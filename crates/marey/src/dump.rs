//! `marey dump`: prints the stacks of running processes.

use std::collections::BTreeMap;
use std::io::{self, Write};

use clap::Args;
use marey_attach::{AttachError, Options, Snapshot, Target, Thread};

use crate::live::{self, FlushArgs};
use crate::output::{Failure, Output, Stop, Style};
use crate::text::printable;

const EXAMPLES: &str = "\
Examples:
  marey dump 4242               The stack of each thread, and what it waits for
  marey dump 4242 --locals      With the local variables of each frame
  marey dump 4242 --tree        The process and all processes that it has started, such as a torchrun job
  marey dump 4242 --ring        Save the last events of a process under `marey run -d ring` as a run
  marey dump 4242 --json | jq -r '.[].threads[] | select(.holds_gil) | .frames[0]'

The process need not know marey, and is neither stopped nor changed: its memory is read from outside.
That needs the rights to debug it (the same user, or root). CPython 3.10 to 3.14 can be read.";

/// Arguments of `marey dump`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct DumpArgs {
    /// Process to read
    #[arg(value_name = "PID")]
    pid: u32,

    /// Read its child processes too, and theirs
    #[arg(short, long)]
    tree: bool,

    /// Print the local variables of each frame
    #[arg(short, long)]
    locals: bool,

    /// Print a JSON list with an object for each process
    #[arg(long)]
    json: bool,

    /// Save the last events that the process has recorded, as `marey flush` does
    #[arg(long, conflicts_with_all = ["tree", "locals", "json"])]
    ring: bool,
}

/// Runs `marey dump`.
pub(crate) fn dump(args: &DumpArgs, output: &mut Output) -> Result<(), Stop> {
    if args.ring {
        return live::flush(&FlushArgs::for_process(args.pid), output);
    }
    let options = Options { locals: args.locals, waits: true };
    let mut snapshots = Vec::new();
    match read(args.pid, options) {
        Ok(snapshot) => snapshots.push(snapshot),
        // `torchrun` itself may be a shell script; its children matter.
        Err(failure) if args.tree => output.warning(failure.message)?,
        Err(failure) => return Err(failure.into()),
    }
    for child in if args.tree { marey_attach::children(args.pid) } else { Vec::new() } {
        match read(child, options) {
            Ok(snapshot) => snapshots.push(snapshot),
            Err(failure) => output.warning(failure.message)?,
        }
    }
    if snapshots.is_empty() {
        let message = format!("no process of the tree of {} could be read", args.pid);
        return Err(Failure { message, hint: None }.into());
    }
    if args.json {
        serde_json::to_writer_pretty(output.data(), &snapshots).map_err(io::Error::from)?;
        writeln!(output.data())?;
        return Ok(());
    }
    for (index, snapshot) in snapshots.iter().enumerate() {
        if index > 0 {
            writeln!(output.data())?;
        }
        print(snapshot, output)?;
    }
    Ok(())
}

impl From<AttachError> for Failure {
    fn from(error: AttachError) -> Self {
        Self { message: error.to_string(), hint: error.hint() }
    }
}

fn read(pid: u32, options: Options) -> Result<Snapshot, Failure> {
    Ok(Target::open(pid, options)?.snapshot()?)
}

fn print(snapshot: &Snapshot, output: &mut Output) -> io::Result<()> {
    let (paint, argv) = (output.paint, snapshot.argv.join(" "));
    let title = format!("Process {}: {}", snapshot.pid, printable(&argv));
    writeln!(output.data(), "{}", paint.with(Style::Bold, title))?;
    writeln!(output.data(), "CPython {}", snapshot.python)?;
    let (python, native): (Vec<_>, Vec<_>) =
        snapshot.threads.iter().partition(|thread| !thread.frames.is_empty());
    for thread in python {
        writeln!(output.data())?;
        print_thread(thread, output)?;
    }
    if !native.is_empty() {
        writeln!(output.data(), "\nWithout Python frames: {}", native_threads(&native))?;
    }
    Ok(())
}

fn print_thread(thread: &Thread, output: &mut Output) -> io::Result<()> {
    let paint = output.paint;
    let id = thread.os_id.map_or_else(String::new, |id| format!(" ({id})"));
    let name = format!("{}{id}", printable(&thread.name));
    writeln!(output.data(), "{} {}", paint.with(Style::Bold, name), activity(thread))?;
    for frame in &thread.frames {
        let place = format!("({}:{})", printable(&frame.file), frame.line);
        let place = paint.with(Style::Dim, place);
        writeln!(output.data(), "    {} {place}", printable(&frame.function))?;
        for (name, value) in &frame.locals {
            writeln!(output.data(), "        {} = {}", printable(name), printable(value))?;
        }
    }
    Ok(())
}

/// Returns what a thread does, as the predicate of a sentence.
fn activity(thread: &Thread) -> String {
    let activity = match &thread.wait {
        Some(wait) => printable(&wait.to_string()).into_owned(),
        None if thread.is_running => "runs".to_owned(),
        None => "sleeps".to_owned(),
    };
    if thread.holds_gil { format!("{activity}, holds the GIL") } else { activity }
}

/// Lists threads by name, with their number and what they do if all do the same.
fn native_threads(threads: &[&Thread]) -> String {
    let mut by_name: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for thread in threads {
        *by_name.entry((&thread.name, activity(thread))).or_default() += 1;
    }
    let describe = |((name, activity), count): ((&str, String), usize)| match count {
        1 => format!("{} {activity}", printable(name)),
        _ => format!("{count} threads {} {activity}", printable(name)),
    };
    by_name.into_iter().map(describe).collect::<Vec<_>>().join("; ")
}
