//! `marey record`: samples a running process into a run.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueHint};
use marey_attach::{ReadOptions, Sampler, Schedule, Target, Thread};
use marey_model::args::NewArgs;
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_store::row::Sample;
use marey_store::{Assembler, NewProcess, Sampled, StoreError};
use serde::Serialize;

use crate::interrupt;
use crate::new_run::{NewRun, Published};
use crate::output::{CommandError, Failure, Output, write_json};

const EXAMPLES: &str = "\
Examples:
  marey record -p 4242 -d 30                 Sample for 30 seconds into process-4242.marey
  marey record -p 4242 -r 1000 -o slow.marey Sample a thousand times a second, until Ctrl-C
  marey analyze slow.marey                   Where the time went
  marey export slow.marey -f speedscope -o slow.json

Only threads that run are sampled; --idle includes those that wait, for a process that hangs. The process
need not know marey, and is neither stopped nor changed. Samples that could not be taken are counted
and reported.";

/// Arguments of `marey record`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct RecordArgs {
    /// Process to sample
    #[arg(short, long)]
    pid: u32,

    /// Seconds to sample for [default: until Ctrl-C or the end of the process]
    #[arg(short, long, value_name = "SECONDS")]
    duration: Option<f64>,

    /// Samples per second
    #[arg(short, long, value_name = "HZ", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,

    /// Sample threads that wait too, and not only those that run
    #[arg(short, long)]
    idle: bool,

    /// Folder of the new run [default: process-PID.marey]
    #[arg(short, long, value_name = "RUN", value_hint = ValueHint::DirPath)]
    output: Option<PathBuf>,

    /// Replace an existing run
    #[arg(long)]
    force: bool,

    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `marey record`.
pub(crate) fn record(args: &RecordArgs, output: &mut Output) -> Result<(), CommandError> {
    let duration = args.duration.map(|duration| seconds("--duration", duration)).transpose()?;
    let default_path = || PathBuf::from(format!("process-{}.marey", args.pid));
    let path = args.output.clone().unwrap_or_else(default_path);
    let mut target = Target::open(args.pid, ReadOptions::default()).map_err(Failure::from)?;
    target.python_threads().map_err(Failure::from)?;
    let mut sampler = Sampler::new(&target, args.idle).map_err(Failure::from)?;
    let run = NewRun::create(&path, args.force)?;
    let interrupt = interrupt::stop_on_interrupt()?;
    if duration.is_none() {
        output.note(format_args!("sampling process {}; Ctrl-C ends it", args.pid))?;
    }
    let store_failure = |error: StoreError| CommandError::from(Failure::from(error));
    fs::create_dir(run.folder())?;
    let mut recording = Recording::begin(&run, args);
    let counts =
        sample(&mut sampler, args, duration, &interrupt, &mut recording).map_err(store_failure)?;
    recording.finish(&counts).map_err(store_failure)?;
    let published = run.publish()?;
    report(&counts, &published, args, output)
}

/// Returns the value of an option that is a positive number of seconds.
pub(crate) fn seconds(option: &str, seconds: f64) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero()).ok_or_else(
        || Failure::new(format!("{option} {seconds} is not a positive number of seconds")),
    )
}

/// Counts of samples. Each sample reads all threads.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct SampleCounts {
    /// Number of samples.
    samples: u64,
    /// Number of samples that failed, because the process changed meanwhile.
    failed: u64,
    /// Number of times at which no sample began, because the previous one was not finished.
    skipped: u64,
    /// Seconds from the first to the last sample.
    seconds: f64,
}

impl SampleCounts {
    fn rate_hz(&self) -> f64 {
        if self.seconds > 0.0 { self.samples as f64 / self.seconds } else { 0.0 }
    }
}

/// Samples until the time is over, the process ends, or the user stops it.
fn sample(
    sampler: &mut Sampler,
    args: &RecordArgs,
    duration: Option<Duration>,
    interrupt: &Receiver<()>,
    recording: &mut Recording,
) -> Result<SampleCounts, StoreError> {
    let mut counts = SampleCounts::default();
    let (start, mut schedule) = (Instant::now(), Schedule::begin(args.rate, duration));
    let mut last_sample = start;
    loop {
        let tick = schedule.next(Instant::now());
        counts.skipped += tick.skipped;
        let is_stopped = interrupt.recv_timeout(tick.wait) != Err(RecvTimeoutError::Timeout);
        if is_stopped || tick.is_end {
            break;
        }
        let now = Instant::now();
        match sampler.sample() {
            Ok(threads) => {
                let elapsed_nanos = now.saturating_duration_since(last_sample).as_nanos() as i64;
                recording.add(&threads, elapsed_nanos)?;
                counts.samples += 1;
                last_sample = now;
            }
            Err(_) if !marey_attach::is_alive(args.pid) => break,
            Err(_) => counts.failed += 1,
        }
    }
    counts.seconds = last_sample.saturating_duration_since(start).as_secs_f64();
    Ok(counts)
}

/// A run to which samples are added.
struct Recording {
    run: Assembler,
    process_id: u32,
    name_id: u32,
    /// Threads of the run by their ids in the operating system and in Python. Neither id alone is
    /// enough: the first may be unknown, and Python gives the second of an ended thread to a new
    /// one.
    thread_ids: HashMap<(Option<u64>, u64), u32>,
}

impl Recording {
    fn begin(run: &NewRun, args: &RecordArgs) -> Self {
        let mut run = Assembler::new(&run.folder());
        let process_id = run.add_process(NewProcess {
            pid: args.pid.into(),
            argv: marey_attach::command_line(args.pid),
            is_complete: true,
            ..NewProcess::default()
        });
        let name_id = run.text_id("time (ns)");
        run.show_samples(Sampled { nanos_name_id: Some(name_id), ..Sampled::default() });
        Self { run, process_id, name_id, thread_ids: HashMap::new() }
    }

    /// Adds a sample of each thread, with the time since the previous sample.
    fn add(&mut self, threads: &[Thread], elapsed_nanos: i64) -> Result<(), StoreError> {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for thread in threads {
            let mut context_id = Assembler::ROOT;
            for frame in thread.frames.iter().rev() {
                let name = format!("{}:{}@{}", frame.file, frame.line, frame.function);
                let name_id = self.run.text_id(&name);
                context_id = self.run.context_id(context_id, NodeKind::Frame, name_id);
            }
            let thread_id = self.thread_id(thread);
            let args = self.run.args(&mut NewArgs::default())?;
            self.run.add_sample(&Sample {
                process_id: self.process_id,
                thread_id: Some(thread_id),
                context_id,
                name_id: self.name_id,
                time_nanos: Some(since_1970.as_nanos() as i64),
                value: MetricValue::Int(elapsed_nanos),
                args,
            })?;
        }
        Ok(())
    }

    fn thread_id(&mut self, thread: &Thread) -> u32 {
        let Self { run, process_id, thread_ids, .. } = self;
        *thread_ids.entry((thread.os_id, thread.ident)).or_insert_with(|| {
            let os_id = thread.os_id.map_or(-1, u64::cast_signed);
            run.add_thread(*process_id, os_id, &thread.name)
        })
    }

    fn finish(mut self, counts: &SampleCounts) -> Result<(), StoreError> {
        self.run.lose(self.process_id, LossCause::Samples, counts.failed + counts.skipped);
        self.run.finish(None).map(drop)
    }
}

/// Reports the number of samples, and their rate.
fn report(
    counts: &SampleCounts,
    published: &Published,
    args: &RecordArgs,
    output: &mut Output,
) -> Result<(), CommandError> {
    output.note(published.describe())?;
    if published.events == 0 {
        output
            .warning("no thread ran Python code at any sample; --idle samples those that wait")?;
    }
    output.note(format_args!(
        "{} samples in {:.1} s, {:.0} per second of {} asked for; {} failed, {} were skipped",
        counts.samples,
        counts.seconds,
        counts.rate_hz(),
        args.rate,
        counts.failed,
        counts.skipped
    ))?;
    if args.json {
        let run = published.path.to_string_lossy();
        let report = RecordReport { run: &run, rate_hz: counts.rate_hz(), counts: *counts };
        write_json(output.data(), &report)?;
    }
    Ok(())
}

/// The result for `--json`.
#[derive(Serialize)]
struct RecordReport<'a> {
    run: &'a str,
    rate_hz: f64,
    #[serde(flatten)]
    counts: SampleCounts,
}
