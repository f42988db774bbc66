//! `marey import`, and other commands on files of other formats.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use insta::assert_snapshot;

use crate::{
    AFTER, BEFORE, Folder, assert_success, json, kill, notes, printed, refusal, run, stdout,
    transcript,
};

/// Returns a trace of a rank with a skewed clock: an operator, and a collective that ends when
/// it does on other ranks.
fn rank(number: u32, skew_micros: i64) -> String {
    let start = 1_000 + skew_micros;
    let end = 5_000 + skew_micros;
    format!(
        r#"{{"schemaVersion":1,"distributedInfo":{{"backend":"nccl","rank":{number},"world_size":2}},
"baseTimeNanoseconds":0,"traceEvents":[
{{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1{number},"tid":1,"ts":{start},"dur":50}},
{{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":7,"ts":{kernel},"dur":100,
"args":{{"device":0,"stream":7,"correlation":1,"Collective name":"allreduce","Process Group Name":"0",
"Seq":1,"In msg nelems":8,"Out msg nelems":8,"dtype":"Float","Group size":2}}}}]}}"#,
        kernel = end - 100,
    )
}

/// Removes sizes, which change with the Parquet writer.
fn without_size(transcript: &str) -> String {
    let line = |line: &str| match line.rsplit_once(", ") {
        Some((line, _)) if line.starts_with("wrote ") => format!("{line}, SIZE\n"),
        _ => format!("{line}\n"),
    };
    transcript.lines().map(line).collect()
}

#[test]
fn a_run_is_next_to_the_file_and_replaces_another_only_with_force() {
    let folder = Folder::new(&[("a/stacks.folded", "main;run 3\nmain 1\n")]);
    assert_snapshot!(
        without_size(notes(&folder.run("import a/stacks.folded"))),
        @"wrote `a/stacks.marey`, 2 events, SIZE"
    );
    let sql = "SELECT path, count FROM flame ORDER BY path";
    assert_snapshot!(folder.csv("a/stacks.marey", sql), @r"
    path,count
    main,4
    main/run,3
    ");
    assert_snapshot!(refusal(&folder.run("import a/stacks.folded")), @r"
    error: `a/stacks.marey` already exists
    hint: replace it with --force, or choose another path with -o
    ");
    assert_success(&folder.run("import --force a/stacks.folded"));
    // No hidden folder and no old run is left.
    assert_eq!(fs::read_dir(folder.path("a")).unwrap().count(), 2);
}

#[test]
fn only_runs_are_replaced() {
    let folder = Folder::new(&[("b.hatchet", BEFORE), ("mine/notes.txt", "mine")]);
    assert_snapshot!(refusal(&folder.run("import b.hatchet -o mine --force")), @r"
    error: `mine` is not a run
    hint: --force replaces only runs
    ");
    assert_eq!(fs::read(folder.path("mine/notes.txt")).unwrap(), b"mine");
    assert_snapshot!(
        refusal(&folder.run("import b.hatchet -o no/such/run")),
        @"error: cannot create `no/such/run`: No such file or directory (os error 2)"
    );
}

#[test]
fn clocks_of_ranks_are_aligned_with_notes() {
    let files = [("r0.json", rank(0, 0)), ("r1.json", rank(1, 250_000))];
    let folder = Folder::new(&files);
    let line = "import r0.json r1.json -o job.marey --json";
    let imported = folder.run(line);
    assert_snapshot!(without_size(imported.split_once("--- stderr ---\n").unwrap().1), @r"
    `r0.json`: clock shifted by 0 ns
    `r1.json`: clock shifted by -250 ms
    wrote `job.marey`, 6 events, SIZE
    ");
    let report = json(&imported);
    assert_eq!(report["run"], "job.marey");
    assert_eq!(report["files"][1]["alignment_nanos"], -250_000_000);
    assert_eq!(report["files"][1]["format"], "kineto");
    let sql = "SELECT count(DISTINCT start_nanos) AS starts, count(*) AS spans FROM spans";
    assert_eq!(folder.csv("job.marey", sql), "starts,spans\n1,2\n");
}

#[test]
fn losses_are_one_line_with_file_offset_and_cause() {
    let full_trace = rank(0, 0);
    let cut_offset = full_trace.rfind("\"Seq\"").unwrap();
    let folder = Folder::new(&[("cut.json", &full_trace[..cut_offset])]);
    assert_snapshot!(without_size(notes(&folder.run("import cut.json"))), @r"
    warning: `cut.json`: byte 399: the file ends early (the rest is skipped)
    wrote `cut.marey`, 1 event, SIZE
    ");
    let info = json(&folder.run("info cut.json --json"));
    assert_eq!(
        (&info["losses"]["truncated_files"], &info["format"]),
        (&1.into(), &"kineto".into())
    );
}

#[test]
fn unusable_files_are_one_line_and_exit_code_2() {
    let folder = Folder::new(&[("notes.txt", "hello world"), ("a.hatchet", "[{\"frame\": 5}]")]);
    assert_snapshot!(refusal(&folder.run("import notes.txt")), @r"
    error: cannot read `notes.txt`: its content is of no known format
    hint: marey reads its own runs and packs, and kineto, chrome-trace, perfetto, speedscope, pprof, collapsed, hatchet, hatchet-msgpack, memory-snapshot, flight-recorder
    ");
    assert_snapshot!(
        refusal(&folder.run("import a.hatchet")),
        @"error: cannot read `a.hatchet` as a .hatchet profile: byte 11: expected the frame, found a whole number"
    );
    assert_snapshot!(
        refusal(&folder.run("import absent.json")),
        @"error: cannot read `absent.json`: No such file or directory (os error 2)"
    );
    // No files are left.
    assert_eq!(fs::read_dir(folder.path(".")).unwrap().count(), 2);
}

#[test]
fn stdin_is_imported() {
    let folder = Folder::new(&[("b.hatchet", BEFORE)]);
    let stdin = || Stdio::from(fs::File::open(folder.path("b.hatchet")).unwrap());
    let imported = transcript(folder.marey("import -").stdin(stdin()));
    assert_snapshot!(without_size(notes(&imported)), @"wrote `stdin.marey`, 8 events, SIZE");
    let info = transcript(folder.marey("info -").stdin(stdin()));
    assert!(
        stdout(&info).starts_with("-: a run, a .hatchet profile, schema version 1\n"),
        "{info}"
    );
}

/// Waits until an import has created a file in its hidden folder.
fn wait_until_reading(folder: &Folder, importing: &mut Child) {
    let has_begun = || {
        let mut hidden = fs::read_dir(folder.path(".")).unwrap().filter_map(Result::ok);
        hidden
            .any(|entry| fs::read_dir(entry.path()).is_ok_and(|mut inside| inside.next().is_some()))
    };
    while !has_begun() {
        assert_eq!(importing.try_wait().unwrap(), None);
        std::thread::yield_now();
    }
}

#[test]
fn ctrl_c_removes_unfinished_files() {
    let folder = Folder::new::<&str>(&[]);
    let mut command = folder.interruptible("import - -o x.marey");
    // Stdin never ends, so the import runs until it is stopped.
    let mut importing = command.stdin(Stdio::piped()).spawn().unwrap();
    wait_until_reading(&folder, &mut importing);
    // `wait` would close stdin, which would end the import as well.
    let _stdin = importing.stdin.take();
    kill("-INT", &importing);
    let status = importing.wait().unwrap();
    assert_eq!(status.signal(), Some(2));
    assert_eq!(fs::read_dir(folder.path(".")).unwrap().count(), 0);
}

#[test]
fn sighup_is_ignored_under_nohup() {
    let folder = Folder::new::<&str>(&[]);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_marey")]);
    command.args(["import", "-", "-o", "x.marey"]).current_dir(folder.path("."));
    command.stdin(Stdio::piped()).stderr(Stdio::null());
    let mut importing = command.spawn().unwrap();
    wait_until_reading(&folder, &mut importing);
    kill("-HUP", &importing);
    // If the signal had ended it, the write would fail; the exit code below tells.
    let _sent = importing.stdin.take().unwrap().write_all(BEFORE.as_bytes());
    assert_eq!(importing.wait().unwrap().code(), Some(0));
    assert!(folder.path("x.marey").is_dir());
}

#[test]
fn a_file_given_twice_is_imported_twice() {
    let folder = Folder::new(&[("r0.json", rank(0, 0))]);
    let line = "import r0.json ./r0.json r0.json -o job.marey";
    assert_snapshot!(without_size(notes(&folder.run(line))), @r"
    `r0.json`: clock shifted by 0 ns
    `./r0.json`: clock not aligned: no collectives in common with the other files
    `r0.json`: clock not aligned: no collectives in common with the other files
    wrote `job.marey`, 9 events, SIZE
    ");
    let sql = "SELECT count(*) AS spans, count(DISTINCT process_id) AS processes FROM spans";
    assert_eq!(folder.csv("job.marey", sql), "spans,processes\n3,3\n");
    // A pipe would be split between its readers.
    let line = "import - r0.json /dev/stdin -o torn.marey";
    assert_snapshot!(
        refusal(&transcript(folder.marey(line).stdin(Stdio::piped()))),
        @"error: `/dev/stdin` is given twice but can be read only once"
    );
    assert_eq!(fs::read_dir(folder.path(".")).unwrap().count(), 2);
}

#[test]
fn every_command_that_takes_a_run_takes_a_file() {
    let folder = Folder::new(&[("r0.json", rank(0, 0)), ("b.hatchet", BEFORE.to_owned())]);
    let sql = "SELECT name, duration_nanos FROM spans";
    let answer = transcript(folder.marey("query r0.json -f csv").arg(sql));
    assert_eq!(stdout(&answer), "name,duration_nanos\naten::mm,50000\n");
    assert_snapshot!(folder.run("view r0.json"), @r"
    exit code: 0
    --- stdout ---
    r0.json: rank 0, pid 10, 4.00 ms
      total     self  calls      p50      p99    time  count  name
                                                              ROOT
    50.0 µs  50.0 µs      1  50.0 µs  50.0 µs                 ├─ aten::mm
                                               100 µs      1  └─ ncclDevKernel_AllReduce
    --- stderr ---
    warning: 1 unmatched activities: Activities of devices whose launch is not in the imported file or was not recorded; they have no context
    ");
    let packed = folder.run("pack r0.json");
    assert!(packed.contains("wrote `r0.marey.zip`, "), "{packed}");
    let pack_output = transcript(folder.marey("query r0.marey.zip -f csv").arg(sql));
    assert_eq!(pack_output, answer);
    let samples = "SELECT sum(value) AS nanos FROM samples WHERE name = 'time (ns)'";
    assert_eq!(folder.csv("b.hatchet", samples), "nanos\n8800.0\n");
}

#[test]
fn a_run_is_viewed_like_its_profile() {
    let folder = Folder::new(&[("a.hatchet", AFTER)]);
    folder.run("import a.hatchet");
    let file_output = folder.run("view -m time,count a.hatchet");
    let run_output = folder.run("view -m time,count a.marey");
    assert_eq!(run_output.replace("a.marey", "a.hatchet"), file_output);
    assert_success(&folder.run("view -m time --diff-profile a.hatchet a.marey"));
}

#[test]
fn a_recorded_run_can_be_viewed() {
    let folder = Folder::with_run();
    assert_snapshot!(folder.run("view train.marey"), @r"
    exit code: 0
    --- stdout ---
    train.marey: train.py --epochs 3, rank 0, pid 4242 on node1, 50.0 ms
      total     self  calls      p50      p99  name
                                               ROOT
    40.0 ms  34.0 ms      1  40.0 ms  40.0 ms  └─ train
    6.00 ms  3.00 ms      3  2.02 ms  2.98 ms     └─ step
    3.00 ms  3.00 ms      3  1.01 ms  1.49 ms        └─ forward
    --- stderr ---
    warning: 7 trace buffer full: Scopes and metric values that are missing from a trace because their thread's buffer was full
    overhead: 1.86 µs recording 31 events (120 ns a scope), 45.0 µs writing, 0.09 % of 50.0 ms
    ");
    let listed = folder.run("view --list train.marey");
    assert!(stdout(&listed).contains("tokens"), "{listed}");
}

#[test]
fn help_of_import() {
    assert_snapshot!(printed(&run("import --help")), @r"
    Convert files of other formats to a run

    Usage: marey import [OPTIONS] <FILE>...

    Arguments:
      <FILE>...  Files of one job to import; `-` is stdin

    Options:
      -o, --output <RUN>  Folder of the new run [default: NAME.marey, next to the first file]
          --force         Replace an existing run
          --json          Print the result as a JSON object
      -h, --help          Print help

    Examples:
      marey import trace.json.gz                    Write trace.marey next to it
      marey import rank*.json -o job.marey          Import the ranks of a job and align their clocks
      curl -s URL | marey import - -o trace.marey   Import from stdin

    Formats are recognised by content, not by name: traces of torch.profiler, Proton, Chrome and
    Perfetto; speedscope, pprof and collapsed stacks; .hatchet files; memory snapshots of PyTorch; dumps
    of NCCL's flight recorder; each optionally compressed with gzip. Every command that takes a run
    also takes such a file; an imported run opens faster.
    ");
}
