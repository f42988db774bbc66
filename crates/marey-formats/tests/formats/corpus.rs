//! The seeds and findings of the fuzzer.

use std::path::Path;

use crate::dump::{dump, import_bytes};

/// Imports 2,400 files, each in some milliseconds.
#[test]
fn every_corpus_file_is_read_or_refused() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for reader in [
        "collapsed",
        "flight_recorder",
        "memory_snapshot",
        "perfetto",
        "pprof",
        "speedscope",
        "trace_event",
    ] {
        let (mut read, mut refused) = (0, 0);
        for entry in std::fs::read_dir(corpora.join(reader)).unwrap() {
            let content = std::fs::read(entry.unwrap().path()).unwrap();
            match import_bytes(&content) {
                Ok(imported) => {
                    assert!(!dump(&imported.run).is_empty());
                    read += 1;
                }
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    refused += 1;
                }
            }
        }
        assert!(read > 0, "{reader}: none of {refused} files is read");
    }
}
