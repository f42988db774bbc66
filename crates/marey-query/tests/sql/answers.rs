//! Answers come as they are read, are cut, and can be stopped.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatchReader};
use marey_query::sql::{Database, Limits, SqlError};
use marey_store::Run;

use crate::run::TestRun;

/// Longer than any machine is held up, and shorter than the query, which never ends.
const PATIENCE: Duration = Duration::from_mins(1);

#[test]
fn an_answer_is_cut_at_the_greatest_number_of_rows() {
    let run = TestRun::new();
    for (max_rows, rows, was_cut) in [(3, 3, true), (8, 8, false), (9, 8, false), (0, 0, true)] {
        let mut answer = run.database.query("SELECT * FROM spans", Some(max_rows)).unwrap();
        let found: usize = answer.by_ref().map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!((found, answer.was_cut()), (rows, was_cut), "{max_rows}");
        assert!(answer.next().is_none());
    }
}

#[test]
fn an_explanation_is_not_cut_short_by_a_limit_of_rows() {
    let run = TestRun::new();
    let answer = run.database.query("EXPLAIN SELECT * FROM spans", Some(100)).unwrap();
    assert!(answer.map(|batch| batch.unwrap().num_rows()).sum::<usize>() > 0);
}

#[test]
fn an_answer_is_a_reader_of_arrow_too() {
    let run = TestRun::new();
    let reader = run.database.query("SELECT 1 AS one", None).unwrap().into_reader();
    assert_eq!(reader.schema().field(0).name(), "one");
    assert_eq!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 1);
    let failing = run
        .database
        .query("SELECT 1 / (start_nanos - 1000) FROM spans", None)
        .unwrap()
        .into_reader();
    let error = failing.last().unwrap().unwrap_err();
    assert!(error.to_string().contains("divided by zero"), "{error}");
}

/// Runs for a lifetime without giving a row.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 10000000) a \
    CROSS JOIN generate_series(1, 10000000) b CROSS JOIN generate_series(1, 10000000) c \
    WHERE (a.value * b.value * c.value) % 7 = 9";

#[test]
fn a_query_is_stopped_in_the_middle_of_an_operator() {
    let run = TestRun::new();
    let mut answer = run.database.query(ENDLESS, None).unwrap();
    let canceller = answer.canceller();
    let (sender, receiver) = mpsc::sync_channel(2);
    thread::scope(|threads| {
        threads.spawn(move || {
            sender.send(None).unwrap(); // about to wait
            sender.send(answer.next()).unwrap();
        });
        assert!(receiver.recv_timeout(PATIENCE).unwrap().is_none());
        canceller.cancel();
        let stopped = receiver.recv_timeout(PATIENCE).expect("it stops");
        assert!(matches!(stopped, Some(Err(SqlError::Cancelled))));
    });
    // Its threads are free again: as many queries as there are threads find one.
    for _ in 0..4 {
        assert_eq!(run.value("SELECT count(*) FROM spans WHERE duration_nanos > 0"), "8");
    }
}

#[test]
fn dropping_an_answer_stops_its_query() {
    let run = TestRun::new();
    for _ in 0..8 {
        let mut answer =
            run.database.query("SELECT * FROM generate_series(1, 10000000000)", None).unwrap();
        assert!(answer.next().unwrap().unwrap().num_rows() > 0);
    }
    assert_eq!(run.value("SELECT count(*) FROM spans WHERE duration_nanos > 0"), "8");
}

#[test]
fn an_answer_outlives_its_database() {
    let run = TestRun::new();
    let answer = run.database.query("SELECT name FROM spans", None).unwrap();
    drop(run);
    assert_eq!(answer.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 8);
}

#[test]
fn a_query_that_needs_too_much_memory_says_how_much_it_may_have() {
    let run = TestRun::new();
    let opened = Run::open(&run.folder.0).unwrap();
    let limits = Limits { memory_bytes: 16 << 20, threads: 0 };
    let database = Database::open(Arc::new(opened), limits).unwrap();
    let sql = "SELECT count(*) FROM (SELECT DISTINCT value * 7919 % 5000011 FROM generate_series(1, 5000000))";
    let error = database.query(sql, None).unwrap().last().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the query needs more than 16 MiB of memory");
    assert!(error.hint().unwrap().contains("--memory-limit"));
    let sorted = "SELECT value FROM generate_series(1, 5000000) ORDER BY value % 1013, value DESC";
    let error = database.query(sorted, None).unwrap().last().unwrap().unwrap_err();
    assert!(
        matches!(error, SqlError::Memory { limit_bytes } if limit_bytes == 16 << 20),
        "{error:?}"
    );
}

#[test]
fn batches_do_not_hold_on_to_all_texts_of_the_run() {
    let run = TestRun::new();
    let sql = "SELECT name FROM spans WHERE name LIKE 'a name%'";
    let batch = run.database.query(sql, None).unwrap().next().unwrap().unwrap();
    let texts = batch.column(0).as_string_view();
    let held: usize = texts.data_buffers().iter().map(arrow::buffer::Buffer::len).sum();
    assert_eq!((texts.len(), held), (1, texts.value(0).len()));
}

#[test]
fn a_pack_answers_as_its_folder_does() {
    let run = TestRun::new();
    let packed = crate::run::Folder::new();
    let path = packed.0.join("packed");
    marey_store::pack(&run.folder.0, &path).unwrap();
    let database = Database::open(Arc::new(Run::open(&path).unwrap()), Limits::default()).unwrap();
    assert!(database.run().is_pack());
    let sql = "SELECT * FROM spans ORDER BY start_nanos";
    assert_eq!(crate::run::rows(&database, sql).unwrap(), run.rows(sql));
}
