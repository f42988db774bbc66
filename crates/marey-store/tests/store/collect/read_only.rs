//! Collecting and opening runs in read-only folders.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

use marey_model::table::stored::SPANS;
use marey_store::{Run, StoreError, is_recording, open};

use super::spools::{OUTER, Recorded, encode, first_frames, no_trace, spans};

/// Runs the tests below as another user if this is root, whom permissions do not restrict.
const NOBODY: u32 = 65_534;

#[test]
fn read_only_runs_open_with_their_tables() {
    let is_root = tempfile::tempfile().unwrap().metadata().unwrap().uid() == 0;
    let mut command = if is_root {
        // Its own path may be in a folder that the other user cannot read.
        let mut command = Command::new("/proc/self/exe");
        command.uid(NOBODY).current_dir("/").env_remove("TMPDIR");
        command
    } else {
        Command::new(std::env::current_exe().unwrap())
    };
    let output = command.args(["collect::read_only::", "--ignored"]).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && stdout.contains("4 passed"), "{stdout}");
}

/// A run in a folder that is read-only until this is dropped.
struct ReadOnly(Recorded);

impl ReadOnly {
    fn new(recorded: Recorded) -> Self {
        fs::set_permissions(recorded.path(), Permissions::from_mode(0o555)).unwrap();
        Self(recorded)
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        drop(fs::set_permissions(self.0.path(), Permissions::from_mode(0o755)));
    }
}

#[test]
#[ignore = "the test above runs it"]
fn a_read_only_run_opens_and_counts_uncollected_bytes() {
    let recorded = Recorded::new();
    let recording = recorded.lock_as_recorder();
    let mut frames = first_frames(100);
    frames.push(spans(0, 1, &[(OUTER, 10, 40)]));
    let collected_bytes = encode(&frames).len();
    recorded.write_spool(100, &frames);
    assert_eq!(open(recorded.path(), &no_trace, &mut |_| ()).unwrap().uncollected_bytes(), 0);

    frames.push(spans(0, 1, &[(OUTER, 50, 60)]));
    recorded.write_spool(100, &frames);
    recorded.write_spool(101, &first_frames(101));
    fs::remove_file(recorded.path().join(".collecting")).unwrap();
    let uncollected_bytes =
        encode(&frames).len() - collected_bytes + encode(&first_frames(101)).len();
    drop(recording);

    let run = ReadOnly::new(recorded);
    let opened_run = open(run.0.path(), &no_trace, &mut |_| ()).unwrap();
    assert_eq!(opened_run.uncollected_bytes(), uncollected_bytes as u64);
    assert_eq!(opened_run.read(&SPANS).unwrap().num_rows(), 1);
}

#[test]
#[ignore = "the test above runs it"]
fn a_read_only_run_without_tables_is_an_error_with_a_hint() {
    let run = ReadOnly::new(Recorded::with_spools(&[&first_frames(100)]));
    let error = open(run.0.path(), &no_trace, &mut |_| ()).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
    assert_eq!(error.hint().unwrap(), "copy the run to a folder that is writable");
}

#[test]
#[ignore = "the test above runs it"]
fn a_recording_process_is_detected_with_read_access_only() {
    let recorded = Recorded::new();
    let recording = recorded.lock_as_recorder();
    let lock = recorded.path().join(".recording");
    fs::set_permissions(lock, Permissions::from_mode(0o444)).unwrap();
    assert!(is_recording(recorded.path()).unwrap());
    drop(recording);
    assert!(!is_recording(recorded.path()).unwrap());
}

#[test]
#[ignore = "the test above runs it"]
fn a_spool_that_cannot_be_removed_is_an_error_and_its_tables_stay() {
    let recorded = Recorded::with_spools(&[&first_frames(100)]);
    let spool = recorded.path().join("spool");
    fs::set_permissions(&spool, Permissions::from_mode(0o555)).unwrap();
    let error = open(recorded.path(), &no_trace, &mut |_| ()).unwrap_err();
    fs::set_permissions(&spool, Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(error, StoreError::Io { action: "remove", .. }), "{error}");
    assert_eq!(Run::open(recorded.path()).unwrap().manifest().spools.len(), 1);
}
