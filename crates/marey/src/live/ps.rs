//! `marey ps`: lists the processes that record.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use marey_model::endpoint::Facts;
use marey_model::quantity::Grouped;
use serde::Serialize;

use super::peer::Peer;
use super::{Session, concurrent, sessions};
use crate::aligned::{self, Align};
use crate::output::{CommandError, Failure, Output, Style, write_json};
use crate::text::printable;

const EXAMPLES: &str = "\
Examples:
  marey ps                       The processes of this user that record; for root, those of all users
  marey ps --json | jq '.[] | select(.losses != {})'
  marey query 4242 \"SELECT …\"    A process in the place of a run: what it has recorded so far";

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
struct RecordedProcess {
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
pub(crate) fn ps(args: &PsArgs, output: &mut Output) -> Result<(), CommandError> {
    let mut processes = Vec::new();
    for answer in ask_all(Peer::all()) {
        match answer {
            Ok((peer, facts)) => processes.push(RecordedProcess::new(&peer, &facts)),
            Err(failure) => {
                let hint = failure.hint.map_or_else(String::new, |hint| format!("; {hint}"));
                output.warning(format_args!("{}{hint}", failure.message))?;
            }
        }
    }
    processes.sort_by_key(|process| (process.rank, process.pid));
    if args.json {
        return Ok(write_json(output.data(), &processes)?);
    }
    if processes.is_empty() {
        return Ok(output.note("no process records")?);
    }
    Ok(print(&processes, output)?)
}

/// Asks all processes at the same time. Returns the answers in the order of the processes, except
/// those that have ended.
fn ask_all(peers: Vec<Peer>) -> Vec<Result<(Arc<Peer>, Facts), Failure>> {
    let timeout_text = || format!("no answer in {} s", concurrent::TIMEOUT.as_secs());
    let peer_result = |(peer, answer): (Arc<Peer>, Option<_>)| match answer {
        Some(None) => None,
        Some(Some(Ok(facts))) => Some(Ok((peer, facts))),
        Some(Some(Err(failure))) => Some(Err(failure)),
        None => Some(Err(peer.no_answer_failure(&timeout_text()))),
    };
    concurrent::ask_all(peers, Peer::status).into_iter().filter_map(peer_result).collect()
}

impl RecordedProcess {
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
            age_s: sessions.iter().map(|session| session.age_secs).fold(0.0, f64::max),
            events: number("events").unwrap_or(0),
            losses: losses.collect(),
            refused_connections: number("refused_connections").unwrap_or(0),
            paths: paths.into_iter().map(|path| path.display().to_string()).collect(),
            is_active: sessions.iter().any(|session| session.is_active),
            version: facts.get("version").unwrap_or_default().to_owned(),
            command: marey_attach::command_line(peer.pid),
        }
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.pid.to_string(),
            self.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string()),
            Grouped(self.steps.into()).to_string(),
            format_age(self.age_s),
            Grouped(self.events.into()).to_string(),
            Grouped(i128::from(self.losses.values().sum::<u64>())).to_string(),
            self.paths.iter().map(|path| relative_path(path)).collect::<Vec<_>>().join(", "),
        ]
    }
}

const TITLES: [&str; 7] = ["PID", "RANK", "STEPS", "AGE", "EVENTS", "LOSSES", "RECORDS INTO"];

fn print(processes: &[RecordedProcess], output: &mut Output) -> io::Result<()> {
    let cells: Vec<_> = processes.iter().map(RecordedProcess::cells).collect();
    // Numbers to the right, and the last column, paths, to the left.
    let mut aligns = [Align::Right; TITLES.len()];
    aligns[TITLES.len() - 1] = Align::Left;
    let (title, rows) = aligned::aligned_lines(&TITLES.map(str::to_owned), &cells, &aligns);
    let title = output.paint.with(Style::Bold, title).to_string();
    writeln!(output.data(), "{title}")?;
    for (process, row) in processes.iter().zip(&rows) {
        let paused = if process.is_active { "" } else { " (paused)" };
        writeln!(output.data(), "{}{paused}", printable(row))?;
    }
    Ok(())
}

/// Returns a time as hours, minutes and seconds: `1:02:03`, or `3.4 s` below a minute.
fn format_age(age_s: f64) -> String {
    let whole = age_s as u64;
    match whole {
        0..60 => format!("{age_s:.1} s"),
        60..3600 => format!("{}:{:02}", whole / 60, whole % 60),
        _ => format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60),
    }
}

/// Returns a path relative to the working directory, if it is inside.
fn relative_path(path: &str) -> String {
    let folder = std::env::current_dir().unwrap_or_default();
    Path::new(path).strip_prefix(folder).unwrap_or(Path::new(path)).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_readable_at_every_length() {
        let ages = [0.04, 59.9, 61.0, 3599.0, 3723.0, 90_000.0].map(format_age);
        assert_eq!(ages, ["0.0 s", "59.9 s", "1:01", "59:59", "1:02:03", "25:00:00"]);
    }
}
