//! Errors: one line that states the problem, and a separate hint.

use std::sync::Arc;

use arrow::array::UInt32Array;
use marey_model::table::{Table, stored};
use marey_query::sql::{Database, Limits, SqlError};

use crate::run::{SPANS, TestRun, ids, ints, rows, tables, texts, write_run};

fn message_and_hint(run: &TestRun, sql: &str) -> (String, String) {
    let error = run.error(sql);
    (error.to_string(), error.hint().unwrap_or_default())
}

#[test]
fn an_unknown_name_is_answered_with_similar_ones() {
    let run = TestRun::new();
    for (sql, message, hint) in [
        ("SELECT * FROM span", "there is no table `span`", "did you mean `spans`?"),
        (
            "SELECT * FROM raw.metric",
            "there is no table `raw.metric`",
            "did you mean `raw.metrics`?",
        ),
        ("DESCRIBE spasn", "there is no table `spasn`", "did you mean `spans`?"),
        ("SHOW COLUMNS FROM raw.metric", "there is no table `raw.metric`", "`raw.metrics`?"),
        (
            "SELECT duration FROM spans",
            "there is no column `duration`",
            "did you mean `duration_nanos`?",
        ),
        (
            "SELECT s.durations_nanos FROM spans s",
            "there is no column `s.durations_nanos`",
            "did you mean `duration_nanos`?",
        ),
        (
            "SELECT unoin_nanos(1, 2)",
            "there is no function `unoin_nanos`",
            "did you mean `union_nanos`?",
        ),
    ] {
        let (found, hinted) = message_and_hint(&run, sql);
        assert_eq!(found, message, "{sql}");
        assert!(
            hinted.starts_with(hint)
                || hinted
                    .contains(hint.trim_start_matches("did you mean ").trim_matches(['`', '?'])),
            "{sql}: {hinted}"
        );
    }
    let joined = "SELECT zzz FROM strings a JOIN strings b ON a.id = b.id";
    assert_eq!(message_and_hint(&run, joined).1, "the columns are id, text");
    let (_, hint) = message_and_hint(&run, "SELECT * FROM zzz");
    assert!(hint.starts_with("the tables are args, async_spans, "), "{hint}");
    let (_, hint) = message_and_hint(&run, "SELECT zzz FROM strings");
    assert_eq!(hint, "the columns are id, text");
}

#[test]
fn a_syntax_error_has_its_position() {
    let run = TestRun::new();
    let error = run.error("SELECT name\nFROM spans WHERE\nGROUP BY 1");
    assert!(matches!(error, SqlError::Syntax { line: Some(3), column: Some(7), .. }), "{error:?}");
    assert_eq!(error.to_string(), "Expected: end of statement, found: BY, at line 3, column 7");
    assert!(matches!(run.error(""), SqlError::Empty));
    assert!(matches!(run.error("SELECT 1; SELECT 2"), SqlError::ManyStatements { count: 2 }));
    assert!(matches!(run.error("SELECT 'open"), SqlError::Syntax { .. }));
}

#[test]
fn statements_that_modify_something_are_rejected() {
    let run = TestRun::new();
    for (sql, word) in [
        ("CREATE TABLE t (a INT)", "CREATE"),
        ("CREATE TABLE t AS SELECT 1", "CREATE"),
        ("CREATE VIEW v AS SELECT 1", "CREATE"),
        ("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '/etc/passwd'", "CREATE"),
        ("CREATE SCHEMA s", "CREATE"),
        ("CREATE FUNCTION f(BIGINT) RETURNS BIGINT RETURN $1", "CREATE"),
        ("DROP TABLE raw.spans", "DROP"),
        ("INSERT INTO raw.strings VALUES (1, 'a')", "INSERT"),
        ("UPDATE raw.strings SET text = 'a'", "UPDATE"),
        ("DELETE FROM raw.strings", "DELETE"),
        ("COPY (SELECT 1) TO '/tmp/out.parquet'", "COPY"),
        ("EXPLAIN COPY (SELECT 1) TO '/tmp/out.parquet'", "COPY"),
        ("SET datafusion.execution.batch_size = 1", "SET"),
        ("PREPARE p AS SELECT 1", "PREPARE"),
        ("BEGIN", "BEGIN"),
        ("TRUNCATE TABLE raw.strings", "TRUNCATE"),
        ("SELECT 1 INTO t", "SELECT"),
    ] {
        let error = run.error(sql);
        let SqlError::ReadOnly { statement } = &error else { panic!("{sql}: {error:?}") };
        if word != "SELECT" {
            assert_eq!(statement, word, "{sql}");
        }
        assert!(error.to_string().starts_with("marey queries read only: "), "{sql}: {error}");
    }
}

#[test]
fn a_table_of_the_schema_python_is_suggested_with_its_schema() {
    let run = TestRun::new();
    assert!(matches!(run.error("SELECT * FROM backtrace"), SqlError::UnknownTable { .. }));
    let (_, hint) = message_and_hint(&run, "SELECT * FROM python.torch_trac");
    assert!(hint.contains("python.torch_trace"), "{hint}");
}

#[test]
fn files_outside_the_run_cannot_be_read() {
    let run = TestRun::new();
    for sql in [
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM 'file:///etc/passwd'",
        "SELECT * FROM \"tables/strings/part-0.parquet\"",
        "SELECT * FROM other.main.spans",
    ] {
        assert!(matches!(run.error(sql), SqlError::UnknownTable { .. }), "{sql}");
    }
    for sql in
        ["SELECT * FROM read_parquet('/etc/passwd')", "SELECT * FROM read_csv('/etc/passwd')"]
    {
        run.error(sql);
    }
}

#[test]
fn errors_of_evaluation_have_one_line() {
    let run = TestRun::new();
    assert_eq!(
        message_and_hint(&run, "SELECT 1 / (start_nanos - 1000) FROM spans").0,
        "a number was divided by zero"
    );
    for sql in [
        "SELECT CAST(name AS BIGINT) FROM spans",
        "SELECT start_nanos FROM spans GROUP BY name",
        "SELECT quantile(duration_nanos, 7) FROM spans",
        "SELECT quantile(duration_nanos, start_nanos) FROM spans",
        "SELECT quantile(-duration_nanos, 0.5) FROM spans",
        "SELECT quantile(name, 0.5) FROM spans",
        "SELECT name('step')",
        "SELECT name(1, 2)",
        "SELECT union_nanos(DISTINCT start_nanos, end_nanos) FROM spans",
        "SELECT sum(duration_nanos) OVER (ROWS BETWEEN 'a' PRECEDING AND CURRENT ROW) FROM spans",
        "SELECT a.name FROM spans a JOIN spans b ON a.name_id = b.name_id WHERE name = 'x'",
        "SELECT regexp_like(name, '(') FROM spans",
    ] {
        let message = message_and_hint(&run, sql).0;
        assert!(!message.is_empty() && !message.contains('\n'), "{sql}: {message}");
        for noise in [
            "DataFusion",
            "Error during planning",
            "Arrow error",
            "External error",
            "likely caused by a bug",
        ] {
            assert!(!message.contains(noise), "{sql}: {message}");
        }
    }
}

#[test]
fn a_query_that_nests_too_deeply_is_an_error() {
    let run = TestRun::new();
    run.error(&format!("SELECT {}1{}", "(".repeat(5_000), ")".repeat(5_000)));
    for sql in [
        format!("SELECT {}1", "1 + ".repeat(651)),
        format!("{}SELECT 1", "SELECT 1 UNION ALL ".repeat(100_000)),
    ] {
        assert!(matches!(run.error(&sql), SqlError::TooDeep { .. }));
    }
    assert_eq!(run.value(&format!("SELECT {}1 AS sum", "1 + ".repeat(500))), "501");
    let or = "name = 'step' OR duration_nanos = 200 OR ".repeat(110);
    assert_eq!(run.value(&format!("SELECT count(*) FROM spans WHERE {or} false")), "3");
    let unions = format!("SELECT count(*) FROM ({}SELECT 1)", "SELECT 1 UNION ALL ".repeat(200));
    assert_eq!(run.value(&unions), "201");
    let values = (0..20_000).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
    assert_eq!(
        run.value(&format!("SELECT count(*) FROM spans WHERE start_nanos IN ({values})")),
        "8"
    );
}

#[test]
fn a_run_with_contradictory_ids_is_rejected_with_the_cause() {
    let contexts =
        vec![ids([0, 1]), ids([1, 0]), ids([0, 1]), texts(["root", "scope"]), ids([0, 0])];
    let strings = vec![ids([0, u32::MAX]), texts(["a", "b"])];
    let run =
        TestRun::from_tables(&[(&stored::STRINGS, strings), (&stored::CONTEXTS, contexts.clone())]);
    let (message, _) = message_and_hint(&run, "SELECT name(id) FROM strings");
    assert_eq!(message, "the ids of `strings` go up to 4294967296, with 2 rows");

    let strings = vec![ids([2, 0]), texts(["c", "a"])];
    let run = TestRun::from_tables(&[(&stored::STRINGS, strings), (&stored::CONTEXTS, contexts)]);
    assert_eq!(run.value("SELECT name(0), name(1), name(2)"), "a | null | c");
    let (message, _) = message_and_hint(&run, "SELECT path(1)");
    assert_eq!(message, "context 0 has no parent or no name before it");
}

/// Each of two contexts has the other one as its parent.
#[test]
fn a_cycle_of_contexts_does_not_loop_forever() {
    let contexts = vec![
        ids([0, 1, 2]),
        Arc::new(UInt32Array::from(vec![None, Some(2), Some(1)])),
        ids([0, 1, 2]),
        texts(["root", "operator", "operator"]),
        ids([0, 0, 0]),
    ];
    let activities = vec![
        ints([5]),
        ints([7]),
        ids([0]),
        ids([0]),
        ids([0]),
        texts(["kernel"]),
        ids([0]),
        ids([2]),
    ];
    let run = TestRun::from_tables(&[
        (&stored::CONTEXTS, contexts),
        (&stored::GPU_ACTIVITIES, activities),
    ]);
    let sql = "SELECT context_id, total_nanos, self_count FROM operator_kernels ORDER BY 1";
    assert_eq!(run.rows(sql), ["1 | 7 | 0", "2 | 7 | 1"]);
}

#[test]
fn columns_that_a_part_lacks_are_null() {
    let lacking = stored::METRICS.columns.split_last().unwrap().1;
    assert!(stored::METRICS.columns.last().unwrap().is_nullable);
    let old: &'static Table = Box::leak(Box::new(Table { columns: lacking, ..stored::METRICS }));
    let mut tables = tables(&SPANS);
    let (table, columns) =
        tables.iter_mut().find(|(table, _)| table.name == "metrics").expect("it is there");
    *table = old;
    columns.pop();
    let run = TestRun::from_tables(&tables);
    assert_eq!(
        run.rows("SELECT value, vector FROM counters ORDER BY time_nanos"),
        ["0.5 | null", "3.0 | null", "null | null", "null | null"]
    );
    let sql = "SELECT count(*), count(vector) FROM counters WHERE vector IS NULL";
    assert_eq!(run.value(sql), "4 | 0");
}

#[test]
fn an_unreadable_part_is_an_error_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let run = write_run(folder.path(), &tables(&SPANS));
    let part = run.parts(&stored::STEPS)[0].name().to_owned();
    let path = folder.path().join(&part);
    let sound = std::fs::read(&path).unwrap();
    let query_with_part = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let run = marey_store::Run::open(folder.path()).unwrap();
        let database = Database::new(Arc::new(run), Limits::default());
        rows(&database, "SELECT * FROM raw.steps")
    };
    assert_eq!(query_with_part(&sound).unwrap().len(), 2);
    for byte in [0, 0xFF, b'P'] {
        let error = query_with_part(&vec![byte; sound.len()]).unwrap_err();
        assert!(matches!(error, SqlError::Unreadable { .. }), "{error:?}");
        assert!(error.to_string().contains(&part), "{error}");
    }
    let damaged = (0..sound.len()).step_by(8).map(|offset| {
        let mut damaged = sound.clone();
        damaged[offset] ^= 0x55;
        damaged
    });
    let refused = damaged.filter(|bytes| query_with_part(bytes).is_err()).count();
    assert!(refused > 0);
}
