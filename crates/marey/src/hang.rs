//! `marey hang`: finds the rank of a distributed job that the others wait for, and prints why.
//!
//! [`marey_attach::hang`] looks at the ranks of this host and judges. [`hosts`] asks other hosts.

mod hosts;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::json::ArrayWriter;
use clap::{Args, ValueHint};
use marey_attach::hang::{Hang, LastCollective, Member, MemberState, number_list};
use marey_query::sql::Database;

use crate::dump::{print_frames, print_thread};
use crate::limits::limits;
use crate::live;
use crate::output::{CommandError, Failure, Output, Style, write_json};
use crate::record::seconds;
use crate::runs;
use crate::text::{printable, quote_path};

const EXAMPLES: &str = "\
Examples:
  marey hang 4242                        The job of a rank, or the ranks below torchrun
  marey hang 4250 4251 4252 4253         These processes
  marey hang 4242 --flight-recorder /tmp/dumps
                                         With the last collective of each rank, from dumps of PyTorch
  marey hang 4242 --native               Also ranks that wait for a GPU in C code
  marey hang 4242 --hosts node2,node3    With the ranks of its job on other hosts, by ssh
  marey hang --job node1:29500 --hosts node1,node2
                                         From a machine without a rank of the job
  marey hang 4242 --json | jq -r .sentence

The ranks of this host are read from outside, twice, and compared: those at one place are a group, and the
sentence says which rank the others wait for, where, why and since when. A rank is known by RANK in its
environment. Times are those since a thread last ran. No rank is changed; only --native stops ranks, each for
a moment. Ranks that record a trace are asked for their last collective. On other hosts marey is run by ssh, which must not ask for a password.";

/// The last collective of each rank in the dumps of a flight recorder.
const LAST_COLLECTIVES_QUERY: &str = "\
SELECT CAST(rank AS BIGINT) AS rank, process_group AS \"group\", group_ranks, sequence, name,
    CASE WHEN state = 'scheduled' AND arg(args, 'retired') = 'true' THEN 'completed' ELSE state END AS state
FROM (
    SELECT *, row_number() OVER (PARTITION BY rank ORDER BY created_nanos DESC, sequence DESC) AS place
    FROM collectives
)
WHERE place = 1 AND rank IS NOT NULL
ORDER BY rank";

/// Arguments of `marey hang`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct HangArgs {
    /// A rank, or a process that has started the ranks, such as torchrun
    #[arg(value_name = "PID", required_unless_present = "job")]
    pids: Vec<u32>,

    /// `MASTER_ADDR:MASTER_PORT` of the job, in the place of processes
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "pids")]
    job: Option<String>,

    /// Hosts with other ranks of the job, which ssh reaches
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    hosts: Vec<String>,

    /// Path of marey on these hosts
    #[arg(long, value_name = "PATH", default_value = "marey")]
    remote_marey: String,

    /// Time for the answer of a host, besides the time that its looks take
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    host_timeout: f64,

    /// Read native frames of ranks that are in no collective and do not move; stops each for a moment
    #[arg(long)]
    native: bool,

    /// Time between the two looks at each rank
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,

    /// Folder of the dumps of PyTorch's flight recorder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    flight_recorder: Option<PathBuf>,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `marey hang`.
pub(crate) fn hang(args: &HangArgs, output: &mut Output) -> Result<(), CommandError> {
    let interval = seconds("--interval", args.interval)?;
    let dumped_collectives =
        args.flight_recorder.as_ref().map(|folder| last_collectives(folder, output));
    let dumped_collectives = dumped_collectives.transpose()?.unwrap_or_default();
    let job = match &args.job {
        Some(job) => Some(job.clone()),
        None if args.hosts.is_empty() => None,
        None => Some(job_of(&args.pids)?),
    };
    // A host looks a second time, at the processes that a rank has started.
    let looking_time = interval.saturating_mul(2);
    let timeout = seconds("--host-timeout", args.host_timeout)?.saturating_add(looking_time);
    let hosts = hosts::ask_hosts(args, job.as_deref(), timeout)?;
    let mut hang = look_here(args, interval)?;
    for (name, answer) in hosts {
        hang.add_host(&name, answer.wait());
    }
    hang.add_dumps(dumped_collectives);
    if hang.members.is_empty() {
        return Err(no_ranks_failure(&hang, job.as_deref().unwrap_or_default()).into());
    }
    if args.json {
        return Ok(write_json(output.data(), &hang)?);
    }
    print_hang(&hang, output)
}

/// Returns the name of the job of some processes, `MASTER_ADDR:MASTER_PORT`.
fn job_of(pids: &[u32]) -> Result<String, Failure> {
    marey_attach::hang::rendezvous(pids).ok_or_else(|| Failure {
        message:
            "the ranks have no MASTER_ADDR and MASTER_PORT, by which other hosts know their job"
                .to_owned(),
        hint: Some("torchrun sets them".to_owned()),
    })
}

/// Returns the failure for a job of which no rank was found.
fn no_ranks_failure(hang: &Hang, job: &str) -> Failure {
    let problem = hang.hosts.iter().find_map(|host| Some((&host.name, host.problem.as_ref()?)));
    match problem {
        Some((name, problem)) => {
            let message = format!("host {name} has not answered: {problem}");
            let hint = "ssh must reach it without a question, marey must be on its PATH (or named by \
                        --remote-marey), and a rank of the job must run there";
            Failure { message: printable(&message).into_owned(), hint: Some(hint.to_owned()) }
        }
        None => Failure {
            message: format!("no process is a rank of the job `{}`", printable(job)),
            hint: Some(
                "a rank has RANK, MASTER_ADDR and MASTER_PORT in its environment".to_owned(),
            ),
        },
    }
}

/// Looks at the ranks of this host. With `--job` and `--hosts`, only those hosts are looked at, and
/// this one is not.
fn look_here(args: &HangArgs, interval: Duration) -> Result<Hang, Failure> {
    let pids = match &args.job {
        None => args.pids.clone(),
        Some(_) if !args.hosts.is_empty() => Vec::new(),
        Some(job) => marey_attach::hang::ranks_of_job(job),
    };
    if pids.is_empty() {
        return Ok(Hang::default());
    }
    let hang = marey_attach::hang::look(&pids, interval, args.native, live::last_collectives)?;
    let unreadable_members = || hang.members.iter().filter(|member| member.problem.is_some());
    match unreadable_members().next() {
        Some(member) if unreadable_members().count() == hang.members.len() => Err(Failure {
            message: printable(member.problem.as_deref().unwrap_or_default()).into_owned(),
            hint: member.hint.clone(),
        }),
        _ => Ok(hang),
    }
}

/// Reads the last collective of each rank from the dumps in a folder.
fn last_collectives(
    folder: &Path,
    output: &mut Output,
) -> Result<Vec<LastCollective>, CommandError> {
    let cannot_read =
        |error: io::Error| Failure::new(format!("{} cannot be read: {error}", quote_path(folder)));
    let entries = fs::read_dir(folder).map_err(cannot_read)?;
    let mut dump_files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file())
        .collect();
    dump_files.sort();
    if dump_files.is_empty() {
        let message = format!("{} has no dumps of a flight recorder", quote_path(folder));
        let hint = "PyTorch writes them to the path in TORCH_FR_DUMP_TEMP_FILE";
        return Err(Failure { message, hint: Some(hint.to_owned()) }.into());
    }
    let (run, imported, _folder) = runs::import(&dump_files)?;
    for warning in crate::foreign::warnings(&imported) {
        output.warning(warning)?;
    }
    let database = Database::new(Arc::new(run), limits(None, None)?);
    let mut json_rows = ArrayWriter::new(Vec::new());
    for batch in database.query(LAST_COLLECTIVES_QUERY, None)? {
        json_rows.write(&batch?).map_err(io::Error::other)?;
    }
    json_rows.finish().map_err(io::Error::other)?;
    let json_rows = json_rows.into_inner();
    if json_rows.is_empty() {
        return Ok(Vec::new());
    }
    Ok(serde_json::from_slice(&json_rows).map_err(io::Error::from)?)
}

fn print_hang(hang: &Hang, output: &mut Output) -> Result<(), CommandError> {
    let paint = output.paint;
    writeln!(output.data(), "{}", paint.with(Style::Bold, printable(&hang.sentence)))?;
    for host in &hang.hosts {
        if let Some(problem) = &host.problem {
            let text = format!("host {} has not answered: {problem}", host.name);
            output.warning(printable(&text))?;
        }
    }
    for group in &hang.groups {
        let members: Vec<&Member> =
            group.iter().filter_map(|&index| hang.members.get(index)).collect();
        let Some(first_member) = members.first() else { continue };
        writeln!(output.data())?;
        let title = printable(&group_title(&members)).into_owned();
        writeln!(
            output.data(),
            "{}: {}",
            paint.with(Style::Bold, title),
            state_text(first_member)
        )?;
        print_frames(&first_member.frames, output)?;
        if let Some(hint) = &first_member.hint {
            writeln!(output.data(), "    {}", printable(hint))?;
        }
        if group.iter().any(|index| hang.odd.contains(index)) {
            for member in members {
                print_details(member, output)?;
            }
        }
    }
    Ok(())
}

/// Names the members of a group.
fn group_title(members: &[&Member]) -> String {
    let ranks: Option<Vec<u32>> =
        members.iter().map(|member| Some(member.rank.as_ref()?.rank)).collect();
    let pids: Vec<u32> = members.iter().map(|member| member.pid).collect();
    let host = members.first().and_then(|member| member.host.as_ref());
    let host = host.map(|host| format!(" on {host}")).unwrap_or_default();
    match (ranks, &pids[..]) {
        (Some(ranks), [pid]) => format!("Rank {} (process {pid}{host})", number_list(&ranks)),
        (Some(ranks), _) => format!("{} ranks ({})", pids.len(), number_list(&ranks)),
        (None, [pid]) => format!("Process {pid}{host}"),
        (None, _) => format!("{} processes ({})", pids.len(), number_list(&pids)),
    }
}

/// Returns the state of the first member of a group.
fn state_text(member: &Member) -> String {
    match member.state {
        MemberState::Runs if member.is_moving => "runs, and its stack changes".to_owned(),
        MemberState::Runs => "runs".to_owned(),
        MemberState::Stopped => "stopped by a debugger or a signal".to_owned(),
        MemberState::Ended => "has ended".to_owned(),
        MemberState::Unreadable => {
            printable(member.problem.as_deref().unwrap_or("cannot be read")).into_owned()
        }
        MemberState::Waits => match &member.wait {
            Some(wait) => printable(&wait.to_string()).into_owned(),
            None => "sleeps".to_owned(),
        },
    }
}

/// Prints the other threads and the processes of a rank that the others wait for.
fn print_details(member: &Member, output: &mut Output) -> Result<(), CommandError> {
    let paint = output.paint;
    for thread in &member.other_threads {
        writeln!(output.data())?;
        print_thread(thread, output)?;
    }
    for child in &member.children {
        let title = format!("Process {}, started by {}", child.pid, member.pid);
        writeln!(output.data(), "\n{}: {}", paint.with(Style::Bold, title), state_text(child))?;
        print_frames(&child.frames, output)?;
    }
    Ok(())
}
