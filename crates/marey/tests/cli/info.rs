//! `marey info`.

use insta::assert_snapshot;
use marey_model::run::MANIFEST;
use std::fs;

use crate::{Folder, json, printed, recorded, refusal, run};

/// Removes sizes from a transcript, which change with the Parquet writer.
fn without_sizes(transcript: &str) -> String {
    const SIZE_COLUMN: usize = 11;
    let lines = transcript.lines().filter(|line| !line.starts_with("  size "));
    let without = |line: &str| match line.strip_suffix(" B").or(line.strip_suffix(" kB")) {
        Some(_) => line[..line.len() - SIZE_COLUMN].to_owned(),
        None => line.to_owned(),
    };
    lines.map(without).collect::<Vec<_>>().join("\n")
}

#[test]
fn info_summarises_a_run() {
    let folder = Folder::with_run();
    let output = folder.run("info train.marey");
    assert_snapshot!(without_sizes(&output), @r"
    exit code: 0
    --- stdout ---
    train.marey: a run, a folder, schema version 1
      command    train.py --epochs 3
      recorded   2023-11-14 22:13:20 UTC, for 50.0 ms
      hosts      node1
      processes  1, rank 0
      threads    1
      events     10
      overhead   120 ns a scope, 1.86 µs in all (0.0 % of the recording), 45.0 µs writing
      written by marey 0.1.0
      table                      rows       size
      strings                       5
      contexts                      4
      processes                     1
      threads                       1
      sessions                      1
      phases                        1
      spans                         7
      metrics                       3
      steps                         3
      rollups                      77
      losses                        1
    --- stderr ---
    warning: 7 trace buffer full: Scopes and metric values that are missing from a trace because their thread's buffer was full
    ");
    let second_output = folder.run("info train.marey");
    assert_eq!(output, second_output);
}

#[test]
fn an_impossible_overhead_is_shown_as_unknown() {
    let folder = Folder::with_run();
    folder.run("info train.marey");
    let manifest = folder.path("train.marey").join(MANIFEST);
    let text = fs::read_to_string(&manifest).unwrap();
    // The only thread ran for 50 ms.
    let wrong = text.replace("1860", "95950000");
    assert_ne!(wrong, text);
    fs::write(manifest, wrong).unwrap();
    let output = folder.run("info train.marey");
    let overhead = output.lines().find(|line| line.starts_with("  overhead")).unwrap();
    assert_snapshot!(overhead, @"  overhead   unknown (the estimate, 120 ns a scope, 96.0 ms in all, exceeds the time of all threads), 45.0 µs writing");
}

#[test]
fn info_summarises_a_pack() {
    let folder = Folder::with_run();
    folder.run("pack train.marey");
    let run_output = folder.run("info train.marey");
    let pack_output = folder.run("info train.marey.zip");
    let as_run =
        pack_output.replace("train.marey.zip", "train.marey").replace("one file", "a folder");
    assert_eq!(as_run, run_output);
}

#[test]
fn losses_are_warnings() {
    let folder = Folder::new::<&str>(&[]);
    recorded::write_torn(&folder.path("train.marey"));
    let output = folder.run("info train.marey");
    let (_, stderr) = output.split_once("--- stderr ---\n").unwrap();
    assert_snapshot!(stderr, @r"
    warning: 1 of 1 processes did not end properly
    warning: 7 trace buffer full: Scopes and metric values that are missing from a trace because their thread's buffer was full
    warning: could not read 5 B at the ends of spools
    ");
}

#[test]
fn json_output_is_complete() {
    let folder = Folder::with_run();
    let json = json(&folder.run("info --json train.marey"));
    assert_eq!(json["path"], "train.marey");
    assert_eq!(json["is_pack"], false);
    assert_eq!(json["schema_version"], 1);
    assert_eq!(json["start_unix_nanos"], 1_700_000_000_000_000_000_i64);
    assert_eq!(json["processes"][0]["pid"], 4242);
    assert_eq!(json["events"], 10);
    let overhead = &json["processes"][0]["overhead"];
    assert_eq!((&overhead["scope_nanos"], &overhead["events"]), (&120.0.into(), &31.into()));
    assert_eq!(overhead["recording_nanos"], 1_860);
    assert_eq!(overhead["flushing_nanos"], 45_000);
    assert_eq!(json["threads"], 1);
    assert_eq!(json["losses"]["trace_buffer_full"], 7);
    assert_eq!(json["torn_bytes"], 0);
    let spans = json["tables"].as_array().unwrap().iter().find(|table| table["name"] == "spans");
    let spans = spans.unwrap();
    assert_eq!((&spans["rows"], &spans["parts"]), (&7.into(), &1.into()));
    let file = fs::read_dir(folder.path("train.marey/tables/spans")).unwrap().next().unwrap();
    assert_eq!(spans["bytes"], file.unwrap().metadata().unwrap().len());
}

#[test]
fn other_files_are_named_in_the_error() {
    let folder = Folder::new(&[("notes.txt", "hello"), ("empty/x", "")]);
    assert_snapshot!(refusal(&folder.run("info notes.txt")), @r"
    error: cannot read `notes.txt`: its content is of no known format
    hint: marey reads its own runs and packs, and kineto, chrome-trace, perfetto, speedscope, pprof, collapsed, hatchet, hatchet-msgpack, memory-snapshot, flight-recorder
    ");
    assert_snapshot!(
        refusal(&folder.run("info empty")),
        @"error: `empty` is not a run: it is a folder without a manifest"
    );
}

#[test]
fn help_of_info() {
    assert_snapshot!(printed(&run("info --help")), @r"
    Summarise a run

    Usage: marey info [OPTIONS] <RUN>

    Arguments:
      <RUN>  Run to summarise: a folder `NAME.marey`, a packed run, or a file of another format

    Options:
          --json  Print the summary as a JSON object
      -h, --help  Print help

    Examples:
      marey info train.marey
      marey info --json train.marey | jq .tables
    ");
}
