//! `marey export`.

use std::fs;
use std::io::Read;

use flate2::read::GzDecoder;
use insta::assert_snapshot;
use marey_model::profile::NodeId;

use crate::{BEFORE, Folder, assert_success, notes, printed, refusal, run, stdout};

/// Removes sizes, which depend on the writers.
fn without_size(transcript: &str) -> String {
    let line = |line: &str| match line.rsplit_once("`, ") {
        Some((line, _)) if line.starts_with("wrote ") => format!("{line}`, SIZE\n"),
        _ => format!("{line}\n"),
    };
    transcript.lines().map(line).collect()
}

/// Returns the number of calls of a name in the file.
fn calls(folder: &Folder, file: &str, name: &str) -> Option<String> {
    let profile = marey_formats::hatchet::read(&folder.path(file)).unwrap();
    let index = profile.nodes.iter().position(|node| &*node.name == name)?;
    Some(format!("{:?}", profile.metric("wall_count")?.get(NodeId(index as u32))?))
}

#[test]
fn the_name_implies_the_format_and_omissions_are_warnings() {
    let folder = Folder::with_run();
    let line = "export train.marey -o train.collapsed";
    assert_snapshot!(without_size(notes(&folder.run(line))), @r"
    warning: collapsed cannot represent 3 metric values
    warning: collapsed cannot represent 3 step numbers
    wrote `train.collapsed`, SIZE
    ");
    assert_snapshot!(fs::read_to_string(folder.path("train.collapsed")).unwrap(), @r"
    train 34000000
    train;step 3000000
    train;step;forward 3000000
    ");
    assert_snapshot!(refusal(&folder.run(line)), @r"
    error: `train.collapsed` already exists
    hint: replace it with --force, or choose another path with -o
    ");
    assert_success(&folder.run(&format!("{line} --force")));
    assert_eq!(fs::read_dir(folder.path(".")).unwrap().count(), 2);
}

#[test]
fn every_readable_format_survives_export_and_import() {
    let folder = Folder::with_run();
    for format in marey_formats::Format::ALL.into_iter().filter(|format| format.is_writable()) {
        let name = format.as_str();
        assert_success(&folder.run(&format!("export train.marey -f {name} -o {name}.out")));
        let written = folder.path(&format!("{name}.out"));
        assert!(written.exists(), "{name}");
        if format.is_readable() {
            assert!(marey_formats::recognise_file(&written).unwrap().is_some(), "{name}");
        }
    }
}

#[test]
fn gz_compresses_and_stdout_is_a_file() {
    let folder = Folder::with_run();
    let plain = folder.run("export train.marey -f csv -o -");
    folder.run("export train.marey -o spans.csv.gz");
    let mut unpacked = String::new();
    let packed = fs::File::open(folder.path("spans.csv.gz")).unwrap();
    GzDecoder::new(packed).read_to_string(&mut unpacked).unwrap();
    assert!(unpacked.lines().count() > 7, "{unpacked}");
    assert_eq!(stdout(&plain), unpacked);
    assert_snapshot!(refusal(&folder.run("export train.marey -o -")), @r"
    error: stdout needs a format
    hint: choose one with --format: kineto, chrome-trace, perfetto, speedscope, pprof, collapsed, svg, csv, json, hatchet, hatchet-msgpack, tensorboard
    ");
}

#[test]
fn a_folder_gets_a_file_with_the_default_name() {
    let folder = Folder::with_run();
    folder.run("merge train.marey train.marey -o job.marey");
    fs::create_dir(folder.path("out")).unwrap();
    let names = |format: &str| {
        assert_success(&folder.run(&format!("export job.marey -f {format} -o out/")));
        let mut names: Vec<String> = Vec::new();
        for entry in fs::read_dir(folder.path("out")).unwrap() {
            let entry = entry.unwrap();
            names.push(entry.file_name().into_string().unwrap());
            fs::remove_file(entry.path()).unwrap();
        }
        names.sort();
        names
    };
    assert_eq!(names("kineto"), ["node1_4242-0.1700000000000.pt.trace.json.gz"]);
    assert_eq!(names("tensorboard"), ["events.out.tfevents.1700000000.node1.marey"]);
    assert_eq!(names("speedscope"), ["job.speedscope.json"]);
    assert_eq!(names("pprof"), ["job.pb.gz"]);
    assert_snapshot!(refusal(&folder.run("export job.marey -o out")), @r"
    error: the name `out` does not imply a format
    hint: choose one with --format: kineto, chrome-trace, perfetto, speedscope, pprof, collapsed, svg, csv, json, hatchet, hatchet-msgpack, tensorboard
    ");
}

#[test]
fn a_missing_folder_is_created() {
    let folder = Folder::with_run();
    assert_success(&folder.run("export train.marey -f kineto -o new/one/"));
    assert!(folder.path("new/one/node1_4242-0.1700000000000.pt.trace.json.gz").is_file());
    // No folder is created if there is nothing to write.
    assert_snapshot!(refusal(&folder.run("export train.marey -o other/")), @r"
    error: the name `other/` does not imply a format
    hint: choose one with --format: kineto, chrome-trace, perfetto, speedscope, pprof, collapsed, svg, csv, json, hatchet, hatchet-msgpack, tensorboard
    ");
    assert!(!folder.path("other").exists());
}

#[test]
fn tensorboard_output_is_a_folder_with_any_name() {
    let folder = Folder::with_run();
    let line = "export train.marey -f tensorboard -o logs";
    assert_snapshot!(
        without_size(notes(&folder.run(line))),
        @"wrote `logs/events.out.tfevents.1700000000.node1.marey`, SIZE"
    );
    let file = "logs/events.out.tfevents.1700000000.node1.marey";
    assert!(folder.path(file).is_file());
    let line = format!("export train.marey -o {file}");
    assert_snapshot!(refusal(&folder.run(&line)), @r"
    error: `logs/events.out.tfevents.1700000000.node1.marey` already exists
    hint: replace it with --force, or choose another path with -o
    ");
}

#[test]
fn a_time_range_is_exported_alone() {
    let folder = Folder::with_run();
    // Steps begin 10, 20 and 30 ms after the start and take 1, 2 and 3 ms.
    for (options, steps) in [
        ("", "Int(3)"),
        ("--steps 1", "Int(1)"),
        ("--steps 1:", "Int(2)"),
        ("--steps :1", "Int(2)"),
        ("--from 15ms", "Int(2)"),
        ("--to 0.015s", "Int(1)"),
        ("--from 21ms --to 1700000000030000000", "Int(1)"),
        ("--ranks 0", "Int(3)"),
    ] {
        let line = format!("export train.marey -o part.hatchet --force {options}");
        assert_success(&folder.run(&line));
        assert_eq!(calls(&folder, "part.hatchet", "step").as_deref(), Some(steps), "{options}");
    }
    let refused = |options| folder.run(&format!("export train.marey -o x.svg {options}"));
    assert_snapshot!(refusal(&refused("--steps 7")), @r"
    error: the run has none of the selected steps
    hint: its steps are 0 to 2
    ");
    assert_snapshot!(refusal(&refused("--ranks 0,5")), @r"
    error: the run has no rank 5
    hint: its only rank is 0
    ");
    assert_snapshot!(
        refusal(&refused("--from 2s --to 1s")),
        @"error: the start must be before the end"
    );
}

#[test]
fn files_are_converted_between_formats() {
    let folder = Folder::new(&[("b.hatchet", BEFORE)]);
    let line = "export b.hatchet -o b.hatchet_msgpack";
    assert_snapshot!(without_size(notes(&folder.run(line))), @"wrote `b.hatchet_msgpack`, SIZE");
    let from_json = folder.view("-m time,count b.hatchet");
    let from_msgpack = folder.view("-m time,count b.hatchet_msgpack");
    assert_eq!(from_msgpack, from_json);
}

#[test]
fn ambiguous_options_are_errors() {
    let folder = Folder::with_run();
    assert_snapshot!(refusal(&folder.run("export train.marey -o train.txt")), @r"
    error: the name `train.txt` does not imply a format
    hint: choose one with --format: kineto, chrome-trace, perfetto, speedscope, pprof, collapsed, svg, csv, json, hatchet, hatchet-msgpack, tensorboard
    ");
    let unknown = folder.run("export train.marey -f xls -o x");
    assert!(
        unknown.starts_with("exit code: 2\n") && unknown.contains("[possible values: kineto, ")
    );
    assert_snapshot!(
        refusal(&folder.run("export train.marey -o no/such/x.csv")),
        @"error: cannot write `no/such/x.csv`: No such file or directory (os error 2)"
    );
    let output = folder.run("export train.marey -o x.csv --steps 1 --from 1s");
    assert!(output.contains("cannot be used with"), "{output}");
}

#[test]
fn format_aliases_are_accepted() {
    let folder = Folder::with_run();
    for format in ["chrome-trace", "csv", "tensorboard"] {
        let line = format!("export train.marey --format {format} --output out.{format}");
        assert_success(&folder.run(&line));
        assert!(fs::metadata(folder.path(&format!("out.{format}"))).unwrap().len() > 0);
    }
}

#[test]
fn help_of_export() {
    assert_snapshot!(printed(&run("export --help")), @r"
    Convert a run to another format

    Usage: marey export [OPTIONS] --output <OUT> <RUN>

    Arguments:
      <RUN>  Run to export: a folder `NAME.marey`, a packed run, or a file of another format

    Options:
      -f, --format <FORMAT>  Output format [default: from the name of OUT] [possible values: kineto,
                             chrome-trace, perfetto, speedscope, pprof, collapsed, svg, csv, json,
                             hatchet, hatchet-msgpack, tensorboard]
      -o, --output <OUT>     File to write, or a folder for files with default names; .gz compresses,
                             `-` is stdout
          --from <TIME>      Exclude events that end before TIME
          --to <TIME>        Exclude events that begin at TIME or later
          --steps <STEPS>    Include only these training steps: `10`, `10:12`, `10:` or `:12`, both ends
                             included
          --ranks <RANKS>    Include only these ranks, such as `0,2-3`
          --force            Replace an existing file
      -h, --help             Print help

    Examples:
      marey export train.marey -o train.pftrace          For ui.perfetto.dev, by the suffix
      marey export train.marey -f chrome-trace -o trace.json.gz
      marey export train.marey -f tensorboard -o runs/   A file with the default name, in a folder
      marey export job.marey -f kineto -o traces/        One file for each rank, as HTA expects
      marey export train.marey -f csv -o - | head        To stdout
      marey export job.marey --steps 10:12 --ranks 0,2-3 -o slow.json
      marey export train.marey --from 1.5s --to 2s -o part.speedscope.json
      marey export trace.json.gz -o trace.collapsed      Convert between other formats

    A TIME is relative to the start of the run (1.5s, 200ms, 30us, 5ns, 2min) or in whole nanoseconds
    since 1970. --steps 10:12 selects from the start of step 10 to the end of step 12. Events that
    overlap the time range are included. Data that the format cannot represent is counted on stderr.
    ");
}
