//! Repeated collections keep earlier rows, and neither duplicate nor lose any.

use std::fs::{self, File};
use std::path::Path;

use arrow::array::{AsArray, RecordBatch, UInt32Array};
use arrow::compute::{cast, take_record_batch};
use arrow::datatypes::{DataType, Int64Type};
use marey_model::metric::MetricValue;
use marey_model::spool::{SessionEvent, SpoolFrame};
use marey_model::table::{Table, stored};
use marey_store::{Run, needs_collecting};
use proptest::prelude::*;

use super::spools::{
    INNER, OUTER, Recorded, STEP, collect, collect_run, encode, first_frames, no_trace,
    random_spool, session, spans, thread, values,
};
use super::tables::Tables;

/// The bytes of spools after which their tables are published.
const LARGE_BYTES: u64 = 64 << 20;

fn program(pid: u64) -> Vec<SpoolFrame> {
    let mut frames = first_frames(pid);
    frames.extend([
        spans(0, 1, &[(INNER, 20, 30), (OUTER, 10, 40)]),
        values(0, &[(OUTER, 50, MetricValue::Int(1))]),
        session(0, SessionEvent::Phase(1), 60),
    ]);
    frames.extend(thread(1));
    frames.extend([
        spans(1, 1, &[(STEP, 65, 70)]),
        SpoolFrame::Open { thread: 0, spans: vec![(OUTER, 80)] },
        session(0, SessionEvent::Finalized, 90),
        SpoolFrame::End,
    ]);
    frames
}

/// Asserts that all tables of two runs are equal including ids, whatever their parts.
fn assert_same(run: &Run, other: &Run) {
    for table in stored::ALL {
        let [rows, other_rows] =
            [run, other].map(|run| sort_rows(table, &run.read(table).unwrap()));
        assert_eq!(rows, other_rows, "{}", table.name);
    }
    assert_eq!(run.manifest().processes, other.manifest().processes);
    assert_eq!(run.manifest().losses, other.manifest().losses);
}

fn sort_rows(table: &Table, rows: &RecordBatch) -> RecordBatch {
    let Some(key) = table.sorted_by.and_then(|column| table.position(column)) else {
        return rows.clone();
    };
    let keys = cast(rows.column(key), &DataType::Int64).unwrap();
    let keys = keys.as_primitive::<Int64Type>().values();
    let mut order: Vec<u32> = (0..rows.num_rows() as u32).collect();
    order.sort_by_key(|&row| keys[row as usize]);
    take_record_batch(rows, &UInt32Array::from(order)).unwrap()
}

#[test]
fn a_second_collection_adds_only_new_rows() {
    let recorded = Recorded::with_spools(&[&program(100)]);
    let before = collect_run(&recorded);
    assert!(!needs_collecting(recorded.path()).unwrap());
    recorded.write_spool(101, &program(101));
    assert!(needs_collecting(recorded.path()).unwrap());
    let collected = collect(&recorded);
    assert_eq!((collected.spools, collected.events), (1, 4));

    let after = Run::open(recorded.path()).unwrap();
    for (table, parts) in &before.manifest().tables {
        assert!(after.manifest().tables[table].starts_with(parts), "{table}");
    }
    // The names existed already.
    assert_eq!(after.manifest().tables["strings"], before.manifest().tables["strings"]);
    assert_eq!(after.manifest().tables["contexts"], before.manifest().tables["contexts"]);
    assert_same(&after, &collect_run(&Recorded::with_spools(&[&program(100), &program(101)])));
}

#[test]
fn a_spool_that_grows_ends_as_if_collected_once() {
    let frames = program(100);
    let once = collect_run(&Recorded::with_spools(&[&frames]));
    for frames_before in 0..=frames.len() {
        let recorded = Recorded::new();
        let recording = recorded.lock_as_recorder();
        recorded.write_spool(100, &frames[..frames_before]);
        let first_run = collect_run(&recorded);
        let is_whole = frames_before == frames.len();
        assert_eq!(recorded.spool_path(100).exists(), !is_whole);
        assert_eq!(first_run.manifest().spools[0].is_whole, is_whole);
        assert!(!needs_collecting(recorded.path()).unwrap());
        if !is_whole {
            recorded.write_spool(100, &frames);
        }
        let second_run = collect_run(&recorded);
        assert_same(&second_run, &once);
        drop(recording);
    }
}

#[test]
fn a_spool_of_a_dead_process_is_complete_even_if_torn() {
    let mut frames = program(100);
    frames.pop();
    let recorded = Recorded::new();
    let recording = recorded.lock_as_recorder();
    recorded.write_spool(100, &frames);
    collect_run(&recorded);
    assert!(recorded.spool_path(100).exists());
    drop(recording);
    assert!(needs_collecting(recorded.path()).unwrap());
    let run = collect_run(&recorded);
    assert!(!recorded.spool_path(100).exists());
    assert!(run.manifest().spools[0].is_whole);
    assert!(!run.manifest().processes[0].is_complete);
    assert_eq!(Tables::new(&run, 100).spans().len(), 4);
}

#[test]
fn a_spool_is_removed_only_when_the_tables_have_all_of_it() {
    let frames = program(100);
    let recorded = Recorded::new();
    let recording = recorded.lock_as_recorder();
    recorded.write_spool(100, &frames[..frames.len() - 1]);
    for _ in 0..2 {
        collect(&recorded);
        assert!(recorded.spool_path(100).exists());
    }
    recorded.write_spool(100, &frames);
    collect(&recorded);
    assert!(!recorded.spool_path(100).exists());
    drop(recording);

    // A complete spool is not collected again, whatever follows its end.
    let longer = [encode(&frames), vec![0]].concat();
    fs::write(recorded.spool_path(100), longer).unwrap();
    assert_eq!(collect(&recorded).spools, 0);
    assert!(recorded.spool_path(100).exists());
}

#[test]
fn a_reused_name_is_another_spool() {
    let recorded = Recorded::with_spools(&[&program(100)]);
    collect_run(&recorded);
    let mut later = program(100);
    if let SpoolFrame::Process(process) = &mut later[0] {
        process.start_unix_nanos += 1;
    }
    recorded.write_spool(100, &later);
    let run = collect_run(&recorded);
    assert_eq!(run.read(&stored::PROCESSES).unwrap().num_rows(), 2);
    assert_eq!(run.read(&stored::SPANS).unwrap().num_rows(), 8);
    assert!(!needs_collecting(recorded.path()).unwrap());
}

#[test]
fn a_crashed_collector_leaves_a_run_that_opens() {
    let spool = encode(&program(100));
    let recorded = Recorded::with_spools(&[&program(100)]);
    let run = collect_run(&recorded);
    let manifest = recorded.path().join("manifest.json");

    // A crash after the manifest was swapped, before the spool was removed.
    fs::write(recorded.spool_path(100), &spool).unwrap();
    assert!(!needs_collecting(recorded.path()).unwrap());
    assert_same(&collect_run(&recorded), &run);
    collect(&recorded);
    assert!(!recorded.spool_path(100).exists());
    fs::write(recorded.spool_path(100), &spool).unwrap();

    // A crash without a manifest, after and before parts got their names.
    fs::remove_file(&manifest).unwrap();
    fs::write(recorded.path().join("tables/spans/.part-9.xyz"), "half").unwrap();
    fs::write(recorded.path().join("tables/spans/part-90.parquet"), "older").unwrap();
    assert_same(&collect_run(&recorded), &run);
    assert_eq!(files(&recorded.path().join("tables/spans")), 1);

    // The same in a second collection: the old manifest stays valid.
    let old_manifest = fs::read(&manifest).unwrap();
    recorded.write_spool(101, &program(101));
    let run_of_both = collect_run(&recorded);
    fs::write(&manifest, old_manifest).unwrap();
    assert_same(&Run::open(recorded.path()).unwrap(), &run);
    recorded.write_spool(101, &program(101));
    assert_same(&collect_run(&recorded), &run_of_both);
    assert_eq!(files(&recorded.path().join("tables/spans")), 2);
}

fn files(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn another_file_with_a_spool_s_name_is_not_removed() {
    let mut frames = first_frames(100);
    let spans_of_thread: Vec<_> =
        (0..40_000).map(|index| (OUTER, index * 1_000_003, index * 1_000_003 + 7)).collect();
    frames.extend(spans_of_thread.chunks(1_000).cycle().take(400).map(|chunk| spans(0, 1, chunk)));
    let recorded = Recorded::with_spools(&[&frames]);
    let other = recorded.path().join("other");
    fs::write(&other, encode(&program(101))).unwrap();
    let mut calls = 0;
    let mut progress = |_| {
        calls += 1;
        // During the first pass.
        if calls == 1 {
            fs::rename(&other, recorded.spool_path(100)).unwrap();
        }
    };
    let events = marey_store::collect(recorded.path(), &no_trace, &mut progress).unwrap().events;
    assert!(calls > 1);
    assert_eq!(events, 400_000);
    let run = Run::open(recorded.path()).unwrap();
    assert_eq!(run.read(&stored::SPANS).unwrap().num_rows(), 400_000);
    assert!(needs_collecting(recorded.path()).unwrap());
    assert_eq!(collect_run(&recorded).read(&stored::PROCESSES).unwrap().num_rows(), 2);
}

#[test]
fn large_spools_are_published_before_later_ones_are_collected() {
    let recorded = Recorded::with_spools(&[&program(100), &program(101)]);
    // The torn end is a hole in the file.
    let spool = File::options().write(true).open(recorded.spool_path(100)).unwrap();
    spool.set_len(LARGE_BYTES).unwrap();
    let mut removed_before_the_end = false;
    marey_store::collect(recorded.path(), &no_trace, &mut |now| {
        removed_before_the_end |=
            now.done_bytes == now.total_bytes && !recorded.spool_path(100).exists();
    })
    .unwrap();
    assert!(removed_before_the_end);
}

/// Runs the test below in a process where the variable is set.
#[test]
fn spools_are_kept_if_the_variable_is_set() {
    let test_binary = std::env::current_exe().unwrap();
    let output = std::process::Command::new(test_binary)
        .args(["--exact", "collect::again::a_kept_spool_is_not_collected_again", "--ignored"])
        .env(marey_model::env::KEEP_SPOOL, "1")
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}");
}

#[test]
#[ignore = "it needs the variable that the test above sets"]
fn a_kept_spool_is_not_collected_again() {
    let recorded = Recorded::with_spools(&[&program(100)]);
    let run = collect_run(&recorded);
    assert!(recorded.spool_path(100).exists());
    assert!(!needs_collecting(recorded.path()).unwrap());
    assert_eq!(collect(&recorded).spools, 0);
    assert_same(&collect_run(&recorded), &run);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn collecting_twice_equals_collecting_once(
        frames in random_spool(100),
        cut in 0.0..1.0,
    ) {
        let bytes = encode(&frames);
        let once = collect_run(&Recorded::with_spools(&[&frames]));

        let twice = Recorded::new();
        let recording = twice.lock_as_recorder();
        let cut = (bytes.len() as f64 * cut) as usize;
        fs::write(twice.spool_path(100), &bytes[..cut]).unwrap();
        collect_run(&twice);
        fs::write(twice.spool_path(100), &bytes).unwrap();
        drop(recording);
        assert_same(&collect_run(&twice), &once);
    }
}
