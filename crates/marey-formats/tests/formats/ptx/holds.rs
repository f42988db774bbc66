//! What holds for any bytes; the fuzzer asks it too.

use marey_formats::ptx::{Module, read};

/// Reads bytes. What is read is of the text: nothing is counted that is not there.
pub(crate) fn holds_for(content: &[u8]) {
    let Ok(Module { functions, .. }) = read(content) else { return };
    let accesses = functions.iter().flat_map(|function| &function.accesses);
    let counted: u64 = accesses.clone().map(|access| access.count).sum();
    // The shortest instruction is `ld`, with a semicolon or a brace behind it.
    assert!(counted <= content.len() as u64 / 3, "{counted} instructions in {}", content.len());
    for access in accesses {
        assert!(access.count > 0 && access.places.len() <= 65, "{access:?}");
    }
}
