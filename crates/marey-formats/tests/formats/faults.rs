//! Damaged files, and what imports report about them.

use marey_formats::{Fault, ImportError, TemporaryRun};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::dump::import_bytes;

/// Returns the error of a file without usable content.
pub(crate) fn fault(content: &[u8]) -> Fault {
    match import_bytes(content) {
        Err(ImportError::Unusable { fault, .. }) => fault,
        other => panic!("{other:?}"),
    }
}

/// Returns the warnings of a file: the loss, the number of events, and the fault of the first.
pub(crate) fn warnings(run: &TemporaryRun) -> Vec<String> {
    let warnings = run.imported.files[0].warnings.iter();
    warnings.map(|w| format!("{} {} {}", w.loss.as_str(), w.count, w.first)).collect()
}

/// Returns the warnings of a file without the positions of their faults.
pub(crate) fn losses(run: &TemporaryRun) -> Vec<String> {
    let warnings = run.imported.files[0].warnings.iter();
    warnings.map(|w| format!("{} {} {}", w.loss.as_str(), w.count, w.first.cause)).collect()
}

/// Returns contents in which some bytes have other values.
pub(crate) fn damaged(content: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<(Index, u8)>(), 1..8).prop_map(move |bytes| {
        let mut content = content.clone();
        for (index, byte) in bytes {
            let index = index.index(content.len());
            content[index] = byte;
        }
        content
    })
}
