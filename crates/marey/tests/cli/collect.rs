//! `marey collect`.

use insta::assert_snapshot;

use crate::{Folder, notes, printed, recorded, refusal, run};

#[test]
fn collect_reports_events_and_bytes() {
    let folder = Folder::with_run();
    let spool = folder.path("train.marey/spool/4242-0.spool");
    assert!(spool.exists());
    assert_snapshot!(
        notes(&folder.run("collect train.marey")),
        @"`train.marey`: collected 10 events from 1 spool, 396 B"
    );
    assert!(!spool.exists());
    assert_snapshot!(
        notes(&folder.run("collect train.marey")),
        @"`train.marey`: nothing to collect"
    );
}

#[test]
fn a_torn_end_is_a_warning_even_with_quiet() {
    let folder = Folder::new::<&str>(&[]);
    recorded::write_torn(&folder.path("train.marey"));
    assert_snapshot!(
        notes(&folder.run("collect --quiet train.marey")),
        @"warning: `train.marey`: could not read 5 B at the ends of spools"
    );
}

#[test]
fn a_failed_run_does_not_stop_the_others() {
    let folder = Folder::with_run();
    assert_snapshot!(refusal(&folder.run("collect absent.marey train.marey")), @r"
    error: cannot open `absent.marey`: No such file or directory (os error 2)
    `train.marey`: collected 10 events from 1 spool, 396 B
    ");
}

#[test]
fn help_of_collect() {
    assert_snapshot!(printed(&run("collect --help")), @r"
    Convert recorded spools to tables now

    Usage: marey collect [OPTIONS] <RUN>...

    Arguments:
      <RUN>...  Runs to collect: folders `NAME.marey`

    Options:
      -q, --quiet  Print only warnings and errors
      -h, --help   Print help

    A program collects its run when it ends, and every command collects a run that it opens. Use this
    for runs of killed programs, before copying them to another machine.

    Examples:
      marey collect train.marey
      marey collect --quiet runs/*.marey
    ");
}
