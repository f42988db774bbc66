//! Rings: the segments that remain are one spool of one process.

use std::fs;
use std::path::PathBuf;

use marey_model::spool::{RING_RECORDS, SessionEvent, SpoolFrame};
use marey_model::table::stored;
use marey_store::{Run, needs_collecting};

use super::spools::{
    INNER, OUTER, Recorded, UNIX, collect, collect_run, encode, first_frames, session, spans,
};
use super::tables::ints;

const KEY: &str = "100-1700000000000000100";

fn segment_path(recorded: &Recorded, number: u64) -> PathBuf {
    recorded.path().join(format!("spool/{KEY}.{number:06}.ring"))
}

/// Returns the frames of a segment that keeps `max` records, with these children of an open scope.
fn segment(max: u64, children: std::ops::Range<i64>) -> Vec<SpoolFrame> {
    let mut frames = first_frames(100);
    frames.push(SpoolFrame::Note { key: RING_RECORDS.to_owned(), value: max.to_string() });
    let children: Vec<_> =
        children.map(|number| (INNER, 100 * number, 100 * number + 50)).collect();
    frames.push(spans(0, 1, &children));
    frames.push(SpoolFrame::Open { thread: 0, spans: vec![(OUTER, 10)] });
    frames
}

fn write(recorded: &Recorded, number: u64, frames: &[SpoolFrame]) {
    fs::write(segment_path(recorded, number), encode(frames)).unwrap();
}

/// Returns start and duration of the spans of a run, and its processes.
fn contents(run: &Run) -> (Vec<Vec<i64>>, usize) {
    let rows = run.read(&stored::SPANS).unwrap();
    let times = ints(&rows, "start_nanos").iter().zip(ints(&rows, "duration_nanos"));
    let mut spans: Vec<_> = times.map(|(start, &duration)| vec![start - UNIX, duration]).collect();
    spans.sort();
    (spans, run.read(&stored::PROCESSES).unwrap().num_rows())
}

#[test]
fn the_segments_of_a_ring_are_one_process_with_the_last_records() {
    let recorded = Recorded::new();
    write(&recorded, 9, &segment(3, 1..3));
    write(&recorded, 10, &segment(3, 3..5));
    let mut last = segment(3, 5..6);
    last.extend([
        spans(0, 1, &[(OUTER, 10, 900)]),
        session(0, SessionEvent::Finalized, 950),
        SpoolFrame::End,
    ]);
    write(&recorded, 11, &last);
    let run = collect_run(&recorded);
    let expected = vec![vec![10, 890], vec![400, 50], vec![500, 50]];
    assert_eq!(contents(&run), (expected, 1));
    assert_eq!(run.manifest().losses["ring_dropped"], 3);
    assert!(run.manifest().processes[0].is_complete);
    assert_eq!(fs::read_dir(recorded.path().join("spool")).unwrap().count(), 0);
    assert!(!needs_collecting(recorded.path()).unwrap());
}

#[test]
fn a_ring_that_goes_on_replaces_what_was_collected_before() {
    let recorded = Recorded::new();
    let _recording = recorded.lock_as_recorder();
    write(&recorded, 0, &segment(4, 1..3));
    write(&recorded, 1, &segment(4, 3..4));
    let before = collect_run(&recorded);
    // The open scope ends, for now, at the last record.
    assert_eq!(contents(&before).0[0][0], 10);
    assert_eq!(contents(&before), (contents(&collect_run(&recorded)).0, 1));
    assert!(!needs_collecting(recorded.path()).unwrap());

    fs::remove_file(segment_path(&recorded, 0)).unwrap();
    write(&recorded, 1, &segment(4, 3..6));
    write(&recorded, 2, &segment(4, 6..8));
    assert!(needs_collecting(recorded.path()).unwrap());
    let collected = collect(&recorded);
    assert_eq!((collected.spools, collected.torn_bytes), (1, 0));
    let (spans, processes) = contents(&Run::open(recorded.path()).unwrap());
    let starts: Vec<_> = spans.iter().map(|span| span[0]).collect();
    assert_eq!((starts, processes), (vec![10, 400, 500, 600, 700], 1));
    assert!(segment_path(&recorded, 2).exists());
}

#[test]
fn segments_that_a_crashed_collector_left_are_removed_by_the_next_collection() {
    let recorded = Recorded::new();
    let mut last = segment(4, 3..4);
    last.push(SpoolFrame::End);
    let write_all = || {
        write(&recorded, 0, &segment(4, 1..3));
        write(&recorded, 1, &last);
    };
    write_all();
    let before = contents(&collect_run(&recorded));
    write_all();
    assert!(!needs_collecting(recorded.path()).unwrap());
    assert_eq!(collect(&recorded).spools, 0);
    assert_eq!(fs::read_dir(recorded.path().join("spool")).unwrap().count(), 0);
    assert_eq!(contents(&Run::open(recorded.path()).unwrap()), before);
}

#[test]
fn a_last_segment_that_is_torn_anywhere_is_read_up_to_there() {
    let last = encode(&segment(10, 3..5));
    for len in (0..last.len()).step_by(31) {
        let recorded = Recorded::new();
        write(&recorded, 0, &segment(10, 1..3));
        fs::write(segment_path(&recorded, 1), &last[..len]).unwrap();
        let (spans, processes) = contents(&collect_run(&recorded));
        let starts: Vec<_> = spans.iter().map(|span| span[0]).collect();
        assert_eq!(processes, 1);
        assert!(
            starts == [10, 100, 200] || starts == [100, 200] || starts.len() >= 4,
            "{starts:?}"
        );
    }
}

#[test]
fn the_segments_after_a_damaged_one_are_read() {
    let no_header = vec![0xff; 100];
    let contradiction = encode(&[segment(100, 3..5), first_frames(100)].concat());
    for (damaged, expected) in
        [(no_header, vec![100, 200, 500, 600]), (contradiction, vec![100, 200, 300, 400, 500, 600])]
    {
        let recorded = Recorded::new();
        write(&recorded, 0, &segment(100, 1..3));
        fs::write(segment_path(&recorded, 1), &damaged).unwrap();
        let mut last = segment(100, 5..7);
        last.push(SpoolFrame::End);
        write(&recorded, 2, &last);
        let collected = collect(&recorded);
        assert_eq!(collected.broken.len(), 1);
        let (spans, _) = contents(&Run::open(recorded.path()).unwrap());
        let starts: Vec<_> =
            spans.iter().map(|span| span[0]).filter(|&start| start != 10).collect();
        assert_eq!(starts, expected);
        // Nothing of a damaged ring is removed.
        assert!(segment_path(&recorded, 1).exists());
    }
}
