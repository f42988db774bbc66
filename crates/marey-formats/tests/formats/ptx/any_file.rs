//! Properties that hold for any bytes. The fuzzer checks them too.

use marey_formats::ptx::{Module, read};

/// Reads bytes and checks that no more instructions are counted than the text can contain.
pub(crate) fn check_any_file(content: &[u8]) {
    let Ok(Module { functions, .. }) = read(content) else { return };
    let accesses = functions.iter().flat_map(|function| &function.accesses);
    let counted: u64 = accesses.clone().map(|access| access.count).sum();
    // The shortest instruction is `ld` followed by a semicolon or a brace.
    assert!(counted <= content.len() as u64 / 3, "{counted} instructions in {}", content.len());
    for access in accesses {
        assert!(access.count > 0 && access.locations.len() <= 65, "{access:?}");
    }
}
