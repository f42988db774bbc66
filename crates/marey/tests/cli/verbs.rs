//! The subcommands, their help, and the start of Python.

use std::path::Path;
use std::process::Command;

use insta::assert_snapshot;

use crate::{DATA, marey, transcript, view};

const FAKE_PYTHONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python");

#[test]
fn help_lists_commands_and_examples() {
    assert_snapshot!(transcript(&mut marey("--help")), @r"
    exit code: 0
    --- stdout ---
    One profiler for AI workloads, from the Python line to the GPU kernel

    Usage: marey <COMMAND>

    Commands:
      run          Profile a Python program, a module or a command
      view         Show profiles as trees
      analyze      Say what takes the time of a run, what is wrong, and what to change
      compare      Show what two runs differ in, before and after
      check        Hold a run against another one, for CI
      query        Ask a run in SQL
      info         Show what a run is
      schema       Show what tables and columns runs have
      import       Make a run of files of other formats
      export       Write a run as a file of another format
      merge        Make one run of several
      pack         Make one file of a run
      collect      Make tables of what was recorded, now
      triton       Show what Triton made of kernels
      doctor       Say what can be recorded here, and what mends the rest
      completions  Print the completions of a shell
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Examples:
      marey run train.py --epochs 3         Profile a program; it behaves as without marey
      marey train.py --epochs 3             The same
      marey view train.hatchet              Show the profile as a tree
      marey view -d 3 -t 1% train.hatchet   Only three levels, and what takes at least 1 %
      marey info train.marey                What a run is, and what it lacks
      marey analyze train.marey             What takes its time, what is wrong, and what to change
      marey compare old.marey new.marey     What became faster and slower
      marey query train.marey               Ask a run in SQL
      marey info trace.json.gz              Files of other formats are taken as they are
      marey export train.marey -f perfetto -o train.pftrace

    `marey help COMMAND` or `marey COMMAND --help` has the options and examples of a command.

    Exit codes: 0 done, 2 bad usage or something that cannot be read or written, 130 interrupted.
    `run` has the program's own; `check` and `doctor` say more by theirs, see their help.
    --- stderr ---
    ");
    assert_eq!(transcript(&mut marey("help")), transcript(&mut marey("--help")));
    assert_eq!(transcript(&mut marey("")), transcript(&mut marey("--help")));
}

#[test]
fn help_of_run_and_doctor_needs_no_python() {
    assert_snapshot!(transcript(marey("run -n name --help").env("PATH", "")), @r#"
    exit code: 0
    --- stdout ---
    Profile a Python program, a module or a command

    Usage: marey run [OPTIONS] SCRIPT [ARGS]...
           marey run [OPTIONS] -m MODULE [ARGS]...
           marey run [OPTIONS] pytest [ARGS]...
           marey run [OPTIONS] -- COMMAND [ARGS]...

    Options:
      -n, --name <NAME>              Name of the profile [default: the target's]
      -o, --output <PATH>            File to write, ending in .hatchet, .hatchet_msgpack or (-d trace)
                                     .chrome_trace or .marey, or a directory for it
      -b, --backend <BACKEND>        Source of GPU records [default: what is there]
      -c, --context <CONTEXT>        What a record hangs on: the scopes, or the Python call stack
                                     [default: shadow] [possible values: shadow, python]
      -d, --data <DATA>              Sums by context, or each event with its time [default: tree]
                                     [possible values: tree, trace]
      -k, --hook <HOOK>              Launch hook, for example `triton`
      -i, --instrument <INSTRUMENT>  No profile, but what Triton kernels do to which memory, at the end
                                     [possible values: print-mem-spaces]
          --mode <MODE>              Mode of the backend, for example `periodic_flushing`
          --no-torch                 Leave modules and optimizers alone
          --no-children              Profile this process only
      -m <MODULE>                    Run a module, as python -m does
      -h, --help                     Print help

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
    on stderr, in lines that begin "marey: ".

    The exit code is the program's own; 2 for bad usage, 126 and 127 for a command that cannot be run.
    --- stderr ---
    "#);
    assert_snapshot!(transcript(marey("doctor --help").env("PATH", "")), @r#"
    exit code: 0
    --- stdout ---
    Say what can be recorded here, and what mends the rest

    Usage: marey doctor [OPTIONS]

    Options:
          --json  The same as data, with stable keys
      -h, --help  Print help

    Examples:
      marey doctor
      marey doctor --json | jq -r '.checks[] | select(.state != "ok") | .mend'

    Each line is "ok", "missing" (marey does without) or "broken" (it is there and does not work),
    with the command that mends it.

    The exit code is 1 if a line is broken, 2 for bad usage, else 0.
    --- stderr ---
    "#);
    assert_eq!(transcript(&mut marey("help run")), transcript(&mut marey("run --help")));
    assert_eq!(transcript(&mut marey("help doctor")), transcript(&mut marey("doctor -h")));
}

#[test]
fn each_command_has_a_description_and_examples() {
    let list = transcript(&mut marey("help"));
    let verbs = list.split_once("Commands:").unwrap().1.split_once("\n\n").unwrap().0;
    let verbs: Vec<_> = verbs.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(verbs.len() > 15, "{verbs:?}");
    for verb in verbs.into_iter().filter(|verb| *verb != "help") {
        let help = transcript(&mut marey(&format!("{verb} --help")));
        assert!(help.starts_with("exit code: 0\n"), "{help}");
        assert!(help.contains("\nExamples:\n  marey "), "{verb} has no examples");
        assert_eq!(help, transcript(&mut marey(&format!("help {verb}"))), "{verb}");
    }
}

#[test]
fn help_of_view() {
    assert_snapshot!(view("--help"), @r"
    exit code: 0
    --- stdout ---
    Show profiles as trees

    Usage: marey view [OPTIONS] [FILE]...

    Arguments:
      [FILE]...  Profiles to show, runs, or files of other formats; several stand side by side

    Options:
      -l, --list                 List the metrics of the file
      -m, --metrics <METRICS>    Metrics to show, separated by commas; the first one serves --threshold
                                 and --sort
      -i, --include <REGEX>      Show the nodes whose names match from their start, what is above and
                                 what is below them
      -e, --exclude <REGEX>      Leave out the nodes whose names match from their start, and what is
                                 below them
      -t, --threshold <VALUE>    Show the nodes that reach VALUE, such as `5000` or `1%` of the whole,
                                 and what is above them
      -d, --depth <N>            Levels to show; ROOT is the first [default: 100, or all as JSON and
                                 CSV]
      -f, --format <FORMAT>      What to show of names such as `/home/me/train.py:12@forward` [default:
                                 full] [possible values: full, file_function_line, function_line,
                                 file_function]
          --print-sorted         After the tree, list its nodes by the first metric
          --diff-profile <FILE>  Show what changed since the profile FILE; also spelled -diff
          --sort <ORDER>         Order of siblings [default: first-seen, or name as lines] [possible
                                 values: name, first-seen, value]
          --layout <LAYOUT>      Text for people or as proton-viewer has it [default: lines in a pipe
                                 with --metrics, else table] [possible values: table, lines]
          --json                 Print one JSON object a file, with every metric unless --metrics is
                                 given
          --csv                  Print CSV, with every metric unless --metrics is given
          --list-backends        List what `marey.start(backend=...)` takes and whether it can start
                                 here
      -h, --help                 Print help
      -V, --version              Print version

    Examples:
      marey view train.hatchet                             A table of what suits the file
      marey view --sort value -t 1% train.hatchet          What takes at least 1 %, the most first
      marey view -m total/ms,p99/us train.hatchet | less   Lines, as proton-viewer prints them
      marey view a.hatchet b.hatchet                       Side by side
      marey view train.marey                               A run, summed up; so is trace.json.gz
      marey view --diff-profile before.hatchet after.hatchet
      marey view --json train.hatchet | jq .               For programs

    Metrics of every file that marey wrote: total, self, calls, min, max, p50, p90, p99.
    Times are wall times of a scope with everything inside it; `self` is what no inner scope covers.
    Derived where the file has what they need: time/s (ms, us, ns), avg_time/s, cpu_time/s, flop/s,
    gflop16/s, tbyte/s and the like, util, and METRIC/% of any metric.
    --- stderr ---
    ");
}

#[test]
fn version() {
    assert_snapshot!(transcript(&mut marey("--version")), @r"
    exit code: 0
    --- stdout ---
    marey 0.1.0
    --- stderr ---
    ");
    assert_snapshot!(view("-V"), @r"
    exit code: 0
    --- stdout ---
    marey view 0.1.0
    --- stderr ---
    ");
}

#[test]
fn marey_viewer_is_an_alias_of_view() {
    let viewer = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_marey-viewer"));
        transcript(command.args(line.split_whitespace()).current_dir(DATA))
    };
    for line in [
        "-m time minimal.hatchet",
        "-m time -diff minimal.hatchet minimal.hatchet_msgpack",
        "-l x",
        "--help",
        "--version",
        "",
    ] {
        assert_eq!(viewer(line), view(line), "{line}");
    }
}

#[test]
fn bad_usage_exits_with_2() {
    assert_snapshot!(view("-t much minimal.hatchet"), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: invalid value 'much' for '--threshold <VALUE>': not a number or percentage

    For more information, try '--help'.
    ");
    assert_snapshot!(view(""), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: the following required arguments were not provided:
      <FILE>...

    Usage: marey view <FILE>...

    For more information, try '--help'.
    ");
    assert_snapshot!(view("--json --csv minimal.hatchet"), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: the argument '--json' cannot be used with '--csv'

    Usage: marey view --json <FILE>...

    For more information, try '--help'.
    ");
    assert_snapshot!(view("-i a -e b minimal.hatchet"), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: --include and --exclude cannot be used together
    ");
    assert_snapshot!(transcript(&mut marey("veiw x.hatchet")), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: unrecognized subcommand 'veiw'

      tip: a similar subcommand exists: 'view'

    Usage: marey <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn running_a_profile_suggests_marey_view() {
    assert_snapshot!(transcript(&mut marey("minimal.hatchet")), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: `minimal.hatchet` is no Python program
    hint: marey view minimal.hatchet
    ");
    let with_folder = transcript(&mut marey("./minimal.hatchet_msgpack -d 1"));
    assert!(with_folder.ends_with("hint: marey view ./minimal.hatchet_msgpack\n"), "{with_folder}");
    let absent = transcript(&mut marey("absent.hatchet"));
    assert!(absent.contains("error: unrecognized subcommand 'absent.hatchet'"), "{absent}");
}

#[test]
fn completions_are_a_shell_script() {
    let script = transcript(&mut marey("completions bash"));
    assert!(script.contains("complete -F _marey") && script.contains("--threshold"), "{script}");
}

#[test]
fn run_starts_python() {
    let with_python = |folder: &str, line: &str| {
        transcript(marey(line).env("PATH", Path::new(FAKE_PYTHONS).join(folder)))
    };
    assert_snapshot!(with_python("has_marey", "run -n a train.py --help -- x"), @r"
    exit code: 0
    --- stdout ---
    python3 -m marey run -n a train.py --help -- x
    --- stderr ---
    ");
    assert_snapshot!(with_python("has_marey", "train.py -d 1"), @r"
    exit code: 0
    --- stdout ---
    python3 -m marey run train.py -d 1
    --- stderr ---
    ");
    assert_snapshot!(with_python("has_marey", "run -- ./launch.sh"), @r"
    exit code: 0
    --- stdout ---
    python3 -m marey run -- ./launch.sh
    --- stderr ---
    ");
    assert_snapshot!(with_python("has_marey", "doctor --json"), @r"
    exit code: 0
    --- stdout ---
    python3 -m marey doctor --json
    --- stderr ---
    ");
    assert_snapshot!(with_python("lacks_marey", "run train.py"), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: python3 has no module `marey`
    hint: install the Python package with `python3 -m pip install marey`, or activate the environment that has it
    ");
    assert_snapshot!(with_python("no_python", "train.py"), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: cannot start python3: No such file or directory (os error 2)
    hint: `marey run` needs Python 3.10 or later on PATH
    ");
}
