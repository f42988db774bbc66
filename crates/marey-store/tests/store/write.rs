//! The Parquet files of parts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use marey_model::table::ColumnKind;
use marey_model::table::stored::{ALL, GPU_ACTIVITIES, SPANS, STRINGS};
use marey_store::{PartWriter, Run};
use parquet::basic::{Compression, Encoding};
use parquet::file::metadata::{
    PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData,
};

use crate::sample;

fn metadata(path: &Path) -> ParquetMetaData {
    ParquetMetaDataReader::new()
        .with_page_index_policy(PageIndexPolicy::Required)
        .parse_and_finish(&fs::File::open(path).unwrap())
        .unwrap()
}

#[test]
fn every_table_survives_writing_and_reading() {
    let run = sample::create_run();
    let run = Run::open(run.path()).unwrap();
    sample::assert_has_sample_rows(&run);
    for table in ALL {
        let parts = run.parts(table);
        let names: Vec<_> = parts.iter().map(|part| part.name().to_owned()).collect();
        let expected = [0, 1].map(|number| format!("tables/{}/part-{number}.parquet", table.name));
        assert_eq!(names, expected);
        assert!(parts.iter().all(|part| part.row_count() == sample::ROWS as u64));
    }
}

#[test]
fn row_groups_are_small_enough_to_skip_most_in_a_window() {
    let folder = tempfile::tempdir().unwrap();
    let part = sample::write_part(folder.path(), &SPANS, 0, 0..300_000);
    sample::publish(folder.path(), vec![part]);
    let metadata = metadata(&folder.path().join("tables/spans/part-0.parquet"));
    let rows: Vec<_> = metadata.row_groups().iter().map(RowGroupMetaData::num_rows).collect();
    assert_eq!(rows, [131_072, 131_072, 300_000 - 2 * 131_072]);
}

#[test]
fn a_part_has_metadata_on_its_order_and_columns() {
    let run = sample::create_run();
    for table in ALL {
        let path = run.path().join(format!("tables/{}/part-0.parquet", table.name));
        let metadata = metadata(&path);
        let group = metadata.row_group(0);
        let sorted_by = group.sorting_columns().map(|columns| {
            let column = columns[0].column_idx as usize;
            table.columns[column].name
        });
        assert_eq!(sorted_by, table.sorted_by, "{}", table.name);
        for column in group.columns() {
            assert!(matches!(column.compression(), Compression::ZSTD(_)));
            assert!(column.statistics().is_some(), "{}", column.column_path());
            let is_delta =
                column.encodings().any(|encoding| encoding == Encoding::DELTA_BINARY_PACKED);
            let declared = table.position(&column.column_path().string());
            let is_time =
                declared.is_some_and(|index| table.columns[index].kind == ColumnKind::Nanos);
            assert!(is_delta || !is_time, "{}", column.column_path());
        }
        assert_eq!(metadata_value(&metadata, "marey.schema_version"), "1");
        assert_eq!(metadata_value(&metadata, "marey.table"), table.name);
        assert_eq!(metadata_value(&metadata, "marey.doc"), table.doc);
        for column in table.columns {
            assert_eq!(
                metadata_value(&metadata, &format!("marey.doc.{}", column.name)),
                column.doc
            );
        }
    }
}

#[test]
fn numbers_that_hardly_repeat_have_no_dictionary() {
    const ROWS: usize = 100_000;
    let folder = tempfile::tempdir().unwrap();
    let part = sample::write_part(folder.path(), &GPU_ACTIVITIES, 0, 0..ROWS);
    sample::publish(folder.path(), vec![part]);
    let metadata = metadata(&folder.path().join("tables/gpu_activities/part-0.parquet"));
    let column = GPU_ACTIVITIES.position("correlation_id").unwrap();
    let bytes = metadata.row_group(0).column(column).compressed_size() as usize;
    assert!(bytes < ROWS, "{bytes} bytes for {ROWS} rows");
}

fn metadata_value<'a>(metadata: &'a ParquetMetaData, key: &str) -> &'a str {
    let pairs = metadata.file_metadata().key_value_metadata().unwrap();
    pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.as_deref()).unwrap()
}

#[test]
fn a_part_has_no_name_before_it_is_published() {
    let folder = tempfile::tempdir().unwrap();
    let rows = sample::create_rows(&STRINGS, 0..3);
    let mut writer = PartWriter::create(folder.path(), &STRINGS, 0).unwrap();
    writer.write(&rows).unwrap();
    assert!(part_file_names(folder.path()).iter().all(|name| name.starts_with('.')));
    let part = writer.finish().unwrap();
    assert_eq!(part.row_count(), 3);
    assert!(part_file_names(folder.path()).iter().all(|name| name.starts_with('.')));
    let len_bytes = part.len_bytes();
    sample::publish(folder.path(), vec![part]);
    assert_eq!(part_file_names(folder.path()), ["part-0.parquet"]);
    let metadata = fs::metadata(folder.path().join("tables/strings/part-0.parquet")).unwrap();
    assert_eq!(metadata.len(), len_bytes);
}

#[test]
fn an_unfinished_part_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    drop(PartWriter::create(folder.path(), &STRINGS, 0).unwrap());
    drop(sample::write_part(folder.path(), &STRINGS, 1, 0..3));
    assert!(part_file_names(folder.path()).is_empty());
}

#[test]
fn files_have_default_permissions() {
    let run = sample::create_run();
    let other = run.path().join("other");
    fs::write(&other, "").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&run.path().join("manifest.json")), mode(&other));
    assert_eq!(mode(&run.path().join("tables/spans/part-0.parquet")), mode(&other));
}

#[test]
fn rows_with_another_schema_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = PartWriter::create(folder.path(), &STRINGS, 0).unwrap();
    writer.write(&sample::create_rows(&SPANS, 0..1)).unwrap_err();
}

fn part_file_names(run: &Path) -> Vec<String> {
    let entries = fs::read_dir(run.join("tables/strings")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}
