//! Answers: reading, limits, cancellation and memory.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatchReader};
use marey_query::sql::{Database, Limits, SqlError};
use marey_store::Run;

use crate::run::{TestRun, rows};

/// Longer than any machine stalls, and shorter than the endless queries.
const TIMEOUT: Duration = Duration::from_mins(1);

#[test]
fn an_answer_is_cut_at_the_maximum_number_of_rows() {
    let run = TestRun::new();
    for (max_rows, rows, was_cut) in [(3, 3, true), (8, 8, false), (9, 8, false), (0, 0, true)] {
        let mut answer = run.database.query("SELECT * FROM spans", Some(max_rows)).unwrap();
        let found: usize = answer.by_ref().map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!((found, answer.was_cut()), (rows, was_cut), "{max_rows}");
        assert!(answer.next().is_none());
    }
}

#[test]
fn a_limit_of_rows_does_not_change_an_explanation() {
    let run = TestRun::new();
    let answer = run.database.query("EXPLAIN SELECT * FROM spans", Some(100)).unwrap();
    assert!(answer.map(|batch| batch.unwrap().num_rows()).sum::<usize>() > 0);
}

#[test]
fn an_answer_can_be_read_as_an_arrow_reader() {
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

/// Queries that run practically forever without a row, each in a different operator, with constant
/// memory: a query whose memory grows would end by itself, sooner on a faster machine.
const ENDLESS: [&str; 4] = [
    "SELECT max(a.value + b.value) FROM generate_series(1, 3000000) a CROSS JOIN \
        generate_series(1, 100000000) b",
    "SELECT count(*) FROM generate_series(1, 10000000) a JOIN generate_series(1, 10000000) b \
        ON a.value + b.value < 0",
    "SELECT count(*) FROM generate_series(1, 3000000) a JOIN generate_series(1, 3000000) b \
        ON a.value % 1 = b.value % 1 AND a.value + b.value < 0",
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t",
];

/// CPU time after which a query is certainly in the middle of its operator; tests spend it for each
/// operator and number of threads.
const BUSY_CPU_TIME: Duration = Duration::from_millis(700);

/// The CPU time of this process, over all its threads.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// Waits until the process has used CPU time for a while, during which nothing may be received.
fn wait_until_begun<T: std::fmt::Debug>(receiver: &mpsc::Receiver<T>) {
    let begin = cpu_time();
    while cpu_time() < begin + BUSY_CPU_TIME {
        let early = receiver.recv_timeout(Duration::from_millis(10));
        assert!(
            matches!(early, Err(mpsc::RecvTimeoutError::Timeout)),
            "the query ended early: {early:?}"
        );
    }
}

fn with_threads(run: &TestRun, threads: usize) -> Arc<Database> {
    let opened = Run::open(run.folder.path()).unwrap();
    Arc::new(Database::new(Arc::new(opened), Limits { threads, ..Limits::default() }))
}

/// Runs a query on a thread that is not joined, in case it never ends.
fn run_detached(query: impl FnOnce() + Send + 'static) {
    thread::Builder::new().name("query".into()).spawn(query).unwrap();
}

/// Asserts that the database answers within the timeout, so that none of its threads is still busy.
fn assert_is_idle(database: &Arc<Database>, after: &str) {
    let (sender, receiver) = mpsc::sync_channel(1);
    let database = Arc::clone(database);
    run_detached(move || {
        let answer = rows(&database, "SELECT count(*) FROM spans WHERE duration_nanos > 0");
        drop(sender.send(answer));
    });
    let answer = receiver.recv_timeout(TIMEOUT);
    let answer = answer.unwrap_or_else(|_| panic!("a thread is still busy after {after}"));
    assert_eq!(answer.unwrap(), ["8"]);
}

#[test]
fn a_query_is_cancelled_in_the_middle_of_an_operator() {
    let run = TestRun::new();
    for (sql, threads) in ENDLESS.iter().flat_map(|sql| [(sql, 1), (sql, 2)]) {
        let database = with_threads(&run, threads);
        let mut answer = database.query(sql, None).unwrap();
        let canceller = answer.canceller();
        let (sender, receiver) = mpsc::sync_channel(1);
        run_detached(move || drop(sender.send(answer.next())));
        wait_until_begun(&receiver);
        canceller.cancel();
        let stopped = receiver.recv_timeout(TIMEOUT).expect("the query stops");
        assert!(matches!(stopped, Some(Err(SqlError::Cancelled))), "{sql}");
        assert_is_idle(&database, sql);
    }
}

#[test]
fn dropping_an_answer_stops_its_query() {
    let run = TestRun::new();
    for sql in ENDLESS {
        let database = with_threads(&run, 1);
        let sql = format!("SELECT 1 UNION ALL SELECT * FROM ({sql})");
        let mut answer = database.query(&sql, None).unwrap();
        assert_eq!(answer.next().unwrap().unwrap().num_rows(), 1);
        let (sender, receiver) = mpsc::sync_channel::<()>(1);
        wait_until_begun(&receiver);
        drop((answer, sender));
        assert_is_idle(&database, &sql);
    }
    let database = with_threads(&run, 2);
    for _ in 0..8 {
        let sql = "SELECT * FROM generate_series(1, 10000000000)";
        let mut answer = database.query(sql, None).unwrap();
        assert!(answer.next().unwrap().unwrap().num_rows() > 0);
    }
    assert_is_idle(&database, "eight queries of which a few rows were read");
}

#[test]
fn an_answer_outlives_its_database() {
    let run = TestRun::new();
    let answer = run.database.query("SELECT name FROM spans", None).unwrap();
    drop(run);
    assert_eq!(answer.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 8);
}

#[test]
fn an_error_about_memory_states_the_limit() {
    let run = TestRun::new();
    let opened = Run::open(run.folder.path()).unwrap();
    let limits = Limits { memory_bytes: 16 << 20, threads: 0, ..Limits::default() };
    let database = Database::new(Arc::new(opened), limits);
    let joined = "SELECT count(*) FROM generate_series(1, 5000000) AS a (value) \
        JOIN generate_series(1, 5000000) AS b (value) ON a.value = b.value";
    let error = database.query(joined, None).unwrap().last().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the query needs more than 16 MiB of memory");
    assert!(error.hint().unwrap().contains("--memory-limit"));
    assert!(matches!(error, SqlError::Memory { limit_bytes } if limit_bytes == 16 << 20));
}

/// The values take twice the memory, which takes some seconds without optimisation.
#[test]
fn sorts_and_groups_spill_to_files_beyond_their_memory() {
    let run = TestRun::with_memory(8 << 20);
    let sorted = "SELECT value FROM generate_series(1, 2000000) ORDER BY -(value * 7919 % 2000003)";
    let values: Vec<i64> = run.rows(sorted).iter().map(|row| row.parse().unwrap()).collect();
    assert_eq!(values.len(), 2_000_000);
    assert!(values.is_sorted_by_key(|value| -(value * 7919 % 2_000_003)));
    let grouped = "SELECT count(*), sum(times) FROM (SELECT value * 7919 % 250007 AS value, \
        count(*) AS times FROM generate_series(1, 500000) GROUP BY 1)";
    assert_eq!(run.rows(grouped), ["250007 | 500000"]);
}

#[test]
fn a_failed_query_releases_its_memory_for_the_next() {
    let run = TestRun::with_memory(8 << 20);
    let fits =
        "SELECT count(*) FROM (SELECT DISTINCT value % 100000 FROM generate_series(1, 100000))";
    let too_much =
        "SELECT value FROM generate_series(1, 5000000) ORDER BY value % 1013, value DESC";
    // A failed query that kept a part of its memory would make a later one fail.
    for _ in 0..5 {
        assert_eq!(run.value(fits), "100000");
        assert!(matches!(run.error(too_much), SqlError::Memory { .. }));
    }
}

#[test]
fn a_limit_below_a_mebibyte_is_stated_in_a_smaller_unit() {
    let message = |limit_bytes| SqlError::Memory { limit_bytes }.to_string();
    assert_eq!(message(3 << 20), "the query needs more than 3 MiB of memory");
    assert_eq!(message(65_536), "the query needs more than 64 KiB of memory");
    assert_eq!(message(7), "the query needs more than 7 bytes of memory");
}

#[test]
fn batches_do_not_reference_the_whole_string_table() {
    let run = TestRun::new();
    let sql = "SELECT name FROM spans WHERE name LIKE 'a name%'";
    let batch = run.database.query(sql, None).unwrap().next().unwrap().unwrap();
    let texts = batch.column(0).as_string_view();
    let buffer_bytes: usize = texts.data_buffers().iter().map(arrow::buffer::Buffer::len).sum();
    assert_eq!((texts.len(), buffer_bytes), (1, texts.value(0).len()));
}

#[test]
fn repeated_column_names_get_numbers() {
    let run = TestRun::new();
    let sql = "SELECT * FROM (SELECT 1 AS a, 2 AS a_1) AS x CROSS JOIN (SELECT 3 AS a) AS y";
    let mut answer = run.database.query(sql, None).unwrap();
    let names = |schema: arrow::datatypes::SchemaRef| {
        schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(answer.schema()), ["a", "a_1", "a_2"]);
    assert_eq!(names(answer.next().unwrap().unwrap().schema()), ["a", "a_1", "a_2"]);
}

#[test]
fn a_pack_gives_the_same_answers_as_its_folder() {
    let run = TestRun::new();
    let packed = tempfile::tempdir().unwrap();
    let path = packed.path().join("packed");
    marey_store::pack(run.folder.path(), &path).unwrap();
    let database = Database::new(Arc::new(Run::open(&path).unwrap()), Limits::default());
    assert!(database.run().is_pack());
    let sql = "SELECT * FROM spans ORDER BY start_nanos";
    assert_eq!(rows(&database, sql).unwrap(), run.rows(sql));
}
