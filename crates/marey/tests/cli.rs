//! The program at its door: command lines, and what they print.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use insta::assert_snapshot;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../marey-formats/tests/data");
const FAKE_PYTHONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python");

fn marey(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_marey"));
    command.args(line.split_whitespace()).current_dir(DATA).env_remove("CLICOLOR_FORCE");
    command
}

/// Exit code, stdout and stderr.
fn transcript(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let mut text = format!("exit code: {}\n", output.status.code().unwrap());
    for (name, bytes) in [("stdout", output.stdout), ("stderr", output.stderr)] {
        let stream = String::from_utf8(bytes).unwrap();
        write!(text, "--- {name} ---\n{stream}").unwrap();
    }
    text
}

fn view(line: &str) -> String {
    transcript(&mut marey(&format!("view {line}")))
}

/// `view` of a file with this content.
fn view_content(name: &str, content: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(name), content).unwrap();
    transcript(marey(&format!("view {name}")).current_dir(folder.path()))
}

#[test]
fn help_shows_the_verbs_and_examples() {
    assert_snapshot!(transcript(&mut marey("--help")), @r"
    exit code: 0
    --- stdout ---
    One profiler for AI workloads, from the Python line to the GPU kernel

    Usage: marey <COMMAND>

    Commands:
      run          Profile a Python program, a module or a command
      view         Show profiles as trees
      completions  Print the completions of a shell
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Examples:
      marey run train.py --epochs 3        Profile a program; it behaves as without marey
      marey train.py --epochs 3            The same
      marey view train.hatchet             Show the profile as a tree
      marey view -d 3 -t 1 train.hatchet   Only three levels, and what takes at least 1 %
    --- stderr ---
    ");
    assert_eq!(transcript(&mut marey("help")), transcript(&mut marey("--help")));
}

#[test]
fn help_of_view() {
    assert_snapshot!(view("--help"), @r"
    exit code: 0
    --- stdout ---
    Show profiles as trees

    Usage: marey view [OPTIONS] <FILE>...

    Arguments:
      <FILE>...  Files to show, `.hatchet` or `.hatchet_msgpack`

    Options:
      -m, --metrics <METRICS>    Metrics to show, separated by commas; the first one serves --threshold
                                 and --sort
      -d, --depth <N>            Levels to show below ROOT
      -t, --threshold <PERCENT>  Show only what reaches this percentage of the whole [default: 0]
          --sort <ORDER>         Order of siblings: the largest first metric first, or as the program
                                 met them [default: first-seen] [possible values: total, first-seen]
          --json                 Print one JSON object a file, with every metric unless --metrics is
                                 given
      -h, --help                 Print help

    Examples:
      marey view train.hatchet                     All levels, in the order first seen
      marey view --sort total -t 1 train.hatchet   What takes at least 1 %, the most first
      marey view -m total,tokens train.hatchet     Chosen metrics; units may be left out
      marey view --json train.hatchet | jq .       For programs

    Metrics of every file that marey wrote: total, self, calls, min, max, p50, p90, p99.
    Times are wall times of a scope with everything inside it; `self` is what no inner scope covers.
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
}

#[test]
fn a_profile_of_ours() {
    assert_snapshot!(view("train.hatchet"), @r#"
    exit code: 0
    --- stdout ---
    train.hatchet: train.py --steps 100, rank 3, pid 4242 on node7, 78.0 s
     total     self  calls      p50      p99  name
                                              ROOT
    1.51 s   511 ms    100  15.0 ms  30.4 ms  ├─ step
    1.00 s  92.0 ms    100  10.0 ms  12.4 ms  │  └─ gpt
    304 ms   304 ms    100  3.01 ms  3.40 ms  │     ├─ blocks.0.attn
    604 ms   604 ms    100  6.01 ms  6.40 ms  │     └─ blocks.0.mlp
    75.0 s   75.0 s      1   61.0 s   61.0 s  └─ evaluate "quick"
    --- stderr ---
    warning: 3 unmatched exits: Exits for a scope that was not open on its thread; they change nothing
    overhead: 8.06 ms recording 40,302 events (200 ns a scope), 1.20 ms writing, 0.01 % of 78.0 s
    "#);
}

#[test]
fn a_profile_of_protons_in_both_formats() {
    assert_snapshot!(view("minimal.hatchet minimal.hatchet_msgpack"), @r"
    exit code: 0
    --- stdout ---
    minimal.hatchet
       time  count  name
    1.00 µs      1  ROOT
    1.00 µs      1  └─ s
    1.00 µs      1     └─ k

    minimal.hatchet_msgpack
       time  count  name
    1.00 µs      1  ROOT
    1.00 µs      1  └─ s
    1.00 µs      1     └─ k
    --- stderr ---
    ");
}

#[test]
fn chosen_metrics_sorted_and_cut() {
    assert_snapshot!(view("--sort total -t 50% -m total,TOKENS,loss,shape,split train.hatchet"), @r#"
    exit code: 0
    --- stdout ---
    train.hatchet: train.py --steps 100, rank 3, pid 4242 on node7, 78.0 s
     total   tokens   loss     shape  split  name
            409,600                          ROOT
    75.0 s           1.250  [8, 128]  valid  └─ evaluate "quick"
    --- stderr ---
    nodes hidden by --depth or --threshold: 4
    warning: 3 unmatched exits: Exits for a scope that was not open on its thread; they change nothing
    overhead: 8.06 ms recording 40,302 events (200 ns a scope), 1.20 ms writing, 0.01 % of 78.0 s
    "#);
}

#[test]
fn depth_is_counted_below_the_root() {
    assert_snapshot!(view("-d 1 -m calls,open train.hatchet"), @r#"
    exit code: 0
    --- stdout ---
    train.hatchet: train.py --steps 100, rank 3, pid 4242 on node7, 78.0 s
    calls  open  name
                 ROOT
      100        ├─ step
        1     1  └─ evaluate "quick"
    --- stderr ---
    nodes hidden by --depth or --threshold: 3
    warning: 3 unmatched exits: Exits for a scope that was not open on its thread; they change nothing
    overhead: 8.06 ms recording 40,302 events (200 ns a scope), 1.20 ms writing, 0.01 % of 78.0 s
    "#);
}

#[test]
fn a_threshold_keeps_the_way_to_what_reaches_it() {
    let content = br#"[{"frame": {"name": "ROOT"}, "children": [
        {"frame": {"name": "a"}, "children": [{"frame": {"name": "b"}, "metrics": {"wait (ms)": 97}}]},
        {"frame": {"name": "c"}, "metrics": {"wait (ms)": 3}}]}]"#;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("w.hatchet"), content).unwrap();
    let view = |line| transcript(marey(line).current_dir(folder.path()));
    assert_snapshot!(view("view -t 4 w.hatchet"), @r"
    exit code: 0
    --- stdout ---
    w.hatchet
       wait  name
             ROOT
             └─ a
    97.0 ms     └─ b
    --- stderr ---
    nodes hidden by --depth or --threshold: 1
    ");
    assert!(view("view -t 3 w.hatchet").contains("3.00 ms  └─ c"));
}

#[test]
fn json_has_the_values_of_the_file() {
    assert_snapshot!(view("--json -d 0 -m wall_total,tokens train.hatchet"), @r#"
    exit code: 0
    --- stdout ---
    {"file":"train.hatchet","process":{"pid":4242,"rank":3,"host":"node7","argv":["train.py","--steps","100"],"start_unix_nanos":1785000000000000000,"duration_nanos":78000000000,"complete":true},"overhead":{"events":40302,"scope_nanos":200.5,"recording_nanos":8060400,"flushing_nanos":1200000},"losses":{"nodes":0,"unmatched_exits":3},"devices":[],"hidden_nodes":5,"nodes":[{"id":0,"parent":null,"depth":0,"name":"ROOT","kind":"root","metrics":{"tokens":409600}}]}
    --- stderr ---
    "#);
    let all = view("--json minimal.hatchet");
    let (_, json) = all.split_once("--- stdout ---\n").unwrap();
    let (json, stderr) = json.split_once("--- stderr ---\n").unwrap();
    let document: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(document["nodes"][2]["metrics"]["device_type"], "CUDA");
    assert_eq!(document["nodes"][2]["parent"], 1);
    assert_eq!(document["devices"][0]["num_sms"], 132);
    assert_eq!(stderr, "");
}

#[test]
fn an_unknown_metric_names_those_there_are() {
    assert_snapshot!(view("-m time,flops minimal.hatchet"), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: `minimal.hatchet` has no metric `flops`
    hint: it has bytes, count, flops16, time, device_id, device_type
    ");
}

#[test]
fn a_file_that_cannot_be_read_does_not_hide_the_others() {
    assert_snapshot!(view("absent.hatchet minimal.hatchet"), @r"
    exit code: 2
    --- stdout ---
    minimal.hatchet
       time  count  name
    1.00 µs      1  ROOT
    1.00 µs      1  └─ s
    1.00 µs      1     └─ k
    --- stderr ---
    error: cannot read `absent.hatchet`: No such file or directory (os error 2)
    ");
}

#[test]
fn a_torn_file_names_place_and_cause() {
    let whole = fs::read(Path::new(DATA).join("minimal.hatchet")).unwrap();
    assert_snapshot!(view_content("torn.hatchet", &whole[..200]), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: cannot read `torn.hatchet`: line 3, column 5 (byte 200): the file ends in the middle of the profile
    ");
    let whole = fs::read(Path::new(DATA).join("minimal.hatchet_msgpack")).unwrap();
    assert_snapshot!(view_content("torn.hatchet_msgpack", &whole[..200]), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: cannot read `torn.hatchet_msgpack`: byte 200: the file ends in the middle of the profile
    ");
}

#[test]
fn other_files_name_place_and_cause() {
    assert_snapshot!(view_content("trace.json", b"{\"traceEvents\": []}"), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: cannot read `trace.json`: line 1, column 1 (byte 0): expected the list [ROOT, DEVICES], found a map
    hint: `marey view` reads .hatchet and .hatchet_msgpack files
    ");
    assert_snapshot!(view_content("empty.hatchet", b""), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: cannot read `empty.hatchet`: byte 0: the file is empty
    ");
    assert_snapshot!(view_content("picture.hatchet", b"\x89PNG"), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: cannot read `picture.hatchet`: byte 0: the content is neither JSON nor MessagePack
    hint: `marey view` reads .hatchet and .hatchet_msgpack files
    ");
    let later = br#"[{"frame": {"name": "ROOT"}, "marey": {"version": 9}}]"#;
    assert_snapshot!(view_content("later.hatchet", later), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: cannot read `later.hatchet`: line 1, column 51 (byte 50): the file has version 9, this marey reads versions up to 1
    hint: update marey
    ");
}

#[test]
fn a_checkpoint_is_called_one_and_names_cannot_move_the_cursor() {
    let content =
        br#"[{"frame": {"name": "ROOT"}, "children": [{"frame": {"name": "a\u001b[2J\nb"}}],
        "marey": {"process": {"pid": 7, "host": "h", "complete": false, "duration_nanos": 10}}}]"#;
    assert_snapshot!(view_content("part.hatchet", content), @r"
    exit code: 0
    --- stdout ---
    part.hatchet: pid 7 on h, 10 ns
    name
    ROOT
    └─ a\u{1b}[2J\nb
    --- stderr ---
    warning: this is a checkpoint; the program had not ended when it was written
    ");
}

#[test]
fn bad_usage() {
    assert_snapshot!(view("-t 101 minimal.hatchet"), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: invalid value '101' for '--threshold <PERCENT>': not a number from 0 to 100

    For more information, try '--help'.
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
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wide.hatchet");
    // More than a pipe holds, so the program still writes when the reader leaves.
    let child = format!(r#"{{"frame": {{"name": "{}"}}}}"#, "x".repeat(1000));
    let children = vec![child; 1000].join(",");
    fs::write(&file, format!(r#"[{{"frame": {{"name": "ROOT"}}, "children": [{children}]}}]"#))
        .unwrap();
    let mut command = marey("view");
    command.arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn completions_are_a_script_of_the_shell() {
    let script = transcript(&mut marey("completions bash"));
    assert!(script.contains("complete -F _marey") && script.contains("--threshold"), "{script}");
}

#[test]
fn run_is_handed_to_python() {
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
