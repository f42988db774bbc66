//! `marey info`: summarises a run: its processes, times, tables, losses and overhead.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::PathBuf;

use arrow::temporal_conversions::timestamp_ns_to_datetime;
use clap::{Args, ValueHint};
use marey_formats::Format;
use marey_model::quantity::{Grouped, Nanos, Size};
use marey_model::table::{Table, stored};
use marey_store::{OverheadEntry, ProcessEntry, Run};
use serde::Serialize;

use crate::output::{CommandError, Failure, Output, Paint, Style, write_json};
use crate::runs::{self, OpenedRun};
use crate::text::{printable, truncate};
use crate::view::describe_loss;

const EXAMPLES: &str = "\
Examples:
  marey info train.marey
  marey info --json train.marey | jq .tables";

/// The width of the column of labels.
const LABEL_WIDTH: usize = 10;

/// The maximum width of the command line.
const MAX_COMMAND_CHARS: usize = 80;

/// Arguments of `marey info`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct InfoArgs {
    /// Run to summarise: a folder `NAME.marey`, a packed run, or a file of another format
    #[arg(value_name = "RUN", value_hint = ValueHint::AnyPath)]
    run: PathBuf,

    /// Print the summary as a JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `marey info`.
pub(crate) fn info(args: &InfoArgs, output: &mut Output) -> Result<(), CommandError> {
    let run = runs::open(&args.run, output)?;
    let info = Info::new(&run);
    if args.json {
        return Ok(write_json(output.data(), &info)?);
    }
    let paint = output.paint;
    info.write(output.data(), paint)?;
    warn(&info, &run, output)
}

/// The summary of a run. Times are in nanoseconds since 1970.
#[derive(Serialize)]
struct Info<'a> {
    path: String,
    is_pack: bool,
    /// The format of the file, if it was imported by this command.
    format: Option<&'static str>,
    /// The kind of storage of the run, in words.
    #[serde(skip)]
    storage: &'static str,
    writer: &'a str,
    schema_version: u32,
    /// `None` if no process was recorded.
    start_unix_nanos: Option<i64>,
    end_unix_nanos: Option<i64>,
    world_size: Option<u32>,
    processes: &'a [ProcessEntry],
    threads: u64,
    events: u64,
    bytes: u64,
    losses: &'a BTreeMap<String, u64>,
    torn_bytes: u64,
    tables: Vec<TableInfo>,
}

/// A table's share of a run.
#[derive(Serialize)]
struct TableInfo {
    name: &'static str,
    rows: u64,
    bytes: u64,
    parts: usize,
}

impl<'a> Info<'a> {
    fn new(run: &'a OpenedRun) -> Self {
        let manifest = run.manifest();
        let tables: Vec<_> = stored::ALL.iter().map(|table| TableInfo::new(run, table)).collect();
        let processes = manifest.processes.iter();
        Self {
            path: run.name().to_string_lossy().into_owned(),
            is_pack: run.is_pack(),
            format: run.format().map(Format::as_str),
            storage: match run.format() {
                Some(format) => format.title(),
                None if run.is_pack() => "one file",
                None => "a folder",
            },
            writer: &manifest.writer,
            schema_version: manifest.schema_version,
            start_unix_nanos: processes.clone().map(|process| process.start_unix_nanos).min(),
            end_unix_nanos: processes.map(|process| process.end_unix_nanos).max(),
            world_size: manifest.world_size,
            processes: &manifest.processes,
            threads: runs::row_count(run, &stored::THREADS),
            events: runs::event_count(run),
            bytes: tables.iter().map(|table| table.bytes).sum(),
            losses: &manifest.losses,
            torn_bytes: manifest.spools.iter().map(|spool| spool.torn_bytes).sum(),
            tables,
        }
    }

    fn write(&self, out: &mut impl Write, paint: Paint) -> io::Result<()> {
        let heading = paint.with(Style::Bold, printable(&self.path));
        writeln!(
            out,
            "{heading}: a run, {}, schema version {}",
            self.storage, self.schema_version
        )?;
        let mut line = |label: &str, text: &str| {
            if text.is_empty() {
                return Ok(());
            }
            let label = paint.with(Style::Dim, format!("{label:LABEL_WIDTH$}"));
            writeln!(out, "  {label} {}", printable(text))
        };
        line("command", &self.commands())?;
        line("recorded", &self.recording_time())?;
        line("hosts", &join_names(self.processes.iter().map(|process| &*process.host)))?;
        line("processes", &self.describe_processes())?;
        line("threads", &Grouped(self.threads.into()).to_string())?;
        line("events", &Grouped(self.events.into()).to_string())?;
        line("overhead", &self.overhead())?;
        line("size", &self.size())?;
        line("written by", self.writer)?;
        self.write_tables(out, paint)
    }

    /// Returns the first command line, and the number of others.
    fn commands(&self) -> String {
        let commands: BTreeSet<&[String]> =
            self.processes.iter().map(|process| &*process.argv).collect();
        let first =
            self.processes.first().map_or_else(String::new, |process| process.argv.join(" "));
        match commands.len() {
            0 | 1 => truncate(&first, MAX_COMMAND_CHARS).into_owned(),
            several => {
                format!("{}, and {} others", truncate(&first, MAX_COMMAND_CHARS), several - 1)
            }
        }
    }

    fn recording_time(&self) -> String {
        let (Some(start), Some(end)) = (self.start_unix_nanos, self.end_unix_nanos) else {
            return "nothing".into();
        };
        if (start, end) == (0, 0) {
            return String::new(); // a file without times
        }
        let whole_secs = start - start.rem_euclid(1_000_000_000);
        let start_time = timestamp_ns_to_datetime(whole_secs);
        let start_time = start_time
            .map_or_else(|| format!("{start} ns"), |start_time| format!("{start_time} UTC"));
        format!("{start_time}, for {}", Nanos(end.saturating_sub(start) as f64))
    }

    fn describe_processes(&self) -> String {
        let count = Grouped(self.processes.len() as i128);
        let ranks: BTreeSet<u32> =
            self.processes.iter().filter_map(|process| process.rank).collect();
        let ranks = match (ranks.len(), ranks.first(), ranks.last()) {
            (1, Some(rank), _) => format!(", rank {rank}"),
            (several, Some(first), Some(last)) => {
                format!(", {several} ranks from {first} to {last}")
            }
            _ => String::new(),
        };
        let world = self.world_size.map(|size| format!(" of a world of {size}"));
        format!("{count}{ranks}{}", world.unwrap_or_default())
    }

    /// Describes the overhead of all processes that state it, as a share of their recorded time.
    fn overhead(&self) -> String {
        let overheads = self.processes.iter().filter_map(|process| {
            let recorded_nanos = process.end_unix_nanos.saturating_sub(process.start_unix_nanos);
            process.overhead.map(|overhead| (overhead, recorded_nanos))
        });
        let sum = |nanos: fn(&(OverheadEntry, i64)) -> f64| {
            overheads.clone().map(|overhead| nanos(&overhead)).sum::<f64>()
        };
        let processes = overheads.clone().count();
        if processes == 0 {
            return String::new();
        }
        let recording_nanos = sum(|(overhead, _)| overhead.recording_nanos as f64);
        let recorded_nanos = sum(|(_, nanos)| *nanos as f64);
        let longest_nanos = overheads.clone().map(|(_, nanos)| nanos).max().unwrap_or(0) as f64;
        let max_nanos = self.threads.max(1) as f64 * longest_nanos;
        let scope_nanos = sum(|(overhead, _)| overhead.scope_nanos) / processes as f64;
        let estimate = format!("{} a scope, {} in all", Nanos(scope_nanos), Nanos(recording_nanos));
        let estimate = match 100.0 * recording_nanos / recorded_nanos {
            _ if 0.0 < max_nanos && max_nanos < recording_nanos => {
                format!("unknown (the estimate, {estimate}, exceeds the time of all threads)")
            }
            percent if percent.is_finite() => {
                format!("{estimate} ({percent:.1} % of the recording)")
            }
            _ => estimate,
        };
        format!(
            "{estimate}, {} writing",
            Nanos(sum(|(overhead, _)| overhead.flushing_nanos as f64))
        )
    }

    fn size(&self) -> String {
        let size = Size(self.bytes);
        match self.events {
            0 => size.to_string(),
            events => format!("{size}, {:.1} bytes an event", self.bytes as f64 / events as f64),
        }
    }

    fn write_tables(&self, out: &mut impl Write, paint: Paint) -> io::Result<()> {
        let heading = format!("  {:16} {:>14} {:>10}", "table", "rows", "size");
        writeln!(out, "{}", paint.with(Style::Dim, heading))?;
        for table in self.tables.iter().filter(|table| table.rows > 0) {
            let rows = Grouped(table.rows.into()).to_string();
            let size = Size(table.bytes).to_string();
            writeln!(out, "  {:16} {rows:>14} {size:>10}", table.name)?;
        }
        Ok(())
    }
}

impl TableInfo {
    fn new(run: &Run, table: &'static Table) -> Self {
        let parts = run.parts(table);
        let bytes = parts.iter().map(marey_store::Part::len_bytes).sum();
        Self { name: table.name, rows: runs::row_count(run, table), bytes, parts: parts.len() }
    }
}

/// Warns of incomplete processes and losses.
fn warn(info: &Info<'_>, run: &Run, output: &mut Output) -> Result<(), CommandError> {
    if !info.is_pack && marey_store::is_recording(run.path()).map_err(Failure::from)? {
        output.note("the run is still being recorded; later events are not included")?;
    } else {
        let incomplete = info.processes.iter().filter(|process| !process.is_complete).count();
        if incomplete > 0 {
            let total = Grouped(info.processes.len() as i128);
            output
                .warning(format_args!("{incomplete} of {total} processes did not end properly"))?;
        }
    }
    for (cause, count) in info.losses.iter().filter(|(_, count)| **count > 0) {
        output.warning(describe_loss(cause, *count))?;
    }
    if info.torn_bytes > 0 {
        let torn = Size(info.torn_bytes);
        output.warning(format_args!("could not read {torn} at the ends of spools"))?;
    }
    Ok(())
}

/// Joins the distinct names, or the first few of them.
fn join_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const MAX_LISTED: usize = 3;
    let names: BTreeSet<&str> = names.collect();
    let listed: Vec<_> = names.iter().take(MAX_LISTED).copied().collect();
    match names.len().saturating_sub(MAX_LISTED) {
        0 => listed.join(", "),
        more => format!("{} and {more} others", listed.join(", ")),
    }
}
