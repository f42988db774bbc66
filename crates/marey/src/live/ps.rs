//! `marey ps`: lists the processes that record.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use marey_model::endpoint::Facts;
use marey_model::quantity::Grouped;
use serde::Serialize;

use super::peer::Peer;
use super::{Session, sessions};
use crate::output::{Failure, Output, Stop, Style};
use crate::text::{printable, width};

const EXAMPLES: &str = "\
Examples:
  marey ps                       The processes of this user that record; for root, those of all users
  marey ps --json | jq '.[] | select(.losses != {})'
  marey query 4242 \"SELECT …\"    A process in the place of a run: what it has recorded so far";

/// The maximum time for the answers of all processes. A process that hangs must not hide the
/// others.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Arguments of `marey ps`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct PsArgs {
    /// Print a JSON list with an object for each process
    #[arg(long)]
    json: bool,
}

/// A process that records.
#[derive(Serialize)]
struct Process {
    pid: u32,
    rank: Option<u64>,
    /// Training steps that have ended.
    steps: u64,
    /// Seconds since its oldest session started.
    age_s: f64,
    events: u64,
    losses: BTreeMap<String, u64>,
    refused_connections: u64,
    /// Files and folders that its sessions write.
    paths: Vec<String>,
    /// Whether a session records now.
    is_active: bool,
    version: String,
    command: Vec<String>,
}

/// Runs `marey ps`.
pub(crate) fn ps(args: &PsArgs, output: &mut Output) -> Result<(), Stop> {
    let mut processes = Vec::new();
    for answer in ask_all(Peer::all()) {
        match answer {
            Ok((peer, facts)) => processes.push(Process::new(&peer, &facts)),
            Err(failure) => {
                let hint = failure.hint.map_or_else(String::new, |hint| format!("; {hint}"));
                output.warning(format_args!("{}{hint}", failure.message))?;
            }
        }
    }
    processes.sort_by_key(|process| (process.rank, process.pid));
    if args.json {
        serde_json::to_writer_pretty(output.data(), &processes).map_err(io::Error::from)?;
        return Ok(writeln!(output.data())?);
    }
    if processes.is_empty() {
        return Ok(output.note("no process records")?);
    }
    Ok(print(&processes, output)?)
}

/// Asks all processes at the same time. Returns the answers in the order of the processes, except
/// those that have ended.
fn ask_all(peers: Vec<Peer>) -> Vec<Result<(Arc<Peer>, Facts), Failure>> {
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    let peers: Vec<_> = peers.into_iter().map(Arc::new).collect();
    let (sender, answers) = mpsc::sync_channel(peers.len());
    for (index, peer) in peers.iter().enumerate() {
        let (sender, peer) = (sender.clone(), Arc::clone(peer));
        // A process that hangs may keep its thread until the command ends.
        let asking = move || drop(sender.send((index, peer.status())));
        drop(thread::Builder::new().spawn(asking));
    }
    drop(sender);
    let mut by_peer: Vec<_> = peers.iter().map(|_| None).collect();
    let remaining = || deadline.saturating_duration_since(Instant::now());
    while let Ok((index, answer)) = answers.recv_timeout(remaining()) {
        by_peer[index] = Some(answer);
    }
    let late = || format!("no answer in {} s", ANSWER_TIMEOUT.as_secs());
    let in_time = |(peer, answer): (Arc<Peer>, Option<_>)| match answer {
        Some(None) => None,
        Some(Some(Ok(facts))) => Some(Ok((peer, facts))),
        Some(Some(Err(failure))) => Some(Err(failure)),
        None => Some(Err(peer.no_answer(&late()))),
    };
    peers.into_iter().zip(by_peer).filter_map(in_time).collect()
}

impl Process {
    fn new(peer: &Peer, facts: &Facts) -> Self {
        let number = |key: &str| facts.get(key).and_then(|text| text.parse().ok());
        let sessions = sessions(facts);
        let paths = sessions.iter().flat_map(Session::paths).map(|path| peer.path_outside(path));
        let paths: BTreeSet<_> = paths.collect();
        let losses = facts.0.iter().filter_map(|(key, count)| {
            Some((key.strip_prefix("loss.")?.to_owned(), count.parse().ok()?))
        });
        Self {
            pid: peer.pid,
            rank: number("rank"),
            steps: number("steps").unwrap_or(0),
            age_s: sessions.iter().map(|session| session.age_s).fold(0.0, f64::max),
            events: number("events").unwrap_or(0),
            losses: losses.collect(),
            refused_connections: number("refused_connections").unwrap_or(0),
            paths: paths.into_iter().map(|path| path.display().to_string()).collect(),
            is_active: sessions.iter().any(|session| session.is_active),
            version: facts.get("version").unwrap_or_default().to_owned(),
            command: marey_attach::command_line(peer.pid),
        }
    }

    fn cells(&self) -> [String; 7] {
        [
            self.pid.to_string(),
            self.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string()),
            Grouped(self.steps.into()).to_string(),
            age(self.age_s),
            Grouped(self.events.into()).to_string(),
            Grouped(i128::from(self.losses.values().sum::<u64>())).to_string(),
            self.paths.iter().map(|path| relative(path)).collect::<Vec<_>>().join(", "),
        ]
    }
}

const TITLES: [&str; 7] = ["PID", "RANK", "STEPS", "AGE", "EVENTS", "LOSSES", "RECORDS INTO"];

fn print(processes: &[Process], output: &mut Output) -> io::Result<()> {
    let rows: Vec<_> = processes.iter().map(Process::cells).collect();
    let widths: [usize; 7] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| width(&row[column]));
        cells.chain([width(TITLES[column])]).max().unwrap_or(0)
    });
    let line = |cells: [&str; 7]| {
        // Numbers are right-aligned. The last column, the paths, is left-aligned.
        let cells = cells.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            if column + 1 == TITLES.len() { (*cell).to_owned() } else { format!("{cell:>width$}") }
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    let title = output.paint.with(Style::Bold, line(TITLES)).to_string();
    writeln!(output.data(), "{title}")?;
    for (process, row) in processes.iter().zip(&rows) {
        let cells: [&str; 7] = std::array::from_fn(|column| row[column].as_str());
        let paused = if process.is_active { "" } else { " (paused)" };
        writeln!(output.data(), "{}{paused}", printable(&line(cells)))?;
    }
    Ok(())
}

/// Returns a time as hours, minutes and seconds: `1:02:03`, or `3.4 s` below a minute.
fn age(age_s: f64) -> String {
    let whole = age_s as u64;
    match whole {
        0..60 => format!("{age_s:.1} s"),
        60..3600 => format!("{}:{:02}", whole / 60, whole % 60),
        _ => format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60),
    }
}

/// Returns a path relative to the working directory, if it is inside.
fn relative(path: &str) -> String {
    let folder = std::env::current_dir().unwrap_or_default();
    Path::new(path).strip_prefix(folder).unwrap_or(Path::new(path)).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_readable_at_every_length() {
        let ages = [0.04, 59.9, 61.0, 3599.0, 3723.0, 90_000.0].map(age);
        assert_eq!(ages, ["0.0 s", "59.9 s", "1:01", "59:59", "1:02:03", "25:00:00"]);
    }
}
