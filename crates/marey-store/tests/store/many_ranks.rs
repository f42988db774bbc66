//! Runs of many processes have few files, and are read and written with few of them open.

use std::path::Path;
use std::process::Command;

use marey_model::spool::{SessionEvent, SpoolFrame};
use marey_model::table::stored;
use marey_store::row::Span;
use marey_store::{Merger, Run};

use crate::collect::spools::{INNER, OUTER, Recorded, collect, first_frames, session, spans};
use crate::read::{reader, rows};

const RANKS: u32 = 200;
/// Pid of the first rank.
const PID: u32 = 100;
const MAX_OPEN_FILES: u32 = 64;
/// Spans of a rank, each inside the previous one.
const SPANS: u64 = 2;

/// Runs a test below in a process with a low limit of open files.
fn run_test_with_few_open_files(test: &str) {
    let output = Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -n {MAX_OPEN_FILES} && exec \"$0\" --exact {test} --ignored"))
        .arg(std::env::current_exe().unwrap())
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}");
}

#[test]
fn many_ranks_are_collected_with_few_open_files() {
    run_test_with_few_open_files("many_ranks::collected_with_few_open_files");
}

#[test]
#[ignore = "it needs the limit that a test above sets"]
fn collected_with_few_open_files() {
    let recorded = Recorded::new();
    (PID..PID + RANKS).for_each(|pid| recorded.write_spool(pid, &rank_frames(pid)));
    assert_eq!(collect(&recorded).spools, RANKS);
    assert_one_part_per_table(recorded.path(), u64::from(RANKS));
}

#[test]
fn many_runs_are_merged_with_few_open_files() {
    run_test_with_few_open_files("many_ranks::merged_with_few_open_files");
}

#[test]
#[ignore = "it needs the limit that a test above sets"]
fn merged_with_few_open_files() {
    const RANKS_PER_RUN: u32 = 4;
    let recorded = Recorded::new();
    (PID..PID + RANKS_PER_RUN).for_each(|pid| recorded.write_spool(pid, &rank_frames(pid)));
    collect(&recorded);
    let out = tempfile::tempdir().unwrap();
    let mut merger = Merger::new(out.path());
    for _ in 0..RANKS / RANKS_PER_RUN {
        merger.add(&Run::open(recorded.path()).unwrap()).unwrap();
    }
    merger.finish().unwrap();
    assert_one_part_per_table(out.path(), u64::from(RANKS));
}

/// Returns the recording of a rank; later ranks began earlier.
fn rank_frames(pid: u32) -> Vec<SpoolFrame> {
    let start = i64::from(1_000 - pid);
    let mut frames = first_frames(pid.into());
    frames.push(spans(0, 1, &[(INNER, start + 1, start + 2), (OUTER, start, start + 3)]));
    frames.extend([session(0, SessionEvent::Finalized, 2_000), SpoolFrame::End]);
    frames
}

fn assert_one_part_per_table(path: &Path, ranks: u64) {
    let run = Run::open(path).unwrap();
    for (table, parts) in &run.manifest().tables {
        assert_eq!(parts.len(), 1, "{table}");
    }
    assert_eq!(run.parts(&stored::PROCESSES)[0].row_count(), ranks);
    let spans: Vec<Span> = rows(&reader(&run));
    assert_eq!(spans.len() as u64, SPANS * ranks);
    assert!(spans.is_sorted_by_key(|span| span.start_nanos));
}
