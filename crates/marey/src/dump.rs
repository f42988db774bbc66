//! `marey dump`: prints the stacks of running processes, or those in a core file.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use marey_attach::{
    AttachError, CoreError, CoreSnapshot, Frame, ReadOptions, Snapshot, Target, Task, TaskState,
    Thread,
};

use crate::live::{self, FlushArgs};
use crate::output::{CommandError, Failure, Output, Style, write_json};
use crate::text::printable;

const EXAMPLES: &str = "\
Examples:
  marey dump 4242               The stack of each thread, and what it waits for
  marey dump 4242 4250          One of its threads; `marey backtrace` is the same command
  marey dump 4242 --locals      With the local variables of each frame
  marey dump 4242 --native      With the frames of native functions, such as those of PyTorch
  marey dump 4242 --tree        The process and all processes that it has started, such as a torchrun job
  marey dump --core core.4242   The same of a process that has ended, from its core file
  marey dump 4242 --ring        Save the last events of a process under `marey run -d ring` as a run
  marey dump 4242 --json | jq -r '.[].threads[] | select(.holds_gil) | .frames[0]'

The process need not know marey, and is neither stopped nor changed: its memory is read from outside.
Only --native stops it, while its stacks are copied, as a debugger would. Reading a process needs the
rights to debug it (the same user, or root). CPython 3.10 to 3.14 can be read.";

/// Arguments of `marey dump`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub(crate) struct DumpArgs {
    /// Process to read
    #[arg(value_name = "PID", required_unless_present = "core")]
    pid: Option<u32>,

    /// Thread to show, by its id in the operating system [default: all]
    #[arg(value_name = "TID", conflicts_with_all = ["tree", "ring"])]
    thread: Option<u64>,

    /// Read the core file of a process that has ended, instead of a process
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["pid", "thread", "tree", "locals", "native", "ring"])]
    core: Option<PathBuf>,

    /// Program of the core file, if it is not where it was
    #[arg(long, value_name = "PATH", requires = "core")]
    executable: Option<PathBuf>,

    /// Read its child processes too, and theirs
    #[arg(short, long)]
    tree: bool,

    /// Print the local variables of each frame
    #[arg(short, long)]
    locals: bool,

    /// Print native frames too; the process is stopped while its stacks are copied
    #[arg(short, long)]
    native: bool,

    /// Print a JSON list with an object for each process
    #[arg(long)]
    json: bool,

    /// Save the last events that the process has recorded, as `marey flush` does
    #[arg(long, conflicts_with_all = ["tree", "locals", "native", "json"])]
    ring: bool,
}

/// Runs `marey dump`.
pub(crate) fn dump(args: &DumpArgs, output: &mut Output) -> Result<(), CommandError> {
    if let Some(core) = &args.core {
        let core = CoreSnapshot::read(core, args.executable.as_deref()).map_err(Failure::from)?;
        return dump_core(&core, args.json, output);
    }
    let Some(pid) = args.pid else { return Ok(()) };
    if args.ring {
        return live::flush(&FlushArgs::for_process(pid), output);
    }
    let options = ReadOptions {
        reads_locals: args.locals,
        reads_waits: true,
        reads_tasks: true,
        reads_native_frames: args.native,
    };
    let mut snapshots = Vec::new();
    match read(pid, options) {
        Ok(snapshot) => snapshots.push(select_thread(snapshot, args.thread)?),
        // The process may be no Python, such as a shell script that starts `torchrun`. Its children
        // matter.
        Err(failure) if args.tree => output.warning(failure.message)?,
        Err(failure) => return Err(failure.into()),
    }
    for child in if args.tree { marey_attach::descendants(pid) } else { Vec::new() } {
        match read(child, options) {
            Ok(snapshot) => snapshots.push(snapshot),
            Err(failure) => output.warning(failure.message)?,
        }
    }
    if snapshots.is_empty() {
        let message = format!("no process of the tree of {pid} could be read");
        return Err(Failure::new(message).into());
    }
    if args.json {
        return Ok(write_json(output.data(), &snapshots)?);
    }
    for (index, snapshot) in snapshots.iter().enumerate() {
        if index > 0 {
            writeln!(output.data())?;
        }
        print_snapshot(snapshot, "", args.native, output)?;
    }
    Ok(())
}

fn dump_core(core: &CoreSnapshot, is_json: bool, output: &mut Output) -> Result<(), CommandError> {
    if is_json {
        return Ok(write_json(output.data(), &[core])?);
    }
    let snapshot = &core.snapshot;
    let ending = core.signal.as_ref().map(|signal| {
        let thread = snapshot.threads.iter().find(|thread| thread.os_id == Some(signal.thread));
        let name = thread.map_or("", |thread| &thread.name);
        format!(", ended by {} in {} ({})", signal.name, printable(name), signal.thread)
    });
    print_snapshot(snapshot, &ending.unwrap_or_default(), false, output)?;
    Ok(())
}

impl From<CoreError> for Failure {
    fn from(error: CoreError) -> Self {
        Self { message: printable(&error.to_string()).into_owned(), hint: error.hint() }
    }
}

impl From<AttachError> for Failure {
    fn from(error: AttachError) -> Self {
        Self { message: printable(&error.to_string()).into_owned(), hint: error.hint() }
    }
}

fn read(pid: u32, options: ReadOptions) -> Result<Snapshot, Failure> {
    Ok(Target::open(pid, options)?.snapshot()?)
}

/// Returns the snapshot with the thread that has this id, or with all threads for `None`.
fn select_thread(mut snapshot: Snapshot, os_id: Option<u64>) -> Result<Snapshot, Failure> {
    let Some(os_id) = os_id else { return Ok(snapshot) };
    snapshot.threads.retain(|thread| thread.os_id == Some(os_id));
    snapshot.tasks.retain(|task| task.thread == Some(os_id));
    if snapshot.threads.is_empty() {
        return Err(Failure {
            message: format!("process {} has no thread {os_id}", snapshot.pid),
            hint: Some(format!("`marey dump {}` lists the threads with their ids", snapshot.pid)),
        });
    }
    Ok(snapshot)
}

fn print_snapshot(
    snapshot: &Snapshot,
    ending: &str,
    wants_native_frames: bool,
    output: &mut Output,
) -> io::Result<()> {
    let (paint, argv) = (output.paint, snapshot.argv.join(" "));
    let title = format!("Process {}: {}", snapshot.pid, printable(&argv));
    writeln!(output.data(), "{}", paint.with(Style::Bold, title))?;
    writeln!(output.data(), "CPython {}{ending}", snapshot.python)?;
    let (python_threads, without_frames): (Vec<_>, Vec<_>) =
        snapshot.threads.iter().partition(|thread| !thread.frames.is_empty());
    for thread in python_threads {
        writeln!(output.data())?;
        print_thread(thread, output)?;
        if wants_native_frames && !thread.has_native_frames {
            let note = "Native frames are left out: they do not match those of Python";
            writeln!(output.data(), "    ({note})")?;
        }
    }
    if !without_frames.is_empty() {
        writeln!(output.data(), "\nWithout Python frames: {}", native_threads(&without_frames))?;
    }
    print_tasks(snapshot, output)
}

/// Prints the tasks of asyncio. Tasks that differ only in their names are printed together.
fn print_tasks(snapshot: &Snapshot, output: &mut Output) -> io::Result<()> {
    let mut groups: Vec<Vec<&Task>> = Vec::new();
    for task in &snapshot.tasks {
        match groups.iter_mut().find(|group| is_alike(group[0], task)) {
            Some(group) => group.push(task),
            None => groups.push(vec![task]),
        }
    }
    for group in groups {
        let (first, names) = (group[0], names(&group));
        let thread = snapshot.threads.iter().find(|thread| thread.os_id == first.thread);
        let place = match thread.filter(|_| first.thread.is_some()) {
            Some(thread) => format!(" of {}", printable(&thread.name)),
            None => String::new(),
        };
        let noun = if group.len() == 1 { "Task" } else { "Tasks" };
        let title = output.paint.with(Style::Bold, format!("{noun} {names}{place}"));
        writeln!(output.data(), "\n{title} {}", task_activity(first, group.len()))?;
        print_frames(&first.frames, output)?;
    }
    if snapshot.omitted_tasks > 0 {
        writeln!(output.data(), "\n{} more tasks were not read", snapshot.omitted_tasks)?;
    }
    if snapshot.torn_tasks > 0 {
        let text = "Tasks that could not be read, because they changed: at least";
        writeln!(output.data(), "\n{text} {}", snapshot.torn_tasks)?;
    }
    Ok(())
}

/// Whether two tasks differ only in their names.
fn is_alike(task: &Task, other: &Task) -> bool {
    (task.thread, task.state, &task.waits_for, &task.frames)
        == (other.thread, other.state, &other.waits_for, &other.frames)
}

/// Lists the names of the first few tasks.
fn names(tasks: &[&Task]) -> String {
    const MAX_NAMES: usize = 5;
    let first_names: Vec<_> =
        tasks.iter().take(MAX_NAMES).map(|task| printable(&task.name)).collect();
    let names = first_names.join(", ");
    match tasks.len().saturating_sub(MAX_NAMES) {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}

/// Returns the predicate of a sentence on what tasks do.
fn task_activity(task: &Task, task_count: usize) -> String {
    let (wait, run, be, have) = if task_count == 1 {
        ("waits", "runs", "is", "has")
    } else {
        ("wait", "run", "are", "have")
    };
    match (&task.state, &task.waits_for) {
        (TaskState::Waiting, Some(target)) => format!("{wait} for {}", printable(target)),
        (TaskState::Waiting, None) => wait.to_owned(),
        (TaskState::Running, _) => run.to_owned(),
        (TaskState::Ready, _) => format!("{be} ready to run"),
        (TaskState::Done, _) => format!("{have} ended"),
    }
}

/// Prints a thread with its stack.
pub(crate) fn print_thread(thread: &Thread, output: &mut Output) -> io::Result<()> {
    let paint = output.paint;
    let id = thread.os_id.map_or_else(String::new, |id| format!(" ({id})"));
    let name = format!("{}{id}", printable(&thread.name));
    writeln!(output.data(), "{} {}", paint.with(Style::Bold, name), activity(thread))?;
    print_frames(&thread.frames, output)
}

/// Prints frames, innermost first.
pub(crate) fn print_frames(frames: &[Frame], output: &mut Output) -> io::Result<()> {
    let paint = output.paint;
    for frame in frames {
        let place = match Path::new(&frame.file).file_name() {
            Some(library) if frame.is_native => {
                format!("({})", printable(&library.to_string_lossy()))
            }
            _ => format!("({}:{})", printable(&frame.file), frame.line),
        };
        let place = paint.with(Style::Dim, place);
        writeln!(output.data(), "    {} {place}", printable(&frame.function))?;
        for (name, value) in &frame.locals {
            writeln!(output.data(), "        {} = {}", printable(name), printable(value))?;
        }
    }
    Ok(())
}

/// Returns the predicate of a sentence on what a thread does.
fn activity(thread: &Thread) -> String {
    let activity = match &thread.wait {
        Some(wait) => printable(&wait.to_string()).into_owned(),
        None if thread.is_running => "runs".to_owned(),
        None => "sleeps".to_owned(),
    };
    if thread.holds_gil { format!("{activity}, holds the GIL") } else { activity }
}

/// Lists threads in groups of the same name and activity, with the number in each group.
fn native_threads(threads: &[&Thread]) -> String {
    let mut counts_by_name: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for thread in threads {
        *counts_by_name.entry((&thread.name, activity(thread))).or_default() += 1;
    }
    let describe = |((name, activity), count): ((&str, String), usize)| match (count, name) {
        // Threads of a core file have no names.
        (1, "") => format!("a thread {activity}"),
        (_, "") => format!("{count} threads: each {activity}"),
        (1, _) => format!("{} {activity}", printable(name)),
        _ => format!("{count} threads {} {activity}", printable(name)),
    };
    counts_by_name.into_iter().map(describe).collect::<Vec<_>>().join("; ")
}
