//! Runs of every released version open, and all their tables can be read.

use std::fs;
use std::path::{Path, PathBuf};

use marey_model::table::stored::ALL;
use marey_store::{Part, Run};

fn runs_of_old_versions() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/runs");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap() != "README.md").collect()
}

#[test]
fn every_released_version_opens_and_reads() {
    let runs = runs_of_old_versions();
    assert!(!runs.is_empty(), "there is no run in tests/runs");
    for path in runs {
        let run = Run::open(&path).unwrap_or_else(|error| panic!("{error}"));
        for table in ALL {
            let rows = run.read(table).unwrap_or_else(|error| panic!("{error}")).num_rows() as u64;
            let listed: u64 = run.parts(table).iter().map(Part::row_count).sum();
            assert_eq!(rows, listed, "{} of {}", table.name, path.display());
        }
    }
}
