//! Dumps of the flight recorder.

mod hostile;

use std::path::PathBuf;
use std::sync::Arc;

use marey_store::row::Collective;

use crate::dump::{dump, import_data, import_named, reader};

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/flight_recorder").join(name)
}

#[test]
fn a_dump_is_read_completely() {
    let imported = import_data("flight_recorder/nccl_trace_rank_0");
    assert_eq!(dump(&imported.run), include_str!("../data/flight_recorder/rank_0.txt"));
    assert_eq!(imported.imported.files[0].warnings, []);
}

/// The same dump as JSON, in which 0 is an unknown time.
#[test]
fn a_json_dump_gives_the_same_run() {
    let without_metadata = |name| {
        let dump = dump(&import_data(name).run);
        // JSON dumps have sorted keys.
        let lines = dump.lines().filter(|line| !line.starts_with("metadata "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let pickle = without_metadata("flight_recorder/nccl_trace_rank_0");
    assert_eq!(without_metadata("flight_recorder/rank_0.json"), pickle);
}

/// Dumps that PyTorch wrote of collectives of its gloo backend, as a pickle and as JSON.
#[test]
fn dumps_written_by_pytorch_are_read() {
    let pickle = import_data("flight_recorder/gloo_rank_0");
    assert_eq!(dump(&pickle.run), include_str!("../data/flight_recorder/gloo_rank_0.txt"));
    let json = import_data("flight_recorder/gloo_rank_0.json");
    let rows = |imported: &marey_formats::TemporaryRun| {
        let reader = reader(&imported.run);
        let rows = reader.rows::<Collective>().unwrap().map(|row| {
            let row: Collective = row.unwrap();
            let name = reader.text(row.name_id).to_owned();
            (row.start_nanos, name, row.sequence, row.in_elements, row.out_elements, row.state)
        });
        rows.collect::<Vec<_>>()
    };
    assert_eq!(rows(&json), rows(&pickle));
    assert_eq!(rows(&json).len(), 3);
}

/// The clock of rank 1 is 5 ms ahead.
#[test]
fn clocks_of_ranks_are_aligned() {
    let folder = tempfile::tempdir().unwrap();
    let files = [data("nccl_trace_rank_0"), data("nccl_trace_rank_1")];
    let imported =
        marey_formats::import(&files, &folder.path().join("run"), &Arc::default()).unwrap();
    let shifts: Vec<_> = imported.files.iter().map(|file| file.alignment_nanos).collect();
    assert_eq!(shifts, [Some(0), Some(-5_000_000)]);
}

#[test]
fn the_rank_is_in_the_file_name() {
    let content = std::fs::read(data("gloo_rank_0")).unwrap();
    for (name, rank) in [("nccl_trace_rank_17", Some(17)), ("fr_5", Some(5)), ("dump", None)] {
        let imported = import_named(name, &content).unwrap();
        assert_eq!(reader(&imported.run).processes().next().unwrap().rank, rank, "{name}");
    }
}
