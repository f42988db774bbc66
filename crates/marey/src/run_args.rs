//! The arguments of `marey run`, `marey doctor` and `marey profile`, for help and completions.
//!
//! The Python package parses these command lines, and this file only describes them. A test of the
//! package compares its options with this help.

use std::ffi::OsString;

use clap::{Args, Command, ValueHint};

const RUN_USAGE: &str = "\
marey run [OPTIONS] SCRIPT [ARGS]...
       marey run [OPTIONS] -m MODULE [ARGS]...
       marey run [OPTIONS] pytest [ARGS]...
       marey run [OPTIONS] -- COMMAND [ARGS]...";

const RUN_EXAMPLES: &str = "\
Examples:
  marey run train.py --epochs 3           Write train.hatchet
  marey run -n baseline train.py          Write baseline.hatchet
  marey run -d trace train.py             Write train.marey for `marey analyze`, and a Chrome trace
  marey run -o runs/ -c python train.py   Write runs/train.hatchet, by Python call stack
  marey run --operators train.py          Record PyTorch's operators below modules
  marey run --window 10:12 train.py       Trace, with torch.profiler in steps 10 to 12
  marey run --window 5m serve.py          Write a profile every five minutes
  marey run -d trace --memory train.py    Record memory at each module and step
  marey run --profile train.py            Write runs/train/profile.pt for `marey profile`
  marey run -m package.train              Like python -m package.train
  marey run pytest tests/test_step.py     Like python -m pytest tests/test_step.py
  marey run -- ./launch.sh                Profile each Python process that it starts
  marey run -i print-mem-spaces train.py  Show the memory accesses of its Triton kernels; no profile

A project sets its own defaults in pyproject.toml, for example `operators = true` in [tool.marey].
Arguments after the target belong to the target. Without options, `run` can be omitted. The output,
signals and exceptions of the program are unchanged; marey prints its own messages to stderr, in
lines that begin with \"marey: \".

The exit code is that of the program; 2 for bad usage, 126 or 127 if a command cannot be started.";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  marey doctor
  marey doctor --json | jq -r '.checks[] | select(.state != \"ok\") | .mend'

Each line is \"ok\", \"missing\" (optional, and not found) or \"broken\" (found, but does not work),
with a command that fixes it.

The exit code is 1 if a line is \"broken\", 2 for bad usage, else 0.";

const PROFILE_USAGE: &str = "\
marey profile analyze PROFILE [--format txt|html|json] [-o FILE]
       marey profile view PROFILE [--listen [ADDRESS][:PORT]] [--port PORT]
                          [--tls-cert FILE --tls-key FILE] [--insecure]
       marey profile compare PROFILE PROFILE [-o FILE]
       marey profile export PROFILE --format FORMAT -o FILE";

const PROFILE_EXAMPLES: &str = "\
Examples:
  marey profile analyze my_profile.pt
  marey profile analyze my_profile.pt --format json -o report.json
  marey profile view my_profile.pt --port 8080
  marey profile view my_profile.pt --listen 0.0.0.0:8051 --tls-cert cert.pem --tls-key key.pem
  marey profile compare baseline.pt optimized.pt
  marey profile export my_profile.pt --format chrome-trace -o trace.json

A profile is a file that marey.training.TrainingProfiler or `marey run --profile` has written, a run,
or a file of any format that marey reads.

The exit code is 0, or 2 for bad usage or a file that cannot be read or written.";

/// Arguments of `marey run`.
#[derive(Args)]
#[command(override_usage = RUN_USAGE, after_help = RUN_EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command")]
pub(crate) struct RunArgs {
    /// Name of the profile [default: name of the target]
    #[arg(short, long)]
    name: Option<String>,

    /// File to write, or a directory for it
    #[arg(
        short,
        long,
        value_name = "PATH",
        value_hint = ValueHint::AnyPath,
        help = "File to write, ending in .hatchet, .hatchet_msgpack or (-d trace) .chrome_trace or .marey, \
                or a directory for it"
    )]
    output: Option<String>,

    /// Source of GPU records [default: the one available]
    #[arg(short, long)]
    backend: Option<String>,

    /// Context of records: the scopes, or the Python call stack
    #[arg(short, long, default_value = "shadow", value_parser = ["shadow", "python"])]
    context: String,

    /// Record sums by context, each event with its time, or only the last such events
    #[arg(short, long, default_value = "tree", value_parser = ["tree", "trace", "ring"])]
    data: String,

    /// Number of events that a ring keeps [default: 10000]
    #[arg(long, value_name = "N")]
    ring_records: Option<u64>,

    /// Seconds that a ring keeps, instead of a number of events
    #[arg(long, value_name = "S")]
    ring_seconds: Option<f64>,

    /// Launch hook, for example `triton`
    #[arg(short = 'k', long)]
    hook: Option<String>,

    /// Print the memory accesses of Triton kernels at the end, instead of a profile
    #[arg(short, long, value_parser = ["print-mem-spaces"])]
    instrument: Option<String>,

    /// Mode of the backend, for example `periodic_flushing`
    #[arg(long)]
    mode: Option<String>,

    /// Record each PyTorch operator too, below its module
    #[arg(long)]
    operators: bool,

    /// Performance events to count in each scope, with commas between them, such as `cycles,cache_misses`
    #[arg(long, value_name = "NAMES")]
    performance_events: Option<String>,

    /// Operators whose shapes, FLOP and bytes are recorded: those of one step in a hundred, all, or
    /// none
    #[arg(long, value_parser = ["sampled", "all", "off"], default_value = "sampled")]
    shapes: String,

    /// A profile for each span of time such as `5m`; or trace, and run torch.profiler too in steps
    /// `10:12`, or in one step after `file:PATH`, `SIGUSR2` or `slow:1.5x`
    #[arg(long, value_name = "WHEN")]
    window: Option<String>,

    /// Windows of time to keep, by number `12`, age `24h` or size `2GB` [default: all]
    #[arg(long, value_name = "LIMIT")]
    keep: Option<String>,

    /// Print a line when a window of time differs from those before, such as `step_time.p99>+20%`;
    /// several with commas between them
    #[arg(long, value_name = "CONDITION")]
    alert: Option<String>,

    /// Measure what recording costs, against training steps without it
    #[arg(long)]
    overhead: bool,

    /// Record less while a training step takes longer than this because of it, for example `2%`
    #[arg(long, value_name = "PERCENT")]
    overhead_target: Option<String>,

    /// Record memory too, at each module and step
    #[arg(long)]
    memory: bool,

    /// Trace, with memory, into a training profile for `marey profile`
    #[arg(long)]
    profile: bool,

    /// File of the training profile [default: runs/NAME/profile.pt]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    profile_output: Option<String>,

    /// Do not hook PyTorch modules and optimizers
    #[arg(long)]
    no_torch: bool,

    /// Profile this process only
    #[arg(long)]
    no_children: bool,

    /// Run a module, like python -m
    #[arg(short, value_name = "MODULE")]
    module: Option<String>,

    /// The arguments after the subcommand, which the Python package parses
    #[arg(hide = true)]
    pub(crate) line: Vec<OsString>,
}

/// Arguments of `marey doctor`.
#[derive(Args)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Print JSON with stable keys
    #[arg(long)]
    json: bool,

    /// The arguments after the subcommand, which the Python package parses
    #[arg(hide = true)]
    pub(crate) line: Vec<OsString>,
}

/// Arguments of `marey profile`.
#[derive(Args)]
#[command(override_usage = PROFILE_USAGE, after_help = PROFILE_EXAMPLES)]
pub(crate) struct ProfileArgs {
    /// Format of the report of `analyze` [default: txt], or of the file of `export`: chrome-trace,
    /// csv, tensorboard or json
    #[arg(long)]
    format: Option<String>,

    /// File to write, instead of standard output; `export` needs it
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<String>,

    /// Address of the page of `view`; one that other machines reach needs `--tls-cert` or `--insecure` [default:
    /// 127.0.0.1, which this machine alone reaches]
    #[arg(long, value_name = "[ADDRESS][:PORT]")]
    listen: Option<String>,

    /// Port of the page, if `--listen` has none [default: 8051]
    #[arg(long)]
    port: Option<String>,

    /// Certificate of this machine and its chain (PEM), by which the page is encrypted
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    tls_cert: Option<String>,

    /// Key of the certificate (PEM)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    tls_key: Option<String>,

    /// Send the page unencrypted to other machines too
    #[arg(long)]
    insecure: bool,

    /// The arguments after the subcommand, which the Python package parses
    #[arg(hide = true)]
    pub(crate) line: Vec<OsString>,
}

/// Whether the words after `run`, `doctor` or `profile` ask for marey's help, not for the target's.
pub(crate) fn requests_help(words: &[OsString]) -> bool {
    let options = RunArgs::augment_args(Command::new("run"));
    let mut words = words.iter().map(|word| word.to_string_lossy());
    while let Some(word) = words.next() {
        match &*word {
            "-h" | "--help" => return true,
            "-m" | "--" => return false,
            option if option.starts_with('-') => {
                if takes_next_word(&options, option) {
                    words.next();
                }
            }
            _target => return false,
        }
    }
    false
}

/// Whether the word after an option of `run` is the option's value.
fn takes_next_word(options: &Command, word: &str) -> bool {
    let matches_word = |option: &clap::Arg| {
        let is_long = word.strip_prefix("--").is_some_and(|name| option.get_long() == Some(name));
        let short = option.get_short().map(|letter| format!("-{letter}"));
        is_long || short.is_some_and(|short| short == word)
    };
    options.get_arguments().any(|option| matches_word(option) && option.get_action().takes_values())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_help_before_the_target_is_ours() {
        for (line, expected) in [
            ("--help", true),
            ("-h train.py", true),
            ("-n a --no-torch -h", true),
            ("--name=a --help", true),
            ("-na --help", true),
            ("-n --help train.py", false),
            ("train.py --help", false),
            ("-m package --help", false),
            ("-- ./launch.sh --help", false),
            ("--json --help", true),
            ("", false),
        ] {
            let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            assert_eq!(requests_help(&words), expected, "{line}");
        }
    }
}
