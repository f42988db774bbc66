//! Where spans that only the profiler has stand among those of the recorder.

use marey_model::context::NodeKind;
use marey_model::spool::SpoolFrame;
use marey_store::row::{MemoryEvent, Span};

use super::{
    ADDED, MODULE, OPERATOR, ROOT, Traced, WINDOW, add_slice, allocation, collect_with, frames,
    path, recorded_frames, span_rows,
};
use crate::read::{reader, rows};

/// Returns the paths of all spans with their starts on the recorder's clock and exclusive times.
fn placed(frames: &[SpoolFrame], slices: &[Traced]) -> Vec<(String, i64, i64)> {
    let (_folder, run) = collect_with(frames, slices, &|_, _, _| ());
    span_rows(&run).into_iter().map(|(path, start, own, _)| (path, start, own)).collect()
}

fn at(path: &str, start: i64, self_nanos: i64) -> (String, i64, i64) {
    (path.to_owned(), start, self_nanos)
}

const MODEL: (u32, i64, i64) = (MODULE, 90_000, 200_000);

#[test]
fn a_span_with_the_times_of_a_recorded_one_is_inside_it() {
    let slices = [("forward", NodeKind::Frame, 90_000, 200_000)];
    assert_eq!(
        placed(&frames(&[], &[WINDOW[0], MODEL, WINDOW[1]]), &slices),
        [at("model > forward", 90_000, 110_000), at("model", 90_000, 0)]
    );
}

#[test]
fn a_span_that_ends_shortly_after_a_recorded_one_is_inside_it() {
    let spool = frames(&[], &[WINDOW[0], MODEL, WINDOW[1]]);
    // The clocks agree but for a tolerance, of which the longer part of a span must be inside.
    for (start, end, path) in [
        (150_000, 201_000, "model > forward"),
        (198_999, 201_000, "model > forward"),
        (199_000, 201_000, "forward"),
        (200_000, 200_000, "model > forward"),
        (100_000, 250_000, "model > forward"),
        (100_000, 250_001, "forward"),
    ] {
        let rows = placed(&spool, &[("forward", NodeKind::Frame, start, end)]);
        assert_eq!(rows[1].0, path, "{start} to {end}");
        let duration = if path == "forward" { end - start } else { 200_000 - start };
        assert_eq!(rows[1].2, duration, "{start} to {end}");
    }
}

#[test]
fn a_span_around_a_recorded_one_that_ends_shortly_after_it_ends_with_it() {
    let spool = frames(&[], &[WINDOW[0], (OPERATOR, 100_000, 150_000), MODEL, WINDOW[1]]);
    assert_eq!(
        placed(&spool, &[("forward", NodeKind::Frame, 95_000, 149_900)]),
        [
            at("model", 90_000, 55_000),
            at("model > forward", 95_000, 5_000),
            at("model > forward > aten::mm.default", 100_000, 50_000),
        ]
    );
}

#[test]
fn a_span_outside_of_recorded_ones_is_inside_the_scope_that_never_ends() {
    let before = (ADDED, 100, 500);
    let spool =
        frames(&[(ROOT, "before")], &[before, WINDOW[0], (OPERATOR, 100_000, 150_000), WINDOW[1]]);
    let rows = placed(&spool, &[("forward", NodeKind::Frame, 300_000, 310_000)]);
    let paths: Vec<&str> = rows.iter().map(|row| &*row.0).collect();
    assert_eq!(paths, ["before", "model > aten::mm.default", "model > forward"]);
}

#[test]
fn a_span_of_a_task_stays_where_it_is() {
    let spool =
        frames(&[(ROOT, "task")], &[WINDOW[0], (ADDED, 110_000, 120_000), MODEL, WINDOW[1]]);
    let rows = placed(&spool, &[("forward", NodeKind::Frame, 100_000, 190_000)]);
    let paths: Vec<&str> = rows.iter().map(|row| &*row.0).collect();
    assert_eq!(paths, ["model", "model > forward", "task"]);
}

#[test]
fn a_span_after_the_window_stays_where_it_is() {
    let spool = frames(&[], &[WINDOW[0], WINDOW[1], (MODULE, 910_000, 920_000)]);
    let rows = placed(&spool, &[("train", NodeKind::Frame, 50_000, 950_000)]);
    assert_eq!(rows, [at("train", 50_000, 900_000), at("model", 910_000, 10_000)]);
}

#[test]
fn a_thread_that_recorded_nothing_is_added_with_its_spans() {
    const OTHER_OS_ID: i64 = 2000;
    let (_folder, run) = collect_with(&recorded_frames(), &[], &|run, process, _| {
        let thread = run.add_thread(process, OTHER_OS_ID, "");
        add_slice(run, thread, 0, ("load", NodeKind::Frame, 300_000, 400_000));
        add_slice(run, thread, 1, ("read", NodeKind::Frame, 310_000, 320_000));
        run.add_memory_event(&allocation(315_000, process, thread)).unwrap();
    });
    let reader = reader(&run);
    let os_id = |id| reader.threads().find(|thread| thread.id == id).unwrap().os_id;
    let spans: Vec<Span> = rows(&reader);
    let of_thread: Vec<String> = spans
        .iter()
        .filter(|span| os_id(span.thread_id) == OTHER_OS_ID)
        .map(|span| path(&reader, span.context_id))
        .collect();
    assert_eq!((of_thread, spans.len()), (vec!["load".to_owned(), "load > read".to_owned()], 5));
    let event = &rows::<MemoryEvent>(&reader)[0];
    assert_eq!(os_id(event.thread_id.unwrap()), OTHER_OS_ID);
    assert_eq!(path(&reader, event.context_id.unwrap()), "load > read");
}
