//! `marey import`: files of other formats as runs; and the verbs that take such files themselves.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use insta::assert_snapshot;

use crate::{AFTER, BEFORE, Folder, kill, marey, stdout, transcript};

/// A trace of a rank whose clock is off: an operator, and a collective that ends with the others'.
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

/// Sizes change with the writer of Parquet.
fn without_size(transcript: &str) -> String {
    let line = |line: &str| match line.rsplit_once(", ") {
        Some((line, _)) if line.starts_with("wrote ") => format!("{line}, SIZE\n"),
        _ => format!("{line}\n"),
    };
    transcript.lines().map(line).collect()
}

#[test]
fn the_run_lies_beside_the_file_and_replaces_nothing_unless_asked() {
    let folder = Folder::new(&[("a/stacks.folded", "main;run 3\nmain 1\n")]);
    assert_snapshot!(without_size(&transcript(&mut folder.marey("import a/stacks.folded"))), @r"
    exit code: 0
    --- stdout ---
    --- stderr ---
    wrote `a/stacks.marey`, 2 events, SIZE
    ");
    let query = "query a/stacks.marey -f csv";
    let sql = "SELECT path, count FROM flame ORDER BY path";
    assert_snapshot!(stdout(&transcript(folder.marey(query).arg(sql))), @r"
    path,count
    main,4
    main/run,3
    ");
    assert_snapshot!(transcript(&mut folder.marey("import a/stacks.folded")), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: `a/stacks.marey` is there already
    hint: --force replaces it, -o writes another
    ");
    let forced = transcript(&mut folder.marey("import --force a/stacks.folded"));
    assert!(forced.starts_with("exit code: 0\n"), "{forced}");
    // Neither a hidden folder nor the old run is left.
    assert_eq!(fs::read_dir(folder.path("a")).unwrap().count(), 2);
}

#[test]
fn only_runs_are_replaced() {
    let folder = Folder::new(&[("b.hatchet", BEFORE), ("mine/notes.txt", "mine")]);
    assert_snapshot!(transcript(&mut folder.marey("import b.hatchet -o mine --force")), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: `mine` is no run
    hint: --force replaces runs only
    ");
    assert_eq!(fs::read(folder.path("mine/notes.txt")).unwrap(), b"mine");
    assert_snapshot!(transcript(&mut folder.marey("import b.hatchet -o no/such/run")), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: cannot create `no/such/run`: No such file or directory (os error 2)
    ");
}

#[test]
fn clocks_of_ranks_are_aligned_and_that_is_said() {
    let files = [("r0.json", rank(0, 0)), ("r1.json", rank(1, 250_000))];
    let folder = Folder::new(&files);
    let line = "import r0.json r1.json -o job.marey --json";
    let imported = transcript(&mut folder.marey(line));
    assert_snapshot!(without_size(imported.split_once("--- stderr ---\n").unwrap().1), @r"
    `r0.json`: its clock is moved by 0 ns
    `r1.json`: its clock is moved by -250 ms
    wrote `job.marey`, 6 events, SIZE
    ");
    let report: serde_json::Value = serde_json::from_str(stdout(&imported)).unwrap();
    assert_eq!(report["run"], "job.marey");
    assert_eq!(report["files"][1]["alignment_nanos"], -250_000_000);
    assert_eq!(report["files"][1]["format"], "kineto");
    let sql = "SELECT count(DISTINCT start_nanos) AS starts, count(*) AS spans FROM spans";
    let answer = transcript(folder.marey("query job.marey -f csv").arg(sql));
    assert_eq!(stdout(&answer), "starts,spans\n1,2\n");
}

#[test]
fn what_is_lost_is_one_line_with_file_place_and_cause() {
    let whole = rank(0, 0);
    let cut = whole.rfind("\"Seq\"").unwrap();
    let folder = Folder::new(&[("cut.json", &whole[..cut])]);
    assert_snapshot!(without_size(&transcript(&mut folder.marey("import cut.json"))), @r"
    exit code: 0
    --- stdout ---
    --- stderr ---
    warning: `cut.json`: byte 399: the file ends early (what follows is left out)
    wrote `cut.marey`, 1 event, SIZE
    ");
    let info = transcript(&mut folder.marey("info cut.json --json"));
    let info: serde_json::Value = serde_json::from_str(stdout(&info)).unwrap();
    assert_eq!(
        (&info["losses"]["truncated_files"], &info["format"]),
        (&1.into(), &"kineto".into())
    );
}

#[test]
fn what_cannot_be_used_is_one_line_and_exit_code_2() {
    let folder = Folder::new(&[("notes.txt", "hello world"), ("a.hatchet", "[{\"frame\": 5}]")]);
    assert_snapshot!(transcript(&mut folder.marey("import notes.txt")), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: cannot read `notes.txt`: its content is of no known format
    hint: marey reads its own runs and packs, and kineto, chrome-trace, perfetto, speedscope, pprof, collapsed, hatchet, hatchet-msgpack, memory-snapshot, flight-recorder
    ");
    assert_snapshot!(transcript(&mut folder.marey("import a.hatchet")), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: cannot read `a.hatchet` as a .hatchet profile: byte 11: expected the frame, found a whole number
    ");
    assert_snapshot!(transcript(&mut folder.marey("import absent.json")), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: cannot read `absent.json`: No such file or directory (os error 2)
    ");
    // Nothing is left behind.
    assert_eq!(fs::read_dir(folder.path(".")).unwrap().count(), 2);
}

#[test]
fn stdin_is_a_file_too() {
    let folder = Folder::new(&[("b.hatchet", BEFORE)]);
    let stdin = || Stdio::from(fs::File::open(folder.path("b.hatchet")).unwrap());
    let imported = transcript(folder.marey("import -").stdin(stdin()));
    assert_snapshot!(without_size(&imported), @r"
    exit code: 0
    --- stdout ---
    --- stderr ---
    wrote `stdin.marey`, 8 events, SIZE
    ");
    let info = transcript(folder.marey("info -").stdin(stdin()));
    assert!(
        stdout(&info).starts_with("-: a run, a .hatchet profile, schema version 1\n"),
        "{info}"
    );
}

/// Waits until an import has made something in its hidden folder.
fn wait_until_it_reads(folder: &Folder, importing: &mut Child) {
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
fn ctrl_c_leaves_nothing_behind() {
    let folder = Folder::new::<&str>(&[]);
    let mut command = folder.interruptible("import - -o x.marey");
    // Stdin never ends, so this goes on until it is stopped.
    let mut importing = command.stdin(Stdio::piped()).spawn().unwrap();
    wait_until_it_reads(&folder, &mut importing);
    // Waiting would close it, and that would end the import, too.
    let _stdin = importing.stdin.take();
    kill("-INT", &importing);
    let status = importing.wait().unwrap();
    assert_eq!(status.signal(), Some(2));
    assert_eq!(fs::read_dir(folder.path(".")).unwrap().count(), 0);
}

#[test]
fn nohup_keeps_it_from_being_hung_up() {
    let folder = Folder::new::<&str>(&[]);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_marey")]);
    command.args(["import", "-", "-o", "x.marey"]).current_dir(folder.path("."));
    command.stdin(Stdio::piped()).stderr(Stdio::null());
    let mut importing = command.spawn().unwrap();
    wait_until_it_reads(&folder, &mut importing);
    kill("-HUP", &importing);
    // Whether it was ended or not, nobody may be there who reads.
    let _sent = importing.stdin.take().unwrap().write_all(BEFORE.as_bytes());
    assert_eq!(importing.wait().unwrap().code(), Some(0));
    assert!(folder.path("x.marey").is_dir());
}

#[test]
fn a_file_that_is_given_twice_is_there_twice() {
    let folder = Folder::new(&[("r0.json", rank(0, 0))]);
    let line = "import r0.json ./r0.json r0.json -o job.marey";
    assert_snapshot!(without_size(&transcript(&mut folder.marey(line))), @r"
    exit code: 0
    --- stdout ---
    --- stderr ---
    `r0.json`: its clock is moved by 0 ns
    `./r0.json`: its clock stays, as it has no collectives in common with the others
    `r0.json`: its clock stays, as it has no collectives in common with the others
    wrote `job.marey`, 9 events, SIZE
    ");
    let sql = "SELECT count(*) AS spans, count(DISTINCT process_id) AS processes FROM spans";
    let answer = transcript(folder.marey("query job.marey -f csv").arg(sql));
    assert_eq!(stdout(&answer), "spans,processes\n3,3\n");
    // What cannot be read twice would be torn between its readers.
    let line = "import - r0.json /dev/stdin -o torn.marey";
    assert_snapshot!(transcript(folder.marey(line).stdin(Stdio::piped())), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: `/dev/stdin` is given twice, and can be read once only
    ");
    assert_eq!(fs::read_dir(folder.path(".")).unwrap().count(), 2);
}

#[test]
fn every_verb_that_takes_a_run_takes_a_file() {
    let folder = Folder::new(&[("r0.json", rank(0, 0)), ("b.hatchet", BEFORE.to_owned())]);
    let sql = "SELECT name, duration_nanos FROM spans";
    let answer = transcript(folder.marey("query r0.json -f csv").arg(sql));
    assert_eq!(stdout(&answer), "name,duration_nanos\naten::mm,50000\n");
    assert_snapshot!(transcript(&mut folder.marey("view r0.json")), @r"
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
    let packed = transcript(&mut folder.marey("pack r0.json"));
    assert!(packed.contains("wrote `r0.marey.zip`, "), "{packed}");
    let of_pack = transcript(folder.marey("query r0.marey.zip -f csv").arg(sql));
    assert_eq!(of_pack, answer);
    let samples = "SELECT sum(value) AS nanos FROM samples WHERE name = 'time (ns)'";
    let samples = transcript(folder.marey("query b.hatchet -f csv").arg(samples));
    assert_eq!(stdout(&samples), "nanos\n8800.0\n");
}

#[test]
fn a_run_is_viewed_as_its_profile_would_be() {
    let folder = Folder::new(&[("a.hatchet", AFTER)]);
    transcript(&mut folder.marey("import a.hatchet"));
    let of_file = transcript(&mut folder.marey("view -m time,count a.hatchet"));
    let of_run = transcript(&mut folder.marey("view -m time,count a.marey"));
    assert_eq!(of_run.replace("a.marey", "a.hatchet"), of_file);
    let difference = "view -m time --diff-profile a.hatchet a.marey";
    let difference = transcript(&mut folder.marey(difference));
    assert!(difference.starts_with("exit code: 0\n"), "{difference}");
}

#[test]
fn a_recorded_run_is_viewed_too() {
    let folder = Folder::with_run();
    assert_snapshot!(transcript(&mut folder.marey("view train.marey")), @r"
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
    let listed = transcript(&mut folder.marey("view --list train.marey"));
    assert!(stdout(&listed).contains("tokens"), "{listed}");
}

#[test]
fn help_of_import() {
    assert_snapshot!(transcript(&mut marey("import --help")), @r"
    exit code: 0
    --- stdout ---
    Make a run of files of other formats

    Usage: marey import [OPTIONS] <FILE>...

    Arguments:
      <FILE>...  Files of one job; `-` is stdin

    Options:
      -o, --output <RUN>  Run to write, a folder [default: NAME.marey, beside the first file]
          --force         Replace the run if it is there
          --json          Print one JSON object that says what came of it
      -h, --help          Print help

    Examples:
      marey import trace.json.gz                    Writes trace.marey, beside it
      marey import rank*.json -o job.marey          The ranks of a job, their clocks aligned
      curl -s URL | marey import - -o trace.marey   What comes by stdin

    The content says what a file is, not its name: a trace of torch.profiler, Proton, Chrome or
    Perfetto; speedscope, pprof or collapsed stacks; a .hatchet file; a memory snapshot of PyTorch, or a
    dump of NCCL's flight recorder; all of them also compressed with gzip. Every command that takes a
    run takes such a file; from a run it answers sooner.
    --- stderr ---
    ");
}
