//! `marey attach` and `marey detach`: start and end a recording in a running process, by a call of
//! the Python package that `marey-inject` makes there.

use std::fs;
use std::path::{self, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum, ValueHint};
use marey_attach::{ReadOptions, Target, Thread};
use marey_inject::{CallProgress, InjectError, Injection, RemoteCall, StoppedTime, python_literal};

use crate::interrupt;
use crate::output::{CommandError, Failure, Output};
use crate::text::printable;

const ATTACH_EXAMPLES: &str = "\
Examples:
  marey attach 4242                        Record a trace into process-4242.marey
  marey attach 4242 -o slow.marey --operators
  marey detach 4242                        End it
  marey analyze process-4242.marey

The process need not know marey. Its modules of PyTorch, optimizer steps, GPU activities and scopes are
recorded from now on; `marey record` samples any Python. It is stopped for a moment, which is printed, and
imports marey between two instructions of its main thread (with CPython 3.12 and 3.13, of any thread). Without
detach, the recording ends with the process. That needs the rights to debug it (the same user, or root).
CPython 3.10 to 3.14.";

const DETACH_EXAMPLES: &str = "\
Examples:
  marey detach 4242

The files are written, hooks removed and threads ended. The loaded libraries stay in the process.";

/// The time without an answer after which the reason for the delay is printed.
const DELAY_NOTE_AFTER: Duration = Duration::from_secs(1);
/// The time between two checks for Ctrl-C.
const INTERRUPT_CHECK_PERIOD: Duration = Duration::from_millis(100);
/// The library of the Python package that is loaded in this process if Python runs this command.
const ENGINE: &str = "/_engine.abi3.so";
/// A Python program that prints the folder of the package, without an import of it.
const FIND_PACKAGE: &str =
    "import importlib.util as u; print(u.find_spec('marey').submodule_search_locations[0], end='')";

/// Arguments of `marey attach`.
#[derive(Args)]
#[command(after_help = ATTACH_EXAMPLES, args_override_self = true)]
pub(crate) struct AttachArgs {
    /// Process to record
    #[arg(value_name = "PID")]
    pid: u32,

    /// Run or profile to write [default: process-PID in the process's working directory]
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    output: Option<PathBuf>,

    /// Data to record: every event with its time, or sums by path
    #[arg(short, long, value_enum, default_value_t = Data::Trace)]
    data: Data,

    /// Paths consist of scopes, or of Python frames
    #[arg(short, long, value_enum, default_value_t = ContextSource::Shadow)]
    context: ContextSource,

    /// Record PyTorch's operators below modules
    #[arg(long)]
    operators: bool,

    /// Record memory at each module and step
    #[arg(long)]
    memory: bool,

    /// Seconds to wait for the process
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u32,
}

/// Arguments of `marey detach`.
#[derive(Args)]
#[command(after_help = DETACH_EXAMPLES, args_override_self = true)]
pub(crate) struct DetachArgs {
    /// Process that is recorded
    #[arg(value_name = "PID")]
    pid: u32,

    /// Seconds to wait for the process
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u32,
}

/// Values of `--data`.
#[derive(Clone, Copy, ValueEnum)]
enum Data {
    Trace,
    Tree,
}

/// Values of `--context`.
#[derive(Clone, Copy, ValueEnum)]
enum ContextSource {
    Shadow,
    Python,
}

impl From<InjectError> for Failure {
    fn from(error: InjectError) -> Self {
        Self { message: error.to_string(), hint: error.hint() }
    }
}

/// Runs `marey attach`.
pub(crate) fn attach(args: &AttachArgs, output: &mut Output) -> Result<(), CommandError> {
    let pid = args.pid;
    let (data, suffix) = match args.data {
        Data::Trace => ("trace", "marey"),
        Data::Tree => ("tree", "hatchet"),
    };
    let context = match args.context {
        ContextSource::Shadow => "shadow",
        ContextSource::Python => "python",
    };
    let path = args.output.as_deref().map(|path| profile_path(pid, path, suffix)).transpose()?;
    let boolean = |value| if value { "True" } else { "False" }.to_owned();
    let arguments = [
        ("output", path.map_or_else(|| "None".to_owned(), |path| python_literal(&path))),
        ("data", python_literal(data)),
        ("context", python_literal(context)),
        ("operators", boolean(args.operators)),
        ("memory", boolean(args.memory)),
    ];
    let (answer, stopped) = call_in_process(pid, "attach", &arguments, args.timeout, output)?;
    let [outcome, path, details @ ..] = answer.as_slice() else {
        return Err(unknown_answer(pid).into());
    };
    if outcome != "recording" {
        return Err(refusal(pid, outcome, path).into());
    }
    let path = path_from_here(pid, path);
    output
        .note(format_args!("process {pid} records into {path}; end it with: marey detach {pid}"))?;
    output.note(format_args!(
        "it was stopped for {:.2} ms, its waiting threads for {:.2} ms",
        stopped.running.as_secs_f64() * 1e3,
        stopped.any.as_secs_f64() * 1e3
    ))?;
    if details.is_empty() {
        output.note(format_args!(
            "it has not imported PyTorch, so only its scopes and GPU activities are recorded; to sample \
             its Python code: marey record -p {pid}"
        ))?;
    }
    Ok(())
}

/// Runs `marey detach`.
pub(crate) fn detach(args: &DetachArgs, output: &mut Output) -> Result<(), CommandError> {
    let pid = args.pid;
    let (answer, _) = call_in_process(pid, "detach", &[], args.timeout, output)?;
    let [outcome, paths @ ..] = answer.as_slice() else { return Err(unknown_answer(pid).into()) };
    if outcome != "ended" {
        let reason = paths.first().map_or("", String::as_str);
        return Err(refusal(pid, outcome, reason).into());
    }
    for path in paths {
        let is_run = Path::new(path).extension().is_some_and(|suffix| suffix == "marey");
        let (path, verb) = (path_from_here(pid, path), if is_run { "analyze" } else { "view" });
        output.note(format_args!("wrote {path}"))?;
        output.note(format_args!("see it with: marey {verb} {path}"))?;
    }
    Ok(())
}

/// Calls a function in the process. Returns its answer, and the time for which the process was
/// stopped.
fn call_in_process(
    pid: u32,
    function: &str,
    arguments: &[(&str, String)],
    timeout_secs: u32,
    output: &mut Output,
) -> Result<(Vec<String>, StoppedTime), CommandError> {
    let package_folder = package_folder()?;
    let version = env!("CARGO_PKG_VERSION");
    let remote_call = RemoteCall { package: &package_folder, version, function, arguments };
    let interrupt = interrupt::stop_on_interrupt()?;
    let start = Instant::now();
    let mut injection = Injection::begin(pid, remote_call).map_err(Failure::from)?;
    let stopped = injection.stopped_time();
    let progress = wait(&mut injection, start + DELAY_NOTE_AFTER, &interrupt)?;
    if let CallProgress::Answered(answer) = progress {
        return Ok((answer, stopped));
    }
    output
        .note(format_args!("{}; waiting for it, Ctrl-C gives up", delay_reason(pid, &progress)))?;
    match wait(&mut injection, start + Duration::from_secs(timeout_secs.into()), &interrupt)? {
        CallProgress::Answered(answer) => Ok((answer, stopped)),
        progress => Err(Failure {
            message: format!("{}, for {timeout_secs} s", delay_reason(pid, &progress)),
            hint: Some(format!("`marey dump {pid}` shows all threads; --timeout waits longer")),
        }
        .into()),
    }
}

/// Waits for the answer, until the deadline.
fn wait(
    injection: &mut Injection,
    deadline: Instant,
    interrupt: &Receiver<()>,
) -> Result<CallProgress, CommandError> {
    loop {
        let progress = injection.wait(INTERRUPT_CHECK_PERIOD).map_err(Failure::from)?;
        if matches!(progress, CallProgress::Answered(_)) || Instant::now() >= deadline {
            return Ok(progress);
        }
        if interrupt.try_recv().is_ok() {
            return Err(CommandError::Interrupted);
        }
    }
}

/// Returns the reason why the process has not answered yet.
fn delay_reason(pid: u32, progress: &CallProgress) -> String {
    if *progress == CallProgress::Running {
        return format!("process {pid} has begun, and has not answered");
    }
    let target = Target::open(pid, ReadOptions { reads_waits: true, ..ReadOptions::default() });
    let snapshot = target.and_then(|mut target| target.snapshot());
    let main_thread = snapshot.ok().and_then(|snapshot| {
        snapshot.threads.into_iter().find(|thread| thread.os_id == Some(pid.into()))
    });
    let activity =
        main_thread.map_or_else(String::new, |thread| format!(": {}", activity(&thread)));
    format!("the main thread of process {pid} has reached no Python instruction{activity}")
}

/// Returns a text that tells what a thread does and where.
fn activity(thread: &Thread) -> String {
    let activity = match &thread.wait {
        Some(wait) => format!("it {wait}"),
        None => "it is in C code".to_owned(),
    };
    let place = thread.frames.first().map_or_else(String::new, |frame| {
        format!(", called by {} ({}:{})", frame.function, frame.file, frame.line)
    });
    printable(&format!("{activity}{place}")).into_owned()
}

/// Returns the path of a profile without its suffix, as the process sees it.
fn profile_path(pid: u32, path: &Path, suffix: &str) -> Result<String, Failure> {
    let absolute_path = if marey_inject::is_same_file_system(pid) {
        path::absolute(path)
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?
    } else if path.is_absolute() {
        path.to_owned()
    } else {
        return Err(Failure::new(format!(
            "process {pid} is in another container: -o must be an absolute path inside of it"
        )));
    };
    let has_suffix = absolute_path.extension().is_some_and(|extension| extension == suffix);
    let stem = if has_suffix { absolute_path.with_extension("") } else { absolute_path };
    let stem = stem.into_os_string().into_string();
    stem.map_err(|path| Failure::new(format!("{} is not UTF-8", path.display())))
}

/// Returns the path by which a file of the process can be opened here.
fn path_from_here(pid: u32, path: &str) -> String {
    let outer =
        if marey_inject::is_same_file_system(pid) { "" } else { &format!("/proc/{pid}/root") };
    printable(&format!("{outer}{path}")).into_owned()
}

fn refusal(pid: u32, outcome: &str, reason: &str) -> Failure {
    let reason = printable(reason);
    let message = match outcome {
        "refused" => format!("process {pid} was left as it is: {reason}"),
        _ => format!("marey failed in process {pid}: {reason}"),
    };
    Failure::new(message)
}

fn unknown_answer(pid: u32) -> Failure {
    refusal(pid, "failed", "its answer has an unknown form")
}

/// Returns the folder of the Python package.
fn package_folder() -> Result<PathBuf, Failure> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let engine_line = maps.lines().find(|line| line.ends_with(ENGINE));
    if let Some(folder) = engine_line.and_then(|line| line.find('/').map(|start| &line[start..])) {
        return Ok(PathBuf::from(folder.trim_end_matches(ENGINE)));
    }
    let mut python = Command::new("python3");
    let python_output = python.args(["-c", FIND_PACKAGE]).stdin(Stdio::null()).output();
    let folder = python_output.ok().filter(|python_output| python_output.status.success());
    let folder = folder.and_then(|python_output| String::from_utf8(python_output.stdout).ok());
    folder.map(PathBuf::from).ok_or_else(|| Failure {
        message: "python3 has no module `marey`, which the process is to import".to_owned(),
        hint: Some("run `python3 -m pip install marey`".to_owned()),
    })
}
