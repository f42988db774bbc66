//! The subcommands, their help, and the start of Python.

use std::path::Path;
use std::process::Command;

use insta::assert_snapshot;

use crate::{DATA, assert_success, marey, printed, refusal, run, transcript, view};

const FAKE_PYTHONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python");

#[test]
fn help_lists_commands_and_examples() {
    assert_snapshot!(printed(&run("--help")), @r#"
    One profiler for AI workloads, from the Python line to the GPU kernel

    Usage: marey <COMMAND>

    Commands:
      run          Profile a Python program, a module or a command
      view         Show profiles as trees
      analyze      Find hot spots and bottlenecks of a run, and suggest remedies
      compare      Compare two runs
      check        Check a run against a baseline, for CI
      profile      Analyze, show, compare or export the profile of a training loop
      query        Query a run with SQL
      info         Summarise a run
      schema       Describe the tables and columns of runs
      ps           List the processes that record
      flush        Write what a process has recorded so far
      sample       Record once where the Python threads of a process are
      config       Show and change the settings of a process that records
      watch        Record the values of variables at a line of a process that records
      dump         Print the stacks of a running process
      inspect      Read a value of a running process
      top          Show where a running process spends its time
      hang         Find the rank that a hanging job waits for
      record       Sample a running process into a run
      attach       Start recording in a running process
      detach       End a recording that `attach` has started
      import       Convert files of other formats to a run
      export       Convert a run to another format
      merge        Merge several runs into one
      pack         Pack a run into one file
      collect      Convert recorded spools to tables now
      triton       Inspect the kernels that Triton compiled
      doctor       Check what can be recorded on this machine, and how to fix the rest
      completions  Print a completion script for a shell
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Examples:
      marey run train.py --epochs 3         Profile a program, which behaves as without marey
      marey train.py --epochs 3             The same, without options
      marey view train.hatchet              Show a profile as a tree
      marey view -d 3 -t 1% train.hatchet   Show three levels, and nodes with at least 1 %
      marey info train.marey                Summarise a run and its losses
      marey analyze train.marey             Find hot spots and bottlenecks
      marey compare old.marey new.marey     Show what became faster and slower
      marey profile analyze my_profile.pt   Summarise the profile of a training loop
      marey query train.marey               Query a run with SQL
      marey ps                              List the processes that record
      marey analyze 4242                    Analyse what a process has recorded so far
      marey dump 4242                       Show where a running process is, and what it waits for
      marey inspect 4242 'config["lr"]'     Read a value of a running process
      marey top 4242                        Show where a running process spends its time
      marey hang 4242                       Find the rank that a hanging job waits for
      marey record -p 4242 -d 30            Sample a running process for 30 seconds
      marey attach 4242                     Record a running process from now on
      marey info trace.json.gz              Open a file of another format directly
      marey export train.marey -f perfetto -o train.pftrace
      c++ app.cpp $(marey --cflags --libs)  Build an annotated C++ program

    Run `marey help COMMAND` for the options and examples of a command.

    Exit codes: 0 success, 2 bad usage or an unreadable or unwritable file, 130 interrupted.
    `run` exits with the code of the program; `check` and `doctor` have further codes, see their help.
    "#);
    assert_eq!(run("help"), run("--help"));
    assert_eq!(run(""), run("--help"));
}

#[test]
fn values_are_inspected_and_nothing_is_evaluated() {
    assert_snapshot!(refusal(&run("eval 4242 print(1)")), @r"
    error: marey runs no code in other processes: there is no `marey eval`
    hint: `marey inspect 4242 EXPR` reads a value from outside, such as model.layers[3].weight
    ");
    assert_snapshot!(refusal(&run("inspect 4242 print(1)")), @r#"
    error: `print(1)` cannot be inspected: a call would run code of the program, in column 6
    hint: names, attributes and indexes can be read, such as model.layers[3].weight, config["lr"] and args[-1]
    "#);
}

#[test]
fn help_of_run_and_doctor_needs_no_python() {
    assert_snapshot!(printed(&transcript(marey("run -n name --help").env("PATH", ""))), @r#"
    Profile a Python program, a module or a command

    Usage: marey run [OPTIONS] SCRIPT [ARGS]...
           marey run [OPTIONS] -m MODULE [ARGS]...
           marey run [OPTIONS] pytest [ARGS]...
           marey run [OPTIONS] -- COMMAND [ARGS]...

    Options:
      -n, --name <NAME>                 Name of the profile [default: name of the target]
      -o, --output <PATH>               File to write, ending in .hatchet, .hatchet_msgpack or (-d
                                        trace) .chrome_trace or .marey, or a directory for it
      -b, --backend <BACKEND>           Source of GPU records [default: the one available]
      -c, --context <CONTEXT>           Context of records: the scopes, or the Python call stack
                                        [default: shadow] [possible values: shadow, python]
      -d, --data <DATA>                 Record sums by context, each event with its time, or only the
                                        last such events [default: tree] [possible values: tree, trace,
                                        ring]
          --ring-records <N>            Number of events that a ring keeps [default: 10000]
          --ring-seconds <S>            Seconds that a ring keeps, instead of a number of events
      -k, --hook <HOOK>                 Launch hook, for example `triton`
      -i, --instrument <INSTRUMENT>     Print the memory accesses of Triton kernels at the end, instead
                                        of a profile [possible values: print-mem-spaces]
          --mode <MODE>                 Mode of the backend, for example `periodic_flushing`
          --operators                   Record each PyTorch operator too, below its module
          --performance-events <NAMES>  Performance events to count in each scope, with commas between
                                        them, such as `cycles,cache_misses`
          --shapes <SHAPES>             Operators whose shapes, FLOP and bytes are recorded: those of
                                        one step in a hundred, all, or none [default: sampled] [possible
                                        values: sampled, all, off]
          --window <WHEN>               A profile for each span of time such as `5m`; or trace, and run
                                        torch.profiler too in steps `10:12`, or in one step after
                                        `file:PATH`, `SIGUSR2` or `slow:1.5x`
          --keep <LIMIT>                Windows of time to keep, by number `12`, age `24h` or size `2GB`
                                        [default: all]
          --alert <CONDITION>           Print a line when a window of time differs from those before,
                                        such as `step_time.p99>+20%`; several with commas between them
          --overhead                    Measure what recording costs, against training steps without it
          --overhead-target <PERCENT>   Record less while a training step takes longer than this because
                                        of it, for example `2%`
          --memory                      Record memory too, at each module and step
          --profile                     Trace, with memory, into a training profile for `marey profile`
          --profile-output <PATH>       File of the training profile [default: runs/NAME/profile.pt]
          --no-torch                    Do not hook PyTorch modules and optimizers
          --no-children                 Profile this process only
      -m <MODULE>                       Run a module, like python -m
      -h, --help                        Print help

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
    lines that begin with "marey: ".

    The exit code is that of the program; 2 for bad usage, 126 or 127 if a command cannot be started.
    "#);
    assert_snapshot!(printed(&transcript(marey("doctor --help").env("PATH", ""))), @r#"
    Check what can be recorded on this machine, and how to fix the rest

    Usage: marey doctor [OPTIONS]

    Options:
          --json  Print JSON with stable keys
      -h, --help  Print help

    Examples:
      marey doctor
      marey doctor --json | jq -r '.checks[] | select(.state != "ok") | .mend'

    Each line is "ok", "missing" (optional, and not found) or "broken" (found, but does not work),
    with a command that fixes it.

    The exit code is 1 if a line is "broken", 2 for bad usage, else 0.
    "#);
    assert_eq!(run("help run"), run("run --help"));
    assert_eq!(run("help doctor"), run("doctor -h"));
}

#[test]
fn each_command_has_a_description_and_examples() {
    let list = run("help");
    let verbs = list.split_once("Commands:").unwrap().1.split_once("\n\n").unwrap().0;
    let verbs: Vec<_> = verbs.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(verbs.len() > 15, "{verbs:?}");
    for verb in verbs.into_iter().filter(|verb| *verb != "help") {
        let help = run(&format!("{verb} --help"));
        assert_success(&help);
        assert!(help.contains("\nExamples:\n  marey "), "{verb} has no examples");
        assert_eq!(help, run(&format!("help {verb}")), "{verb}");
    }
}

#[test]
fn help_of_view() {
    assert_snapshot!(printed(&view("--help")), @r"
    Show profiles as trees

    Usage: marey view [OPTIONS] [FILE]...

    Arguments:
      [FILE]...  Profiles, runs, or files of other formats; several are shown side by side

    Options:
      -l, --list                 List the metrics of each file
      -m, --metrics <METRICS>    Metrics to show, separated by commas; --threshold and --sort use the
                                 first
      -i, --include <REGEX>      Show nodes whose names match REGEX from the start, with their ancestors
                                 and descendants
      -e, --exclude <REGEX>      Hide nodes whose names match REGEX from the start, with their
                                 descendants
      -t, --threshold <VALUE>    Show nodes of at least VALUE, such as `5000` or `1%` of the total, with
                                 their ancestors
      -d, --depth <N>            Show at most N levels; ROOT is the first [default: 100, or all as JSON
                                 and CSV]
      -f, --format <FORMAT>      Parts to show of names such as `/home/me/train.py:12@forward` [default:
                                 full] [possible values: full, file_function_line, function_line,
                                 file_function]
          --print-sorted         Also list the nodes by the first metric, after the tree
          --diff-profile <FILE>  Show the changes since the profile FILE; also spelled -diff
          --sort <ORDER>         Order of siblings [default: first-seen, or name as lines] [possible
                                 values: name, first-seen, value]
          --layout <LAYOUT>      Text layout: a table, or lines like proton-viewer [default: lines in a
                                 pipe with --metrics, else table] [possible values: table, lines]
          --json                 Print a JSON object for each file, with all metrics unless --metrics is
                                 given
          --csv                  Print CSV, with all metrics unless --metrics is given
          --list-backends        List the values of `marey.start(backend=...)` and whether each can
                                 start here
      -h, --help                 Print help
      -V, --version              Print version

    Examples:
      marey view train.hatchet                             Show the main metrics of a profile
      marey view --sort value -t 1% train.hatchet          Show nodes with at least 1 %, largest first
      marey view -m total/ms,p99/us train.hatchet | less   Print lines, like proton-viewer
      marey view a.hatchet b.hatchet                       Show profiles side by side
      marey view train.marey                               Show the sums of a run or trace
      marey view --diff-profile before.hatchet after.hatchet
      marey view --json train.hatchet | jq .               Print JSON for programs

    Metrics of files from marey: total, self, calls, min, max, p50, p90, p99. Times are wall times of a
    scope including everything inside it; `self` excludes inner scopes. Derived metrics, where the file
    has their sources: time/s (ms, us, ns), avg_time/s, cpu_time/s, flop/s, gflop16/s, tbyte/s and the
    like, util, and METRIC/% of any metric.
    ");
}

#[test]
fn version() {
    assert_snapshot!(printed(&run("--version")), @"marey 0.1.0");
    assert_snapshot!(printed(&view("-V")), @"marey view 0.1.0");
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
    assert_snapshot!(refusal(&view("-t much minimal.hatchet")), @r"
    error: invalid value 'much' for '--threshold <VALUE>': expected a number or percentage

    For more information, try '--help'.
    ");
    assert_snapshot!(refusal(&view("")), @r"
    error: the following required arguments were not provided:
      <FILE>...

    Usage: marey view <FILE>...

    For more information, try '--help'.
    ");
    assert_snapshot!(refusal(&view("--json --csv minimal.hatchet")), @r"
    error: the argument '--json' cannot be used with '--csv'

    Usage: marey view --json <FILE>...

    For more information, try '--help'.
    ");
    assert_snapshot!(
        refusal(&view("-i a -e b minimal.hatchet")),
        @"error: --include and --exclude cannot be used together"
    );
    assert_snapshot!(refusal(&run("veiw x.hatchet")), @r"
    error: unrecognized subcommand 'veiw'

      tip: a similar subcommand exists: 'view'

    Usage: marey <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn running_a_profile_suggests_marey_view() {
    assert_snapshot!(refusal(&run("minimal.hatchet")), @r"
    error: `minimal.hatchet` is not a Python program
    hint: to open it, run `marey view minimal.hatchet`
    ");
    let with_folder = run("./minimal.hatchet_msgpack -d 1");
    assert!(with_folder.ends_with("run `marey view ./minimal.hatchet_msgpack`\n"), "{with_folder}");
    let absent = run("absent.hatchet");
    assert!(absent.contains("error: unrecognized subcommand 'absent.hatchet'"), "{absent}");
}

#[test]
fn completions_are_a_shell_script() {
    let script = run("completions bash");
    assert!(script.contains("complete -F _marey") && script.contains("--threshold"), "{script}");
}

#[test]
fn run_starts_python() {
    let with_python = |folder: &str, line: &str| {
        transcript(marey(line).env("PATH", Path::new(FAKE_PYTHONS).join(folder)))
    };
    assert_snapshot!(
        printed(&with_python("has_marey", "run -n a train.py --help -- x")),
        @"python3 -m marey run -n a train.py --help -- x"
    );
    assert_snapshot!(
        printed(&with_python("has_marey", "train.py -d 1")),
        @"python3 -m marey run train.py -d 1"
    );
    assert_snapshot!(
        printed(&with_python("has_marey", "run -- ./launch.sh")),
        @"python3 -m marey run -- ./launch.sh"
    );
    assert_snapshot!(
        printed(&with_python("has_marey", "doctor --json")),
        @"python3 -m marey doctor --json"
    );
    assert_snapshot!(refusal(&with_python("lacks_marey", "run train.py")), @r"
    error: python3 has no module `marey`
    hint: run `python3 -m pip install marey`, or activate the environment where it is installed
    ");
    assert_snapshot!(refusal(&with_python("no_python", "train.py")), @r"
    error: cannot start python3: No such file or directory (os error 2)
    hint: install Python 3.10 or later, which `marey run` needs on PATH
    ");
}
