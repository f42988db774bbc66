//! `marey watch`: asks a recording process to record variables each time that a line begins.

use std::io::{self, Write};

use clap::Args;
use marey_model::endpoint::{Request, WATCHES};
use marey_model::quantity::Grouped;
use serde::{Deserialize, Serialize};

use super::peer::Peer;
use crate::aligned::{self, Align};
use crate::output::{CommandError, Failure, Output, Style, write_json};
use crate::text::printable;

const EXAMPLES: &str = "\
Examples:
  marey watch 4242 'train.py:120:loss, lr'        Record the values when line 120 begins
  marey watch 4242 'model.py:31:self.scale, x[0]' Attributes and items, read without running the program's code
  marey watch 4242                                The watches and their counts
  marey watch 4242 --off 'train.py:120:loss, lr'  End one; without its text, end all
  marey query 4242 'SELECT name, value FROM python.variables ORDER BY time_nanos DESC LIMIT 10'
  marey config 4242 watch.rate=100                Up to 100 records of each watch per second, not 10";

/// Arguments of `marey watch`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct WatchArgs {
    /// Process that records a trace
    #[arg(value_name = "PID")]
    pid: u32,

    /// Line and variables to watch; without it, the watches are listed
    #[arg(value_name = "FILE:LINE:NAME[, NAME]")]
    spec: Option<String>,

    /// End the watch, or all watches
    #[arg(long)]
    off: bool,

    /// Print a JSON list of the watches
    #[arg(long)]
    json: bool,
}

/// A watch in a process.
#[derive(Deserialize, Serialize)]
struct Watch {
    /// File, line and variables, as they were given.
    spec: String,
    /// File and function that were found.
    file: String,
    function: String,
    /// Number of times that the values were recorded.
    recorded: u64,
    /// Number of times that the values were not recorded, because of the limit of the rate.
    skipped: u64,
    /// Whether `skipped` is a lower bound, because a watch does not count while its line runs very
    /// often.
    has_paused: bool,
    /// Number of values that could not be read.
    unread: u64,
    /// The reason why the last of these values could not be read.
    reason: Option<String>,
}

/// Runs `marey watch`.
pub(crate) fn watch(args: &WatchArgs, output: &mut Output) -> Result<(), CommandError> {
    let spec = args.spec.clone().unwrap_or_default();
    if spec.contains('\n') {
        let message = "a watch is one line of text".to_owned();
        return Err(Failure::new(message).into());
    }
    let request = match (args.off, args.spec.is_some()) {
        (true, _) => Request::Unwatch { spec },
        (false, true) => Request::Watch { spec },
        (false, false) => Request::Watches,
    };
    let facts = Peer::find(args.pid)?.ask(&request)?;
    let watches: Vec<Watch> = facts
        .get(WATCHES)
        .and_then(|json| serde_json::from_str(json).ok())
        .ok_or_else(|| Failure {
        message: format!("process {} does not list its watches", args.pid),
        hint: Some("it may record with another version of marey".to_owned()),
    })?;
    if args.json {
        return Ok(write_json(output.data(), &watches)?);
    }
    if watches.is_empty() {
        return Ok(output.note(format_args!("process {} watches no variables", args.pid))?);
    }
    Ok(print(&watches, output)?)
}

impl Watch {
    fn cells(&self) -> Vec<String> {
        let grouped = |number: u64| Grouped(number.into()).to_string();
        let at_least = if self.has_paused { "≥ " } else { "" };
        vec![
            grouped(self.recorded),
            format!("{at_least}{}", grouped(self.skipped)),
            grouped(self.unread),
            format!("{} in {} ({})", self.spec, self.function, self.file),
        ]
    }
}

const TITLES: [&str; 4] = ["RECORDED", "SKIPPED", "UNREAD", "WATCH"];

fn print(watches: &[Watch], output: &mut Output) -> io::Result<()> {
    let cells: Vec<_> = watches.iter().map(Watch::cells).collect();
    let aligns = [Align::Right, Align::Right, Align::Right, Align::Left];
    let (title, rows) = aligned::aligned_lines(&TITLES.map(str::to_owned), &cells, &aligns);
    let title = output.paint.with(Style::Bold, title).to_string();
    writeln!(output.data(), "{title}")?;
    for (watch, row) in watches.iter().zip(&rows) {
        writeln!(output.data(), "{}", printable(row))?;
        if let Some(reason) = &watch.reason {
            writeln!(output.data(), "    last unread: {}", printable(reason))?;
        }
    }
    Ok(())
}
