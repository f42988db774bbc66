//! The arguments of `marey run` and `marey doctor`, for help and completions.
//!
//! The Python package reads the command lines of both, since it does the work: here they are only
//! described. A test of the package holds its options against this help.

use std::ffi::OsString;

use clap::{Args, Command, ValueHint};

const RUN_USAGE: &str = "\
marey run [OPTIONS] SCRIPT [ARGS]...
       marey run [OPTIONS] -m MODULE [ARGS]...
       marey run [OPTIONS] pytest [ARGS]...
       marey run [OPTIONS] -- COMMAND [ARGS]...";

const RUN_EXAMPLES: &str = "\
Examples:
  marey run train.py --epochs 3           Writes train.hatchet
  marey run -n baseline train.py          Writes baseline.hatchet
  marey run -d trace train.py             Writes train.marey for `marey analyze`, and a Chrome trace
  marey run -o runs/ -c python train.py   Writes runs/train.hatchet, by Python call stack
  marey run -m package.train              As python -m package.train
  marey run pytest tests/test_step.py     As python -m pytest tests/test_step.py
  marey run -- ./launch.sh                Profiles each Python process that it starts
  marey run -i print-mem-spaces train.py  Shows what its Triton kernels do to memory; no profile

What follows the target belongs to the target; without options, `marey train.py` does the same. The
program's output, signals and exceptions are those of the plain program; what marey has to say comes
on stderr, in lines that begin \"marey: \".

The exit code is the program's own; 2 for bad usage, 126 and 127 for a command that cannot be run.";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  marey doctor
  marey doctor --json | jq -r '.checks[] | select(.state != \"ok\") | .mend'

Each line is \"ok\", \"missing\" (marey does without) or \"broken\" (it is there and does not work),
with the command that mends it.

The exit code is 1 if a line is broken, 2 for bad usage, else 0.";

/// Arguments of `marey run`.
#[derive(Args)]
#[command(override_usage = RUN_USAGE, after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// Name of the profile [default: the target's]
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

    /// Source of GPU records [default: what is there]
    #[arg(short, long)]
    backend: Option<String>,

    /// What a record hangs on: the scopes, or the Python call stack
    #[arg(short, long, default_value = "shadow", value_parser = ["shadow", "python"])]
    context: String,

    /// Sums by context, or each event with its time
    #[arg(short, long, default_value = "tree", value_parser = ["tree", "trace"])]
    data: String,

    /// Launch hook, for example `triton`
    #[arg(short = 'k', long)]
    hook: Option<String>,

    /// No profile, but what Triton kernels do to which memory, at the end
    #[arg(short, long, value_parser = ["print-mem-spaces"])]
    instrument: Option<String>,

    /// Mode of the backend, for example `periodic_flushing`
    #[arg(long)]
    mode: Option<String>,

    /// Leave modules and optimizers alone
    #[arg(long)]
    no_torch: bool,

    /// Profile this process only
    #[arg(long)]
    no_children: bool,

    /// Run a module, as python -m does
    #[arg(short, value_name = "MODULE")]
    module: Option<String>,

    /// The command line after the verb, which the Python package reads
    #[arg(hide = true)]
    pub(crate) line: Vec<OsString>,
}

/// Arguments of `marey doctor`.
#[derive(Args)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// The same as data, with stable keys
    #[arg(long)]
    json: bool,

    /// The command line after the verb, which the Python package reads
    #[arg(hide = true)]
    pub(crate) line: Vec<OsString>,
}

/// Whether the words after `run` or `doctor` ask for help, and not the target's arguments.
pub(crate) fn asks_for_help(words: &[OsString]) -> bool {
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
    let is_meant = |option: &clap::Arg| {
        let is_long = word.strip_prefix("--").is_some_and(|name| option.get_long() == Some(name));
        let short = option.get_short().map(|letter| format!("-{letter}"));
        is_long || short.is_some_and(|short| short == word)
    };
    options.get_arguments().any(|option| is_meant(option) && option.get_action().takes_values())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_is_asked_for_before_the_target() {
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
            assert_eq!(asks_for_help(&words), expected, "{line}");
        }
    }
}
