//! `marey pack`.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::process::{Command, Stdio};

use insta::assert_snapshot;

use crate::{Folder, assert_success, printed, refusal, run, stdout, transcript};

#[test]
fn a_pack_with_any_name_equals_its_run() {
    const QUERY: &str = "SELECT name, count, total_nanos FROM top ORDER BY name";
    let folder = Folder::with_run();
    let packed = folder.run("pack train.marey/ -o picture.png");
    assert!(packed.ends_with(" kB\n") && packed.contains("wrote `picture.png`, "), "{packed}");
    let answer = |run: &str| transcript(folder.marey(&format!("query {run}")).arg(QUERY));
    assert_eq!(stdout(&answer("train.marey")).lines().count(), 4);
    assert_eq!(answer("picture.png"), answer("train.marey"));
}

#[test]
fn a_pack_is_next_to_the_run_and_replaces_a_file_only_with_force() {
    let folder = Folder::with_run();
    assert_success(&folder.run("pack train.marey"));
    assert!(fs::read(folder.path("train.marey.zip")).unwrap().starts_with(b"PK\x03\x04"));

    fs::write(folder.path("train.marey.zip"), "mine").unwrap();
    assert_snapshot!(refusal(&folder.run("pack train.marey")), @r"
    error: `train.marey.zip` already exists
    hint: replace it with --force, or choose another path with -o
    ");
    assert_eq!(fs::read(folder.path("train.marey.zip")).unwrap(), b"mine");
    assert_success(&folder.run("pack --force train.marey"));
    assert!(fs::read(folder.path("train.marey.zip")).unwrap().starts_with(b"PK\x03\x04"));
}

#[test]
fn a_pack_is_written_to_a_pipe_and_does_not_replace_it() {
    let folder = Folder::with_run();
    assert_success(&folder.run("pack train.marey"));
    let pipe = folder.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut reader = Command::new("cat");
    let reader = reader.arg(&pipe).stdout(Stdio::piped()).spawn().unwrap();
    assert_success(&folder.run("pack train.marey -o pipe --force"));
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    assert_eq!(
        reader.wait_with_output().unwrap().stdout,
        fs::read(folder.path("train.marey.zip")).unwrap()
    );
}

#[test]
fn a_pack_is_not_packed_again() {
    let folder = Folder::with_run();
    folder.run("pack train.marey");
    assert_snapshot!(
        refusal(&folder.run("pack train.marey.zip")),
        @"error: `train.marey.zip` is already packed"
    );
}

#[test]
fn help_of_pack() {
    assert_snapshot!(printed(&run("pack --help")), @r"
    Pack a run into one file

    Usage: marey pack [OPTIONS] <RUN>

    Arguments:
      <RUN>  Run to pack: a folder `NAME.marey`, or a file of another format

    Options:
      -o, --output <FILE>  File to write [default: RUN.zip, next to the run]
          --force          Replace an existing file
      -h, --help           Print help

    Examples:
      marey pack train.marey                    Write train.marey.zip
      marey pack train.marey -o /tmp/slow.run   Any name works: packs are recognised by content

    Every command that takes a run also takes the packed file, a zip of the unchanged tables.
    ");
}
