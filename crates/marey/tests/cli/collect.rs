//! `marey collect`.

use insta::assert_snapshot;

use crate::{Folder, marey, recorded, transcript};

#[test]
fn collect_reports_events_and_bytes() {
    let folder = Folder::with_run();
    let spool = folder.path("train.marey/spool/4242-0.spool");
    assert!(spool.exists());
    assert_snapshot!(transcript(&mut folder.marey("collect train.marey")), @r"
    exit code: 0
    --- stdout ---
    --- stderr ---
    `train.marey`: collected 10 events of 1 spool, 396 B
    ");
    assert!(!spool.exists());
    assert_snapshot!(transcript(&mut folder.marey("collect train.marey")), @r"
    exit code: 0
    --- stdout ---
    --- stderr ---
    `train.marey`: there was nothing to collect
    ");
}

#[test]
fn a_torn_end_is_a_warning_even_with_quiet() {
    let folder = Folder::new::<&str>(&[]);
    recorded::write_torn(&folder.path("train.marey"));
    assert_snapshot!(transcript(&mut folder.marey("collect --quiet train.marey")), @r"
    exit code: 0
    --- stdout ---
    --- stderr ---
    warning: `train.marey`: 5 B at the ends of spools could not be read
    ");
}

#[test]
fn a_failed_run_does_not_stop_the_others() {
    let folder = Folder::with_run();
    assert_snapshot!(transcript(&mut folder.marey("collect absent.marey train.marey")), @r"
    exit code: 2
    --- stdout ---
    --- stderr ---
    error: cannot open `absent.marey`: No such file or directory (os error 2)
    `train.marey`: collected 10 events of 1 spool, 396 B
    ");
}

#[test]
fn help_of_collect() {
    assert_snapshot!(transcript(&mut marey("collect --help")), @r"
    exit code: 0
    --- stdout ---
    Make tables of what was recorded, now

    Usage: marey collect [OPTIONS] <RUN>...

    Arguments:
      <RUN>...  Runs, folders `NAME.marey`

    Options:
      -q, --quiet  Say nothing but what went wrong
      -h, --help   Print help

    Every command that opens a run collects it first, and so does a program that ends properly; this
    is for runs of programs that were killed, before they are copied elsewhere.

    Examples:
      marey collect train.marey
      marey collect --quiet runs/*.marey
    --- stderr ---
    ");
}
