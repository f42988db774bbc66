//! Hostile queries: none may crash the program or use unbounded resources.

use marey_model::context::NodeKind;
use marey_query::sql::SqlError;
use marey_store::{NewProcess, Slice};

use crate::run::{TestRun, rows};

fn repeat(part: &str, count: usize) -> String {
    part.repeat(count)
}

/// Queries that nest as deeply as they are long.
fn deep_queries(count: usize) -> Vec<String> {
    let nest = |open: &str, middle: &str, close: &str| {
        format!("SELECT {}{middle}{}", repeat(open, count), repeat(close, count))
    };
    vec![
        format!("SELECT 1{}", repeat(" IN (1)", count)),
        format!("SELECT now(){}", repeat(" AT TIME ZONE 'UTC'", count)),
        format!("SELECT {}'1 day'", repeat("INTERVAL ", count)),
        format!("{}SELECT 1", repeat("EXPLAIN ", count)),
        format!("SELECT {}1", repeat("- ", count)),
        format!("SELECT {}true", repeat("NOT ", count)),
        format!("SELECT 1{}", repeat(" + 1", count)),
        format!("SELECT 1{}", repeat("::INT", count)),
        format!("SELECT 'a'{}", repeat(" || 'a'", count)),
        format!("SELECT 'a'{}", repeat(" COLLATE x", count)),
        format!("SELECT 1{}", repeat(" IS NULL", count)),
        format!("SELECT a{}", repeat(".a", count)),
        format!("SELECT (SELECT 1){}", repeat(".a", count)),
        format!("SELECT a{}", repeat("[1]", count)),
        format!("SELECT a{}", repeat(":a", count)),
        format!("SELECT CAST(NULL AS INT{})", repeat("[]", count)),
        nest("(", "1", ")"),
        nest("[", "1", "]"),
        nest("(SELECT ", "1", ")"),
        nest("CASE WHEN true THEN ", "1", " END"),
        nest("abs(", "1", ")"),
        nest("CAST(", "1", " AS INT)"),
        nest("EXISTS (SELECT ", "1", ")"),
        format!("SELECT CAST(NULL AS {}INT{})", repeat("ARRAY<", count), repeat(">", count)),
        format!("SELECT CAST(NULL AS {}INT{})", repeat("STRUCT<a ", count), repeat(">", count)),
        format!("SELECT * FROM {}strings{}", repeat("(", count), repeat(")", count)),
        format!("SELECT * FROM {}strings{}", repeat("(SELECT * FROM ", count), repeat(")", count)),
        format!("{}SELECT 1{}", repeat("(", count), repeat(")", count)),
        format!("{}SELECT 1", repeat("SELECT 1 UNION ALL ", count)),
        format!("{}SELECT 1", repeat("SELECT 1 EXCEPT ", count)),
        format!("{}SELECT 1{}", repeat("WITH a AS (", count), repeat(") SELECT * FROM a", count)),
        format!("SELECT 1 FROM strings{}", repeat(", strings", count)),
        format!("SELECT 1 FROM strings{}", repeat(" NATURAL JOIN strings", count)),
        format!("SELECT 1 FROM strings GROUP BY {}1{}", repeat("(", count), repeat(")", count)),
        format!("SELECT 1 FROM strings GROUP BY CUBE (id{})", repeat(", id", count)),
        format!("SELECT {}a", repeat("a -> ", count)),
        format!("SELECT {}'a'", repeat("DATE ", count)),
        format!("SELECT 1{}", repeat(" BETWEEN 1 AND 1", count)),
        format!("SELECT 'a'{}", repeat(" 'a'", count)),
        format!("VALUES {}1{}", repeat("(", count), repeat(")", count)),
    ]
}

/// Takes long because queries just below the limit are planned and run, without optimisation.
#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    let run = TestRun::new();
    for count in [30, 100, 640, 2_000, 100_000] {
        for sql in deep_queries(count) {
            let answer = rows(&run.database, &sql);
            assert!(count < 2_000 || answer.is_err(), "{}…", &sql[..40]);
        }
    }
}

#[test]
fn backtracking_of_the_parser_is_bounded() {
    let run = TestRun::new();
    for open in ["CAST(", "EXTRACT(", "POSITION(", "TRIM(", "EXISTS (", "name(", "x IN ("] {
        for count in [10, 11, 100] {
            run.error(&format!("SELECT {}SELECT !", repeat(open, count)));
        }
    }
}

#[test]
fn a_query_that_grows_exponentially_is_rejected_before_planning() {
    let run = TestRun::new();
    let doubled: Vec<String> = (1..40)
        .map(|level| {
            let before = level - 1;
            format!("c{level} AS (SELECT a.id FROM c{before} a JOIN c{before} b ON a.id = b.id)")
        })
        .collect();
    let with = format!("WITH c0 AS (SELECT id FROM strings), {}", doubled.join(", "));
    let error = run.error(&format!("{with} SELECT count(*) FROM c39"));
    assert!(error.to_string().contains("too large"), "{error}");
    let with = format!("WITH c0 AS (SELECT id FROM strings), {}", doubled[..3].join(", "));
    assert_eq!(run.value(&format!("{with} SELECT count(*) FROM c3")), "9");
}

#[test]
fn functions_that_inflate_their_input_are_removed() {
    let run = TestRun::new();
    for call in [
        "arrow_cast(NULL, 'List(Int64)')",
        "rpad('a', 1000000000)",
        "repeat('a', 1000000000)",
        "array_repeat(1, 1000000000)",
        "range(1, 1000000000)",
        "generate_series(1, 1000000000)",
    ] {
        let error = run.error(&format!("SELECT {call}"));
        assert!(matches!(error, SqlError::UnknownFunction { .. }), "{call}: {error:?}");
    }
}

#[test]
fn a_window_over_more_rows_than_memory_is_rejected() {
    let run = TestRun::with_memory(8 << 20);
    let windows = ["self_nanos(value, value + 1) OVER ()", "sum(value) OVER ()"];
    for window in windows {
        let sql = |rows| {
            format!("SELECT count(w) FROM (SELECT {window} AS w FROM generate_series(1, {rows}))")
        };
        let error = run.error(&sql(300_000));
        assert!(matches!(error, SqlError::Memory { .. }), "{window}: {error:?}");
        assert_eq!(run.value(&sql(10_000)), "10000", "{window}");
    }
}

#[test]
fn a_map_of_more_names_than_memory_is_rejected() {
    let grouped = |memory_bytes| {
        let run = TestRun::assembled(memory_bytes, |run| {
            let process = run.add_process(NewProcess::default());
            for number in 0..100_000 {
                run.add_thread(process, number, &number.to_string());
            }
            let thread = run.add_thread(process, -1, "last");
            let name = run.text_id("step");
            run.add_slice(&Slice::new(thread, NodeKind::Scope, name, 0, 10)).unwrap();
        });
        rows(&run.database, "SELECT thread_name(thread_id), count(*) FROM raw.spans GROUP BY 1")
    };
    // The column of names needs 2 MB, and the map from names to ids 5 MB.
    let error = grouped(4 << 20).unwrap_err();
    assert!(matches!(error, SqlError::Memory { .. }), "{error:?}");
    assert_eq!(grouped(16 << 20).unwrap(), ["last | 1"]);
}

#[test]
fn a_panic_of_the_engine_becomes_a_short_error() {
    let message = TestRun::new().error("SELECT first_value() OVER () FROM steps").to_string();
    assert!(!message.contains("Internal error"), "{message}");
    assert!(message.chars().count() < 1_100, "{message}");
}
