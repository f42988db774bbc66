//! Finds the names of the functions at addresses, from the symbol tables of the mapped files.

use std::collections::HashMap;
use std::fs::File;

use cpp_demangle::DemangleOptions;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol, ReadCache, SymbolKind};

use crate::memory::{MappedFile, load_bias};

/// A function at an address.
#[derive(Clone, Debug)]
pub(crate) struct NativeFunction {
    /// Name, `None` if the file has no symbol for it.
    pub(crate) name: Option<String>,
    /// Index of its file among the mapped files.
    pub(crate) file_index: usize,
}

/// Returns the functions by their addresses. An address outside of all files has none.
pub(crate) fn functions(files: &[MappedFile], addresses: &[u64]) -> HashMap<u64, NativeFunction> {
    let mut sorted = addresses.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut functions_by_address = HashMap::new();
    for (index, file) in files.iter().enumerate() {
        let first = sorted.partition_point(|&address| address < file.start);
        let end = sorted.partition_point(|&address| address < file.end);
        let addresses_in_file = &sorted[first..end];
        if addresses_in_file.is_empty() {
            continue;
        }
        let names = function_names(file, addresses_in_file)
            .unwrap_or_else(|| vec![None; addresses_in_file.len()]);
        for (&address, name) in addresses_in_file.iter().zip(names) {
            functions_by_address.insert(address, NativeFunction { name, file_index: index });
        }
    }
    functions_by_address
}

/// Returns the names of the functions at these addresses of a file, which ascend.
fn function_names(file: &MappedFile, addresses: &[u64]) -> Option<Vec<Option<String>>> {
    let cache: ReadCache<File> = ReadCache::new(file.open().ok()?);
    let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    let load_bias = load_bias(file, &elf)?;
    // For each address, the start and the name of the nearest symbol before it that contains it.
    let mut nearest: Vec<Option<(u64, &str)>> = vec![None; addresses.len()];
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        if symbol.kind() != SymbolKind::Text || !symbol.is_definition() {
            continue;
        }
        let start = load_bias.wrapping_add(symbol.address());
        let end = start.wrapping_add(symbol.size().max(1));
        let first = addresses.partition_point(|&address| address < start);
        let last = addresses.partition_point(|&address| address < end);
        for slot in nearest.get_mut(first..last).into_iter().flatten() {
            if slot.is_none_or(|(nearest_start, _)| nearest_start < start)
                && let Ok(name) = symbol.name()
            {
                *slot = Some((start, name));
            }
        }
    }
    Some(nearest.into_iter().map(|slot| slot.map(|(_, name)| demangle(name))).collect())
}

/// Returns the name of a function as its source has it, without its parameters.
pub(super) fn demangle(name: &str) -> String {
    let options = DemangleOptions::new().no_params().no_return_type();
    let symbol = name.starts_with("_Z").then(|| cpp_demangle::Symbol::new(name).ok()).flatten();
    symbol
        .and_then(|symbol| symbol.demangle_with_options(&options).ok())
        .unwrap_or_else(|| name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_cpp_are_readable() {
        assert_eq!(demangle("_ZN2at6native3addERKNS_6TensorE"), "at::native::add");
        assert_eq!(demangle("_PyEval_EvalFrameDefault"), "_PyEval_EvalFrameDefault");
    }
}
