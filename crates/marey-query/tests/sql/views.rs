//! The views: their declared columns, and their rows.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use marey_model::args::NewArgs;
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_model::table::{Column, ColumnKind, Table, view};
use marey_query::sql::{Database, Limits, SqlError};
use marey_store::row::{Args, Sample};
use marey_store::{Assembler, NewProcess, Run, Sampled, Slice};

use crate::imported::{imported, slice};
use crate::run::{TestRun, rows};

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
        ColumnKind::Ints => DataType::new_list(DataType::Int64, true),
    }
}

#[test]
fn every_view_of_a_recording_has_its_declared_columns() {
    assert_all_declared_columns(&TestRun::new().database);
}

#[test]
fn every_view_of_an_import_has_its_declared_columns() {
    assert_all_declared_columns(&imported().database);
}

/// In a run of an earlier version, missing columns are null and missing tables are empty.
#[test]
fn old_runs_have_every_view() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/runs/version-1.marey");
    let run = Arc::new(Run::open(&path).unwrap());
    let database = Database::new(run, Limits::default());
    assert_all_declared_columns(&database);
    let counted =
        "SELECT count(*) > 0, count(category), count(correlation_id), count(args) FROM spans";
    assert_eq!(rows(&database, counted).unwrap(), ["true | 0 | 0 | 0"]);
    assert!(rows(&database, "SELECT * FROM gpu_activities").unwrap().is_empty());
}

fn assert_all_declared_columns(database: &Database) {
    for view in view::ALL {
        assert_declared_columns(database, view.name, view);
    }
    for view in view::PYTHON {
        assert_declared_columns(database, &format!("python.{}", view.name), view);
    }
}

fn assert_declared_columns(database: &Database, name: &str, view: &Table) {
    let answer = database.query(&format!("SELECT * FROM {name}"), None).unwrap();
    let schema = answer.schema();
    let found: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| (field.name().as_str(), field.data_type().clone()))
        .collect();
    let declared: Vec<_> =
        view.columns.iter().map(|column| (column.name, sql_type(column.kind))).collect();
    assert_eq!(found, declared, "{}", view.name);
    // The engine assumes that an id may be unknown, so it may only err towards nullable.
    let is_right =
        |(field, column): (&Arc<Field>, &Column)| field.is_nullable() || !column.is_nullable;
    assert!(schema.fields().iter().zip(view.columns).all(is_right), "{}", view.name);
    for batch in answer {
        for (array, column) in batch.unwrap().columns().iter().zip(view.columns) {
            let is_right = column.is_nullable || array.null_count() == 0;
            assert!(is_right, "{}.{}", view.name, column.name);
        }
    }
}

#[test]
fn columns_are_named_without_quotes() {
    let run = TestRun::new();
    for view in view::ALL {
        let names: Vec<_> = view.columns.iter().map(|column| column.name).collect();
        let names = names.join(", ");
        let answer = run.database.query(&format!("SELECT {names} FROM {}", view.name), None);
        assert_eq!(answer.unwrap().schema().fields().len(), view.columns.len(), "{}", view.name);
    }
}

#[test]
fn imported_spans_have_the_fields_of_the_file() {
    let run = imported();
    let sql = "SELECT name, kind, category, correlation_id, external_id, args FROM spans ORDER BY start_nanos";
    assert_eq!(
        run.rows(sql),
        [
            r##"aten::mm | operator | cpu_op | null | 5 | {"bytes":64,"why":"a \"#1\""}"##,
            "cudaLaunchKernel | runtime | null | 7 | null | null",
        ]
    );
}

#[test]
fn device_activities_have_the_path_of_their_launch() {
    let run = imported();
    assert_eq!(
        run.rows("SELECT * FROM gpu_activities ORDER BY start_nanos"),
        [
            r#"gemm | kernel | 1050 | 1080 | 30 | 0 | 7 | aten::mm | 4,2,1 | 128,1,1 | 32 | 1024 | null | null | kernel | 7 | 5 | 40 | 1 | 0 | 3 | {"bytes":0,"why":"queued"}"#,
            r#"Memcpy HtoD | memcpy | 1090 | 1120 | 30 | 0 | 4294967295 | null | null | null | null | null | 4096 | null | kernel | null | null | 40 | 1 | 0 | null | {"bytes":4096,"why":"pinned"}"#,
        ]
    );
    assert_eq!(
        run.value("SELECT * FROM kernels"),
        r#"gemm | 1050 | 1080 | 30 | 0 | 7 | aten::mm | 4,2,1 | 128,1,1 | 32 | 1024 | null | kernel | 7 | 5 | 40 | 1 | 0 | 3 | {"bytes":0,"why":"queued"}"#
    );
    assert_eq!(
        run.rows("SELECT * FROM collectives ORDER BY start_nanos"),
        [
            r#"allreduce | dp | 0-7 | 8 | 3 | 1040 | 1100 | 60 | 1035 | completed | false | Float | 1024 | 1024 | 4096 | 0 | 9 | null | 40 | 1 | 0 | null | {"bytes":4,"why":"c"}"#,
            "send | dp | null | null | null | 1041 | null | null | null | scheduled | true | null | null | null | null | null | null | null | 40 | 1 | 0 | null | null",
        ]
    );
}

#[test]
fn async_spans_instants_flows_and_samples_have_names() {
    let run = imported();
    assert_eq!(
        run.value("SELECT * FROM async_spans"),
        r#"decode | request 1 | 1005 | 1505 | 500 | true | serve | 40 | 1 | 0 | {"bytes":1,"why":"r"}"#
    );
    assert_eq!(
        run.rows("SELECT * FROM instants ORDER BY time_nanos"),
        [
            r#"1020 | mark | thread | null | main | 40 | 1 | 0 | 0 | {"bytes":2,"why":"m"}"#,
            "1030 | mark | global | null | null | 40 | 1 | 0 | null | null",
        ]
    );
    assert_eq!(
        run.value("SELECT * FROM flows"),
        r#"1015 | fwdbwd | 18446744073709551615 | start | true | fwdbwd | main | 40 | 1 | 0 | 0 | {"bytes":3,"why":"f"}"#
    );
    assert_eq!(
        run.rows("SELECT * FROM samples ORDER BY name"),
        [
            r#"1100 | cpu (ns) | 250.0 | 250 | null | null | main.py/f | 2 | main | 40 | 1 | 0 | 0 | 2 | {"bytes":5,"why":"s"}"#,
            "null | load | 0.5 | null | null | null | main.py | 1 | null | 40 | 1 | 0 | null | 1 | null",
        ]
    );
}

#[test]
fn memory_devices_and_metadata_have_their_process() {
    let run = imported();
    assert_eq!(
        run.value("SELECT * FROM memory_events"),
        r#"1060 | alloc | 512 | cuda | 0 | 0 | 18446744073709551615 | 1024 | 2048 | 1500 | null | cpu_instant_event | null | 40 | 1 | 0 | null | null | {"bytes":6,"why":"a"}"#
    );
    assert_eq!(
        run.value("SELECT * FROM memory_snapshots"),
        r#"1200 | active_allocated | 512 | 500 | 4608 | 0 | null | 4096 | 2048 | small | null | 40 | 1 | 0 | null | {"bytes":7,"why":"b"}"#
    );
    assert_eq!(
        run.value("SELECT * FROM devices"),
        r#"0 | H100 | CUDA | {"numSms":132} | 40 | 1 | 0"#
    );
    assert_eq!(
        run.rows("SELECT * FROM metadata ORDER BY key"),
        [
            "schemaVersion | 1 | null | 40 | 1 | 0 | null",
            r#"thread_sort_index | {"sort_index":2} | main | 40 | 1 | 0 | 0"#,
        ]
    );
}

#[test]
fn arguments_are_read_only_if_a_query_uses_them() {
    let run = imported();
    let table = run.folder.path().join("tables/args");
    for part in std::fs::read_dir(&table).unwrap() {
        let path = part.unwrap().path();
        std::fs::write(path, "not a table").unwrap(); // in place, since the file is open already
    }
    let plan = run.rows("EXPLAIN SELECT name, category FROM spans").join("\n");
    assert!(!plan.contains("arg"), "{plan}");
    assert_eq!(run.value("SELECT count(*), count(name), count(path) FROM spans"), "2 | 2 | 2");
    assert!(matches!(run.error("SELECT args FROM spans"), SqlError::Store(_)));
}

#[test]
fn shared_arguments_count_as_memory_for_each_row() {
    let run = TestRun::assembled(16 << 20, |run| {
        let process = run.add_process(NewProcess::default());
        let thread = run.add_thread(process, 1, "main");
        let mut long = NewArgs::default();
        long.text("stack", &"f;".repeat(1 << 17));
        let args = run.args(&mut long).unwrap();
        for number in 0..100 {
            let span = slice(run, thread, 20 * number, "f");
            run.add_slice(&Slice { args: args.clone(), ..span }).unwrap();
        }
    });
    assert_eq!(run.value("SELECT count(*) FROM spans"), "100");
    let long = "SELECT max(length(args)) FROM spans";
    assert_eq!(run.value(&format!("{long} WHERE start_nanos < 100")), "262156");
    assert!(matches!(run.error(long), SqlError::Memory { .. }));
}

#[test]
fn totals_beyond_64_bits_are_the_greatest_ones() {
    let run = TestRun::assembled(16 << 20, |run| {
        let process_id = run.add_process(NewProcess::default());
        let [module, name, unit] = ["module", "f", "cpu"].map(|name| run.text_id(name));
        let module = run.context_id(Assembler::ROOT, NodeKind::Frame, module);
        run.show_samples(Sampled { nanos_name_id: Some(unit), ..Sampled::default() });
        for parent in [Assembler::ROOT, module] {
            let sample = Sample {
                process_id,
                thread_id: None,
                context_id: run.context_id(parent, NodeKind::Frame, name),
                name_id: unit,
                time_nanos: None,
                value: MetricValue::Int(i64::MAX),
                args: Args::default(),
            };
            run.add_sample(&sample).unwrap();
        }
    });
    let greatest = i64::MAX;
    let top = "SELECT total_nanos, self_nanos FROM top WHERE name = 'f'";
    assert_eq!(run.value(top), format!("{greatest} | {greatest}"));
    let of_frames = "SELECT sum(self_nanos) FROM flame";
    assert_eq!(run.value(of_frames), greatest.to_string());
}

#[test]
fn spans_have_names_paths_and_self_times() {
    let run = TestRun::new();
    assert_eq!(
        run.rows("SELECT * FROM spans ORDER BY start_nanos LIMIT 4"),
        [
            "step | step | 1000 | 1500 | 500 | 50 | step | 1 | main | 100 | 0 | 0 | false | null | null | null | 0 | 0 | 1 | 1 | null",
            "forward | module | 1010 | 1210 | 200 | 50 | step/forward | 2 | main | 100 | 0 | 0 | false | null | null | null | 0 | 0 | 2 | 2 | null",
            "attn/qk | operator | 1020 | 1170 | 150 | 150 | step/forward/attn/qk | 3 | main | 100 | 0 | 0 | false | null | null | null | 0 | 0 | 3 | 3 | null",
            "backward | scope | 1220 | 1470 | 250 | 250 | step/backward | 2 | main | 100 | 0 | 0 | false | null | null | null | 0 | 0 | 4 | 4 | null",
        ]
    );
}

#[test]
fn flame_sums_each_context_over_all_threads() {
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
fn top_sums_by_name_and_kind() {
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
fn steps_counters_and_kernels_have_paths() {
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
            "1100 | loss | 0.5 | null | null | null | null | step/forward | main | 100 | 0 | 0 | 0 | 0 | 2",
            "1200 | loss | 3.0 | 3 | null | null | null | step/forward | main | 100 | 0 | 0 | 0 | 0 | 2",
            "1300 | loss | null | null | nan | null | null |  | main | 100 | 0 | 0 | 0 | 0 | 0",
            "1400 | loss | null | null | null | [1.0, 2.5] | null | step | main | 100 | 0 | 0 | 0 | 0 | 1",
        ]
    );
    // Aggregates compare column types, including metadata, which differs between the inputs of a
    // union.
    let sums = "SELECT sum(value), avg(value), max(integer), count(vector) FROM counters";
    assert_eq!(run.value(sums), "3.5 | 1.75 | 3 | 1");
    assert_eq!(run.value(&format!("{sums} WHERE name = 'loss'")), "3.5 | 1.75 | 3 | 1");
    assert_eq!(
        run.rows("SELECT * FROM kernels ORDER BY start_nanos"),
        [
            "gemm | 1050 | 1150 | 100 | 0 | 7 | step/forward | 4,2,1 | 128,1,1 | 32 | 1024 | null | null | 11 | null | 100 | 0 | 0 | 2 | null",
            "gemm | 1200 | 1250 | 50 | 0 | 7 | null | null | null | null | null | null | null | null | null | 101 | null | 1 | null | null",
        ]
    );
}

#[test]
fn a_table_without_parts_has_no_rows() {
    let run = TestRun::from_spans(&[]);
    assert!(run.rows("SELECT name, start_nanos FROM spans WHERE duration_nanos > 3").is_empty());
    assert_eq!(run.value("SELECT count(*), sum(duration_nanos) FROM spans"), "0 | null");
    assert_eq!(run.value("SELECT count(*) FROM raw.losses"), "0");
}

/// A view uses only views of earlier waves, which are kept already.
#[test]
fn keeping_a_view_does_not_change_its_rows() {
    const QUERIES: [&str; 4] = [
        "SELECT * FROM rank_arrivals",
        "SELECT * FROM device_idle, gpu_time, step_times",
        "SELECT * FROM device_idle, gpu_time_by_step",
        "SELECT * FROM rank_arrivals AS r JOIN step_times AS s ON s.process_id = r.process_id",
    ];
    for run in [TestRun::new(), imported()] {
        let waves = run.database.shared_views(&QUERIES).unwrap();
        let views = waves.concat();
        assert!(views.contains(&"rank_arrivals") && views.contains(&"device_idle"), "{views:?}");
        let select = |view: &str| format!("SELECT * FROM {view}");
        let before: Vec<_> = views.iter().map(|view| run.sorted_rows(&select(view))).collect();
        for view in &views {
            run.database.keep_view(view, run.database.query(&select(view), None).unwrap()).unwrap();
        }
        let after: Vec<_> = views.iter().map(|view| run.sorted_rows(&select(view))).collect();
        assert_eq!(before, after, "{views:?}");
        assert!(run.rows(QUERIES[3]).is_empty());
        assert!(run.database.shared_views(&QUERIES).unwrap().concat().is_empty());
    }
}
