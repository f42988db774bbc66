//! Every writer with every table: a row is in the file, or it is counted as left out.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::Field;
use marey_formats::{Format, LeftOut, export};
use marey_model::context::NodeKind;
use marey_model::table::Table;
use marey_model::table::stored::{
    self, ARGS, CONTEXTS, LOSSES, PHASES, PROCESSES, ROLLUPS, SESSIONS, STRINGS, THREADS,
};
use marey_store::{
    Assembler, Manifest, NewProcess, PartWriter, Reader, Run, Selection, Slice, arrow_schema,
};
use tempfile::TempDir;

use crate::build::slice;

/// Tables that writers need not count: what other rows refer to, sums of them, and how the run was
/// recorded.
const UNCOUNTED: [&Table; 9] =
    [&STRINGS, &CONTEXTS, &ARGS, &PROCESSES, &THREADS, &SESSIONS, &PHASES, &LOSSES, &ROLLUPS];

/// Start and duration of the step that the run has.
const NANOS: i64 = 500;

fn add_step(run: &mut Assembler) {
    let process = run.add_process(NewProcess::default());
    let thread_id = run.add_thread(process, 1, "");
    let name_id = run.text_id("step");
    run.add_slice(&Slice {
        kind: NodeKind::Step,
        step: Some(0),
        category_id: Some(name_id),
        ..slice(thread_id, name_id, NANOS, NANOS)
    })
    .unwrap();
    let name_id = run.text_id("part");
    run.add_slice(&slice(thread_id, name_id, NANOS, NANOS / 5)).unwrap();
}

/// Returns a run of one step, with a row in `table`.
fn run_with_row(table: Option<&'static Table>) -> (TempDir, Run) {
    let folder = TempDir::new().unwrap();
    let mut run = Assembler::new(folder.path());
    add_step(&mut run);
    run.finish(None).unwrap();
    if let Some(table) = table {
        let mut manifest = Manifest::read(folder.path()).unwrap().unwrap();
        let mut part = PartWriter::create(folder.path(), table, manifest.next.part).unwrap();
        manifest.next.part += 1;
        let schema = arrow_schema(table);
        let columns = schema.fields().iter().map(|field| value(field)).collect();
        part.write(&RecordBatch::try_new(schema, columns).unwrap()).unwrap();
        let part = part.finish().unwrap();
        manifest.list(&part, None);
        manifest.publish(folder.path(), vec![part]).unwrap();
    }
    let run = Run::open(folder.path()).unwrap();
    (folder, run)
}

/// Returns a column of one value, which refers to the step.
fn value(field: &Field) -> ArrayRef {
    if field.is_nullable() && field.name() != "value" {
        return new_null_array(field.data_type(), 1);
    }
    let number = match field.name().as_str() {
        "kind" => return Arc::new(StringArray::from(vec!["kernel"])),
        "children_nanos" => 0,
        name if name.ends_with("_nanos") => NANOS,
        "process_id" | "thread_id" => 0,
        _ => 1,
    };
    cast(&Int64Array::from(vec![number]), field.data_type()).unwrap()
}

/// Exports through a window, without which writers take times from the rollups, which know no row
/// of [`run_with_row`].
fn export_bytes(run: &Run, format: Format) -> (Vec<u8>, LeftOut) {
    let window = Selection { from_nanos: 0, ..Selection::default() };
    let mut out = Vec::new();
    let left_out = export(&Reader::new(run, window).unwrap(), format, &mut out).unwrap();
    (out, left_out)
}

#[test]
fn every_row_is_written_or_counted() {
    let (_folder, run) = run_with_row(None);
    let mut dropped = Vec::new();
    for format in Format::ALL.into_iter().filter(|format| format.is_writable()) {
        let without = export_bytes(&run, format);
        assert_eq!(without, export_bytes(&run, format), "{format:?} differs from time to time");
        for table in stored::ALL {
            if !UNCOUNTED.iter().any(|other| other.name == table.name) {
                let (_folder, run) = run_with_row(Some(table));
                if export_bytes(&run, format) == without {
                    dropped.push((format, table.name));
                }
            }
        }
    }
    assert_eq!(dropped, [], "neither in the file nor counted");
}

#[test]
fn only_rows_of_the_window_are_counted() {
    let (_folder, run) = run_with_row(Some(&stored::COUNTERS));
    let count = |until_nanos| {
        let window = Selection { until_nanos, ..Selection::default() };
        let reader = Reader::new(&run, window).unwrap();
        (reader.count(&stored::COUNTERS).unwrap(), reader.count(&stored::SPANS).unwrap())
    };
    assert_eq!((count(NANOS), count(NANOS + 1)), ((0, 0), (1, 2)));
}
