//! Queries of a small run are planned with fewer rules than those of a large one.

use marey_model::table::view;

use crate::imported::imported;
use crate::run::{TestRun, rows};

/// Queries whose plans need what the omitted rules also do: sorts, merged partitions, limits.
const SHAPES: [&str; 13] = [
    "SELECT name, start_nanos FROM spans ORDER BY name DESC, start_nanos LIMIT 3",
    "SELECT name FROM spans UNION ALL SELECT name FROM gpu_activities",
    "SELECT name, count(*) FROM (SELECT name FROM spans UNION ALL SELECT name FROM flame) \
     GROUP BY name",
    "SELECT count(*) FROM (SELECT name FROM spans UNION ALL SELECT name FROM flame)",
    "SELECT start_nanos, lag(start_nanos) OVER (PARTITION BY pid ORDER BY start_nanos) FROM \
     (SELECT pid, start_nanos FROM spans UNION ALL SELECT pid, time_nanos FROM instants)",
    "SELECT a.name, b.name FROM spans AS a LEFT JOIN (SELECT name, start_nanos FROM spans UNION \
     ALL SELECT name, time_nanos FROM instants) AS b ON a.start_nanos = b.start_nanos",
    "SELECT a.name, b.name FROM spans AS a FULL JOIN flame AS b ON a.name = b.name AND b.depth > 1",
    "SELECT DISTINCT kind FROM spans WHERE start_nanos > (SELECT min(start_nanos) FROM spans)",
    "SELECT name FROM (SELECT name, row_number() OVER (PARTITION BY thread ORDER BY duration_nanos \
     DESC, start_nanos) AS place FROM spans) WHERE place <= 2",
    "SELECT name FROM spans WHERE name IN (SELECT name FROM flame WHERE depth > 1)",
    "SELECT name FROM spans WHERE context_id NOT IN (SELECT parent_id FROM raw.contexts)",
    "SELECT a.name, b.pid FROM spans AS a JOIN raw.processes AS b ON a.start_nanos > b.pid",
    "SELECT a.name, b.pid FROM spans AS a CROSS JOIN raw.processes AS b",
];

#[test]
fn queries_of_small_and_large_runs_have_the_same_rows() {
    let views: Vec<_> =
        view::ALL.iter().map(|view| format!("SELECT * FROM {}", view.name)).collect();
    let views: Vec<_> = views.iter().map(String::as_str).collect();
    let run = imported();
    let large = run.planned_as_large();
    for sql in views.iter().chain(&SHAPES) {
        let mut expected = rows(&large, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        expected.sort();
        assert_eq!(run.sorted_rows(sql), expected, "{sql}");
    }
}

#[test]
fn the_smaller_input_of_a_join_is_held_in_memory() {
    let run = imported();
    for condition in
        ["JOIN {} ON a.thread_id = b.id", "JOIN {} ON a.context_id < b.pid", "CROSS JOIN {}"]
    {
        for (first, second) in [("spans AS a", "processes AS b"), ("processes AS b", "spans AS a")]
        {
            let join = condition.replace("{}", &format!("raw.{second}"));
            let sql = format!("EXPLAIN SELECT a.start_nanos, b.pid FROM raw.{first} {join}");
            let plan = run.rows(&sql).join("\n");
            let held = plan.split("tables/").nth(1).unwrap_or_default();
            assert!(held.starts_with("processes"), "{plan}");
        }
    }
}

#[test]
fn a_sorted_answer_is_in_order() {
    let run = imported();
    let union = "SELECT start_nanos AS at FROM spans UNION ALL SELECT start_nanos FROM kernels";
    for database in [&run.database, &run.planned_as_large()] {
        let numbers: Vec<i64> = rows(database, &format!("{union} ORDER BY at"))
            .unwrap()
            .iter()
            .map(|row| row.parse().unwrap())
            .collect();
        assert!(numbers.len() > 2 && numbers.is_sorted(), "{numbers:?}");
    }
}

#[test]
fn a_filter_of_a_large_run_excludes_row_groups() {
    let large = TestRun::new().planned_as_large();
    for (name, part_of_plan) in [("forward", "pruning_predicate"), ("nothing", "EmptyExec")] {
        let sql = format!("EXPLAIN SELECT start_nanos FROM spans WHERE name = '{name}'");
        let plan = rows(&large, &sql).unwrap().join("\n");
        assert!(plan.contains(part_of_plan), "{plan}");
    }
}
