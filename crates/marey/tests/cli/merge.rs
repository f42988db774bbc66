//! `marey merge`.

use std::fs;

use insta::assert_snapshot;

use crate::{BEFORE, Folder, printed, recorded, refusal, run};

#[test]
fn runs_packs_and_files_are_merged() {
    let folder = Folder::with_run();
    recorded::write(&folder.path("other.marey"));
    folder.run("pack other.marey");
    fs::write(folder.path("b.hatchet"), BEFORE).unwrap();
    let merged = folder.run("merge train.marey other.marey.zip b.hatchet -o all.marey");
    assert!(merged.contains("wrote `all.marey`, 28 events, "), "{merged}");
    let sql = "SELECT name, count FROM top WHERE name IN ('forward', 'gemm') ORDER BY name";
    assert_snapshot!(folder.csv("all.marey", sql), @r"
    name,count
    forward,6
    gemm,4
    ");
    let processes = "SELECT count(*) AS processes FROM processes";
    assert_eq!(folder.csv("all.marey", processes), "processes\n3\n");
}

#[test]
fn a_run_is_replaced_only_with_force() {
    let folder = Folder::with_run();
    assert_snapshot!(refusal(&folder.run("merge train.marey -o train.marey")), @r"
    error: `train.marey` already exists
    hint: replace it with --force, or choose another path with -o
    ");
    let line = "merge train.marey train.marey -o train.marey --force";
    let forced = folder.run(line);
    assert!(forced.contains("wrote `train.marey`, 20 events, "), "{forced}");
    assert_eq!(fs::read_dir(folder.path(".")).unwrap().count(), 1);
}

#[test]
fn a_missing_run_leaves_no_output() {
    let folder = Folder::with_run();
    assert_snapshot!(
        refusal(&folder.run("merge train.marey absent -o all.marey")),
        @"error: cannot open `absent`: No such file or directory (os error 2)"
    );
    assert_eq!(fs::read_dir(folder.path(".")).unwrap().count(), 1);
}

#[test]
fn help_of_merge() {
    assert_snapshot!(printed(&run("merge --help")), @r"
    Merge several runs into one

    Usage: marey merge [OPTIONS] --output <RUN> <RUN>...

    Arguments:
      <RUN>...  Runs, packed runs, and files of other formats

    Options:
      -o, --output <RUN>  Folder of the new run
          --force         Replace an existing run
      -h, --help          Print help

    Examples:
      marey merge rank0.marey rank1.marey -o job.marey
      marey merge node*/train.marey.zip -o job.marey
      marey merge train.marey trace.json.gz -o both.marey

    Equal names and calling contexts are unified; times are kept. The clocks of files of other formats
    are aligned with each other, as by `marey import`.
    ");
}
