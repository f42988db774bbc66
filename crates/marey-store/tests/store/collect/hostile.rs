//! Truncated and damaged spools, and files that are not spools.

use std::fs;
use std::os::unix::fs::symlink;

use marey_model::spool::{Inconsistency, SpoolError, SpoolFrame};
use marey_model::table::stored::SPANS;
use marey_store::{Progress, Run, StoreError, needs_collecting, open};

use super::model::expected;
use super::spools::{
    INNER, OUTER, Recorded, collect, collect_run, encode, first_frames, no_trace, spans, thread,
};
use super::tables::Tables;

#[test]
fn spools_truncated_anywhere_are_collected() {
    let mut frames = first_frames(100);
    frames.push(spans(0, 1, &[(INNER, 20, 30), (OUTER, 10, 40)]));
    let intact_frames = frames.len();
    frames.extend(thread(1));
    frames.extend([spans(1, 1, &[(INNER, 50, 60)]), SpoolFrame::End]);
    let ends: Vec<usize> = (0..=frames.len()).map(|count| encode(&frames[..count]).len()).collect();
    let spool_bytes = encode(&frames);
    for cut_bytes in ends[intact_frames]..=spool_bytes.len() {
        let recorded = Recorded::new();
        fs::write(recorded.spool_path(100), &spool_bytes[..cut_bytes]).unwrap();
        let collected = collect(&recorded);
        let intact = ends.iter().rposition(|&end| end <= cut_bytes).unwrap();
        assert_eq!(collected.bytes, ends[intact] as u64);
        assert_eq!(collected.torn_bytes, (cut_bytes - ends[intact]) as u64);
        assert!(collected.broken.is_empty());

        let run = Run::open(recorded.path()).unwrap();
        assert_eq!(Tables::new(&run, 100).spans(), expected(&frames[..intact]).spans);
        let spool = &run.manifest().spools[0];
        assert_eq!(spool.bytes + spool.torn_bytes, cut_bytes as u64);
        assert_eq!(run.manifest().processes[0].is_complete, cut_bytes == spool_bytes.len());
    }
}

#[test]
fn frames_before_an_invalid_one_are_kept() {
    let mut frames = first_frames(100);
    frames.push(spans(0, 1, &[(OUTER, 10, 40)]));
    let intact_bytes = encode(&frames).len();
    // A thread without a definition.
    frames.extend([spans(7, 1, &[(OUTER, 50, 60)]), SpoolFrame::End]);
    let recorded = Recorded::with_spools(&[&frames]);
    let collected = collect(&recorded);
    let [broken] = collected.broken.as_slice() else { panic!("{collected:?}") };
    assert_eq!(broken.name, "100-0.spool");
    assert_eq!(broken.lost_bytes, (encode(&frames).len() - intact_bytes) as u64);
    let is_named = matches!(
        broken.reason,
        SpoolError::Inconsistent { reason: Inconsistency::NoSuchThread(7), .. }
    );
    assert!(is_named, "{broken:?}");
    assert_eq!((collected.bytes, collected.torn_bytes), (intact_bytes as u64, broken.lost_bytes));

    // The spool is kept, and not collected again.
    assert!(recorded.spool_path(100).exists());
    assert!(!needs_collecting(recorded.path()).unwrap());
    let run = collect_run(&recorded);
    assert_eq!(Tables::new(&run, 100).spans().len(), 1);
}

#[test]
fn a_file_that_is_not_a_spool_does_not_stop_the_others() {
    let recorded = Recorded::with_frames([spans(0, 1, &[(OUTER, 10, 40)])]);
    for (pid, text) in
        [(7, &b"something else, long enough"[..]), (8, b"MAREYSPL\x09\0\0\0"), (9, b"")]
    {
        fs::write(recorded.spool_path(pid), text).unwrap();
    }
    fs::write(recorded.path().join("spool/notes.txt"), "no spool by its name").unwrap();
    let collected = collect(&recorded);
    assert_eq!((collected.spools, collected.torn_bytes), (4, 27 + 12));
    let reasons: Vec<_> = collected.broken.iter().map(|broken| &broken.reason).collect();
    let are_named =
        matches!(reasons[..], [SpoolError::NotASpool, SpoolError::Version { found: 9 }]);
    assert!(are_named, "{reasons:?}");
    let run = collect_run(&recorded);
    assert_eq!(Tables::new(&run, 100).spans().len(), 1);
    assert_eq!(Tables::new(&run, 7).spans().len(), 0);
}

#[test]
fn extreme_timestamps_are_ordinary_rows() {
    let ends = [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1, i64::MAX];
    let frames = ends.iter().flat_map(|&start| {
        ends.map(|end| spans(0, 1, &[(INNER, start, end), (OUTER, end, start)]))
    });
    let run = collect_run(&Recorded::with_frames(frames));
    let tables = Tables::new(&run, 100);
    assert_eq!(tables.spans().len(), 2 * ends.len() * ends.len());
    assert!(tables.spans().is_sorted_by_key(|row| row.start_nanos));
    assert!(tables.rollups().iter().all(|row| row.self_nanos >= 0));
}

#[test]
fn a_folder_that_is_not_a_run_is_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let error = marey_store::collect(folder.path(), &no_trace, &mut |_| ()).unwrap_err();
    assert!(matches!(error, StoreError::NotARun { .. }), "{error}");
    assert!(open(&folder.path().join("nowhere"), &no_trace, &mut |_| ()).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn symbolic_links_are_rejected() {
    let mut frames = first_frames(100);
    frames.push(spans(0, 1, &[(OUTER, 10, 40)]));
    let spool = encode(&frames);
    for name in [".collecting", ".recording", "spool", "tables", "tables/spans"] {
        let elsewhere = tempfile::tempdir().unwrap();
        let unrelated_part = elsewhere.path().join("part-7.parquet");
        fs::write(&unrelated_part, "not the run's").unwrap();
        fs::write(elsewhere.path().join("100-0.spool"), &spool).unwrap();

        let recorded = Recorded::with_spools(&[&frames]);
        let link = recorded.path().join(name);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        if name == "spool" {
            fs::remove_dir_all(&link).unwrap();
        }
        let target = if name.starts_with('.') {
            elsewhere.path().join("made")
        } else {
            elsewhere.path().into()
        };
        symlink(target, &link).unwrap();

        for error in [
            marey_store::collect(recorded.path(), &no_trace, &mut |_| ()).unwrap_err(),
            open(recorded.path(), &no_trace, &mut |_| ()).unwrap_err(),
        ] {
            assert!(matches!(&error, StoreError::Link { path } if *path == link), "{error}");
        }
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 2, "{name}");
        assert_eq!(fs::read(unrelated_part).unwrap(), b"not the run's");
    }
}

#[test]
fn a_recording_without_a_spool_is_an_empty_run() {
    let recorded = Recorded::new();
    let run = collect_run(&recorded);
    assert_eq!(run.read(&SPANS).unwrap().num_rows(), 0);
    assert!(!needs_collecting(recorded.path()).unwrap());
}

#[test]
fn progress_reaches_the_total() {
    let mut frames = first_frames(100);
    let many_spans: Vec<_> =
        (0..20_000).map(|index| (OUTER, index * 1_000_003, index * 1_000_003 + 7)).collect();
    frames.extend(many_spans.chunks(1_000).cycle().take(600).map(|chunk| spans(0, 1, chunk)));
    let recorded = Recorded::with_spools(&[&frames, &first_frames(101)]);
    let first_bytes = fs::metadata(recorded.spool_path(100)).unwrap().len();
    let mut reports: Vec<Progress> = Vec::new();
    let collected =
        marey_store::collect(recorded.path(), &no_trace, &mut |progress| reports.push(progress))
            .unwrap();
    let last = *reports.last().unwrap();
    assert!(reports.len() > 4 && reports.is_sorted_by_key(|now| (now.done_bytes, now.events)));
    let writing: Vec<_> =
        reports.iter().filter(|now| now.events > 0 && now.events < collected.events).collect();
    assert!(!writing.is_empty());
    for now in writing {
        let read_twice_and_written = 2 * first_bytes + first_bytes * now.events / collected.events;
        assert!(now.done_bytes.abs_diff(read_twice_and_written / 3) <= 1, "{now:?}");
    }
    assert_eq!((last.done_bytes, last.events), (last.total_bytes, 600_000));
    assert_eq!(last.total_bytes, collected.bytes);
}
