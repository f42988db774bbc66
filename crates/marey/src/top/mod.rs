//! `marey top`: shows where a running process spends its time.
//!
//! [`sampler`] samples on a thread, [`profile`] sums the samples to rows, and [`screen`] shows
//! these on a terminal. Without a terminal they are printed once.

mod devices;
mod profile;
mod sampler;
mod screen;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use clap::Args;
use marey_attach::{ReadOptions, Target, Usage};
use marey_model::quantity::{Grouped, Size};
use serde::Serialize;

use self::devices::{DeviceLoad, Devices};
use self::profile::{Grouping, ProfileOrder, ProfileRow, SampledProfile};
use self::sampler::BackgroundSampler;
use self::screen::Screen;
use crate::aligned::{Align, TextLayout, write_rows};
use crate::export::{Export, TimeRange};
use crate::interrupt;
use crate::output::{CommandError, Failure, Output, Style, write_json};
use crate::record::seconds;
use crate::runs;
use crate::text::printable;

const EXAMPLES: &str = "\
Examples:
  marey top 4242                        Functions by their time, until q
  marey top 4242 --by lines             Lines of the program
  marey top 4242 --once -d 5            A table of five seconds
  marey top 4242 --json | jq '.rows[0]'

Keys: Tab functions, lines or threads; s order; / search; Space pause; r reset; f write a flame graph;
arrows scroll; q quit. Own is the time in a function itself, total that with what it calls; 100 % is one
thread that runs all the time. The process is neither stopped nor changed.";

/// The number of rows of a table that is printed once.
const PRINTED_ROWS: usize = 20;

/// Arguments of `marey top`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct TopArgs {
    /// Process to sample
    #[arg(value_name = "PID")]
    pid: u32,

    /// Rows to show
    #[arg(long, value_name = "PART", default_value = "functions")]
    by: Grouping,

    /// Order of the rows
    #[arg(short, long, value_name = "ORDER", default_value = "own")]
    sort: ProfileOrder,

    /// Samples per second
    #[arg(short, long, value_name = "HZ", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,

    /// Sample threads that wait too, and not only those that run
    #[arg(short, long)]
    idle: bool,

    /// Print a table after --duration; the default where stdout is not a terminal
    #[arg(long)]
    once: bool,

    /// Seconds to sample for before a table is printed
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1.0)]
    duration: f64,

    /// Print a JSON object after --duration
    #[arg(long)]
    json: bool,
}

/// Runs `marey top`.
pub(crate) fn top(args: &TopArgs, output: &mut Output) -> Result<(), CommandError> {
    let duration = seconds("--duration", args.duration)?;
    let mut target = Target::open(args.pid, ReadOptions::default()).map_err(Failure::from)?;
    target.python_threads().map_err(Failure::from)?;
    let python = target.python_version();
    let interrupt = interrupt::stop_on_interrupt()?;
    let sampler = marey_attach::Sampler::new(&target, args.idle).map_err(Failure::from)?;
    let is_interactive = output.is_terminal && !args.once && !args.json;
    let sampler_duration = (!is_interactive).then_some(duration);
    let sampler = BackgroundSampler::begin(sampler, args.rate, sampler_duration)?;
    if is_interactive {
        let flame_graph = PathBuf::from(format!("process-{}.svg", args.pid));
        let screen = Screen::new(&sampler, args, &python, &flame_graph);
        return screen.run(&interrupt);
    }
    let mut load_meter = LoadMeter::begin(args.pid);
    if interrupt.recv_timeout(duration) != Err(RecvTimeoutError::Timeout) {
        return Err(CommandError::Interrupted);
    }
    let load = load_meter.load();
    let profile = sampler.profile();
    let rows = profile.rows(args.by, args.sort, "");
    let report = TopReport::new(args.pid, &python, load, &profile, rows);
    if args.json {
        return Ok(write_json(output.data(), &report)?);
    }
    print_report(&report, &profile, args, output)
}

/// The resources that a process has used per second, and those that it has now.
#[derive(Clone, Debug, Default, Serialize)]
struct Load {
    /// Processor time, as a share of one processor.
    cpu: f64,
    resident_bytes: u64,
    threads: u64,
    read_bytes_per_sec: f64,
    written_bytes_per_sec: f64,
    received_bytes_per_sec: f64,
    sent_bytes_per_sec: f64,
    seconds: f64,
    devices: Vec<DeviceLoad>,
}

impl Load {
    /// Describes the processors, memory, threads and files of the process in a line.
    fn describe_process(&self) -> String {
        format!(
            "CPU {:.0} %, memory {}, {} threads, reads {}/s, writes {}/s",
            100.0 * self.cpu,
            Size(self.resident_bytes),
            self.threads,
            Size(self.read_bytes_per_sec as u64),
            Size(self.written_bytes_per_sec as u64)
        )
    }

    /// Describes the network and the GPUs in a line.
    fn describe_machine(&self) -> String {
        let network = format!(
            "Network receives {}/s, sends {}/s",
            Size(self.received_bytes_per_sec as u64),
            Size(self.sent_bytes_per_sec as u64)
        );
        let devices = self.devices.iter().map(DeviceLoad::describe);
        [network].into_iter().chain(devices).collect::<Vec<_>>().join("; ")
    }
}

/// Measures the resources that a process uses between two calls.
struct LoadMeter {
    pid: u32,
    last_time: Instant,
    last_usage: Usage,
    devices: Devices,
}

impl LoadMeter {
    fn begin(pid: u32) -> Self {
        let devices = Devices::open();
        let last_usage = Usage::of_process(pid).unwrap_or_default();
        Self { pid, last_time: Instant::now(), last_usage, devices }
    }

    /// Returns the resources that the process used since the last call.
    fn load(&mut self) -> Load {
        let now = Usage::of_process(self.pid).unwrap_or(self.last_usage);
        let seconds = self.last_time.elapsed().as_secs_f64();
        let per_sec = |now: u64, last: u64| now.saturating_sub(last) as f64 / seconds;
        let load = Load {
            cpu: now.cpu_time.saturating_sub(self.last_usage.cpu_time).as_secs_f64() / seconds,
            resident_bytes: now.resident_bytes,
            threads: now.threads,
            read_bytes_per_sec: per_sec(now.read_bytes, self.last_usage.read_bytes),
            written_bytes_per_sec: per_sec(now.written_bytes, self.last_usage.written_bytes),
            received_bytes_per_sec: per_sec(now.received_bytes, self.last_usage.received_bytes),
            sent_bytes_per_sec: per_sec(now.sent_bytes, self.last_usage.sent_bytes),
            seconds,
            devices: self.devices.read(self.pid),
        };
        (self.last_time, self.last_usage) = (Instant::now(), now);
        load
    }

    fn elapsed(&self) -> Duration {
        self.last_time.elapsed()
    }
}

/// The report that is printed once.
#[derive(Serialize)]
struct TopReport<'a> {
    pid: u32,
    argv: Vec<String>,
    python: &'a str,
    #[serde(flatten)]
    load: Load,
    samples: u64,
    failed: u64,
    skipped: u64,
    dropped: u64,
    rows: Vec<ProfileRow>,
}

impl<'a> TopReport<'a> {
    fn new(
        pid: u32,
        python: &'a str,
        load: Load,
        profile: &SampledProfile,
        rows: Vec<ProfileRow>,
    ) -> Self {
        let argv = marey_attach::command_line(pid);
        let SampledProfile { readings, failed, skipped, dropped, .. } = *profile;
        Self { pid, argv, python, load, samples: readings, failed, skipped, dropped, rows }
    }

    /// Describes the process and the machine in three lines.
    fn heading(&self) -> [String; 3] {
        let argv = self.argv.join(" ");
        let title = format!("Process {}: {}", self.pid, printable(&argv));
        let dropped = match self.dropped {
            0 => String::new(),
            dropped => format!(", {} of rare stacks dropped", Grouped(dropped.into())),
        };
        let facts = format!(
            "CPython {}, {} samples, {} failed, {} skipped{dropped}; {}",
            self.python,
            self.samples,
            self.failed,
            self.skipped,
            self.load.describe_process()
        );
        [title, facts, self.load.describe_machine()]
    }
}

fn print_report(
    report: &TopReport,
    profile: &SampledProfile,
    args: &TopArgs,
    output: &mut Output,
) -> Result<(), CommandError> {
    let paint = output.paint;
    let [title, facts, machine] = report.heading();
    writeln!(output.data(), "{}\n{facts}\n{machine}\n", paint.with(Style::Bold, title))?;
    let rows: Vec<Vec<String>> =
        report.rows.iter().take(PRINTED_ROWS).map(|row| cells(row, profile)).collect();
    let heading = ["own", "total", args.by.title(), ""].map(str::to_owned);
    let aligns = [Align::Right, Align::Right, Align::Left, Align::Left];
    let layout = TextLayout { paint, max_width: output.terminal_width() };
    write_rows(&heading, &rows, &aligns, layout, output.data())?;
    let left_out = report.rows.len().saturating_sub(PRINTED_ROWS);
    if left_out > 0 {
        output.note(format_args!("{left_out} more rows; --json prints all"))?;
    }
    if rows.is_empty() {
        output
            .warning("no thread ran Python code at any sample; --idle samples those that wait")?;
    }
    Ok(())
}

/// Returns the cells of a row.
fn cells(row: &ProfileRow, profile: &SampledProfile) -> Vec<String> {
    let percent = |samples| format!("{:.1} %", 100.0 * profile.share(samples));
    let text = |text: &str| printable(text).into_owned();
    vec![percent(row.own), percent(row.total), text(&row.name), text(&row.place)]
}

/// Writes the samples as a flame graph. Replaces an earlier file.
fn write_flame_graph(profile: &SampledProfile, path: &Path) -> Result<(), Failure> {
    let cannot_write =
        |error: io::Error| Failure::new(format!("the flame graph cannot be written: {error}"));
    let folder = tempfile::tempdir_in(marey_store::temp_dir()).map_err(cannot_write)?;
    let stacks = folder.path().join("stacks.folded");
    fs::write(&stacks, profile.collapsed()).map_err(cannot_write)?;
    let (run, _imported, _folder) = runs::import(&[stacks])?;
    let export = Export {
        run: &run,
        name: path,
        format: None,
        out: path,
        replaces_existing: true,
        time_range: TimeRange::Times { from: None, to: None },
        ranks: None,
    };
    export.write().map(drop)
}
