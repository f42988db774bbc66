//! The SQL functions of marey.

use proptest::prelude::*;

use crate::imported::imported;
use crate::run::{Span, TestRun};

#[test]
fn unknown_ids_give_null() {
    let run = TestRun::new();
    assert_eq!(
        run.value("SELECT name(1), name(99), name(NULL), name(-1)"),
        "step | null | null | null"
    );
    assert_eq!(
        run.value("SELECT path(0), path(3), kind(3), depth(3)"),
        " | step/forward/attn/qk | operator | 3"
    );
    assert_eq!(
        run.value("SELECT thread_name(0), process_of(2), pid(1), rank(0), rank(1)"),
        "main | 1 | 101 | 0 | null"
    );
    assert_eq!(run.value("SELECT name(CAST(4 AS BIGINT)), name(9999999999)"), "backward | null");
    let name_query = "SELECT name(value) IS NULL FROM generate_series(7, 10)";
    assert_eq!(run.rows(name_query), ["false", "false", "true", "true"]);
}

#[test]
fn arguments_are_assembled_and_looked_up_by_key() {
    let run = imported();
    let assembled =
        "SELECT args(0, make_array(8)), args(0, NULL), args(NULL, make_array(8)), args(99, NULL)";
    assert_eq!(
        run.value(assembled),
        r##"{"bytes":8,"why":"a \"#1\""} | {"bytes":null,"why":"a \"#1\""} | null | null"##
    );
    let unknown = "SELECT args(0, [NULL]), args(0, make_array(NULL, 8)), args(0, [9, NULL])";
    assert_eq!(
        run.value(unknown),
        r##"{"bytes":null,"why":"a \"#1\""} | {"bytes":null,"why":"a \"#1\""} | {"bytes":9,"why":"a \"#1\""}"##
    );
    let arg_query = "SELECT arg(args, 'bytes'), arg(args, 'why'), arg(args, 'none'), arg(args, NULL) FROM spans WHERE args IS NOT NULL";
    assert_eq!(run.value(arg_query), "64 | a \"#1\" | null | null");
    let by_key = "SELECT sum(CAST(arg(args, 'bytes') AS BIGINT)) FROM gpu_activities WHERE arg(args, 'why') = 'pinned'";
    assert_eq!(run.value(by_key), "4096");
    assert_eq!(
        run.value("SELECT arg(properties, 'numSms'), arg('[1]', 'a'), arg(NULL, 'a') FROM devices"),
        "132 | null | null"
    );
    for wrong in ["args(1)", "args('a', NULL)", "args(1, 2)"] {
        let error = run.error(&format!("SELECT {wrong}")).to_string();
        assert!(error.contains("args(args_id, arg_numbers)"), "{error}");
    }
}

#[test]
fn unions_overlaps_and_intersections_of_intervals_have_lengths() {
    let run = TestRun::new();
    let all = "FROM spans WHERE kind <> 'step'";
    assert_eq!(run.value(&format!("SELECT union_nanos(start_nanos, end_nanos) {all}")), "757");
    assert_eq!(run.value(&format!("SELECT overlap_nanos(start_nanos, end_nanos) {all}")), "190");
    assert_eq!(
        run.value(&format!("SELECT intersection_nanos(start_nanos, end_nanos, thread_id) {all}")),
        "0"
    );
    let two =
        "SELECT intersection_nanos(start_nanos, end_nanos, thread_id) FROM spans WHERE pid = 100";
    assert_eq!(run.value(two), "40");
    assert_eq!(
        run.value(
            "SELECT intersection_nanos(start_nanos, end_nanos, thread) FROM spans WHERE pid = 100"
        ),
        "40"
    );
    assert_eq!(run.value("SELECT union_nanos(start_nanos, end_nanos) FROM spans WHERE false"), "0");
    assert_eq!(run.value("SELECT common_nanos(0, 10, 5, 20), common_nanos(0, 5, 5, 9), common_nanos(0, 5, NULL, 9)"), "5 | 0 | null");
}

#[test]
fn merged_sketches_have_the_quantiles_of_all_values() {
    let run = TestRun::new();
    assert_eq!(
        run.value("SELECT quantile(duration_nanos, 0) , quantile(duration_nanos, 1.0) FROM spans"),
        "7 | 600"
    );
    let merged = "SELECT sketch_quantile(merge_sketches(s), 0.5) FROM (SELECT sketch(duration_nanos) AS s FROM spans GROUP BY thread_id)";
    assert_eq!(run.value(merged), run.value("SELECT quantile(duration_nanos, 0.5) FROM spans"));
    let twice = "SELECT sketch_quantile(merge_sketches(m), 0.9) FROM (SELECT merge_sketches(sketch) AS m FROM rollups GROUP BY context_id)";
    assert_eq!(run.value(twice), run.value("SELECT quantile(duration_nanos, 0.9) FROM spans"));
    assert_eq!(
        run.value(
            "SELECT quantile(duration_nanos, 0.5), sketch(duration_nanos) FROM spans WHERE false"
        ),
        "null | null"
    );
}

#[test]
fn computed_self_times_match_the_recorded_ones() {
    let run = TestRun::new();
    let sql = "SELECT * FROM (SELECT start_nanos, self_nanos, \
        self_nanos(start_nanos, end_nanos) OVER (PARTITION BY thread_id) AS computed FROM spans) \
        WHERE self_nanos <> computed ORDER BY start_nanos";
    // The last step has a child of 7 ns that its recorded sum of children lacks.
    assert_eq!(run.rows(sql), ["2000 | 300 | 293"]);
}

#[test]
fn sums_end_at_the_limits_of_their_type() {
    let run = TestRun::new();
    let values = "(VALUES (1, 9223372036854775807), (2, 9223372036854775807), (3, -5)) t(n, v)";
    let greatest = i64::MAX.to_string();
    assert_eq!(run.value(&format!("SELECT sum(v + 1 - 1) FROM {values} WHERE n < 3")), greatest);
    for sum in ["sum(v)", "sum(v) FILTER (WHERE n < 3)", "sum(sum(v)) OVER ()"] {
        let by_group = format!("SELECT {sum} FROM {values} WHERE n < 3 GROUP BY n / 4");
        assert_eq!(run.value(&by_group), greatest, "{sum}");
        assert_eq!(
            run.value(&format!("SELECT {sum} FROM {values} WHERE n < 3")),
            greatest,
            "{sum}"
        );
    }
    let negative = format!("SELECT sum(-v) FROM {values} WHERE n < 3");
    assert_eq!(run.value(&negative), i64::MIN.to_string());
    assert_eq!(run.value("SELECT sum(v) FROM (VALUES (CAST(NULL AS BIGINT))) t(v)"), "null");
    // One branch after the other: the sums become exact when the great value arrives.
    let branches = "SELECT 1 AS n, 5 AS v UNION ALL SELECT 2, NULL UNION ALL SELECT 3, -7 \
        UNION ALL SELECT 1, 9223372036854775807 UNION ALL SELECT 3, -1 UNION ALL SELECT 4, 2";
    assert_eq!(
        run.rows(&format!("SELECT n, sum(v) FROM ({branches}) GROUP BY n ORDER BY n")),
        [format!("1 | {greatest}"), "2 | null".to_owned(), "3 | -8".to_owned(), "4 | 2".to_owned()]
    );
    let frames = format!(
        "SELECT sum(v) OVER (ORDER BY n), sum(v) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) \
            FROM {values} ORDER BY n"
    );
    let less = (i64::MAX - 5).to_string();
    assert_eq!(
        run.rows(&frames),
        [
            format!("{greatest} | {greatest}"),
            format!("{greatest} | {greatest}"),
            format!("{greatest} | {less}")
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn merged_partial_states_equal_the_whole(
        spans in prop::collection::vec((0_i64..300, 0_i64..60, 0_u32..3), 1..80),
    ) {
        let spans: Vec<Span> = spans.iter().map(|&(start, length, thread)| (start, length, 0, thread, 1)).collect();
        let run = TestRun::from_spans(&spans);
        let covers = |moment: i64| spans.iter().filter(move |span| span.0 <= moment && moment < span.0 + span.1);
        let count = |least: usize| (0..400).filter(|&moment| covers(moment).count() >= least).count();
        let threads: std::collections::BTreeSet<u32> = spans.iter().map(|span| span.3).collect();
        let by_all = (0..400).filter(|&moment| threads.iter().all(|&thread| covers(moment).any(|span| span.3 == thread))).count();
        let expected = format!("{} | {} | {by_all}", count(1), count(2));
        let sql = "SELECT union_nanos(start_nanos, end_nanos), overlap_nanos(start_nanos, end_nanos), \
            intersection_nanos(start_nanos, end_nanos, thread_id) FROM spans";
        prop_assert_eq!(run.value(sql), expected);
    }
}
