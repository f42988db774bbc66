//! Optimizer rules: names are looked up late, and the rows stay the same.

use marey_model::table::stored::STRINGS;
use proptest::prelude::*;

use crate::imported::imported;
use crate::run::{CONTEXTS, Span, TEXTS, TestRun, ids, texts};

/// The physical plan.
fn physical_plan(run: &TestRun, sql: &str) -> String {
    let plans = run.rows(&format!("EXPLAIN {sql}")).join("\n");
    plans[plans.find("physical_plan").unwrap()..].to_owned()
}

/// The same text in a form that no rule recognises, because it depends on a second column.
fn opaque(text: &str, other: &str) -> String {
    format!("{text} || CASE WHEN {other} < 0 THEN '-' ELSE '' END")
}

#[test]
fn groups_by_name_become_groups_by_id() {
    let run = TestRun::new();
    let plan = physical_plan(&run, "SELECT name, sum(duration_nanos) FROM spans GROUP BY name");
    assert!(plan.contains("gby=[__id_of_name@"), "{plan}");
    let by_path = physical_plan(&run, "SELECT path, count(*) FROM spans GROUP BY path");
    assert!(by_path.contains("gby=[first_id_with_same_text("), "{by_path}");
    let distinct = physical_plan(&run, "SELECT count(DISTINCT name) FROM spans");
    assert!(!distinct.contains("name(name_id@"), "{distinct}");
    assert_eq!(
        run.sorted_rows("SELECT path, count(*) FROM spans GROUP BY path HAVING count(*) > 2"),
        ["step/forward | 3"]
    );
    assert_eq!(run.value("SELECT count(DISTINCT path), count(DISTINCT name), count(DISTINCT context_id) FROM spans"), "5 | 6 | 6");
}

#[test]
fn text_columns_of_every_view_are_grouped_and_filtered_by_id() {
    let run = imported();
    let texts = [
        ("spans", "category"),
        ("gpu_activities", "name"),
        ("kernels", "name"),
        ("kernels", "path"),
        ("collectives", "process_group"),
        ("async_spans", "track"),
        ("instants", "thread"),
        ("flows", "category"),
        ("samples", "path"),
        ("memory_events", "path"),
        ("memory_snapshots", "path"),
        ("metadata", "thread"),
    ];
    for (view, text) in texts {
        let grouped =
            physical_plan(&run, &format!("SELECT {text}, count(*) FROM {view} GROUP BY {text}"));
        let group_keys = ["gby=[__id_of_", "gby=[first_id_with_same_text("];
        assert!(group_keys.iter().any(|by| grouped.contains(by)), "{view}: {grouped}");
        let filtered =
            physical_plan(&run, &format!("SELECT count(*) FROM {view} WHERE {text} LIKE '%a%'"));
        assert!(!filtered.contains("LIKE"), "{view}: {filtered}");
    }
    assert_eq!(
        run.sorted_rows("SELECT thread, count(*) FROM samples GROUP BY thread"),
        ["main | 1", "null | 1"]
    );
}

#[test]
fn filters_on_names_become_filters_on_ids() {
    let run = TestRun::new();
    let equal = physical_plan(&run, "SELECT start_nanos FROM spans WHERE name = 'forward'");
    assert!(equal.contains("name_id@") && equal.contains("= 2"), "{equal}");
    let like = physical_plan(
        &run,
        "SELECT start_nanos FROM spans WHERE name LIKE '%ward' AND path LIKE 'step%'",
    );
    assert!(!like.contains("LIKE"), "{like}");
    let rank = physical_plan(&run, "SELECT start_nanos FROM spans WHERE rank = 0");
    assert!(!rank.contains("rank("), "{rank}");
    let nothing = physical_plan(&run, "SELECT start_nanos FROM spans WHERE name = 'nothing'");
    assert!(nothing.contains("EmptyExec") || nothing.contains("EmptyRelation"), "{nothing}");
}

#[test]
fn a_filter_that_ids_cannot_express_is_not_rewritten() {
    let run = TestRun::new();
    let sql = "SELECT count(*) FROM raw.spans WHERE name(CAST(context_id AS INT)) <> 'x'";
    assert_eq!(run.value(sql), "8"); // the argument is not an id column
    assert_eq!(run.value("SELECT count(*) FROM spans WHERE rank IS NULL"), "3");
    // True for a null id, which a launch may have.
    assert_eq!(run.value("SELECT count(*) FROM kernels WHERE path IS NULL"), "1");
    // Fails for `gemm`, which is no span's name.
    let failing = "SELECT count(*) FROM spans WHERE 1 / (ascii(name) - ascii('g')) = 0";
    assert_eq!(run.value(failing), "6");
    assert_eq!(run.value("SELECT count(*) FROM spans WHERE name IS NULL OR name > 'f'"), "5");
}

#[test]
fn filters_with_many_ids_use_a_bitmap() {
    let numbered: Vec<String> = (0..100).map(|number| format!("text {number}")).collect();
    let columns = vec![ids(0..100), texts(numbered.iter().map(String::as_str))];
    let run = TestRun::from_tables(&[(&STRINGS, columns)]);
    let sql =
        "SELECT count(*), min(id), max(id), sum(id) FROM strings WHERE name(id) NOT LIKE '%1%'";
    let explained = run.rows(&format!("EXPLAIN {sql}")).join("\n");
    assert!(explained.contains("is_among(id@"), "{explained}");
    let found: Vec<u32> = (0..100).filter(|number| !number.to_string().contains('1')).collect();
    let expected = format!("{} | 0 | 99 | {}", found.len(), found.iter().sum::<u32>());
    assert_eq!(run.value(sql), expected);
}

#[test]
fn names_of_joined_rows_are_grouped_by_id() {
    let run = TestRun::new();
    let sql = "SELECT a.name, b.path, count(*) FROM spans a LEFT JOIN spans b \
        ON a.thread_id = b.thread_id AND b.kind = 'module' GROUP BY a.name, b.path";
    let plain = format!(
        "SELECT {}, {}, count(*) FROM spans a LEFT JOIN spans b \
         ON a.thread_id = b.thread_id AND b.kind = 'module' GROUP BY 1, 2",
        opaque("a.name", "a.duration_nanos"),
        opaque("b.path", "a.duration_nanos"),
    );
    assert_eq!(run.sorted_rows(sql), run.sorted_rows(&plain));
    assert!(!physical_plan(&run, sql).contains("gby=[name("));
}

/// A condition on a text column.
fn condition(text: &'static str) -> impl Strategy<Value = String> {
    let value = prop::sample::select(
        TEXTS.iter().copied().chain(["", "step/backward", "%"]).collect::<Vec<_>>(),
    );
    let pattern = prop::sample::select(vec!["%", "step%", "%ward", "f%", "_tep", "%/%", "x", ""]);
    prop_oneof![
        value.clone().prop_map(move |value| format!("{text} = '{value}'")),
        value.clone().prop_map(move |value| format!("{text} <> '{value}'")),
        value.clone().prop_map(move |value| format!("{text} > '{value}'")),
        (value.clone(), value).prop_map(move |(a, b)| format!("{text} IN ('{a}', '{b}')")),
        pattern.clone().prop_map(move |pattern| format!("{text} LIKE '{pattern}'")),
        pattern.prop_map(move |pattern| format!("{text} NOT LIKE '{pattern}'")),
        Just(format!("{text} ~ '^s.*d$'")),
        Just(format!("{text} IS NULL")),
        Just(format!("length({text}) > 6")),
    ]
}

fn spans() -> impl Strategy<Value = Vec<Span>> {
    let span = (0_i64..1000, 1_i64..100, 0_u32..3, 1_u32..CONTEXTS.len() as u32);
    prop::collection::vec(
        span.prop_map(|(start, length, thread, context)| (start, length, 0, thread, context)),
        1..40,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn rows_are_the_same_with_and_without_the_rules(
        spans in spans(),
        by_name in condition("name"),
        by_path in condition("path"),
        by_kind in condition("kind"),
        joined in prop::sample::select(vec!["AND", "OR"]),
        group in prop::sample::select(vec!["name", "path", "kind", "name, path", "thread, kind", "path, pid"]),
    ) {
        let run = TestRun::from_spans(&spans);
        let select = format!("SELECT {group}, count(*), sum(duration_nanos), count(DISTINCT name), count(DISTINCT path)");
        let filter_and_group = format!("WHERE ({by_name} {joined} {by_path}) AND ({by_kind} OR duration_nanos > 50) GROUP BY {group}");
        let texts = ["name", "path", "kind", "thread"]
            .map(|text| format!("{} AS {text}", opaque(text, "duration_nanos")));
        let opaque = format!("SELECT {}, pid, duration_nanos FROM spans", texts.join(", "));
        let with_rules = run.sorted_rows(&format!("{select} FROM spans {filter_and_group}"));
        let without = run.sorted_rows(&format!("{select} FROM ({opaque}) {filter_and_group}"));
        prop_assert_eq!(with_rules, without);
    }
}

#[test]
fn rows_are_sorted_before_names_are_looked_up() {
    let run = TestRun::new();
    let sql = "SELECT name, path, duration_nanos FROM spans ORDER BY duration_nanos DESC, start_nanos LIMIT 2";
    assert_eq!(run.rows(sql), ["step | step | 600", "step | step | 500"]);
    let plan = physical_plan(&run, sql);
    assert!(plan.find("name(name_id@").unwrap() < plan.find("SortExec: TopK").unwrap(), "{plan}");
    let args = "SELECT args FROM gpu_activities ORDER BY duration_nanos LIMIT 1";
    let with_args = physical_plan(&run, args);
    assert!(
        with_args.find("args(").unwrap() < with_args.find("SortExec: TopK").unwrap(),
        "{with_args}"
    );
    let by_name = "SELECT name FROM spans ORDER BY name DESC LIMIT 3";
    assert_eq!(run.rows(by_name), ["step/forward", "step", "step"]);
}
