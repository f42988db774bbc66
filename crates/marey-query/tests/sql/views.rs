//! The views have the columns that are declared, and the rows that the run has.

use arrow::datatypes::{DataType, Field};
use marey_model::table::{ColumnKind, view};

use crate::run::TestRun;

fn sql_type(kind: ColumnKind) -> DataType {
    match kind {
        ColumnKind::Nanos | ColumnKind::Int => DataType::Int64,
        ColumnKind::Bits => DataType::UInt64,
        ColumnKind::Id => DataType::UInt32,
        ColumnKind::Real => DataType::Float64,
        ColumnKind::Flag => DataType::Boolean,
        ColumnKind::Text => DataType::Utf8View,
        ColumnKind::Bytes => DataType::Binary,
        ColumnKind::Reals => DataType::new_list(DataType::Float64, true),
    }
}

#[test]
fn each_view_has_the_columns_that_are_declared() {
    let run = TestRun::new();
    for view in view::ALL {
        let answer = run.database.query(&format!("SELECT * FROM {}", view.name), None).unwrap();
        let schema = answer.schema();
        let found: Vec<_> = schema
            .fields()
            .iter()
            .map(|field| (field.name().as_str(), field.data_type().clone()))
            .collect();
        let declared: Vec<_> =
            view.columns.iter().map(|column| (column.name, sql_type(column.kind))).collect();
        assert_eq!(found, declared, "{}", view.name);
        // An id may have no row as far as the engine knows, so it can only tell the other way.
        let is_right = |(field, column): (&std::sync::Arc<Field>, &marey_model::table::Column)| {
            field.is_nullable() || !column.is_nullable
        };
        assert!(schema.fields().iter().zip(view.columns).all(is_right), "{}", view.name);
        for batch in answer {
            for (array, column) in batch.unwrap().columns().iter().zip(view.columns) {
                assert!(
                    column.is_nullable || array.null_count() == 0,
                    "{}.{}",
                    view.name,
                    column.name
                );
            }
        }
    }
}

#[test]
fn spans_have_names() {
    let run = TestRun::new();
    assert_eq!(
        run.rows("SELECT * FROM spans ORDER BY start_nanos LIMIT 4"),
        [
            "step | step | 1000 | 1500 | 500 | 50 | step | 1 | main | 100 | 0 | 0 | false | 0 | 0 | 1 | 1",
            "forward | module | 1010 | 1210 | 200 | 50 | step/forward | 2 | main | 100 | 0 | 0 | false | 0 | 0 | 2 | 2",
            "attn/qk | operator | 1020 | 1170 | 150 | 150 | step/forward/attn/qk | 3 | main | 100 | 0 | 0 | false | 0 | 0 | 3 | 3",
            "backward | scope | 1220 | 1470 | 250 | 250 | step/backward | 2 | main | 100 | 0 | 0 | false | 0 | 0 | 4 | 4",
        ]
    );
}

#[test]
fn flame_is_the_tree_with_the_sums_of_all_threads() {
    let run = TestRun::new();
    assert_eq!(
        run.rows("SELECT * FROM flame ORDER BY context_id"),
        [
            "step | step | step | 1 | 2 | 1100 | 350 | 500 | 600 | 500 | 600 | 1 | 0",
            "forward | module | step/forward | 2 | 2 | 500 | 350 | 200 | 300 | 202 | 300 | 2 | 1",
            "attn/qk | operator | step/forward/attn/qk | 3 | 1 | 150 | 150 | 150 | 150 | 150 | 150 | 3 | 2",
            "backward | scope | step/backward | 2 | 1 | 250 | 250 | 250 | 250 | 250 | 250 | 4 | 1",
            "step/forward | scope | step/forward | 1 | 1 | 40 | 40 | 40 | 40 | 40 | 40 | 5 | 0",
            "a name of many letters, 100 % of it | scope | step/backward/a name of many letters, 100 % of it | 3 | 1 | 7 | 7 | 7 | 7 | 7 | 7 | 6 | 4",
        ]
    );
}

#[test]
fn top_is_by_name() {
    let run = TestRun::new();
    assert_eq!(
        run.rows("SELECT * FROM top ORDER BY total_nanos DESC LIMIT 2"),
        [
            "step | step | 2 | 1100 | 350 | 550.0 | 500 | 600 | 500 | 600",
            "forward | module | 2 | 500 | 350 | 250.0 | 200 | 300 | 202 | 300",
        ]
    );
}

#[test]
fn steps_counters_and_kernels_say_where_they_were() {
    let run = TestRun::new();
    assert_eq!(
        run.rows("SELECT * FROM steps ORDER BY start_nanos"),
        [
            "0 | 1000 | 1500 | 500 | step | main | 100 | 0 | 0 | 0 | 1",
            "0 | 2000 | 2600 | 600 | step | main | 101 | null | 1 | 2 | 1",
        ]
    );
    assert_eq!(
        run.rows("SELECT * FROM counters ORDER BY time_nanos"),
        [
            "1100 | loss | 0.5 | null | null | null | step/forward | main | 100 | 0 | 0 | 0 | 0 | 2",
            "1200 | loss | 3.0 | 3 | null | null | step/forward | main | 100 | 0 | 0 | 0 | 0 | 2",
            "1300 | loss | null | null | nan | null |  | main | 100 | 0 | 0 | 0 | 0 | 0",
            "1400 | loss | null | null | null | [1.0, 2.5] | step | main | 100 | 0 | 0 | 0 | 0 | 1",
        ]
    );
    assert_eq!(
        run.rows("SELECT * FROM kernels ORDER BY start_nanos"),
        [
            "gemm | 1050 | 1150 | 100 | 0 | 7 | step/forward | 4,2,1 | 128,1,1 | 32 | 1024 | 11 | null | 100 | 0 | 0 | 2",
            "gemm | 1200 | 1250 | 50 | 0 | 7 | null | null | null | null | null | null | null | 101 | null | 1 | null",
        ]
    );
}

#[test]
fn a_table_without_parts_has_no_rows() {
    let run = TestRun::of(&[]);
    assert!(run.rows("SELECT name, start_nanos FROM spans WHERE duration_nanos > 3").is_empty());
    assert_eq!(run.value("SELECT count(*), sum(duration_nanos) FROM spans"), "0 | null");
    assert_eq!(run.value("SELECT count(*) FROM raw.losses"), "0");
}
